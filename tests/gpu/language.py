#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Language models and encoders by their shape on a real GPU: what `fit` and `infer` predict from config.json alone, and what torch holds.

    tests/gpu/language.py --batchfit PROGRAM --out FILE.csv [--only TEXT]
    tests/gpu/language.py --batchfit PROGRAM --measured FILE.csv          (without a GPU: that file's rows are predicted again)

For each line of language.tsv: a model with random weights from that config, trained or generating once in a process of its own
(training.py); then the program's prediction for the same GPU, batch and lengths. Nothing is downloaded. The CSV is written again
after every line. Ends with 'N passed, N failed, N skipped': a row passes when the predicted peak of allocated bytes is within 5 %
of torch's. Exit status: 0, 1 when a row failed, 77 without a GPU.
"""
import argparse
import csv
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile

from compare import error_of

HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = 0.05
SKIP = 77
PATIENCE_S = 120
COLUMNS = ("name", "config", "options", "predicted_allocated", "torch_allocated", "predicted_reserved", "torch_reserved", "nvml_device",
           "predicted_overhead", "seconds_per_step", "device", "driver", "torch", "transformers", "error")


def rows_of(path, only):
    """[(name, config, options)] of language.tsv; options are words of the program."""
    with open(path, encoding="utf-8") as f:
        lines = [line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#")]
    return [(name, config, options.split()) for name, config, options in lines if only in "%s %s" % (name, options)]


def asked(program, config_file, options):
    """What the program predicts: bytes."""
    verb, at = "infer" if "--target-len" in options else "fit", options.index("--batch")
    batch = options[at + 1]
    words = options[:at] + options[at + 2:]
    more = ["--precision", "bf16"] if not {"--precision", "--lora", "--shard"}.intersection(options) else []
    more += ["--gpu", "h100"] if "--gpus" not in options else []
    more += ["--optimizer", "adamw_torch_fused"] if verb == "fit" and "--optimizer" not in options else []  # as training.py has it
    done = subprocess.run([program, verb, "--model", config_file, *words, *more, "--min-batch-size", batch,
                           "--max-batch-size", batch, "--no-history", "--json"], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr.strip().replace("\n", " "))
    peak = json.loads(done.stdout)["results"][0]["peak"]
    return {"predicted_allocated": peak["allocated_bytes"], "predicted_reserved": peak["reserved_bytes"],
            "predicted_overhead": peak["overhead_bytes"]}


def again(program, said):
    """A row of an earlier file with what the program predicts now."""
    figures = {name: int(said[name]) for name in ("torch_allocated", "torch_reserved")}
    with tempfile.TemporaryDirectory() as folder:
        config_file = os.path.join(folder, "config.json")
        with open(config_file, "w", encoding="utf-8") as f:
            f.write(said["config"])
        return {**said, **figures, **asked(program, config_file, said["options"].split())}


def _measured(answer, config_file, options):
    """In the process that measures: what it measured, or why not."""
    import training
    try:
        answer.send(training.measure(config_file, options))
    except Exception as error:  # pylint: disable=broad-exception-caught  - it is the row's error
        answer.send({"error": "%s: %s" % (type(error).__name__, error)})


def measured(config_file, options):
    """A row's figures, from a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(False)
    process = context.Process(target=_measured, args=(theirs, config_file, options))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(PATIENCE_S) else {"error": "no end within %d s" % PATIENCE_S}
    except EOFError:
        return {"error": "its process ended without a word"}
    finally:
        process.kill()
        process.join()


def compare(program, row):
    """A row of the table: what was predicted, then what was measured."""
    name, config, options = row
    with tempfile.TemporaryDirectory() as folder:
        config_file = os.path.join(folder, "config.json")
        with open(config_file, "w", encoding="utf-8") as f:
            f.write(config)
        said = {"name": name, "config": config, "options": " ".join(options)}
        try:
            said.update(asked(program, config_file, options))
        except (RuntimeError, json.JSONDecodeError) as error:
            said["error"] = str(error)
        said.update(measured(config_file, options))
        said["error"] = said.get("error", "").replace("\n", " ")[:600]
        return said


def judge(said):
    """Prints the row's errors. Whether its peak of allocated bytes was predicted."""
    errors = {figure: error_of(said, figure) for figure in ("allocated", "reserved")}
    is_good = errors["allocated"] is not None and abs(errors["allocated"]) <= TOLERANCE
    print("%s %s %s: allocated %s, reserved %s %s" % ("ok" if is_good else "not ok", said["name"], said["options"], *(
        "%+.2f %%" % (100 * error) if error is not None else "-" for error in errors.values()), said.get("error", "")), flush=True)
    return is_good


def tell(good):
    print("%d passed, %d failed, 0 skipped" % (sum(good), len(good) - sum(good)))
    return 0 if all(good) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--batchfit", required=True)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", metavar="FILE")
    where.add_argument("--measured", metavar="FILE")
    parser.add_argument("--only", default="")
    o = parser.parse_args()
    if o.measured:
        with open(o.measured, encoding="utf-8", newline="") as f:
            return tell([judge(again(o.batchfit, said)) for said in csv.DictReader(f) if not said["error"]])
    try:
        import torch
        has_gpu = torch.cuda.is_available()
    except ImportError:
        has_gpu = False
    if not has_gpu:
        print("SKIP: no GPU: nothing was measured\n0 passed, 0 failed, 1 skipped")
        return SKIP
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True,
                            check=False).stdout.strip()
    done, good = [], []
    for row in rows_of(os.path.join(HERE, "language.tsv"), o.only):
        done.append({**compare(o.batchfit, row), "driver": driver})
        with open(o.out, "w", encoding="utf-8", newline="") as f:
            table = csv.DictWriter(f, COLUMNS, restval="", lineterminator="\n")
            table.writeheader()
            table.writerows(done)
        good.append(judge(done[-1]))
    return tell(good)


if __name__ == "__main__":
    sys.exit(main())
