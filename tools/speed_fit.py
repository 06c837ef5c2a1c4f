#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the constants of data/speed.tsv to published speeds, and says how far they can be trusted.

  tools/speed_fit.py --name NAME [--gpu WORD] [--torch LIST] [--other WORD[:LIST] ...] TRUTH.csv ...
      [--record [--models N]] [--folds N] [--narrow-folds N] [--note TEXT] [--write data/speed.tsv] [--batchfit PROGRAM]

TRUTH.csv: tables with model, image_size, layout, torch, samples_per_sec and batch (or batch_fits), whose rows a profile of
bench/accuracy/profiles.tsv knows how to record. --gpu and --torch say which rows the constants are fitted to: those whose GPU
has WORD in its name, and those torch versions. Tapes come from the cache of tools/accuracy.py; rows without one are left out
and counted, unless --record makes them (--models N: of N models drawn evenly from all families).

Printed: the constants; the error on the rows fitted; the error of cross-validation, in which the rows of a family (the first
letters of a model's name, see speed_model.py) are predicted with constants that were fitted to the other families, once with
strict families and once with narrow ones, as the study behind the goals made them; the share
of rows inside the range; which of a model's two layouts is named the faster one; and, for each --other GPU, the error after
its data sheet's figures are put in. --write adds the row, or replaces the one of that name. The program's own predictions are
compared with the ones fitted here.

Needs scipy (Debian: python3-scipy); no test does.
"""

import argparse
import datetime
import os
import shlex
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "accuracy"))

import numpy as np  # noqa: E402
import speed_model as model  # noqa: E402
from environments import Environment  # noqa: E402
from judge import simulate  # noqa: E402
from recording import Job, record_all  # noqa: E402
from tables import DATA, Tables, read_csv, read_tsv  # noqa: E402

HOST_US = 10  # a kernel, an allowance: doc/speed-model.md
COLUMNS = ["name", "mode", "cards", "cc_min", "cc_max", "torch_min", "torch_max", "range", "range_doubtful", "range_other",
           "range_measured", "host_us"] + model.NAMES + ["from", "note"]
DOUBTFUL_FROM = .1  # as in src/predict/speed/speed.c


class Run:
    """A row of a truth file, its tape and its kernels at the row's batch."""

    def __init__(self, row, job, mode):
        self.row, self.job, self.mode = row, job, mode
        self.model, self.layout = row["model"], row["layout"]
        self.family, self.narrow = model.family(row["model"]), model.narrow_family(row["model"])
        self.batch = int(row.get("batch") or row["batch_fits"])
        self.samples_per_sec = float(row["samples_per_sec"])
        self.kernels = None

    def read(self, seen):
        """Are there kernels? `seen` keeps those of equal tapes."""
        key = (self.job.path, self.batch)
        if key not in seen:
            seen[key] = model.read(*key) if os.path.exists(self.job.path) else np.empty((0, 10))
        self.kernels = seen[key]
        return len(self.kernels) > 0


# Watts and dense fp16 TFLOPS (fp32 accumulation) of the GPUs that hold their boost clock: RTX 3090, RTX 4090, RTX 5090, as in speed.c.
HOLDING = {86: (350, 71.2), 89: (450, 165.2), 120: (575, 209.5)}


def clock_share(row):
    """Of the boost clock, what the power limit leaves: switching takes C V^2 f, V goes about with f."""
    watts, tflops = HOLDING.get(round(float(row["compute_capability"]) * 10), (0, 1))
    needed = watts / tflops * float(row["fp16_tflops"])
    return min(1, np.cbrt(float(row["tdp_w"]) / needed)) if needed and float(row["tdp_w"] or 0) else 1


def card_facts(row):
    """Rates of a row of data/gpus.tsv, in FLOP/s, bytes/s and cycles/s of all multiprocessors: as in src/predict/speed/speed.c."""
    cc = round(float(row["compute_capability"]) * 10)
    lanes = 64 if cc == 60 or 70 <= cc <= 80 else 128
    held = clock_share(row)
    return dict(cycles=float(row["fp32_tflops"]) * 1e12 / (2 * lanes) * held, peak=float(row["fp16_tflops"]) * 1e12 * held,
                peak_f32=float(row["fp32_tflops"]) * 1e12, bandwidth=float(row["bandwidth_gbs"]) * 1e9)


def all_runs(paths):
    """Every row of the files that a profile knows and that has a speed."""
    tables, runs = Tables(), []
    for path in paths:
        for row in read_csv(path)[1]:
            profile = tables.profile(row)
            if profile and row.get("samples_per_sec"):
                source, knobs = tables.job(row, profile)
                mode = "inference" if knobs.get("mode") == "inference" else "train"
                runs.append(Run(row, Job(Environment(profile["python"], profile["packages"]), source, knobs), mode))
    return runs


def chosen(runs, word, versions):
    """The rows of a GPU and of some torch versions."""
    return [r for r in runs if word in r.row["gpu"] and (not versions or r.row["torch"] in versions.split(","))]


def card_of(runs):
    """The catalogue's row of the one GPU that they ran on."""
    names = {r.row["gpu"] for r in runs}
    if len(names) != 1:
        sys.exit("speed_fit: rows of %s: name one card with --gpu" % (", ".join(sorted(names)) or "no card"))
    return next(g for g in read_tsv(os.path.join(DATA, "gpus.tsv")) if g["name"] == names.copy().pop())


def evenly(runs, count):
    """The runs of `count` models, every family's share of them the same; all without a count."""
    families = {}
    for name in sorted({r.model for r in runs}):
        families.setdefault(model.family(name), []).append(name)
    place = {name: (i + .5) / len(names) for names in families.values() for i, name in enumerate(names)}
    order = sorted(place, key=lambda name: (place[name], name))
    kept = set(order[:count or None])
    return [r for r in runs if r.model in kept]


def folds(runs, count, which):
    """Indices of the runs in `count` parts of about the same size; no family ('family' or 'narrow') is in two."""
    families = {}
    for i, r in enumerate(runs):
        families.setdefault(getattr(r, which), []).append(i)
    parts = [[] for _ in range(count)]
    for name in sorted(families, key=lambda f: (-len(families[f]), f)):
        min(parts, key=len).extend(families[name])
    return [p for p in parts if p]


def cross_validated(runs, card, count, which="family"):
    """Predictions for every run by constants of other families."""
    predicted = np.zeros(len(runs))
    for part in folds(runs, count, which):
        held = set(part)
        q = model.fit([r for i, r in enumerate(runs) if i not in held], card)
        predicted[part] = model.Table([runs[i] for i in part]).predict(q, card)
    return predicted


def figures(predicted, truth):
    """'median 6.1 %, nine in ten within 24.1 %, signed -1.0 %'"""
    if not len(truth):
        return "no rows"
    e = predicted / truth - 1
    return "%4d rows: median %.1f %%, nine in ten within %.1f %%, signed %+.1f %%" % (
        len(e), 100 * np.median(abs(e)), 100 * np.quantile(abs(e), .9), 100 * np.median(e))


def coverage(predicted, truth, factor):
    """Share of the truth between predicted / factor and predicted x factor."""
    return float(np.mean(abs(np.log(predicted / truth)) <= np.log(factor))) if len(truth) else float("nan")


def needed_factor(predicted, truth, share=.9):
    """The factor whose range holds that share, rounded up to 0.05."""
    return float(np.ceil(np.exp(np.quantile(abs(np.log(predicted / truth)), share)) * 20) / 20) if len(truth) else float("nan")


def layouts(runs, predicted):
    """'262 of 280': of models whose layouts differ by over 5 %, how often the faster one is named."""
    by = {}
    for r, p in zip(runs, predicted):
        by.setdefault((r.model, r.row["image_size"], r.row["torch"]), {})[r.layout] = (r.samples_per_sec, p)
    pairs = [(v["nhwc"], v["nchw"]) for v in by.values() if len(v) == 2]
    pairs = [(a, b) for a, b in pairs if abs(np.log(a[0] / b[0])) > np.log(1.05)]
    return "%d of %d" % (sum((a[0] > b[0]) == (a[1] > b[1]) for a, b in pairs), len(pairs))


def kind(run):
    """For the breakdown by kind of network."""
    k, flops = run.kernels[:, model.KIND], run.kernels[:, model.FLOPS] * run.kernels[:, model.COUNT]
    if flops[k <= model.BMM].sum() > .5 * flops.sum():
        return "attention and MLP"
    return "depthwise" if (k == model.DEPTHWISE).any() else "grouped" if (k == model.GROUP).any() else "dense convolution"


def report(title, runs, predicted, doubt, factor, factor_doubtful):
    """Figures of a set of predictions, by layout, kind and doubt."""
    truth, sure = np.array([r.samples_per_sec for r in runs]), doubt <= DOUBTFUL_FROM
    print("%-34s %s" % (title, figures(predicted, truth)))
    groups = [("  layout " + x, np.array([r.layout == x for r in runs])) for x in ("nchw", "nhwc")]
    kinds = [kind(r) for r in runs]
    groups += [("  " + x, np.array([k == x for k in kinds])) for x in sorted(set(kinds))]
    for name, rows in groups + [("  not doubtful", sure), ("  doubtful", ~sure)]:
        if rows.any():
            print("%-34s %s" % (name, figures(predicted[rows], truth[rows])))
    inside = np.where(sure, coverage(predicted[sure], truth[sure], factor), coverage(predicted[~sure], truth[~sure],
                                                                                     factor_doubtful))
    print("  inside x%.2f (doubtful: x%.2f): %.1f %%; the faster layout is named for %s" % (
        factor, factor_doubtful, 100 * inside.mean(), layouts(runs, predicted)))


def others(options, runs, q, own):
    """Errors on other GPUs; the predictions and truths of all of them."""
    found = []
    for other in options.other:
        word, _, versions = other.partition(":")
        rows = [r for r in chosen(runs, word, versions) if r.mode == own.mode and len(r.kernels)]
        if rows:
            card, table = card_facts(card_of(rows)), model.Table(rows)
            p = table.predict(q, card)
            found.append((p, table.truth))
            print("on %s, torch %s:" % (rows[0].row["gpu"], versions or "all"))
            report("  its facts put in", rows, p, table.doubt(q, card), options.far, options.far)
            print("  inside x%.2f: %.1f %%" % (options.far, 100 * coverage(p, table.truth, options.far)))
            for count in (1, 3, 10):
                print("  after %2d measured models: %s" % (count, "median %.1f %%; nine in ten within x%.2f" % measured(
                    p, table.truth, count)))
    return found


def measured(predicted, truth, count, draws=200):
    """(median error in percent, factor that holds nine in ten): the median of some models' ratios times the prediction."""
    random, out = np.random.default_rng(3), []
    for _ in range(draws):
        factor = np.exp(np.median(np.log(truth / predicted)[random.choice(len(truth), min(count, len(truth)), replace=False)]))
        e = abs(np.log(predicted * factor / truth))
        out.append((100 * np.median(np.expm1(e)), np.exp(np.quantile(e, .9))))
    return tuple(np.mean(out, 0))


def torch_number(text):
    major, minor = text.split(".")[:2]
    return 100 * int(major) + int(minor)


def era(runs):
    """torch_min, torch_max: the whole of a major version; its CUDA and cuDNN moved, and the errors below say how much."""
    return {torch_number(r.row["torch"]) // 100 for r in runs}


def row_of(options, gpu, runs, q, ranges):
    """A row of data/speed.tsv."""
    eras, cc = era(runs), int(round(float(gpu["compute_capability"]) * 10))
    low = 100 * min(eras) if len(eras) == 1 else 0
    values = dict(zip(("range", "range_doubtful", "range_other", "range_measured"), ("%.2f" % r for r in ranges)))
    values.update(name=options.name, mode=runs[0].mode, cards=gpu["key"], cc_min=cc // 10 * 10, cc_max=cc, host_us=HOST_US,
                  torch_min=low, torch_max=low + 99 if low else 0, **{n: "%g" % v for n, v in q.items()})
    values["from"] = "%s (%s): %d rows of %d models" % (command_line(), datetime.date.today(), len(runs),
                                                       len({r.model for r in runs}))
    values["note"] = options.note
    return values


def command_line():
    """As it would be typed in the repository, truth files by their names only."""
    words, skip = [], False
    for word in sys.argv[1:]:
        if skip or word in ("--write", "--batchfit", "--note"):
            skip = not skip
            continue
        words.append(os.path.basename(word) if word.endswith(".csv") else word)
    return "tools/speed_fit.py " + " ".join(shlex.quote(w) for w in words)


def write(path, values):
    """The row in the table at `path`; its comments stay."""
    lines = open(path, encoding="utf-8").read().splitlines() if os.path.exists(path) else []
    kept = [x for x in lines if x.startswith("#")]
    rows = [x for x in lines if x and not x.startswith("#")][1:]
    line = "\t".join(str(values[c]) for c in COLUMNS)
    at = next((i for i, x in enumerate(rows) if x.split("\t")[0] == values["name"]), len(rows))
    rows[at:at + 1] = [line]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(kept + ["\t".join(COLUMNS)] + rows) + "\n")


def compare(program, values, runs, predicted):
    """The program must say the same as what was fitted here: the constants alone in a table, some tapes."""
    with tempfile.TemporaryDirectory() as folder:
        write(os.path.join(folder, "speed.tsv"), dict(values, torch_min=0, torch_max=0))
        os.environ["BATCHFIT_DATA"] = folder
        worst = 0
        for i in range(0, len(runs), max(1, len(runs) // 20)):
            got = simulate(program, runs[i].job.path, runs[i].batch, 1 << 40, "--gpu", values["cards"])
            worst = max(worst, abs(got["speed"]["samples_per_s"] / predicted[i] - 1))
        del os.environ["BATCHFIT_DATA"]
    print("the program's predictions differ by at most %.2g" % worst)
    return worst < 1e-3


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("truth", nargs="+")
    p.add_argument("--name", required=True, help="of the row in data/speed.tsv")
    p.add_argument("--gpu", default="", help="a word of the card's name")
    p.add_argument("--torch", default="", help="versions, commas between")
    p.add_argument("--other", action="append", default=[], help="a card that is predicted with these constants")
    p.add_argument("--record", action="store_true")
    p.add_argument("--models", type=int, default=0)
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--folds", type=int, default=10)
    p.add_argument("--narrow-folds", type=int, default=0, help="0: not by narrow families")
    p.add_argument("--range", type=float, default=1.2, help="the factor printed where nothing is in doubt")
    p.add_argument("--far", type=float, default=1.7, help="the factor printed for other cards and software")
    p.add_argument("--note", default="")
    p.add_argument("--write", default="")
    p.add_argument("--batchfit", default=os.path.join(ROOT, "build", "batchfit"))
    return p.parse_args()


def main():
    options, seen = arguments(), {}
    runs = all_runs(options.truth)
    own = evenly(chosen(runs, options.gpu, options.torch), options.models)
    if options.record:
        record_all([r.job for r in own], options.jobs)
    asked = len(own)
    own = [r for r in own if r.read(seen)]
    for r in runs:
        r.read(seen)
    gpu = card_of(own)
    card, table = card_facts(gpu), model.Table(own)
    q = model.fit(own, card)
    doubt, held = table.doubt(q, card), cross_validated(own, card, options.folds)
    sure = doubt <= DOUBTFUL_FROM
    print("%s: %d of %d rows have a tape; %d models of %d families" % (
        options.name, len(own), asked, len({r.model for r in own}), len({r.family for r in own})))
    print("  ".join("%s %g" % pair for pair in q.items()))
    wide = max(options.range, needed_factor(held[~sure], table.truth[~sure])) if (~sure).any() else 2
    report("fitted", own, table.predict(q, card), doubt, options.range, wide)
    report("other families (%d folds)" % options.folds, own, held, doubt, options.range, wide)
    if options.narrow_folds:
        report("other narrow families (%d of %d)" % (options.narrow_folds, len({r.narrow for r in own})), own,
               cross_validated(own, card, options.narrow_folds, "narrow"), doubt, options.range, wide)
    found = others(options, runs, q, own[0])
    after = [np.ceil(20 * measured(*f, 3)[1]) / 20 for f in found] or [options.far]
    values = row_of(options, gpu, own, q, (options.range, wide, options.far, min(options.far, max(after))))
    same = compare(options.batchfit, values, own, table.predict(q, card))
    if options.write and same:
        write(options.write, values)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
