# SPDX-License-Identifier: Apache-2.0
"""From the history of PyTorch's CUDA allocator to the events of a tape. No torch here: plain lists in, plain lists out.

The format is that of torch.cuda.memory._snapshot()["device_traces"], documented in its docstring (torch 2.13,
torch/cuda/memory.py, TraceEntry). The `size` of an "alloc" is what was asked for, before rounding: record_trace(ALLOC, ...,
orig_size) in c10/cuda/CUDACachingAllocator.cpp since torch 2.0; that is also what a tape carries. A block can be used again
from "free_completed" on, which follows "free_requested" at once unless another stream still uses it (record_stream).
"segment_free" outside of an out-of-memory retry is an empty_cache(), as cuDNN's benchmark calls it after each trial.
"""

from .errors import NotAffine, RecordError
from .events import BYTES, ID, KINDS, SLOT, STREAM, SURVIVOR, TAG
from .tape import difference, line

ROUND = 512  # kMinBlockSize of the caching allocator
REACH = 64   # events at most from first to last of one operation's scratch
SCRATCH = ("upper_sizes", "merged_scratch")


class _Reader:
    """State while the entries of one history are read."""

    def __init__(self):
        self.events, self.live, self.pools = [], {}, {}
        self.slot = 0
        self.counters = {}

    def mark(self, kind, step, micro):
        self.slot = KINDS.index(kind) * 64 + step * 8 + micro
        self.events.append(("m", kind, step))

    def label(self, labels):
        """labels: {address: (tag, op, module)} of blocks that are live now."""
        for address, (tag, op, module) in labels.items():
            event = self.live.get(address)
            if event is not None:
                event[TAG], event[4], event[5] = tag, op, module

    def _pool(self, stream, pool):
        """0 for the default stream, 1, 2, ... for side streams and private pools, by first use."""
        key = (stream, tuple(pool))
        if key == (0, (0, 0)):
            return 0
        return self.pools.setdefault(key, len(self.pools) + 1)

    def alloc(self, address, size, stream, pool):
        if address in self.live:
            raise RecordError("the history is incomplete: it has two blocks at one address")
        count = self.counters[self.slot] = self.counters.get(self.slot, 0) + 1
        event = ["a", self.slot * SLOT + count, size, None, "-", "-", self._pool(stream, pool)]
        self.events.append(event)
        self.live[address] = event

    def free_completed(self, address, *_):
        event = self.live.pop(address, None)
        if event is None:
            return  # allocated before the history began
        if event[TAG] is None and event[ID] // SLOT == self.slot:
            event[TAG] = "temporary"
        self.events.append(("f", event[ID]))

    def segment_free(self, *_):
        if self.events and self.events[-1] != ("e",):
            self.events.append(("e",))

    def oom(self, _, size, *__):
        raise RecordError("the GPU ran out of memory while recording (%d bytes requested); record at smaller "
                          "--batches" % size)

    def close(self):
        """Decide the tags that were left open. What forward or backward left behind in the first step and what is still
        there after the last is no activation: work spaces of cuBLAS and the like."""
        alive = {id(event) for event in self.live.values()}
        for event in self.events:
            if event[0] == "a" and event[TAG] is None:
                kind, step = divmod(event[ID] // SLOT, 64)
                kept = id(event) in alive and step < 8 and KINDS[kind] in ("forward", "backward")
                event[TAG] = "other" if kept else SURVIVOR[kind]


def events(entries, marks):
    """The events of one recording, in the form of events.Log.

    entries: [(action, address, bytes, stream, pool)] in order; marks: [(position, kind, step, micro, labels)] in order: phase
    `kind` begins before entries[position]; labels {address: (tag, op, module)} name blocks that are live there. The last mark
    has kind None and ends the recording. Raises RecordError for a history that cannot become a tape.
    """
    reader, at = _Reader(), 0
    for number, (position, kind, step, micro, labels) in enumerate(marks):
        if number == 0:
            reader.mark(kind, step, micro)  # what happened before belongs to it
        for action, *rest in entries[at:position]:
            handler = getattr(reader, action, None) if action in ACTIONS else None
            if handler:
                handler(*rest)
        at = position
        reader.label(labels)
        if number and kind is not None:
            reader.mark(kind, step, micro)
    reader.close()
    return reader.events


ACTIONS = ("alloc", "free_completed", "segment_free", "oom")


# -- several batches ------------------------------------------------------------------------------------------------

def upper(batches, sizes):
    """(c, k): of the lines that are nowhere below the sizes and nowhere negative, the one with the least excess."""
    slopes = {0}
    for i, b in enumerate(batches):
        for j in range(i):
            rise, run = sizes[i] - sizes[j], b - batches[j]
            slopes |= {rise // run, -(-rise // run)}
    lines = [(max(s - k * b for b, s in zip(batches, sizes)), k) for k in slopes if k >= 0]
    lines = [(max(c, -k), k) for c, k in lines]
    return min(lines, key=lambda l: (sum(l[0] + l[1] * b for b in batches), l[1]))


def _without_cache_drops(recording):
    """(events without 'e', set of the places where one stood)."""
    kept, places = [], set()
    for event in recording:
        if event[0] == "e":
            places.add(len(kept))
        else:
            kept.append(event)
    return kept, places


def _scratch_end(recording, begin):
    """Index of the event with which everything that was allocated from `begin` on is free again, if nothing else happened in
    between; None if something did, or it takes more than REACH events."""
    live = set()
    for i in range(begin, min(begin + REACH, len(recording))):
        event = recording[i]
        if event[0] == "a" and event[TAG] == "temporary":
            live.add(event[ID])
        elif event[0] == "f" and event[1] in live:
            live.remove(event[1])
        elif event[0] != "e":
            return None
        if not live:
            return i
    return None


def _split(recording):
    """(skeleton, gaps): the events without scratch, and before each of them (and at the end) the scratch that stood there."""
    skeleton, gaps, i = [], [[]], 0
    while i < len(recording):
        end = _scratch_end(recording, i)
        if end is None:
            skeleton.append(recording[i])
            gaps.append([])
            end = i
        else:
            gaps[-1] += recording[i:end + 1]
        i = end + 1
    return skeleton, gaps


def _renumbered(recording):
    """The same with ids counted again within each phase."""
    out, names, counters, slot = [], {}, {}, None
    for event in recording:
        if event[0] == "a":
            slot = event[ID] // SLOT
            counters[slot] = counters.get(slot, 0) + 1
            names[event[ID]] = slot * SLOT + counters[slot]
            event = event[:ID] + [names[event[ID]]] + event[BYTES:]
        elif event[0] == "f":
            event = ("f", names[event[1]])
        out.append(event)
    return out


def _peak(scratch):
    """Most bytes of scratch at one time, each block rounded as the allocator does."""
    live, now, most = {}, 0, 0
    for event in scratch:
        if event[0] == "a":
            live[event[ID]] = -(-event[BYTES] // ROUND) * ROUND
            now += live[event[ID]]
            most = max(most, now)
        elif event[0] == "f":
            now -= live.pop(event[1])
    return most


def _one_block(scratch, peak, slot, number):
    """Scratch as one block of its peak."""
    stream = max((e for e in scratch if e[0] == "a"), key=lambda e: e[BYTES], default=[0] * 7)[STREAM]
    ident = slot * SLOT + SLOT // 2 + number
    return [["a", ident, peak, "temporary", "-", "-", stream], ("f", ident)]


def _same_scratch(batches, recordings):
    """Recordings that differ in scratch only, made equal: where the scratch of an operation differs (cuDNN took another
    kernel at another batch), it becomes one block of its peak. Returns (recordings, number of such places)."""
    parts = [_split(r) for r in recordings]
    skeletons = [_renumbered(s) for s, _ in parts]
    for batch, skeleton in zip(batches[1:], skeletons[1:]):
        if difference(skeletons[0], skeleton) is not None:
            raise NotAffine("what stays allocated changes in order between batches %d and %d (another kernel, or code that "
                            "depends on the batch); record one batch alone: --batches %d" % (batches[0], batch, batch))
    made, merged, slot = [[] for _ in parts], 0, 0
    for i in range(len(parts[0][1])):
        gaps = [gaps[i] for _, gaps in parts]
        drops = [("e",)] * any(e[0] == "e" for g in gaps for e in g)  # of the cache, after the scratch
        gaps = [_without_cache_drops(g)[0] for g in gaps]
        if any(difference(_renumbered(gaps[0]), _renumbered(g)) is not None for g in gaps[1:]):
            peaks, merged = [_peak(g) for g in gaps], merged + 1
            gaps = [_one_block(g, peak, slot, merged) for g, peak in zip(gaps, peaks)]
            for gap in gaps:  # the same stream in all of them
                gap[0][STREAM] = max(g[0][STREAM] for g in gaps)
        for out, gap, (skeleton, _) in zip(made, gaps, parts):
            out += gap + drops + skeleton[i:i + 1]
        if i < len(parts[0][0]) and parts[0][0][i][0] == "m":
            slot = _slot_after(parts[0][0], i, slot)
    return [_renumbered(r) for r in made], merged


def _slot_after(skeleton, i, slot):
    """The slot of the phase that begins at i: that of its first allocation, else the old one."""
    for event in skeleton[i + 1:]:
        if event[0] == "m":
            return slot
        if event[0] == "a":
            return event[ID] // SLOT
    return slot


def _fit_scratch(batches, recordings):
    """Sizes of temporaries that are no c + k*B become the least line above them. Returns their number."""
    raised = 0
    for row in zip(*recordings):
        if row[0][0] == "a" and row[0][TAG] == "temporary" and line(batches, [e[BYTES] for e in row]) is None:
            c, k = upper(batches, [e[BYTES] for e in row])
            raised += 1
            for batch, event in zip(batches, row):
                event[BYTES] = c + k * batch
    return raised


def _same_tags(recordings):
    """A block that outlived its phase at one batch only is no temporary at any."""
    for row in zip(*recordings):
        if row[0][0] == "a" and len({e[TAG] for e in row}) > 1:
            tag = next(e[TAG] for e in row if e[TAG] != "temporary")
            for event in row:
                event[TAG] = tag


def _in_order(recording):
    """Frees that follow each other in the order of what they free. Autocast's copies of weights go in the order of a hash table,
    which hangs on their addresses; what the allocator is left with does not."""
    out, frees = [], []
    for event in recording:
        if event[0] == "f":
            frees.append(event)
            continue
        out += sorted(frees) + [event]
        frees = []
    return out + sorted(frees)


def agree(batches, recordings):
    """Recordings at several batches as one sequence with sizes c + k*B, for tape.lines.

    Returns (recordings, notes); notes counts what is not exact: `upper_sizes`, temporaries whose size is a line above all that
    were seen, and `merged_scratch`, places where the scratch of an operation became one block. What is kept for longer must
    agree exactly: NotAffine otherwise, here or in tape.lines.
    """
    recordings = [_in_order([list(e) if e[0] == "a" else e for e in r]) for r in recordings]
    stripped = [_without_cache_drops(r) for r in recordings]
    bare, merged = [kept for kept, _ in stripped], 0
    if all(difference(bare[0], other) is None for other in bare[1:]):
        _same_tags(bare)
        places = set().union(*(p for _, p in stripped))  # where nothing was cached at one batch, a drop does nothing
        raised = _fit_scratch(batches, bare)
        bare = [_with_cache_drops(r, places) for r in bare]
    else:
        bare, merged = _same_scratch(batches, recordings)
        _same_tags(bare)
        raised = _fit_scratch(batches, bare)
    return bare, dict(zip(SCRATCH, (raised, merged)))


def _with_cache_drops(recording, places):
    out = []
    for i, event in enumerate(recording):
        out += [("e",)] * (i in places) + [event]
    return out + [("e",)] * (len(recording) in places)
