#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted, torch-reported and driver-reported peaks side by side, on a machine with a GPU.

    tests/gpu/compare.py --batchfit PROGRAM --out FILE.csv [--models models.tsv] [--only TEXT]

For each line of models.tsv and for both kinds of tape (meta: recorded without the GPU; cuda: from the GPU's own history, at
batches 2, 4, 8): `batchfit record`, `batchfit sim` at the line's batch, and one process that trains two steps at that batch and
tells what torch and the driver saw. The CSV is written again after every line. Ends with 'N passed, N failed, N skipped': a row
passes when all was measured and the cuda tape's peak of allocated bytes is within 2 % of torch's (a meta tape is shown, not
judged). Exit status: 0, 1 when a row failed, 77 without a GPU. Without one, nothing is measured and that is said.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "python")
TOLERANCE = 0.02
COLUMNS = ("source", "knobs", "batch", "tape", "predicted_allocated", "torch_allocated", "predicted_reserved", "torch_reserved",
           "predicted_needed", "nvml_process", "nvml_device", "upper_sizes", "merged_scratch", "device", "driver", "torch", "cuda",
           "cudnn", "error")
SKIP = 77


def read_models(path, only=""):
    """[(source, knobs, batch)] of a models.tsv."""
    rows = []
    with open(path, encoding="utf-8") as f:
        for number, text in enumerate(f, 1):
            if text.startswith("#") or not text.strip():
                continue
            fields = text.rstrip("\n").split("\t")
            if len(fields) != 3 or not fields[2].isdigit():
                raise SystemExit("%s:%d: not SOURCE<tab>KNOBS<tab>BATCH" % (path, number))
            if only in text:
                rows.append((fields[0], {} if fields[1] == "-" else dict(k.split("=", 1) for k in fields[1].split(",")),
                             int(fields[2])))
    return rows


def arguments_of(knobs):
    """{'img_size': '64', 'ema': 'true'} -> ['--img-size', '64', '--ema']"""
    out = []
    for name, value in knobs.items():
        flag = "--" + name.replace("_", "-")
        out += {"true": [flag], "false": ["--no-" + flag[2:]]}.get(value, [flag, value])
    return out


def said_of(knobs):
    """The same for the recorder in this process: values of the knobs' types."""
    from batchfit.knobs import KNOBS
    kinds = {bool: lambda text: text == "true", int: int, float: float}
    return {name: kinds.get(KNOBS[name][0], str)(value) for name, value in knobs.items()}


# -- in processes of their own ---------------------------------------------------------------------------------------

class NoHistory:
    """Nothing is recorded; torch's own figures are all that is wanted."""

    def start(self):
        pass

    def entries(self):
        return []

    def figures(self):
        import torch
        stats = torch.cuda.memory_stats()
        return {"torch_allocated": stats["allocated_bytes.all.peak"], "torch_reserved": stats["reserved_bytes.all.peak"]}


def describe_card():
    """What the GPU is; None without one."""
    import torch
    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    uuid = getattr(properties, "uuid", None)
    return {"device": properties.name, "uuid": "GPU-%s" % uuid if uuid else None, "torch": torch.__version__,
            "cuda": torch.version.cuda or torch.version.hip, "cudnn": torch.backends.cudnn.version()}


def measure(order):
    """Two training steps at order["batch"]: bytes as torch and the driver see them."""
    from nvml import Card, Watch
    from batchfit import cuda_history
    card = Card(order.get("uuid"))
    before, others = card.used(), card.processes()
    watch = Watch(card)
    watch.start()
    answer = cuda_history.trace(order["source"], said_of(order["knobs"]), order["batch"], NoHistory())
    most = watch.finish()
    return dict(answer["figures"], nvml_process=card.process(others), driver=card.driver(),
                nvml_device=None if most is None or before is None else most - before)


def child(what, order):
    """The answer of `what` in a fresh process, as a dict; raises RuntimeError with its last line."""
    with tempfile.TemporaryDirectory(prefix="batchfit-") as folder:
        path = os.path.join(folder, "answer.json")
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--child", what, path], input=json.dumps(order),
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode or not os.path.exists(path):
            raise RuntimeError((done.stderr.strip().split("\n") or [""])[-1][:300] or "status %d" % done.returncode)
        with open(path, encoding="utf-8") as f:
            return json.load(f)


def child_main(what, path):
    """The other side of child()."""
    sys.path[:0] = [HERE, PACKAGE]
    order = json.load(sys.stdin)
    answer = {"card": lambda _: describe_card(), "measure": measure}[what](order)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(answer, f)


# -- the program -----------------------------------------------------------------------------------------------------

def run(command):
    """Standard output; RuntimeError with the last line of stderr."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().split("\n") or [""])[-1][:300] or "status %d" % done.returncode)
    return done.stdout


def predict(batchfit, source, knobs, batch, kind, folder):
    """Figures of `batchfit sim` on a fresh tape, and what its header says."""
    tape = os.path.join(folder, "x.tape")
    run([batchfit, "record", source, "--python", sys.executable, "--device", kind, "--quiet", "-o", tape] + arguments_of(knobs))
    with open(tape, encoding="utf-8") as f:
        header = json.loads(f.readline())
    told = json.loads(run([batchfit, "sim", tape, "--batch", str(batch), "--json"]))
    figures = {"predicted_" + k: told[k + "_bytes"] for k in ("allocated", "reserved", "needed")}
    return dict(figures, upper_sizes=header.get("upper_sizes"), merged_scratch=header.get("merged_scratch"))


def rows_of(batchfit, line, card):
    """The two rows of one line of models.tsv."""
    source, knobs, batch = line
    base = dict(source=source, knobs=" ".join("%s=%s" % k for k in knobs.items()), batch=batch,
                **{k: card.get(k) for k in ("device", "torch", "cuda", "cudnn")})
    try:
        base.update(child("measure", {"source": source, "knobs": knobs, "batch": batch, "uuid": card.get("uuid")}))
    except RuntimeError as why:
        base["error"] = "measuring: %s" % why
    for kind in ("meta", "cuda"):
        row = dict(base, tape=kind)
        try:
            with tempfile.TemporaryDirectory(prefix="batchfit-") as folder:
                row.update(predict(batchfit, source, knobs, batch, kind, folder))
        except RuntimeError as why:
            row["error"] = "; ".join(filter(None, [row.get("error"), "predicting: %s" % why]))
        yield row


def write_csv(path, rows):
    """All rows so far; unknown is empty. Whole or not at all."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    part = path + ".part"
    with open(part, "w", encoding="utf-8", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: "" if row.get(k) is None else row[k] for k in COLUMNS} for row in rows)
    os.replace(part, path)


def error_of(row, figure):
    """(predicted - measured) / measured, or None."""
    predicted, measured = row.get("predicted_" + figure), row.get("torch_" + figure)
    return (predicted - measured) / measured if predicted is not None and measured else None


def verdict(row):
    """'passed', 'failed' or 'skipped' (a model library that is not installed)."""
    if "cannot import" in (row.get("error") or ""):
        return "skipped"
    if row.get("error") or error_of(row, "allocated") is None:
        return "failed"
    return "failed" if row["tape"] == "cuda" and abs(error_of(row, "allocated")) > TOLERANCE else "passed"


def summary(rows):
    """Lines for people; the last one counts."""
    out = []
    for kind in ("meta", "cuda"):
        for figure in ("allocated", "reserved"):
            errors = [e for e in (error_of(r, figure) for r in rows if r["tape"] == kind) if e is not None]
            if errors:
                out.append("%s tape, %s: median error %+.2f %%, worst %+.2f %%, %d rows" % (
                    kind, figure, 100 * statistics.median(errors), 100 * max(errors, key=abs), len(errors)))
    outside = [r["nvml_device"] - r["torch_reserved"] for r in rows if r["tape"] == "cuda" and r.get("nvml_device") and
               r.get("torch_reserved")]
    if outside:
        out.append("outside the allocator (driver's figure less torch's reserved): median %.0f MiB, %.0f to %.0f" % (
            statistics.median(outside) / 2**20, min(outside) / 2**20, max(outside) / 2**20))
    verdicts = [verdict(r) for r in rows]
    out.append(", ".join("%d %s" % (verdicts.count(v), v) for v in ("passed", "failed", "skipped")))
    return out


def main(argv=None):
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batchfit", default=os.path.join(HERE, "..", "..", "build", "batchfit"), metavar="PROGRAM")
    parser.add_argument("--models", default=os.path.join(HERE, "models.tsv"), metavar="FILE")
    parser.add_argument("--only", default="", metavar="TEXT", help="lines of the models file that contain it")
    parser.add_argument("--out", default=os.path.join(HERE, "measured", "peaks.csv"), metavar="FILE")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child:
        return child_main(*arguments.child)
    try:
        card, why = child("card", {}), "torch sees no CUDA device"
    except RuntimeError as told:
        card, why = None, str(told)
    if not card:
        print("SKIP: no GPU (%s): nothing was measured\n0 passed, 0 failed, 1 skipped" % why)
        return SKIP
    rows = []
    for line in read_models(arguments.models, arguments.only):
        for row in rows_of(arguments.batchfit, line, card):
            rows.append(row)
            print("%-8s %s %s batch %d %s" % (verdict(row), row["tape"], row["source"], row["batch"], row.get("error") or ""),
                  flush=True)
        write_csv(arguments.out, rows)
    print("\n".join([arguments.out] + summary(rows)))
    return 1 if any(verdict(r) == "failed" for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
