#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predictions against published runs.

  tools/accuracy.py TRUTH.csv [--rows N] [--seed S] [--jobs J] [--out ROWS.csv]
  tools/accuracy.py --sample [--jobs J]

TRUTH.csv is a table of published training runs with the columns of one of the kinds in bench/accuracy/profiles.tsv: largest
batches that ran (batch_fits, batch_fails), or the device's memory (mem_mib). Each row's model is recorded as that table's
program ran it, or taken from the cache in build/accuracy-tapes, and replayed by build/batchfit.

Environments, made on first use: build/venv1 (Debian's torch 1.13, as `make build/venv1/.ready` makes it), build/venv2 (the
newest torch); beside them build/timm-0.6.7, build/timm-1.0.9 and build/transformers-4.24.0 with its tokenizers, each by pip install --no-deps
--target. --setup makes them and stops. --no-cache records everything again.

--out gets a line a row: the table's columns, the predicted figures, right/wrong or the error, or why there is none. Progress
is on stderr. The last line on stdout is one JSON object: rows, right, wrong, unrecorded, median_abs_error, p90_abs_error,
mean_signed_error (relative; null where it does not apply) over all rows, and more after them; where the table has samples_per_sec,
speed_median_abs_error, speed_p90_abs_error (relative), speed_doubtful (share of the rows) and more of that name. For tables that say whether a
batch ran, a row that could not be recorded counts as wrong; elsewhere it is counted apart. --sample runs the small tables in
bench/accuracy and fails (exit 1) if they leave their bounds.
"""

import argparse
import csv
import json
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "accuracy"))

import report  # noqa: E402
import speed  # noqa: E402
from environments import Environment, SetupError  # noqa: E402
from judge import JUDGES, SimError, Verdict  # noqa: E402
from recording import Job, record_all  # noqa: E402
from tables import Overheads, Tables, fill, read_csv  # noqa: E402

SPEEDS = ("predicted", "low", "high", "error", "doubtful")
FIGURES = ("predicted_mib", "no_scratch_mib", "allocated_mib", "reserved_mib", "needed_mib", "fails_needed_mib", "capacity_mib")


class Case:
    """A row, the profile that says how it came about, and its tape."""

    def __init__(self, row, tables, overheads):
        self.row, self.profile = row, tables.profile(row)
        self.job = self.verdict = self.speed = None
        if self.profile is None:
            self.verdict = Verdict("unjudged", tables.why_unjudged(row))
            return
        source, knobs = tables.job(row, self.profile)
        own = {"batches": [int(knobs.pop("batches"))]} if "batches" in knobs else {}  # where the sequence changes with the batch
        self.job = Job(Environment(self.profile["python"], self.profile["packages"]), source, knobs, **own)
        self.total = int(float(fill(self.profile["total_mib"], row) or 0))
        self.overhead, self.parts = overheads.total_mib(self.profile["overhead"]) if self.profile["overhead"] else (0, "")

    def judge(self, program):
        """Fill in the verdict."""
        if self.verdict:
            return
        if self.job.error:
            self.verdict = Verdict("unrecorded", self.job.error)
            return
        self.speed = speed.predict(program, self.job.path, self.row)
        try:
            self.verdict = JUDGES[self.profile["judge"]](program, self.job.path, self.row,
                                                         self.total - self.overhead, self.overhead, *self.profile["sim"].split())
        except (SimError, ValueError) as why:
            self.verdict = Verdict("unrecorded", "not replayed: %s" % why)


def draw(rows, count, seed):
    """`count` rows by that seed, in the table's order; all without a count."""
    if not count or count >= len(rows):
        return rows
    return [rows[i] for i in sorted(random.Random(seed).sample(range(len(rows)), count))]


def write(path, columns, cases):
    """A line a row."""
    with open(path, "w", encoding="utf-8", newline="") as f:
        out = csv.writer(f)
        out.writerow(columns + list(FIGURES) + ["verdict", "error", "note"]
                     + ["speed_" + n for n in SPEEDS])
        for case in cases:
            v = case.verdict
            out.writerow([case.row.get(c) for c in columns] + [v.figures.get(n, "") for n in FIGURES]
                         + [v.status, "" if v.error is None else "%.5f" % v.error, v.note]
                         + [getattr(case.speed, n) if case.speed else "" for n in SPEEDS])


def run(path, options):
    """Judge one table; returns its cases."""
    tables, overheads = Tables(), Overheads(path)
    columns, rows = read_csv(path)
    rows = [tables.known(row) for row in rows]
    crashed = report.crashed(rows)
    cases = [Case(row, tables, overheads) for row in draw(rows, options.rows, options.seed)]
    jobs = [c.job for c in cases if c.job]
    if options.no_cache:
        for job in jobs:
            job.forget()
    record_all(jobs, options.jobs)
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda case: case.judge(options.batchfit), cases))
    for case in cases:
        case.crashed = id(case.row) in crashed
    if options.out:
        write(options.out, columns, cases)
    return cases


def setup():
    """Make every environment."""
    for profile in Tables().profiles:
        Environment(profile["python"], profile["packages"]).prepare()


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("truth", nargs="?", help="the table of published runs")
    p.add_argument("--rows", type=int, metavar="N", help="draw N rows instead of taking all")
    p.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    p.add_argument("--jobs", type=int, default=2, help="recorder processes (default 2)")
    p.add_argument("--out", metavar="ROWS.csv")
    p.add_argument("--no-cache", action="store_true", help="record all tapes again")
    p.add_argument("--sample", action="store_true", help="the small tables in the repository, against their bounds")
    p.add_argument("--setup", action="store_true", help="make the environments and stop")
    p.add_argument("--batchfit", default=os.path.join(ROOT, "build", "batchfit"), help=argparse.SUPPRESS)
    options = p.parse_args()
    if not (options.truth or options.sample or options.setup):
        p.error("a table of published runs is needed: make accuracy TRUTH=FILE.csv")
    return options


def main():
    options = arguments()
    try:
        if options.setup:
            return setup()
        if options.sample:
            return report.sample(lambda path: run(path, options))
        cases = run(options.truth, options)
    except SetupError as why:
        sys.exit("accuracy: " + str(why))
    except OSError as why:
        sys.exit("accuracy: %s: %s" % (why.filename or "file", why.strerror or why))
    report.details(cases)
    print(json.dumps(report.summary(cases)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
