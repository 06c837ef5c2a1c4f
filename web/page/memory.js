// SPDX-License-Identifier: Apache-2.0
// The live part of explain's page: the tape that the page carries, replayed at the batch that the reader drags to, and drawn as a
// map. Across: the events of the step; up: addresses, segment on segment, as high as what the allocator holds. Each tensor is a
// box; what is grey is held and not used. Text from the tape goes in as text only.
'use strict';

const GIB = 2 ** 30;
const NEAR = 1.15; // how far above the map a limit is still shown
const EDGE = { left: 64, right: 12, top: 26, bottom: 22 };

function bytesText(bytes) {
    const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let value = bytes;
    let at = 0;
    for (; at < names.length - 1 && Math.abs(value) >= 1024; at += 1) value /= 1024;
    return `${at === 0 || value >= 99.95 ? value.toFixed(0) : value.toFixed(value >= 9.995 ? 1 : 2)} ${names[at]}`;
}

async function unpack(base64) {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new Response(stream).text();
}

// --- The replay as a map --------------------------------------------------------------------------

// Segments that live at one time lie on each other; the room of one that was given back is used again.
function stack(segments, end) {
    const placed = [];
    for (const s of segments.filter((x) => x.extent > 0)) {
        const beside = placed.filter((p) => p.to > s.from).sort((a, b) => a.y - b.y);
        s.y = 0;
        for (const p of beside) {
            if (p.y >= s.y + s.extent) break;
            s.y = Math.max(s.y, p.y + p.extent);
        }
        s.to = Math.min(s.to, end);
        placed.push(s);
    }
    return placed;
}

// Boxes {alloc, from, to, y, bytes}, and the phases {name, from, to}.
function mapOf(tape, sizes, how) {
    const end = tape.events.length;
    const boxes = [];
    const phases = [];
    const run = replay(tape, sizes, Infinity, how, (number, block) => {
        const { alloc, free, mark } = tape.events[number];
        if (block) boxes[alloc] = { alloc, from: number, to: end, segment: block.segment, at: block.offset, bytes: block.size };
        if (free !== undefined && boxes[free]) boxes[free].to = number;
        if (mark) phases.push({ name: mark, from: number, to: end });
    });
    phases.forEach((p, i) => { if (i > 0) phases[i - 1].to = p.from; });
    const segments = stack(run.cache.segments, end);
    const list = boxes.filter(Boolean);
    for (const b of list) b.y = b.segment.y + b.at;
    return { run, boxes: list, phases, segments, end, top: Math.max(1, ...segments.map((s) => s.y + s.extent)) };
}

// --- What is said of a batch ----------------------------------------------------------------------

// As src/predict/forecast/forecast.c: what the GPU needs, and whether the tape runs with the margin and a little less, or at all.
function judge(tape, about, batch) {
    const sizes = sizesAt(tape, batch, about.classes);
    const room = (bytes) => Math.trunc(bytes / about.fit_factor) - about.extra_bytes;
    const runs = (bytes) => bytes > 0 && !replay(tape, sizes, bytes, about).oom;
    const needed = neededBytes(tape, sizes, about, about.replays) + about.extra_bytes;
    const expected = Math.floor(needed * about.factor) + about.outside_bytes;
    const capacity = room(about.capacity_bytes);
    const keeps = runs(room(about.budget_bytes)) && about.shortfalls.every((share) => runs(Math.floor(capacity * (1 - share))));
    const isTight = needed - about.extra_bytes <= capacity || runs(capacity);
    const word = keeps ? 'it fits, and the margin is kept' : isTight ? 'it fits tightly' : 'it does not fit';
    return { sizes, expected, word, tone: keeps ? 'good' : word === 'it fits tightly' ? 'warn' : 'bad' };
}

function peakText(tape, run) {
    const event = tape.events[run.event];
    if (!event) return 'nothing is allocated';
    const { op, module } = tape.allocs[event.alloc];
    return `peak ${bytesText(run.allocated)} in use${op ? `, at ${op}` : ''}${module ? ` in ${module}` : ''}; the allocator holds ${bytesText(run.reserved)}`;
}

// --- The picture -----------------------------------------------------------------------------------

class Picture {
    constructor(canvas, tape, about) {
        Object.assign(this, { canvas, tape, about, over: null, map: null });
    }

    // The view stays where it is when only the batch has changed.
    show(map) {
        const isNew = !this.map;
        this.map = map;
        this.over = null;
        if (isNew) this.whole();
        else this.draw();
    }

    whole() {
        const { top, end } = this.map;
        const limit = this.about.capacity_bytes;
        this.view = { x: 0, y: 0, width: end, height: limit > top && limit < top * 2 ? limit * 1.05 : top * NEAR };
        this.draw();
    }

    // Dots of the canvas <-> events and bytes.
    get area() {
        const { clientWidth: width, clientHeight: height } = this.canvas;
        return { width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
    }
    left(event) {
        return EDGE.left + (event - this.view.x) / this.view.width * this.area.width;
    }
    up(bytes) {
        return EDGE.top + this.area.height - (bytes - this.view.y) / this.view.height * this.area.height;
    }
    at(x, y) {
        const { view, area } = this;
        return {
            event: view.x + (x - EDGE.left) / area.width * view.width,
            bytes: view.y + (EDGE.top + area.height - y) / area.height * view.height,
        };
    }

    zoom(factor, x, y) {
        const { view } = this;
        const still = this.at(x, y);
        const width = Math.min(Math.max(view.width * factor, 8), this.map.end);
        const height = Math.min(Math.max(view.height * factor, 4096), 2 ** 42);
        view.x = still.event - (still.event - view.x) * width / view.width;
        view.y = still.bytes - (still.bytes - view.y) * height / view.height;
        Object.assign(view, { width, height });
        this.draw();
    }

    move(dx, dy) {
        const { view, area } = this;
        view.x -= dx / area.width * view.width;
        view.y += dy / area.height * view.height;
        this.draw();
    }

    draw() {
        const { view, map } = this;
        view.x = Math.min(Math.max(view.x, 0), Math.max(map.end - view.width, 0));
        view.y = Math.max(view.y, 0);
        cancelAnimationFrame(this.frame);
        this.frame = requestAnimationFrame(() => this.paint());
    }

    box(c, { from, to, y, bytes }) {
        const x = this.left(from);
        const top = this.up(y + bytes);
        c.rect(x, top, Math.max(this.left(to) - x, 0.5), Math.max(this.up(y) - top, 0.4));
    }

    paint() {
        const { canvas, area, map, tape } = this;
        const dots = window.devicePixelRatio || 1;
        const look = getComputedStyle(document.documentElement);
        const colour = (name) => look.getPropertyValue(name).trim();
        const c = canvas.getContext('2d');
        canvas.width = Math.round(canvas.clientWidth * dots);
        canvas.height = Math.round(canvas.clientHeight * dots);
        c.scale(dots, dots);
        c.font = '12px system-ui, sans-serif';
        this.paintPhases(c, colour);
        c.save();
        c.beginPath();
        c.rect(EDGE.left, EDGE.top, area.width, area.height);
        c.clip();
        this.fill(c, map.segments.map((s) => ({ from: s.from, to: s.to, y: s.y, bytes: s.extent })), colour('--rule'), 0.45);
        this.about.tags.map(({ tag }) => map.boxes.filter((b) => tape.allocs[b.alloc].tag === tag))
            .filter((boxes) => boxes.length > 0) // as in the chart, which gives no colour to what is not there
            .forEach((boxes, i) => this.fill(c, boxes, colour(`--c${i}`), 0.9));
        if (this.over) this.fill(c, [this.over], colour('--text'), 1);
        this.paintLine(c, this.left(map.run.event), true, colour('--text'), 'peak');
        this.paintLine(c, this.up(this.about.capacity_bytes), false, colour('--bad'), 'all that the allocator can get');
        this.paintLine(c, this.up(this.about.budget_bytes), false, colour('--warn'), 'with the margin kept');
        c.restore();
        this.paintScale(c, colour);
    }

    fill(c, boxes, style, alpha) {
        const { view } = this;
        c.globalAlpha = alpha;
        c.fillStyle = style;
        c.beginPath();
        for (const b of boxes) {
            const isSeen = b.to >= view.x && b.from <= view.x + view.width && b.y + b.bytes >= view.y && b.y <= view.y + view.height;
            if (isSeen) this.box(c, b);
        }
        c.fill();
        c.globalAlpha = 1;
    }

    paintLine(c, at, isUpright, style, text) {
        const { area } = this;
        c.strokeStyle = c.fillStyle = style;
        c.setLineDash(isUpright ? [] : [7, 5]);
        c.beginPath();
        c.moveTo(isUpright ? at : EDGE.left, isUpright ? EDGE.top : at);
        c.lineTo(isUpright ? at : EDGE.left + area.width, isUpright ? EDGE.top + area.height : at);
        c.stroke();
        c.setLineDash([]);
        c.textAlign = 'left';
        c.fillText(text, isUpright ? at + 4 : EDGE.left + 6, isUpright ? EDGE.top + 12 : at - 4);
    }

    paintPhases(c, colour) {
        c.fillStyle = colour('--dim');
        c.textAlign = 'left';
        let free = 0;
        for (const p of this.map.phases) {
            const from = Math.max(this.left(p.from), EDGE.left);
            const to = Math.min(this.left(p.to), EDGE.left + this.area.width);
            if (to - from < 2) continue;
            c.fillRect(from, EDGE.top - 6, 1, 6);
            if (from < free || c.measureText(p.name).width > to - from) continue;
            c.fillText(p.name, from + 3, EDGE.top - 9);
            free = from + c.measureText(p.name).width + 8;
        }
    }

    paintScale(c, colour) {
        const { view, area } = this;
        const step = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
            .map((g) => g * GIB).find((s) => view.height / s <= 8) || 4000 * GIB;
        c.fillStyle = colour('--dim');
        c.textAlign = 'right';
        for (let y = Math.ceil(view.y / step) * step; y <= view.y + view.height; y += step)
            c.fillText(`${+(y / GIB).toFixed(3)} GiB`, EDGE.left - 6, this.up(y) + 4);
        c.textAlign = 'left';
        c.fillText('events of the step, in their order', EDGE.left, EDGE.top + area.height + 16);
    }

    hover(x, y) {
        const p = this.at(x, y);
        const found = this.map.boxes.find((b) => p.event >= b.from && p.event < b.to && p.bytes >= b.y && p.bytes < b.y + b.bytes) || null;
        if (found !== this.over) {
            this.over = found;
            this.draw();
        }
        return found;
    }
}

// --- The page ---------------------------------------------------------------------------------------

function boxText(tape, about, map, box) {
    const { tag, op, module, stream } = tape.allocs[box.alloc];
    const phaseAt = (event) => (map.phases.filter((p) => p.from <= event).pop() || { name: 'the beginning' }).name;
    const until = box.to < map.end ? phaseAt(box.to) : 'the end';
    const parts = [`${bytesText(box.bytes)}, ${about.tags.find((t) => t.tag === tag).title}`, op && `operation ${op}`, module && `module ${module}`,
        `from ${phaseAt(box.from)} to ${until}`, stream > 0 && `stream ${stream}`];
    return parts.filter(Boolean).join(' · ');
}

// Wheel, drag, keys: every way to look closer has a key, too.
function listen(picture, say) {
    const { canvas } = picture;
    const KEYS = {
        ArrowLeft: () => picture.move(60, 0),
        ArrowRight: () => picture.move(-60, 0),
        ArrowUp: () => picture.move(0, 40),
        ArrowDown: () => picture.move(0, -40),
        '+': () => picture.zoom(0.7, canvas.clientWidth / 2, canvas.clientHeight / 2),
        '-': () => picture.zoom(1 / 0.7, canvas.clientWidth / 2, canvas.clientHeight / 2),
        0: () => picture.whole(),
    };
    let held = null;
    canvas.addEventListener('wheel', (e) => {
        e.preventDefault();
        picture.zoom(Math.exp(e.deltaY * 0.002), e.offsetX, e.offsetY);
    }, { passive: false });
    canvas.addEventListener('pointerdown', (e) => {
        held = { x: e.offsetX, y: e.offsetY };
        canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener('pointerup', () => { held = null; });
    canvas.addEventListener('pointermove', (e) => {
        if (held) picture.move(e.offsetX - held.x, e.offsetY - held.y);
        if (held) held = { x: e.offsetX, y: e.offsetY };
        else say(picture.hover(e.offsetX, e.offsetY));
    });
    canvas.addEventListener('dblclick', () => picture.whole());
    canvas.addEventListener('keydown', (e) => {
        if (!KEYS[e.key]) return;
        e.preventDefault();
        KEYS[e.key]();
    });
    window.addEventListener('resize', () => picture.draw());
}

async function begin() {
    const part = (name) => document.getElementById(`live-${name}`);
    const about = JSON.parse(part('about').textContent);
    const tape = readTape(await unpack(part('tape').textContent));
    const [batch, answer, peak, box] = ['batch', 'answer', 'peak', 'box'].map(part);
    const picture = new Picture(part('map'), tape, about);
    const hint = box.textContent;
    const update = () => {
        const found = judge(tape, about, Number(batch.value));
        picture.show(mapOf(tape, found.sizes, about));
        answer.textContent = `batch ${batch.value}: ${found.word}, expected ${bytesText(found.expected)} of ${bytesText(about.usable_bytes)}`;
        answer.className = found.tone;
        peak.textContent = peakText(tape, picture.map.run);
    };
    let waits = 0;
    batch.addEventListener('input', () => {
        clearTimeout(waits);
        waits = setTimeout(update, 30);
        answer.textContent = `batch ${batch.value}`;
    });
    document.getElementById('live').hidden = false;
    listen(picture, (b) => { box.textContent = b ? boxText(tape, about, picture.map, b) : hint; });
    update();
    document.body.dataset.live = 'true';
}

begin();
