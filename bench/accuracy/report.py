# SPDX-License-Identifier: Apache-2.0
"""Figures over judged rows, and the bounds of the sample."""

import collections
import json
import os
import statistics

import speed

HERE = os.path.dirname(os.path.abspath(__file__))
NEAR_LIMIT_MIB = 38000  # of the A100 with 40 GB: from here on the cache is given back and trials fail


def crashed(rows):
    """ids of rows whose figure is that of a run that died: under 0.9 of a smaller batch's, though the arithmetic of tensor
    sizes (faketensor_final_mb) says over 25,000 or nothing. The rule is older than any prediction."""
    highest, out = collections.defaultdict(float), set()
    sized = [r for r in rows if r.get("mem_mib") and r.get("batch_per_gpu") and "faketensor_final_mb" in r]
    for row in sorted(sized, key=lambda r: int(r["batch_per_gpu"])):
        mem, fake = float(row["mem_mib"]), float(row["faketensor_final_mb"] or "inf")
        if mem < 0.9 * highest[row["model"]] and fake > 25000:
            out.add(id(row))
        highest[row["model"]] = max(highest[row["model"]], mem)
    return out


def errors(cases, which="error"):
    """Figures of signed relative errors."""
    signed = [e for e in (getattr(c.verdict, which) for c in cases) if e is not None]
    size = sorted(abs(e) for e in signed)
    if not size:
        return dict(median_abs_error=None, p90_abs_error=None, mean_signed_error=None)
    return dict(median_abs_error=round(statistics.median(size), 5),
                p90_abs_error=round(size[min(len(size) - 1, int(0.9 * len(size)))], 5),
                mean_signed_error=round(statistics.mean(signed), 5))


def summary(cases):
    """The object of the last line. Over all rows; `usable` leaves out crashed runs and the GPU's last 2.5 GB,
    `without_scratch` is over all rows again."""
    count = collections.Counter(c.verdict.status for c in cases)
    fit = [c for c in cases if c.profile and c.profile["judge"] in ("fit", "ran", "oom")]
    lost = sum(c.verdict.status == "unrecorded" for c in fit)
    out = dict(rows=len(cases), right=count["right"] if fit else None, wrong=count["wrong"] + lost if fit else None,
               unrecorded=count["unrecorded"], **errors(cases))
    out.update(unjudged=count["unjudged"], right_share=round(count["right"] / len(fit), 5) if fit else None)
    usable = [c for c in cases if c.verdict.error is not None and not c.crashed
              and float(c.row["mem_mib"]) < NEAR_LIMIT_MIB]
    out["usable"] = dict(rows=len(usable), **errors(usable)) if usable else None
    out["without_scratch"] = errors(cases, "error_without") if usable else None
    size = [abs(c.verdict.error) for c in cases if c.verdict.error is not None]
    out["within_5_percent"] = round(sum(e <= 0.05 for e in size) / len(size), 5) if size else None
    out["within_10_percent"] = round(sum(e <= 0.10 for e in size) / len(size), 5) if size else None
    out.update(speed.summary(cases))
    return out


def details(cases):
    """Overheads used, what could not be recorded, and the rows that are wrong or far off."""
    for line in sorted({"overhead %d MiB: %s" % (c.overhead, c.parts) for c in cases if c.profile and c.parts}):
        print(line)
    for status in ("unrecorded", "unjudged"):
        notes = collections.defaultdict(set)
        for c in cases:
            if c.verdict.status == status:
                notes[c.verdict.note].add(c.row.get("model", "?"))
        for note, models in sorted(notes.items()):
            print("%s: %s: %s" % (status, ", ".join(sorted(models)), note))
    for c in cases:
        if c.verdict.status == "wrong":
            which = c.row.get("layout") or "at %s" % c.row.get("batch_per_gpu", "")
            print("wrong: %s %s: %s (%s)" % (c.row["model"], which, c.verdict.note, _figures(c)))
    breakdown(cases)
    speed.details(cases)
    far = sorted((c for c in cases if c.verdict.error is not None), key=lambda c: -abs(c.verdict.error))
    for c in far[:max(10, len(far) // 50)]:
        print("off by %+.1f %%: %s at %s: measured %.0f (%s)%s" % (100 * c.verdict.error, c.row["model"], c.row.get(
            "batch_per_gpu", ""), float(c.row["mem_mib"]), _figures(c), " crashed run" if c.crashed else ""))


def breakdown(cases):
    """One line for each layout (fit), for those that ran or ran out of memory, for each batch (figures), and for each profile where there are several."""
    groups = collections.defaultdict(list)
    for c in cases:
        if c.profile and c.profile["judge"] != "speed":
            groups[_group(c)].append(c)
    for name, group in sorted(groups.items()):
        two_sided = [c for c in group if c.row.get("batch_fails")]
        if name.startswith("layout"):
            print("%s: %d of %d right, %d of the %d with both sides known" % (
                name, _right(group), len(group), _right(two_sided), len(two_sided)))
        elif name in ENDS.values():
            print("%s: %d of %d right" % (name, _right(group), len(group)))
        else:
            _print_errors(name, group)
    profiles = collections.defaultdict(list)
    for c in cases:
        if c.verdict.error is not None:
            profiles[c.profile["name"]].append(c)
    for name, group in sorted(profiles.items()) if len(profiles) > 1 else ():
        _print_errors("profile " + name, group)


def _print_errors(name, group):
    e = errors(group)
    if e["median_abs_error"] is not None:
        print("%s: %d rows, median %.2f %%, nine in ten within %.2f %%, mean %+.2f %%" % (
            name, len(group), 100 * e["median_abs_error"], 100 * e["p90_abs_error"], 100 * e["mean_signed_error"]))


ENDS = {"ran": "ran", "oom": "ran out of memory"}


def _group(case):
    kind = case.profile["judge"]
    return {"fit": "layout %s" % case.row.get("layout"), **ENDS}.get(kind, "batch %4s" % case.row.get("batch_per_gpu"))


def _right(cases):
    return sum(c.verdict.status == "right" for c in cases)


def _figures(case):
    return ", ".join("%s %s" % (k[:-4], v) for k, v in case.verdict.figures.items())


def sample(run):
    """The small tables; 1 if one leaves its bounds."""
    with open(os.path.join(HERE, "sample.json"), encoding="utf-8") as f:
        tables = json.load(f)
    bad = 0
    for name, bounds in tables.items():
        cases = run(os.path.join(HERE, name))
        details(cases)
        got = summary(cases)
        print("%s: %s" % (name, json.dumps(got)))
        for key, bound in bounds.items():
            if key == "right" and got[key] < bound or key != "right" and (got[key] is None or abs(got[key]) > bound):
                print("%s: %s is %s, its bound is %s" % (name, key, got[key], bound))
                bad = 1
    return bad
