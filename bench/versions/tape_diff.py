# SPDX-License-Identifier: Apache-2.0
"""Two tapes of one model, allocation by allocation: what only one of them has, and what both have but keep differently long.

An allocation is equal to another when phase, operation, size (as a function of the batch), tag, stream, and the phase in
which it is freed are equal; in `init input forward` also the module. (In backward torch 1 cannot tell the module.) Equal
ones are paired in their order. What is left over on both sides in the same place (phase, operation, size) is one
difference of lifetime and stands in two `Difference`s that name each other as `partner`.
Freed ids, the order of equal allocations and the work lines are not compared.
"""

import json
from collections import Counter, defaultdict

BLOCK_BYTES = 512  # the allocator rounds every size to these (c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize)
NO_MODULES = ("backward", "optimizer", "zero_grad")


class TapeError(Exception):
    """The file is no tape."""


class Allocation:
    """One 'a' line and its fate. Phases are (kind, step, how manieth of that kind and step)."""

    __slots__ = "phase tag op module c k stream born died until partner rule side".split()

    def __init__(self, phase, born, fields):
        self.phase, self.born = phase, born
        self.stream, self.c, self.k, self.tag = fields[0], int(fields[2]), int(fields[3]), fields[4]
        rest = [f for f in fields[5:] if not f.startswith("n=")] + ["-", "-"]
        self.op, self.module = rest[0], rest[1]
        self.died = self.until = self.partner = self.rule = self.side = None

    def bytes(self, batch):
        """What the program asks for."""
        return self.c + self.k * batch

    def block(self, batch):
        """What the allocator counts, at least."""
        return -(-self.bytes(batch) // BLOCK_BYTES) * BLOCK_BYTES

    @property
    def fate(self):
        """Where it is freed: 'here', 'end' (never), or the kind of the later phase and how many steps later."""
        if self.until is None:
            return "end"
        return "here" if self.until == self.phase else "%s+%d" % (self.until[0], self.until[1] - self.phase[1])

    @property
    def place(self):
        """What a difference of lifetime has in common."""
        return self.phase, self.op, self.c, self.k

    @property
    def key(self):
        """What equal allocations have in common."""
        module = "-" if self.phase[0] in NO_MODULES else self.module
        return self.place + (module, self.tag, self.stream, self.fate)


class Tape:
    """header: dict; allocations in order; moves: +allocation or -allocation in order; empties: Counter of (phase) -> 'e'."""

    def __init__(self, text):
        lines = text.split("\n")
        try:
            self.header = json.loads(lines[0])
            self.version = tuple(int(v) for v in self.header["torch"].split(".")[:2])
        except (ValueError, KeyError, AttributeError):
            raise TapeError("line 1 is no header with a torch version")
        self.allocations, self.moves, self.empties = [], [], Counter()
        self._phase, self._seen, self._live = ("init", 0, 0), Counter(), {}
        for number, line in enumerate(lines[1:], 2):
            fields = line.split(" ")
            handler = HANDLERS.get(fields[0].split("@")[0])
            if handler and line:
                try:
                    handler(self, fields)
                except (IndexError, ValueError, KeyError):
                    raise TapeError("line %d: not an event: %s" % (number, line[:60]))

    def _mark(self, fields):
        kind, step = fields[1], int(fields[2])
        self._phase = (kind, step, self._seen[kind, step])
        self._seen[kind, step] += 1

    def _allocate(self, fields):
        event = Allocation(self._phase, len(self.moves), fields)
        self.allocations.append(event)
        self.moves.append((1, event))
        self._live[fields[1]] = event

    def _free(self, fields):
        event = self._live.pop(fields[1])
        event.died, event.until = len(self.moves), self._phase
        self.moves.append((-1, event))

    def _empty(self, fields):
        self.empties[self._phase] += 1

    def peak(self, batch):
        """(bytes, allocations alive) at the first moment of most bytes."""
        live = best = at = 0
        for i, (sign, event) in enumerate(self.moves):
            live += sign * event.block(batch)
            if live > best:
                best, at = live, i
        return best, [e for e in self.allocations if e.born <= at and (e.died is None or e.died > at)]


HANDLERS = {"m": Tape._mark, "a": Tape._allocate, "f": Tape._free, "e": Tape._empty}


def read(path):
    """The tape in a file (text, not packed). Raises TapeError."""
    try:
        with open(path, encoding="utf-8") as f:
            return Tape(f.read())
    except (OSError, UnicodeDecodeError) as why:
        raise TapeError("%s: %s" % (path, why))


def _left(mine, others):
    """Allocations of `mine` beyond the number of equal ones in `others`; the others get their partner."""
    rest, out = defaultdict(list), []
    for e in others:
        rest[e.key].append(e)
    for queue in rest.values():
        queue.reverse()
    for e in mine:
        queue = rest.get(e.key)
        if queue:
            e.partner = queue.pop()
        else:
            out.append(e)
    return out


def _pair(left, right):
    """Partners among what is left over: the same place, another lifetime or tag. Modules first, then anywhere."""
    for key in (lambda e: e.place + (e.module,), lambda e: e.place):
        waiting = defaultdict(list)
        for e in reversed(right):
            if e.partner is None:
                waiting[key(e)].append(e)
        for e in left:
            if e.partner is None and waiting.get(key(e)):
                e.partner = waiting[key(e)].pop()
                e.partner.partner = e


def differences(a, b):
    """(left over in a, left over in b); `side` is set to 'a' or 'b', `partner` where both have it."""
    left, right = _left(a.allocations, b.allocations), _left(b.allocations, a.allocations)
    for e in left + right:
        e.partner = None
    _pair(left, right)
    for side, events in (("a", left), ("b", right)):
        for e in events:
            e.side = side
    return left, right
