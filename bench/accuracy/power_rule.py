#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the clock follow the cube root of the watts? Published sweeps of power limits beside the rule of src/predict/speed/speed.c.

    bench/accuracy/power_rule.py FILE.csv

FILE has a row for each run: gpu, model, dataset, batch_per_gpu, optimizer, power_limit_w, average_power_w (both W) and samples_per_sec.
What a training needs is the watts that it took at the highest limit; a lower limit counts where it is what held the training back
(it took more than 85 % of it, and the limit is below 90 % of the need). Prints, by GPU and by tenths of the need that were left, the median share of the
samples per second at the highest limit, and the cube root.
"""
import collections
import csv
import statistics
import sys

RUN = ("gpu", "model", "dataset", "batch_per_gpu", "optimizer")
FIGURES = ("power_limit_w", "average_power_w", "samples_per_sec")


def runs(path):
    """{run: [(limit, watts taken, samples/s)], by rising limit}."""
    found = collections.defaultdict(list)
    with open(path, encoding="utf-8", newline="") as f:
        for row in csv.DictReader(f):
            if all(row[name] for name in FIGURES):
                found[tuple(row[name] for name in RUN)].append(tuple(float(row[name]) for name in FIGURES))
    return {run: sorted(sweep) for run, sweep in found.items()}


def shares(sweeps):
    """{(GPU, tenths of the watts needed): [(share of samples/s, cube root)]}."""
    found = collections.defaultdict(list)
    for run, sweep in sweeps.items():
        _, need, fastest = sweep[-1]
        for limit, watts, rate in sweep[:-1]:
            left = limit / need
            if left < .9 and watts > .85 * limit:
                found[run[0], round(10 * left)].append((rate / fastest, left ** (1 / 3)))
    return found


def main():
    found = shares(runs(sys.argv[1]))
    print("| card | watts left | runs | samples/s left | cube root |\n|---|---:|---:|---:|---:|")
    for (card, tenths), pairs in sorted(found.items()):
        measured, rule = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        print("| %s | %d %% | %d | %.0f %% | %.0f %% |" % (card, 10 * tenths, len(pairs), 100 * measured, 100 * rule))


if len(sys.argv) != 2:
    sys.exit(__doc__)
main()
