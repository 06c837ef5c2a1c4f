# SPDX-License-Identifier: Apache-2.0
"""Predicted against published samples per second, for tables that have them."""

import collections
import math
import statistics

from judge import SimError, simulate

ANY_CAPACITY = 1 << 50  # whether it fits is another question
LAYOUTS_DIFFER = 1.05   # below that neither layout is called the faster one


class Speed:
    """What was predicted for a row. error: relative, signed."""

    def __init__(self, answer, measured):
        self.measured, self.predicted = measured, answer["samples_per_s"]
        self.low, self.high = answer["low"], answer["high"]
        self.doubtful, self.fitted, self.host_bound = answer["doubtful"], answer["fitted"], answer["host_bound"]
        self.error = self.predicted / measured - 1

    @property
    def inside(self):
        """Is the published figure in the printed range? 'At most' has no lower end."""
        return (self.low or 0) <= self.measured <= self.high


def predict(program, tape, row):
    """A Speed, or None where the row has no speed or nothing can be predicted."""
    batch, gpu = row.get("batch") or row.get("batch_fits") or row.get("batch_per_gpu"), row.get("gpu")
    try:
        measured = float(row.get("samples_per_sec") or 0)
    except ValueError:
        return None
    if not measured or not batch or not gpu:
        return None
    torch = ["--torch", row["torch"]] if row.get("torch") else []
    try:
        answer = simulate(program, tape, batch, ANY_CAPACITY, "--gpu", gpu, *torch)["speed"]
    except SimError:
        return None
    return Speed(answer, measured) if answer else None


def _quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def layouts(cases):
    """(right, pairs): of a model's two layouts at one size, GPU and version, was the faster one named?"""
    by = collections.defaultdict(dict)
    for c in cases:
        key = tuple(c.row.get(k) for k in ("model", "image_size", "gpu", "torch", "precision"))
        by[key][c.row.get("layout")] = c.speed
    pairs = [(v["nhwc"], v["nchw"]) for v in by.values() if len(v) == 2]
    pairs = [(a, b) for a, b in pairs if abs(math.log(a.measured / b.measured)) > math.log(LAYOUTS_DIFFER)]
    return sum((a.measured > b.measured) == (a.predicted > b.predicted) for a, b in pairs), len(pairs)


def summary(cases):
    """Fields of the last line; none where no row has a speed."""
    timed = [c for c in cases if c.speed]
    if not any(c.row.get("samples_per_sec") for c in cases):
        return {}
    size = [abs(c.speed.error) for c in timed]
    right, pairs = layouts(timed)
    share = (lambda count: round(count / len(timed), 5)) if timed else lambda count: None
    return dict(speed_rows=len(timed), speed_median_abs_error=round(statistics.median(size), 5) if size else None,
                speed_p90_abs_error=round(_quantile(size, 0.9), 5) if size else None,
                speed_median_signed_error=round(statistics.median(c.speed.error for c in timed), 5) if size else None,
                speed_inside_range=share(sum(c.speed.inside for c in timed)),
                speed_doubtful=share(sum(c.speed.doubtful for c in timed)),
                speed_host_bound=share(sum(c.speed.host_bound for c in timed)),
                speed_layout_right=right if pairs else None, speed_layout_pairs=pairs)


def details(cases):
    """A line for each GPU and layout, and the rows that are furthest off."""
    groups = collections.defaultdict(list)
    timed = [c for c in cases if c.speed]
    for c in timed:
        groups["%s, torch %s, %s" % (c.row.get("gpu"), c.row.get("torch", "?"), c.row.get("layout", "?"))].append(c)
        groups["doubtful" if c.speed.doubtful else "not doubtful"].append(c)
    for name, group in sorted(groups.items()):
        size = [abs(c.speed.error) for c in group]
        print("speed, %s: %d rows, median %.1f %%, nine in ten within %.1f %%, signed %+.1f %%, inside the range %.1f %%" % (
            name, len(group), 100 * statistics.median(size), 100 * _quantile(size, 0.9),
            100 * statistics.median(c.speed.error for c in group),
            100 * sum(c.speed.inside for c in group) / len(group)))
    for c in sorted(timed, key=lambda c: -abs(math.log1p(c.speed.error)))[:10]:
        print("speed off by %+.0f %%: %s %s: measured %.0f, predicted %.0f%s" % (
            100 * c.speed.error, c.row["model"], c.row.get("layout", ""), c.speed.measured, c.speed.predicted,
            " (doubtful)" if c.speed.doubtful else ""))
