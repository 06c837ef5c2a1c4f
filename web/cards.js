// SPDX-License-Identifier: Apache-2.0
// The cards at a glance: a tile for each, and what is the same wherever a card is spoken of.
import { el, svg, clip, setText, setAttribute, setShown, setWidth, eachOf } from './dom.js';
import { figure, figureOf, known } from './units.js';

const STATES = {
    answers: null,
    waits: 'not read yet',
    asleep: 'asleep',
    lost: 'lost',
    hangs: 'does not answer',
    unreachable: 'unreachable',
};

export function stateWords(state) {
    return state in STATES ? STATES[state] : clip(state, 20);
}

export function shortName(card) {
    return clip(card.name || 'unnamed GPU', 60).replace(/^NVIDIA (GeForce )?/, '');
}

// Instances of a divided card share its number and have one of their own.
export function nameCards(cards) {
    const slices = new Map();
    return cards.map((card) => {
        if (!card.is_mig) return `GPU ${card.index}`;
        const slice = slices.get(card.index) || 0;
        slices.set(card.index, slice + 1);
        return `GPU ${card.index} · MIG ${slice}`;
    });
}

// Heat is worth a colour within five degrees of where the card slows down, as check says it.
export function heatLevel(card) {
    const { temperature_celsius: now } = card.gauges;
    const { slowdown_celsius: limit } = card.facts;
    return known(now) && known(limit) && now > limit - 5 ? 'warn' : '';
}

// Memory as a bar of what is ours, others', reserved and free. Where ours is unknown, used is one.
export const MEMORY_PARTS = [
    { key: 'ours', label: 'ours', of: (m) => m.ours_bytes },
    { key: 'others', label: 'others', of: (m) => (known(m.ours_bytes) ? m.others_bytes : null) },
    { key: 'used', label: 'used', of: (m) => (known(m.ours_bytes) ? null : m.used_bytes) },
    { key: 'reserved', label: 'reserved', of: (m) => m.reserved_bytes },
    { key: 'free', label: 'free', of: (m) => m.free_bytes },
];

export function memoryBar() {
    const parts = MEMORY_PARTS.filter((p) => p.key !== 'free').map((p) => ({
        p,
        node: el('i', { class: `part ${p.key}` }),
    }));
    return {
        node: el('span', { class: 'bar', 'aria-hidden': 'true' }, ...parts.map((x) => x.node)),
        update(memory) {
            for (const { p, node } of parts) setWidth(node, p.of(memory) / memory.total_bytes);
        },
    };
}

// The worst finding of a card, in a word and a mark; colour only repeats it.
export const LEVELS = {
    fail: { rank: 0, mark: '■', one: 'problem', many: 'problems' },
    warn: { rank: 1, mark: '▲', one: 'warning', many: 'warnings' },
    unknown: { rank: 2, mark: '◇', one: 'unknown', many: 'unknown' },
    ok: { rank: 3, mark: '●', one: 'ok', many: 'ok' },
};

export function healthOf(findings, place) {
    for (const level of ['fail', 'warn']) {
        const count = findings.filter((f) => f.card === place && f.status === level).length;
        if (count)
            return {
                level,
                text: `${count} ${count === 1 ? LEVELS[level].one : LEVELS[level].many}`,
            };
    }
    return { level: 'ok', text: 'ok' };
}

// The last minute's utilisation, 0 at the foot, without axes: only its shape.
const SPARK = { width: 120, height: 28, seconds: 60 };
function sparkline() {
    const line = svg('polyline', { class: 'spark-line' });
    const area = svg('polygon', { class: 'spark-area' });
    const node = svg(
        'svg',
        {
            viewBox: `0 0 ${SPARK.width} ${SPARK.height}`,
            class: 'spark',
            preserveAspectRatio: 'none',
            'aria-hidden': 'true',
        },
        area,
        line,
    );
    return {
        node,
        update(series) {
            const from = series.newest - SPARK.seconds * 1000;
            const points = series
                .rows(['utilisation'], from, 1000)
                .filter((row) => row[1] !== null)
                .map((row) => {
                    const x = Math.max(
                        0,
                        ((row[0].getTime() - from) / (SPARK.seconds * 1000)) * SPARK.width,
                    );
                    const y = SPARK.height - 1 - row[1] * (SPARK.height - 2);
                    return `${x.toFixed(1)},${y.toFixed(1)}`;
                });
            setAttribute(line, 'points', points.join(' '));
            const [first, last] = [points[0], points[points.length - 1]].map((p) =>
                p ? p.split(',')[0] : '0',
            );
            setAttribute(
                area,
                'points',
                points.length
                    ? `${first},${SPARK.height} ${points.join(' ')} ${last},${SPARK.height}`
                    : '',
            );
        },
    };
}

// `entry`: {card, key, label, place, series, health}
function tile(choose) {
    const label = el('span', { class: 'label' });
    const mark = el('span', { 'aria-hidden': 'true', class: 'mark' });
    const word = el('span', {});
    const health = el('span', { class: 'health' }, mark, word);
    const name = el('span', { class: 'name', dir: 'auto' });
    const busy = el('span', { class: 'busy' });
    const spark = sparkline();
    const bar = memoryBar();
    const memory = el('span', { class: 'memory' });
    const heat = el('span', { class: 'heat' });
    const power = el('span', {});
    const throttled = el('span', { class: 'throttled' });
    const button = el(
        'button',
        { type: 'button', class: 'tile' },
        el('span', { class: 'row' }, label, health),
        name,
        el('span', { class: 'row middle' }, busy, spark.node),
        bar.node,
        el('span', { class: 'row' }, memory, throttled),
        el('span', { class: 'row' }, heat, power),
    );
    let key;
    button.addEventListener('click', () => choose(key, true));
    return {
        node: el('li', {}, button),
        button,
        update(entry) {
            const { card } = entry;
            ({ key } = entry);
            const { gauges: g, memory: m } = card;
            const state = stateWords(card.state);
            setText(label, entry.label);
            setText(mark, LEVELS[entry.health.level].mark);
            setText(word, state || entry.health.text);
            setAttribute(
                health,
                'data-level',
                state
                    ? card.state === 'asleep' || card.state === 'waits'
                        ? ''
                        : 'fail'
                    : entry.health.level,
            );
            setText(name, shortName(card));
            // What a divided GPU does not tell of its parts is not the big number.
            const is_told = known(g.utilisation) || !known(m.used_bytes);
            setText(busy, is_told ? figure(g.utilisation, 'share') : figure(m.used_bytes, 'bytes'));
            spark.update(entry.series);
            bar.update(m);
            setText(memory, is_told ? figureOf(m.used_bytes, m.total_bytes, 'bytes') : `of ${figure(m.total_bytes, 'bytes')}`);
            setText(heat, figure(g.temperature_celsius, 'celsius'));
            setAttribute(heat, 'data-level', heatLevel(card));
            const watts = figureOf(g.power_watts, g.power_limit_watts, 'watts');
            setText(power, card.is_mig ? `whole GPU ${watts}` : watts);
            const share = card.window.throttled_share;
            setText(
                throttled,
                known(share) && share >= 0.005 ? `throttled ${figure(share, 'share')}` : '',
            );
            setAttribute(button, 'aria-pressed', String(entry.is_chosen));
            setAttribute(button, 'data-state', card.state);
        },
    };
}

export class Overview {
    constructor(choose) {
        this.choose = choose;
        this.views = new Map();
        this.list = document.getElementById('tiles');
        this.nothing = document.getElementById('nothing');
    }

    update(entries, driver) {
        eachOf(
            this.list,
            this.views,
            entries,
            (e) => e.key,
            () => tile(this.choose),
        );
        setAttribute(this.list, 'data-count', String(entries.length));
        const why = entries.length ? driver.left_out : driver.why_none || 'No GPU found.';
        setText(this.nothing, clip(why, 600));
        setShown(this.nothing, Boolean(why));
    }

    focus(key) {
        const view = this.views.get(key);
        if (view) view.button.focus();
    }
}
