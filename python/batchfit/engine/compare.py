# SPDX-License-Identifier: Apache-2.0
"""How far outputs are from the reference's.

Relative differences are relative to the tensor, not to each element: the largest difference over the largest magnitude of
the reference, the mean difference over its mean magnitude. An element next to zero would make any other measure infinite."""

import math

import numpy

TINY = 1e-30  # a reference of nothing but zeros


def _floats(array):
    return numpy.asarray(array).astype(numpy.float64)


def _problem(found, wanted):
    if len(found) != len(wanted):
        return "%d outputs, the reference has %d" % (len(found), len(wanted))
    for number, (a, b) in enumerate(zip(found, wanted)):
        if a.shape != b.shape:
            return "output %d is %s, the reference's is %s" % (number, _words(a.shape), _words(b.shape))
        if not numpy.isfinite(_floats(a)).all() and numpy.isfinite(_floats(b)).all():
            return "output %d has values that are not finite" % number
    return None


def _words(shape):
    return "x".join(map(str, shape)) or "one number"


def top1(a, b):
    """Share of samples with the same largest output, or None where outputs do not look like one score for each class."""
    if b.ndim != 2 or b.shape[1] < 2 or b.dtype.kind != "f":
        return None
    return float((a.argmax(1) == b.argmax(1)).mean())


def difference(found, wanted):
    """Fields of the event `outputs`. found, wanted: lists of arrays, samples first; wanted may have more samples."""
    samples = min([len(a) for a in found if a.ndim] + [len(b) for b in wanted if b.ndim] or [1])
    found = [a[:samples] if a.ndim else a for a in found]
    wanted = [b[:samples] if b.ndim else b for b in wanted]
    problem = _problem(found, wanted)
    if problem:
        return {"problem": problem, "samples": samples}
    event = {"samples": samples, "max_abs": 0.0, "mean_abs": 0.0, "max_rel": 0.0, "mean_rel": 0.0}
    for a, b in zip(found, wanted):
        apart, size = numpy.abs(_floats(a) - _floats(b)), numpy.abs(_floats(b))
        if not apart.size:
            continue
        worst, mean = float(apart.max()), float(apart.mean())
        for name, value in (("max_abs", worst), ("mean_abs", mean), ("max_rel", worst / max(float(size.max()), TINY)),
                            ("mean_rel", mean / max(float(size.mean()), TINY))):
            event[name] = max(event[name], value)
    same = top1(found[0], wanted[0])
    if same is not None:
        event["top1"] = same
    return {name: value for name, value in event.items() if not isinstance(value, float) or math.isfinite(value)}
