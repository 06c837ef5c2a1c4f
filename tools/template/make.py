# SPDX-License-Identifier: Apache-2.0
"""A template out of recordings: every size a product of dimensions, every layer a turn of a block."""

import collections
import math
import re

from batchfit import sharded
from batchfit.events import ROWS

from . import dims, fold

TOWER = ".vision_tower."  # whose modules have sizes of their own, the same in every model of the family: constants, times an adapter's rank
_CONSTANT = re.compile(r"\d*")
_LAYER = re.compile(r"(?<=\.)(\d+)(?=\.|$)")


class NotATemplate(Exception):
    """What cannot be written as one, with the reason."""


class Event:
    """One event of a recording, as the maker compares it."""

    __slots__ = ("kind", "token", "numbers", "terms", "a", "module", "is_number")

    def __init__(self, kind, token, numbers=(), terms=None, a=None, module=None, is_number=False):
        self.kind, self.token, self.numbers, self.is_number = kind, token, numbers, is_number
        self.terms, self.a, self.module = terms, a, module


def _split_module(path):
    """('model.layers.{}.mlp', (3,))"""
    return _LAYER.sub("{}", path), tuple(int(n) for n in _LAYER.findall(path))


PACKED = 4  # weights of four bits in a word of two bytes (bnb_4bit_quant_storage bfloat16), as FSDP has to have them


def _shard_terms(a, shape, d):
    """The size of what is made of the ranks' parts of parameters: each rank has ceil(rows / ranks) rows of each; a row of those in four
    bits is a word."""
    out, total = {}, 0
    for (rows, rest), times in collections.Counter(shape.parts).items():
        letters, others, ranks = d.extent(rows), d.extent(rest), "N"
        if letters is None and rest == 1:
            letters, ranks = d.extent(PACKED * rows), dims.text({"N": PACKED})
        if letters is None or others is None:
            raise NotATemplate("%s in %s: parameters of %d rows of %d are no products of dimensions" % (a[4], a[5], rows, rest))
        number, others = int(_CONSTANT.match(others).group() or 1), _CONSTANT.sub("", others)
        name = dims.order("N" * shape.times_ranks + others + "[%s/%s]" % (letters, ranks))
        out[name] = out.get(name, 0) + shape.each * number * times
        total += shape.each * (d.value["N"] if shape.times_ranks else 1) * dims.ceil(rows, d.value["N"]) * rest * times
    out = {name: c for name, c in out.items() if c}
    if total != a[2]:
        raise NotATemplate("%s in %s: %d bytes, of which %d are known" % (a[4], a[5], a[2], total))
    return out


TWO_SUMS = 2 * 4  # in one tensor, as GRPO's trainer logs means


def _elements(shape, d):
    """(letters, constant, what it is divided by) of a parameter's elements, or None."""
    letters, by = [d.extent(n) for n in shape], 1
    if None in letters and len(shape) == 2 and shape[1] == 1:
        letters, by = [d.extent(PACKED * shape[0])], PACKED
    if None in letters:
        return None
    number = math.prod(int(_CONSTANT.match(part).group() or 1) for part in letters)
    return dims.order("".join(_CONSTANT.sub("", part) for part in letters)), number, by


def _flat_terms(a, flat, d):
    """The size of what is made of parameters that are one. What pads them is there where the ranks do not divide them: the
    elements over the ranks, rounded up, are then one more than rounded down."""
    elements = collections.Counter()
    if sum(math.prod(shape) for shape in flat.shapes) % d.value["N"] == 0:
        raise NotATemplate("%s in %s: the ranks divide its parameters, so what pads them is not seen" % (a[4], a[5]))
    known = [_elements(shape, d) for shape in flat.shapes]
    if None in known:
        raise NotATemplate("%s in %s: a parameter of %s is no product of dimensions" % (a[4], a[5], flat.shapes[known.index(None)]))
    by = max(divided for _, _, divided in known)
    for letters, number, divided in known:
        elements[letters] += number * by // divided
    ranks = dims.text({"N": by})
    if by > 1 and not flat.in_parts or flat.if_odd and by > 1:
        raise NotATemplate("%s in %s: gradients of packed parameters" % (a[4], a[5]))
    if not flat.in_parts:
        return {name: flat.each * c for name, c in elements.items()}
    part, down = ("[%s/%s]" % (dims.text(sum_), ranks) for sum_ in (elements, {**elements, "N": -1, "": 1}))
    name = ("N" if flat.padded else "") + part
    return {name + part: flat.each, name + down: -flat.each} if flat.if_odd else {name: flat.each}


def _sum_terms(a, rounded, d):
    """The size of what has a sum of products as its elements, rounded up where none of its terms has a rest; None: it is none such."""
    each, n, by = rounded[:3]
    found = d.product(n) if len(rounded) == 3 else None
    terms = {letters: math.prod(d.value[letter] for letter in letters) for letters in found or ()}
    if len(terms) < 2 or any(value % by for value in terms.values()) or a[2] * by != each * n:
        return None
    return {"[%s/%d]" % (letters, by): each * found[letters] for letters in terms}


def _rounded_terms(a, rounded, d):
    """The size of what has a number of elements that is rounded up, or the product of two such numbers."""
    each, *parts = rounded
    terms = _sum_terms(a, rounded, d)
    if terms:
        return terms
    letters, bytes_ = "", each
    for n, by in zip(parts[::2], parts[1::2]):
        of = d.plain(n)
        if of is None:
            raise NotATemplate("%s in %s: %d elements are no product of dimensions" % (a[4], a[5], n))
        letters += "[%s/%d]" % (of, by) if by > 1 else of
        bytes_ *= dims.ceil(n, by)
    if bytes_ != a[2]:
        raise NotATemplate("%s in %s: %d bytes, of which %d are known" % (a[4], a[5], a[2], bytes_))
    return {letters: each}


def _terms(a, log, d):
    """The size of an allocation as {letters: constant}, or None where it may depend on the layers."""
    if len(a) > ROWS:
        return {}
    shape = log.shards.get(a[1])
    if isinstance(shape, sharded.Flat):
        return _flat_terms(a, shape, d)
    if shape:
        return _shard_terms(a, shape, d)
    if TOWER in a[5]:
        return {"R": a[2] // d.value["R"]} if "R" in d.marker and a[2] % d.marker["R"] == 0 else {"": a[2]}
    if a[1] in log.rounded:
        return _rounded_terms(a, log.rounded[a[1]], d)
    if a[4] == "arange" and "B" in d.marker and a[2] == 8 * d.value["B"]:  # of a mask; elsewhere batches never stand alone
        return {"B": 8}
    if a[4] == "stack" and a[5] == "-" and a[2] != TWO_SUMS:  # of norms, one a parameter
        return None
    if a[4] == "clone" and "Y" in d.marker and a[2] == 8 * d.value["B"] * (d.value["Y"] - 1):  # labels, shifted by one
        return {"BY": 8, "B": -8} if "B" in d.marker else {"Y": 8, "": -8}
    return d.product(a[2])


def _rows(a, d):
    """' n=2V,0': what stands for the size of a chunk of rows."""
    each = [d.plain(n) if n else "0" for n in a[ROWS]]
    if None in each:
        raise NotATemplate("%s in %s: %s bytes a row are no product of dimensions" % (a[4], a[5], a[ROWS]))
    return " n=%s,%s" % tuple(each)


def _alloc(a, log, d):
    terms, a_class = d.classes(_terms(a, log, d))
    module, layer = _split_module(a[5])
    rows = _rows(a, d) if len(a) > ROWS else " n=" + a_class if a_class else ""
    is_number = not rows and (not terms or not any(terms))  # it may be a list with an entry a layer, which looks like a constant
    size = "?" if is_number else dims.text(terms)
    numbers = (a[1],) + layer + ((a[2],) if is_number else ())
    return Event("a", ("a", size + rows, a[3], a[4], module, a[6]), numbers, terms, a, module, is_number)


def phases(log, d):
    """[(kind, step, [Event])] of a recording."""
    out, born = [], {}
    for e in log.events:
        if e[0] == "m":
            out.append((e[1], e[2], []))
        elif e[0] == "a":
            event = _alloc(e, log, d)
            born[e[1]] = event.token
            out[-1][2].append(event)
        elif e[0] == "f":
            out[-1][2].append(Event("f", ("f",) + born[e[1]][1:], (e[1],)))
        elif e[0] == "e":
            out[-1][2].append(Event("e", ("e",)))
        elif e[0] != "o":
            raise NotATemplate("event %r is not written to templates" % (e[0],))
    return out


def _number(fit):
    c, by_turn, by_layers = fit
    return dims.text({"": c, "i": by_turn, "L": by_layers})


def _place(events, samples):
    """One line for an event at all its places: samples are (turn, layers, event)."""
    some = samples[0][2]
    fits = []
    for column in range(len(some.numbers)):
        fit = fold.affine([(i, n, e.numbers[column]) for i, n, e in samples])
        if fit is None:
            raise NotATemplate("%s: the numbers of %s are not affine in the layers" % (events, some.token))
        fits.append(fit)
    if some.kind == "e":
        return "e"
    if some.kind == "f":
        return "f " + _number(fits[0])
    return _alloc_line(some, fits)


def _alloc_line(some, fits):
    rows = some.token[1].partition(" ")[1:]
    a, size = some.a, _by_layers(some, fits.pop()) if some.is_number else dims.text(some.terms)
    text = "a%s %s %s %s" % ("@%d" % a[6] if a[6] else "", _number(fits[0]), size, a[3])
    path = some.module
    for fit in fits[1:]:
        number = _number(fit)
        path = path.replace("{}", number if number.isdigit() else "{\0%s}" % number, 1)
    path = path.replace("\0", "")
    return text + (" %s %s" % (a[4], path) if a[5] != "-" else " " + a[4] if a[4] != "-" else "") + "".join(rows)


def _by_layers(some, fit):
    """A constant, or a size that only the number of layers explains: lists with one entry a parameter."""
    by_layers = fit[2] and not fit[1] and max(abs(fit[0]), abs(fit[2])) <= dims.CONSTANT_MOST
    if not by_layers and (any(fit[1:]) or not some.terms):
        raise NotATemplate("%s in %s: %d bytes are no product of dimensions" % (some.a[4], some.a[5], some.a[2]))
    return _number(fit)


def _phase_lines(which, recordings):
    """The lines of one phase; recordings: its events by layer count."""
    tokens = {n: [e.token for e in events] for n, events in recordings.items()}
    values = {n: [e.numbers for e in events] for n, events in recordings.items()}
    try:
        loops = fold.loops(tokens, values)
    except fold.NotRepeated as why:
        raise NotATemplate("%s %s: %s" % (which[0], which[1], why))
    counts = sorted(recordings)[:-1]
    at, out = dict.fromkeys(counts, 0), []

    def literal(until):
        for k in range(until[counts[0]] - at[counts[0]]):
            out.append(_place(which, [(0, n, recordings[n][at[n] + k]) for n in counts]))
        at.update(until)
    for loop in loops:
        literal(loop.begin)
        out.append("l i " + dims.text({"L": 1, "": next(iter(loop.more))}))
        for k in range(loop.period):
            out.append(_place(which, [(i, n, recordings[n][loop.begin[n] + i * loop.period + k])
                                      for n in counts for i in range(loop.turns[n])]))
        out.append("/l")
        at.update({n: loop.begin[n] + loop.turns[n] * loop.period for n in counts})
    literal({n: len(recordings[n]) for n in counts})
    return out


def body(logs, d):
    """The lines of the template; logs: recordings by layer count."""
    split = {n: phases(log, d) for n, log in logs.items()}
    marks = {tuple(p[:2] for p in phases_) for phases_ in split.values()}
    if len(marks) != 1:
        raise NotATemplate("the phases depend on the layers")
    out = []
    for k, (kind, step) in enumerate(marks.pop()):
        out.append("m %s %d" % (kind, step))
        out += _phase_lines((kind, step), {n: split[n][k][2] for n in split})
    return out
