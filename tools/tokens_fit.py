#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the constants of data/tokens.tsv to published tokens a second, and says how far they can be trusted.

  tools/tokens_fit.py MPT.csv [--held TITAN.csv] [--fit] [--write data/tokens.tsv] [--jobs J]

MPT.csv: llm-foundry's table of MPT models on A100 and H100 (columns model, gpu, n_gpus, precision, batch_per_gpu, grad_accum, seq_len,
grad_ckpt, throughput in tokens/s/GPU); rows in fp8 are left out. --held: a table with rows of torchtitan's Llamas, run without
torch.compile, which no constant was fitted to: their tapes are recorded (build/accuracy-tapes). build/bench/tokens predicts, with
the constants of data/tokens.tsv; --fit finds them again, and prints what they would be and the error of the rows of a model by
the constants of the other models. Without --fit nothing but the shipped constants is judged. --fit needs scipy.
"""

import argparse
import collections
import datetime
import math
import os
import re
import shlex
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "accuracy"))

from environments import Environment  # noqa: E402
from recording import Job, record_all  # noqa: E402
from tables import Tables, read_csv, read_tsv  # noqa: E402

PROGRAM = os.path.join(ROOT, "build", "bench", "tokens")
TABLE = os.path.join(ROOT, "data", "tokens.tsv")
COLUMNS = ("gpu ranks shard precision checkpointing batch accumulation sequence hidden layers heads kv_heads head_dim intermediate "
           "vocabulary tied parameters moved tape bandwidth peak").split()
# hidden, layers, heads: mosaicml/llm-foundry, scripts/train/yamls/pretrain/mpt-*.yaml; four times hidden in the feed-forward part,
# a vocabulary of 50,368 that the head shares.
MPT = {"125m": (768, 12, 12), "350m": (1024, 24, 16), "1b": (2048, 24, 16), "3b": (2560, 32, 20), "7b": (4096, 32, 32),
       "13b": (5120, 40, 40), "30b": (7168, 48, 56)}
VOCABULARY = 50368
# What an MPT block reads and writes besides its products, in tensors of two bytes as wide as the hidden size: two norms (2 each), two
# sums (3 each), GELU of four (8); backward twice two norms (4 each), two sums (3 each), GELU (12), and the gradient of q, k, v put
# together (2). A token's logits are read and written 16 times in two bytes.
# Two gathers and a sum of the weights are copied as on a recorded rank: a buffer and what is made of it, of two bytes a parameter each.
FORWARD, BACKWARD, LOGITS, COPIES = 18, 28, 16, 5
SHARED, OF_GPU = ("knee", "b_moved", "layer_ms"), ("f_linear", "f_attention")
START = {"f_linear": (0.7, 0.2, 1), "f_attention": (0.3, 0.05, 1), "knee": (50, 0, 1000), "b_moved": (0.8, 0.3, 1), "layer_ms": (1, 0, 20)}
# The H100 of torchtitan's figures is one of 96 GB of HBM2e and 500 W: six stacks where the PCIe one has five (2039 GB/s), and a clock that
# goes with the cube root of the watts (700), as everywhere in this model. torchao's rows are from the same machines, as far as they say.
NO_CARD = {"bandwidth": 2039e9 * 6 / 5, "peak": 989.4e12 * (500 / 700) ** (1 / 3)}
GPUS = {"NVIDIA H100 96GB HBM2e (500 W)": dict(NO_CARD, gpu="NVIDIA H100 80GB HBM3"), "NVIDIA H100": dict(NO_CARD, gpu="NVIDIA H100 80GB HBM3"),
        "NVIDIA A100 80GB": {"gpu": "NVIDIA A100-SXM4-80GB"}}

Case = collections.namedtuple("Case", "model gpu cells measured what")


def mpt(row):
    """A Case of llm-foundry's table, or None."""
    name = row["model"].rpartition("-")[2]
    if name not in MPT or "fp8" in row["precision"] or row["throughput_unit"] != "tokens/s/GPU":
        return None
    hidden, layers, heads = MPT[name]
    batch, length, again = int(row["batch_per_gpu"]), int(row["seq_len"]), row["grad_ckpt"] == "yes"
    passes = FORWARD + BACKWARD + (FORWARD if again else 0)
    parameters = int(float(row["params_m"]) * 1e6)
    moved = batch * length * 2 * (layers * hidden * passes + VOCABULARY * LOGITS) + 2 * COPIES * parameters
    cells = dict(gpu=row["gpu"], ranks=row["n_gpus"], shard="fsdp2", precision="amp-bf16", checkpointing=int(again), batch=batch,
                 accumulation=row["grad_accum"] or 1, sequence=length, hidden=hidden, layers=layers, heads=heads, kv_heads=heads,
                 head_dim=hidden // heads, intermediate=4 * hidden, vocabulary=VOCABULARY, tied=1,
                 parameters=parameters, moved=moved, tape="")
    return Case(row["model"], row["gpu"], cells, float(row["throughput"]), "%s x %s" % (batch, length))


def titan(row, tables, shapes):
    """(Case, Job) of an eager row of torchtitan's, or None."""
    sharded = re.fullmatch(r"FSDP(\d+)", row.get("parallelism") or "")
    said = all((sharded, row["precision"].startswith("bf16"), row["compile"] != "yes", row["throughput_unit"] == "tokens/s/GPU",
                row["throughput"], "torchtitan" in row["framework"], row["gpu"] in GPUS, row["grad_ckpt"] != "not stated"))
    if not said:
        return None
    knobs = {c["knob"]: re.search(c["regex"], row.get(c["column"]) or "").expand(c["value"]) for c in tables.columns
             if re.search(c["regex"], row.get(c["column"]) or "")}
    knobs = {k: v for k, v in knobs.items() if k in ("seq_len", "checkpointing", "selective", "script_defaults")}
    knobs = {k: int(v) if v.isdigit() else v == "true" if v in ("true", "false") else v for k, v in knobs.items()}
    knobs.update(shard="fsdp2", ranks=int(sharded[1]), rules="2.6")
    source = tables.job(row, {"source": "titan:{model:first}", "knobs": "", "packages": ""})[0]
    shape = shapes.get(source.partition(":")[2])
    if shape is None:
        return None
    cells = dict(shape, **GPUS[row["gpu"]], ranks=sharded[1], shard="fsdp2", precision="amp-bf16",
                 checkpointing=int(row["grad_ckpt"] not in ("no", "")), batch=row["batch_per_gpu"], accumulation=1,
                 sequence=row["seq_len"], moved="")
    job = Job(Environment("venv2", ""), source, knobs)
    cells["tape"] = job.path
    what = "%s x %s, %s GPUs, checkpointing %s" % (row["batch_per_gpu"], row["seq_len"], sharded[1], row["grad_ckpt"])
    return Case(row["model"], row["gpu"], cells, float(row["throughput"]), what), job


def shapes_by_name():
    """{a hub's name: its columns}"""
    found = {}
    for row in read_tsv(os.path.join(ROOT, "data", "shapes.tsv")):
        cells = {k: row.get(k) for k in COLUMNS if row.get(k)}
        cells["tied"] = int(row.get("tied") or 0)
        for name in row["ids"].split(","):
            found[name] = found[name.rpartition("/")[2]] = cells
    return found


def ask(cases, constants=None):
    """[(tokens/s of a GPU, low, high, utilisation, share that waits)] of the program; None where it says nothing."""
    text = "\n".join(["\t".join(COLUMNS)] + ["\t".join(str(c.cells.get(k, "")) for k in COLUMNS) for c in cases]) + "\n"
    more = ["%s=%.9g" % pair for pair in (constants or {}).items()]
    out = subprocess.run([PROGRAM] + more, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return [tuple(map(float, line.split("\t"))) if line else None for line in out]


def say(title, cases, said):
    """A row of the document's table."""
    errors = [s[0] / c.measured - 1 for c, s in zip(cases, said) if s]
    size = sorted(abs(e) for e in errors)
    inside = sum(s[1] <= c.measured <= s[2] for c, s in zip(cases, said) if s)
    print("| %s | %d | %.1f %% | %.1f %% | %+.1f %% | %.0f %% |" % (
        title, len(size), 100 * statistics.median(size), 100 * size[int(0.9 * len(size))], 100 * statistics.median(errors),
        100 * inside / len(size)))


def fit(cases):
    """Constants by least squares of logs: f of each generation of GPUs, the rest of all."""
    from scipy.optimize import least_squares  # pylint: disable=import-outside-toplevel
    rows = [r["name"] for r in read_tsv(TABLE)]
    names = list(SHARED) + [(r, n) for r in rows for n in OF_GPU]

    def constants(values):
        found = {}
        for name, v in zip(names, values):
            for r in rows if isinstance(name, str) else [name[0]]:
                found["%s.%s" % (r, name if isinstance(name, str) else name[1])] = v
        return found

    def off(values):
        return [math.log(s[0] / c.measured) for c, s in zip(cases, ask(cases, constants(values)))]
    start = [START[n if isinstance(n, str) else n[1]] for n in names]
    best = least_squares(off, [s[0] for s in start], bounds=([s[1] for s in start], [s[2] for s in start]), loss="soft_l1", f_scale=0.1,
                         x_scale=[s[0] for s in start], diff_step=1e-4)
    return constants(best.x)


def refit(cases, path):
    """Fit, cross-validate by model, and write if asked."""
    found = fit(cases)
    print("\n".join("%s = %.4g" % pair for pair in found.items()))
    said = []
    for model in dict.fromkeys(c.model for c in cases):
        mine = [c for c in cases if c.model == model]
        other = fit([c for c in cases if c.model != model])
        said += list(zip(mine, ask(mine, other)))
    say("other models only", [c for c, _ in said], [s for _, s in said])
    if path:
        write(path, found)


def write(path, found):
    """The table with these constants."""
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    head = next(line for line in lines if line.startswith("name\t")).split("\t")
    command = "%s (%s)" % (shlex.join([os.path.basename(a) if a.endswith(".csv") else a for a in ["tools/tokens_fit.py"] + sys.argv[1:]]),
                           datetime.date.today())
    for i, line in enumerate(lines):
        cells = dict(zip(head, line.split("\t")))
        if line.startswith("#") or line.startswith("name\t"):
            continue
        cells.update({n: "%.4g" % found["%s.%s" % (cells["name"], n)] for n in SHARED + OF_GPU}, **{"from": command})
        lines[i] = "\t".join(cells[h] for h in head)
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("truth", metavar="MPT.csv")
    p.add_argument("--held", metavar="TITAN.csv")
    p.add_argument("--fit", action="store_true")
    p.add_argument("--write", metavar="FILE")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--worst", type=int, default=8, help="rows that are listed")
    o = p.parse_args()
    cases = [c for c in map(mpt, read_csv(o.truth)[1]) if c]
    if o.fit:
        refit(cases, o.write)
    print("| rows | n | median | nine in ten within | signed | inside the range |\n|---|---:|---:|---:|---:|---:|")
    said = ask(cases)
    say("MPT, all", cases, said)
    for gpu in sorted({c.gpu for c in cases}):
        some = [(c, s) for c, s in zip(cases, said) if c.gpu == gpu]
        say("MPT, " + gpu, [c for c, _ in some], [s for _, s in some])
    some = [(c, s) for c, s in zip(cases, said) if int(c.cells["ranks"]) > 8]
    say("MPT, several machines", [c for c, _ in some], [s for _, s in some])
    pairs = sorted(zip(cases, said), key=lambda p: -abs(math.log(p[1][0] / p[0].measured)))[:o.worst]
    if o.held:
        tables, shapes = Tables(), shapes_by_name()
        held = [t for t in (titan(r, tables, shapes) for r in read_csv(o.held)[1]) if t]
        record_all([job for _, job in held], o.jobs)
        held = [c for c, job in held if os.path.exists(job.path)]
        said = ask(held)
        say("torchtitan, held out", held, said)
        pairs += list(zip(held, said))
    for c, s in pairs:
        print("  %s on %s, %s, %s GPUs: %.0f, predicted %.0f (%+.0f %%), MFU %.0f %%, waits %.0f %%" % (
            c.model, c.gpu, c.what, c.cells["ranks"], c.measured, s[0], 100 * (s[0] / c.measured - 1), 100 * s[3], 100 * s[4]))


if __name__ == "__main__":
    main()
