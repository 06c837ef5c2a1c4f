# SPDX-License-Identifier: Apache-2.0
"""From tapes of one training at several image sizes to a template that has the size as a dimension.

Nothing is known of the model: a number of the tape is taken for the simplest sum of the functions below that is right at every
recorded size. There are more sizes than a sum has coefficients, so that one which only happens to go through them is found out;
a number that no sum explains, and a sequence of events that is another one, are errors and never guesses.

What a grid is: the sizes that models take, and how the sides of their feature maps come from it.
  1   convolutions with padding: halving rounds up. Served every 16 px: 233 and 331 px tell a 16th from a 32nd, but not an 8th from a 16th
  16  patches of 16 pixels and one token more; kernels of attention round the tokens up
  32  everything that is halved five times without a rest
"""

import itertools
import json
import re
from fractions import Fraction

from . import ids


class NotSized(Exception):
    """What is no template, with the reason."""


def _up(by, more=0, of=lambda i: i * i):
    return lambda i: -(-(of(i) + more) // by)


def _side(by):
    return lambda i: _up(by, 0, lambda n: n)(i) ** 2


# What may stand in a sum, the simplest first: (expression, value at a size)
GRIDS = {
    1: [("", lambda i: 1)] + [("[I/%d][I/%d]" % (n, n), _side(n)) for n in (2, 4, 8, 16, 32)] + [("II", lambda i: i * i)],
    16: [("", lambda i: 1), ("[II/256]", _up(256)), ("[II+256/32768]", _up(32768, 256)), ("[II+256/16384]", _up(16384, 256)),
         ("[II+256/8192]", _up(8192, 256)), ("[II/256][II/256]", lambda i: _up(256)(i) ** 2)],
    32: [("", lambda i: 1), ("[II/1024]", _up(1024)), ("[I/32]", _up(32, 0, lambda i: i)),
         ("[II/1024][II/1024]", lambda i: _up(1024)(i) ** 2)],
}
TERMS_MOST, SIZES_LEAST = 3, 4
_NUMBER = re.compile(r"-?\d+")


def _solve(rows, values):
    """The coefficients with rows · coefficients = values at every row, None where there are none or several."""
    m = [[Fraction(x) for x in row] + [Fraction(v)] for row, v in zip(rows, values)]
    n, at = len(rows[0]), 0
    for column in range(n):
        pivot = next((r for r in range(at, len(m)) if m[r][column]), None)
        if pivot is None:
            return None
        m[at], m[pivot] = m[pivot], m[at]
        m[at] = [x / m[at][column] for x in m[at]]
        for r, row in enumerate(m):
            if r != at and row[column]:
                m[r] = [x - row[column] * y for x, y in zip(row, m[at])]
        at += 1
    if any(row[n] for row in m[at:]) or any(row[n].denominator != 1 for row in m[:at]):
        return None
    return [int(row[n]) for row in m[:at]]


class Fitter:
    """Finds the sum for a number, once for equal ones."""

    def __init__(self, grid, sizes):
        self.grid, self.sizes, self.known = grid, sizes, {}

    def terms(self, values):
        """{expression: coefficient} of the values at the sizes; None: no sum of a few terms."""
        values = tuple(values)
        if values not in self.known:
            self.known[values] = self._find(values)
        return self.known[values]

    def _find(self, values):
        if not any(values):
            return {}
        for count in range(1, min(TERMS_MOST, len(self.sizes) - 1) + 1):
            for some in itertools.combinations(GRIDS[self.grid], count):
                found = _solve([[f(i) for _, f in some] for i in self.sizes], values)
                if found and all(found):
                    return {text: c for (text, _), c in zip(some, found)}
        return None


def text(constant, by_batch=None):
    """Terms as an expression; by_batch: those that are multiplied by the batch."""
    out = ""
    for letter, terms in (("B", by_batch or {}), ("", constant)):
        for symbols, c in terms.items():
            symbols = letter + symbols
            out += ("-" if c < 0 else "+" if out else "") + ("" if abs(c) == 1 and symbols else str(abs(c))) + symbols
    if out.startswith("-") or not out:  # a negative term comes first only where there is no other
        return out or "0"
    return out


class Tape:
    """A tape's text in pieces: events and, phase by phase, work."""

    def __init__(self, document):
        first, _, rest = document.partition("\n")
        self.header = json.loads(first)
        self.lines = [line.split(" ") for line in rest.splitlines()]
        self.size = self.header["image_size"]

    def events(self):
        """Its lines without work."""
        return [f for f in self.lines if f[0] != "o"]

    def work(self):
        """Its lines of work."""
        return [f for f in self.lines if f[0] == "o"]


def _is_alloc(f):
    return f[0][0] == "a"


def _token(f):
    """What of an event must be equal at every size."""
    if _is_alloc(f):
        return tuple(f[:2] + [x for x in f[4:] if not x.startswith("n=")])
    return f[0] if f[0] == "w" else tuple(f)


def _slope(f):
    return f[-1] if _is_alloc(f) and f[-1].startswith("n=") else None


def alike(tapes, usual):
    """Those tapes from the least to the largest size around the usual one that have the events of it, and no other between."""
    tokens = [_token(f) for f in usual.events()]
    same = {t.size: [_token(f) for f in t.events()] == tokens for t in tapes}
    at = sorted(same)
    low = high = at.index(usual.size)
    while low > 0 and same[at[low - 1]]:
        low -= 1
    while high + 1 < len(at) and same[at[high + 1]]:
        high += 1
    return [t for t in sorted(tapes, key=lambda t: t.size) if at[low] <= t.size <= at[high]]


def _size(fitter, row, at):
    """C and K of the events of a row, which stand in columns at and at + 1."""
    found = [fitter.terms([int(f[column]) for f in row]) for column in (at, at + 1)]
    if None in found:
        raise NotSized("%s: the sizes %s are no sum" % (" ".join(row[0]), [f[at:at + 2] for f in row]))
    return text(*found)


def _event(fitter, row):
    """The template's line for an event."""
    f = row[0]
    if f[0] == "w":
        return "w " + _size(fitter, row, 1)
    if not _is_alloc(f):
        return " ".join(f)
    slopes = {_slope(x) for x in row if x[-1].startswith("n=")} or {None}
    if len(slopes) > 1:
        raise NotSized("%s: the bytes of a class depend on the size" % " ".join(f))
    slope = slopes.pop()
    out = f[:2] + [_size(fitter, row, 2)] + [x for x in f[4:] if not x.startswith("n=")]
    if slope:
        cn, kn = (int(x) for x in slope[2:].split(","))
        out.append("n=" + text({"": cn} if cn else {}, {"": kn} if kn else {}))
    return " ".join(out)


def _work_token(f):
    return tuple(f[:2] + [f[6]] + [_NUMBER.sub("#", x) for x in f[7:]])


def _detail(fitter, words):
    """key=value with what depends on the size in braces."""
    numbers = [[int(x) for x in _NUMBER.findall(w)] for w in words]
    parts = iter(zip(*numbers))

    def one(found):
        values = next(parts)
        if len(set(values)) == 1:
            return found.group(0)
        terms = fitter.terms(values)
        if terms is None:
            raise NotSized("%s is no sum" % list(words))
        return "{%s}" % text(terms)
    return _NUMBER.sub(one, words[0])


def _work(fitter, row):
    flops, size = _size(fitter, row, 2), _size(fitter, row, 4)
    return " ".join(row[0][:2] + [flops, size, row[0][6]] + [_detail(fitter, words) for words in zip(*(f[7:] for f in row))])


def work_lines(tapes, grid):
    """The lines of work, from the tapes whose kernels are merged alike: of a grid of 1, those without a rest."""
    tapes = [t for t in tapes if grid > 1 or t.size % 32 == 0]
    tokens = {t.size: [_work_token(f) for f in t.work()] for t in tapes}
    usual = max(tokens.values(), key=list(tokens.values()).count)
    tapes = [t for t in tapes if tokens[t.size] == usual]
    if len(tapes) < 3:
        raise NotSized("the kernels are merged in another way at every size")
    fitter = Fitter(max(grid, 16) if grid == 16 else 32, [t.size for t in tapes])
    return [_work(fitter, row) for row in zip(*(t.work() for t in tapes))]


def body(tapes, grid):
    """The template's lines."""
    fitter = Fitter(grid, [t.size for t in tapes])
    events = iter([_event(fitter, row) for row in zip(*(t.events() for t in tapes))])
    work = iter(work_lines(tapes, grid))
    return [next(work if f[0] == "o" else events) for f in _merged(tapes)]


def _merged(tapes):
    """A tape whose work is merged as in the template."""
    tokens = [tuple(_work_token(f) for f in t.work()) for t in tapes if t.size % 32 == 0 or t.size % 16 == 0]
    usual = max(tokens, key=tokens.count)
    return next(t for t in tapes if tuple(_work_token(f) for f in t.work()) == usual).lines


def template(tapes, grid):
    """Of tapes of one training at several sizes, the usual one first: the text."""
    tapes = [t for t in tapes if t.size % grid == 0]
    usual = tapes[0]
    tapes = alike(tapes, usual)
    sizes = [t.size for t in tapes]
    if len(sizes) < SIZES_LEAST:
        raise NotSized("only at %s px there are the same events" % ", ".join(map(str, sizes)))
    lines = body(tapes, grid)
    header = {k: v for k, v in usual.header.items() if k not in ("image_size", "batches", "seconds")}
    header.update(tape=2, dims={"batch": [1, 65536], "image_size": [sizes[0], sizes[-1], max(grid, 16)]})
    return json.dumps(header, separators=(",", ":"), ensure_ascii=False) + "\n" + ids.told("\n".join(lines)) + "\n"


def best(tapes, grid):
    """(the finest template that can be made, or None; why it is not finer)"""
    why = None
    for each in (grid, 32) if grid == 1 else (grid,):
        try:
            return template(tapes, each), why
        except NotSized as reason:
            why = "every %d px: %s" % (each, reason)
    return None, why
