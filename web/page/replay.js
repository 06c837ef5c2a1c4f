// SPDX-License-Identifier: Apache-2.0
// PyTorch's CUDA caching allocator, and a tape replayed in it, for the page of explain: the rules of src/predict/sim with the
// default options or expandable_segments:True. tests/web/replay holds every shipped tape against `batchfit sim`. It knows no page.
'use strict';

const MIB = 2 ** 20;
const BLOCK = 512; // every size is a multiple
const SMALL_MAX = MIB; // a size up to this is served by the small pool
const LARGE_MIN = 10 * MIB; // from this on a request gets a segment of its own
const PAGE = { small: 2 * MIB, large: 20 * MIB }; // what is asked of the driver for others
const SIZE_MAX = 2 ** 60; // no request is as large
const RANGE = 2 ** 50; // an expandable segment of a GPU of unknown size

const roundUp = (bytes, step) => Math.ceil(bytes / step) * step;

// --- The tape (doc/formats/tape.md) ---------------------------------------------------------------

function readAlloc([word, , c, k, tag, ...names]) {
    const classes = names.length > 0 && names[names.length - 1].startsWith('n=') ? names.pop() : 'n=0,0';
    const [cn, kn] = classes.slice(2).split(',').map(Number);
    const [op, module] = names;
    const stream = Number(word.split('@')[1] || 0);
    return { c: Number(c), k: Number(k), cn, kn, tag, stream, op: op === '-' ? '' : op || '', module: module || '' };
}

// Events: {mark}, {alloc} and {free} with a number in allocs, {empty}. Work and scratch are left out.
function readTape(text) {
    const [first, ...lines] = text.split('\n');
    const tape = { header: JSON.parse(first), events: [], allocs: [], streams: 1 };
    const live = new Map();
    for (const line of lines) {
        const fields = line.split(' ');
        if (line[0] === 'a') {
            const alloc = readAlloc(fields);
            live.set(fields[1], tape.allocs.length);
            tape.events.push({ alloc: tape.allocs.length });
            tape.allocs.push(alloc);
            tape.streams = Math.max(tape.streams, alloc.stream + 1);
        } else if (line[0] === 'f') tape.events.push({ free: live.get(fields[1]) });
        else if (line[0] === 'm') tape.events.push({ mark: `${fields[1]} ${fields[2]}` });
        else if (line[0] === 'e') tape.events.push({ empty: true });
    }
    return tape;
}

// What a tape's CN and KN are multiplied by: more classes, or rows of a loss's first chunk and of its second. Classes 0: the tape's own.
function slopesAt({ classes: own, loss_tokens: tokens, loss_parts: parts }, batch, classes) {
    if (tokens > 0 && parts > 0) {
        const all = tokens * batch;
        const rows = Math.min(2 ** Math.ceil(Math.log2(Math.ceil(all / parts))), all);
        return [rows, Math.min(rows, all - rows)];
    }
    const more = classes > 0 && own > 0 ? classes - own : 0;
    return [more, batch * more];
}

// Rounded as the allocator rounds.
function sizesAt(tape, batch, classes) {
    const [first, second] = slopesAt(tape.header, batch, classes);
    return tape.allocs.map((x) => {
        const bytes = x.c + x.k * batch + x.cn * first + x.kn * second;
        return roundUp(Math.min(Math.max(bytes, 0), SIZE_MAX), BLOCK);
    });
}

// --- Free blocks: smallest first, then by address ---------------------------------------------------

function isLower(a, b) {
    return a.segment !== b.segment ? a.segment.serial < b.segment.serial : a.offset < b.offset;
}

function isBefore(a, b) {
    return a.size !== b.size ? a.size < b.size : isLower(a, b);
}

// How many of a sorted list come before.
function countBefore(list, comesBefore) {
    let low = 0;
    let high = list.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (comesBefore(list[middle])) low = middle + 1;
        else high = middle;
    }
    return low;
}

function put(list, block, order) {
    list.splice(countBefore(list, (b) => order(b, block)), 0, block);
}

function take(list, block) {
    list.splice(list.indexOf(block), 1);
}

// --- The allocator ----------------------------------------------------------------------------------

class Cache {
    constructor(streams, capacity, how) {
        this.capacity = capacity;
        this.expandable = how.expandable || false;
        this.range = how.device > 0 ? how.device + Math.floor(how.device / 8) : RANGE;
        this.pools = Array.from({ length: streams * 2 }, (_, i) => ({
            small: i % 2 === 1,
            page: i % 2 === 1 ? PAGE.small : PAGE.large,
            free: [],
            unmapped: [],
        }));
        this.segments = [];
        this.allocated = 0;
        this.reserved = 0;
        this.sameFrom = 0; // every capacity from here
        this.sameBelow = Infinity; // up to, without, this has the same outcome
        this.now = 0;
    }

    within(bytes) {
        const isWithin = bytes <= this.capacity;
        if (isWithin) this.sameFrom = Math.max(this.sameFrom, bytes);
        else this.sameBelow = Math.min(this.sameBelow, bytes);
        return isWithin;
    }

    newSegment(pool, size, extent, state) {
        const segment = { serial: this.segments.length, from: this.now, to: Infinity, extent, pool };
        this.segments.push(segment);
        return { size, offset: 0, segment, prev: null, next: null, state, pool };
    }

    // The best fit; of expandable ones the first behind which there is less to grow into than behind the next.
    find(pool, size) {
        let at = countBefore(pool.free, (b) => b.size < size);
        const room = (b) => b.size + (b.next && b.next.state === 'unmapped' ? b.next.size : 0);
        if (this.expandable) {
            while (at + 1 < pool.free.length && room(pool.free[at + 1]) < room(pool.free[at])) at += 1;
        }
        return pool.free[at] || null;
    }

    grow(pool, size) {
        if (this.expandable) return this.expand(pool, size);
        const bytes = size > SMALL_MAX && size >= LARGE_MIN ? roundUp(size, 2 * MIB) : pool.page;
        if (!this.within(this.reserved + bytes)) return null;
        this.reserved += bytes;
        return this.newSegment(pool, bytes, bytes, 'used');
    }

    // The rest behind the first `size` bytes, as a block in no list.
    cut(block, size) {
        const rest = { ...block, size: block.size - size, offset: block.offset + size, prev: block };
        if (rest.next) rest.next.prev = rest;
        block.next = rest;
        block.size = size;
        return rest;
    }

    // With the neighbours of the same state, which leave their lists.
    join(block) {
        const { free, unmapped } = block.pool;
        for (const side of ['prev', 'next']) {
            const other = block[side];
            if (!other || other.state !== block.state) continue;
            take(other.state === 'free' ? free : unmapped, other);
            if (side === 'prev') block.offset = other.offset;
            block.size += other.size;
            block[side] = other[side];
            if (other[side]) other[side][side === 'prev' ? 'next' : 'prev'] = block;
        }
    }

    release(block) {
        this.join(block);
        put(block.pool.free, block, isBefore);
    }

    malloc(size, stream) {
        const pool = this.pools[stream * 2 + (size <= SMALL_MAX ? 1 : 0)];
        if (size >= SIZE_MAX) return null;
        let block = this.find(pool, size);
        if (block) take(pool.free, block);
        else block = this.grow(pool, size);
        if (!block) {
            this.empty();
            block = this.grow(pool, size);
        }
        if (!block) return null;
        const least = pool.small || this.expandable ? BLOCK : SMALL_MAX + 1;
        if (block.size - size >= least) {
            const rest = this.cut(block, size);
            rest.state = 'free';
            put(pool.free, rest, isBefore);
        }
        block.state = 'used';
        this.allocated += block.size;
        return block;
    }

    free(block) {
        this.allocated -= block.size;
        block.state = 'free';
        this.release(block);
    }

    // torch.cuda.empty_cache(): large pools first.
    empty() {
        for (const small of [false, true]) {
            for (const pool of this.pools.filter((p) => p.small === small)) {
                if (this.expandable) pool.free.filter((b) => b.size >= pool.page).forEach((b) => this.unmap(b));
                else this.releaseWhole(pool);
            }
        }
    }

    releaseWhole(pool) {
        for (const block of pool.free.filter((b) => !b.prev && !b.next)) {
            take(pool.free, block);
            this.reserved -= block.size;
            block.segment.to = this.now;
        }
    }

    // --- expandable_segments:True: one range for each stream and kind, mapped in pages from the front

    mapFront(block, bytes) {
        const { pool, segment } = block;
        const mapped = roundUp(bytes, pool.page);
        if (!this.within(this.reserved + mapped)) return false;
        take(pool.unmapped, block);
        if (mapped < block.size) put(pool.unmapped, this.cut(block, mapped), isLower);
        segment.extent = Math.max(segment.extent, block.offset + mapped);
        block.state = 'free';
        this.release(block);
        this.reserved += mapped;
        return true;
    }

    findPlace(pool, size) {
        for (const block of pool.unmapped) {
            const first = block.prev && block.prev.state === 'free' ? block.prev : block;
            let room = 0;
            for (let b = first; b && b.state !== 'used' && room < size; b = b.next) room += b.size;
            if (room >= size) return first;
        }
        const bytes = roundUp(this.range, pool.page);
        if (bytes < size) return null;
        const block = this.newSegment(pool, bytes, 0, 'unmapped');
        put(pool.unmapped, block, isLower);
        return block;
    }

    expand(pool, size) {
        let block = this.findPlace(pool, size);
        if (!block) return null;
        if (block.state === 'unmapped' && !this.mapFront(block, Math.min(block.size, size))) return null;
        while (block.size < size) {
            const { next } = block;
            if (!this.mapFront(next, Math.min(next.size, size - block.size))) return null;
            block = next;
        }
        take(pool.free, block);
        return block;
    }

    // The whole pages inside a free block.
    unmap(block) {
        const { pool } = block;
        const begin = roundUp(block.offset, pool.page);
        const end = Math.floor((block.offset + block.size) / pool.page) * pool.page;
        if (begin >= end) return;
        take(pool.free, block);
        let inner = block;
        if (begin > block.offset) {
            inner = this.cut(block, begin - block.offset);
            put(pool.free, block, isBefore);
        }
        if (end < inner.offset + inner.size) put(pool.free, this.cut(inner, end - begin), isBefore);
        inner.state = 'unmapped';
        this.join(inner);
        put(pool.unmapped, inner, isLower);
        this.reserved -= end - begin;
    }
}

// --- Replays ------------------------------------------------------------------------------------------

// From an empty allocator to the end, or to the first request that fails. `each(event, block)` hears of what was allocated and,
// without a block, of every other event.
function replay(tape, sizes, capacity, how, each = () => {}) {
    const cache = new Cache(tape.streams, capacity, how);
    const blocks = [];
    const run = { oom: false, allocated: 0, reserved: 0, event: -1, cache };
    for (const [number, event] of tape.events.entries()) {
        let block = null;
        cache.now = number;
        if (event.alloc !== undefined && sizes[event.alloc] > 0) {
            block = blocks[event.alloc] = cache.malloc(sizes[event.alloc], tape.allocs[event.alloc].stream);
            if (!block) {
                run.oom = true;
                break;
            }
            if (cache.allocated > run.allocated) run.event = number;
            run.allocated = Math.max(run.allocated, cache.allocated);
            run.reserved = Math.max(run.reserved, cache.reserved);
        } else if (event.free !== undefined && blocks[event.free]) cache.free(blocks[event.free]);
        else if (event.empty) cache.empty();
        each(number, block);
    }
    return run;
}

function livePeak(tape, sizes) {
    let live = 0;
    let peak = 0;
    for (const { alloc, free } of tape.events) {
        if (alloc !== undefined) live += sizes[alloc];
        if (free !== undefined) live -= sizes[free];
        peak = Math.max(peak, live);
    }
    return peak;
}

// The least capacity in which the tape runs: each replay says up to where its outcome is the same, so the next capacity to try is
// the first at which anything changes. After `most` replays, one that does with one just below it that does not.
function neededBytes(tape, sizes, how, most) {
    const whole = replay(tape, sizes, Infinity, how);
    let [low, high, replays] = [livePeak(tape, sizes), whole.cache.sameFrom, 1];
    if (whole.oom) return NaN;
    for (; low < high && replays < most; replays += 1) {
        const run = replay(tape, sizes, low, how);
        if (!run.oom) return low;
        low = run.cache.sameBelow;
    }
    while (low < high) {
        const run = replay(tape, sizes, low + Math.floor((high - low) / 2), how);
        if (run.oom) low = run.cache.sameBelow;
        else high = run.cache.sameFrom;
    }
    return high;
}
