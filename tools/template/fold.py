# SPDX-License-Identifier: Apache-2.0
"""Finds the block of a phase that is repeated for every layer, by comparing recordings of L, L + 1, ... layers.

Where a sequence of L + 1 layers has a piece more than that of L, the piece is one turn of a block: it must equal what stands
before it. Where the block begins within its period, and how many turns at its ends are written out because they free something
else than the others do, is decided by the ids: inside a block they must be affine in the turn and in L.
"""

from fractions import Fraction


class NotRepeated(Exception):
    """A phase is no sequence of blocks that grow with the layers."""


def _extension(a, i, b, j):
    n = 0
    while i + n < len(a) and j + n < len(b) and a[i + n] == b[j + n]:
        n += 1
    return n


def _insertion(a, i, b, j, most):
    """Length of the piece at b[j] that a[i] lacks: a turn like the one before it, after which the two go on together."""
    best = (0, 0)
    for n in range(1 if i < len(a) else most, min(most, j) + 1):  # at the end of a, it is all that is left
        if b[j:j + n] == b[j - n:j]:
            length = _extension(a, i, b, j + n)
            if length > best[0] or not best[1]:
                best = (length, n)
    if not best[1]:
        raise NotRepeated("token %d (%s) begins nothing that is repeated" % (j, b[j] if j < len(b) else "end"))
    return best[1]


def insertions(a, b):
    """[(end in a, length)] of the pieces by which b is longer than a. Tokens are compared."""
    i = j = 0
    found = []
    while i < len(a) or j < len(b):
        n = _extension(a, i, b, j)
        i, j = i + n, j + n
        if i == len(a) and j == len(b):
            break
        left = len(b) - len(a) - sum(n for _, n in found)
        if left <= 0:
            raise NotRepeated("token %d: the sequences part" % i)
        n = _insertion(a, i, b, j, left)
        found.append((i, n))
        j += n
    return found


class Run:
    """Where a block is repeated in the sequence of one layer count: tokens begin ... end have the period."""

    def __init__(self, tokens, end, period, least):
        self.begin, self.end, self.period = end, end, period
        while self.begin > least and (self.begin > end - period or tokens[self.begin - 1] == tokens[self.begin - 1 + period]):
            self.begin -= 1


class Loop:
    """A block as it is written: at `begin[L]`, `turns[L]` times `period` events."""

    def __init__(self, runs, skip, front, back):
        self.period = next(iter(runs.values())).period
        self.begin = {n: r.begin + skip + front * self.period for n, r in runs.items()}
        self.turns = {n: (r.end - r.begin - skip) // self.period - front - back for n, r in runs.items()}
        self.more = {t - n for n, t in self.turns.items()}

    def is_one(self):
        """Grows by one turn a layer, and turns twice at least."""
        return len(self.more) == 1 and min(self.turns.values()) >= 2


def affine(samples):
    """(c, by turn, by layers) with value = c + i * by turn + L * by layers for all samples (i, L, value), or None."""
    (i0, n0, v0) = samples[0]
    by_turn = next((Fraction(v - v0, i - i0) for i, n, v in samples if i != i0 and n == n0), Fraction(0))
    by_layers = next((Fraction(v - v0 - by_turn * (i - i0), n - n0) for i, n, v in samples if n != n0), Fraction(0))
    c = v0 - by_turn * i0 - by_layers * n0
    if any(x.denominator != 1 for x in map(Fraction, (c, by_turn, by_layers))):
        return None
    if any(c + i * by_turn + n * by_layers != v for i, n, v in samples):
        return None
    return int(c), int(by_turn), int(by_layers)


def _fits(loop, values):
    """Are the values (position -> tuple of numbers) at each place of the block affine?"""
    for place in range(loop.period):
        samples = [(i, n, values[n][loop.begin[n] + i * loop.period + place])
                   for n, turns in loop.turns.items() for i in range(turns)]
        for column in zip(*(s[2] for s in samples)):
            if affine([(i, n, v) for (i, n, _), v in zip(samples, column)]) is None:
                return False
    return True


def _best(runs, values):
    """The loop with the fewest turns written out, then the earliest."""
    some = next(iter(runs.values()))
    for out in range(4):
        for front in range(out + 1):
            for skip in range(min((r.end - r.begin) % r.period if r.end - r.begin >= r.period else 0
                                  for r in runs.values()) + 1):
                loop = Loop(runs, skip, front, out - front)
                if loop.is_one() and _fits(loop, values):
                    return loop
    raise NotRepeated("the block of %d events that ends at %d frees what is not at a fixed distance" % (some.period, some.end))


def loops(tokens, values):
    """The loops of one phase, in order. tokens, values: by layer count, which are consecutive; values are what ids and
    other numbers an event has."""
    counts = sorted(tokens)
    found = {n: insertions(tokens[n], tokens[n + 1]) for n in counts[:-1]}
    kinds = {tuple(length for _, length in f) for f in found.values()}
    if len(kinds) != 1:
        raise NotRepeated("the pieces by which a layer makes it longer are %s events long" % sorted(kinds))
    out, least = [], dict.fromkeys(counts[:-1], 0)
    for k, period in enumerate(kinds.pop()):
        runs = {n: Run(tokens[n], found[n][k][0], period, least[n]) for n in counts[:-1]}
        loop = _best(runs, values)
        least = {n: loop.begin[n] + loop.turns[n] * loop.period for n in counts[:-1]}
        out.append(loop)
    return out
