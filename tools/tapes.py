#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the shipped tapes: data/tapes/NAME.tapes.zst and data/tapes/index.tsv.

  tools/tapes.py [--jobs J] [--only BUNDLE,...] [--unpack] [--pack]

Models and variants are tools/tapes.tsv and tools/tapes_variants.tsv; the recorder runs in build/venv2. A tape that is in
build/tapes already, made by the same recorder version, is not recorded again; --pack records nothing and makes the bundles
of what is there; --unpack puts what is shipped back there first. A bundle with a grid also has a template for each variant,
made of the tapes of all its sizes and of those in the column `more`, which are recorded for that alone (template/sized.py): it
serves every size of the grid between the least and the largest. A variant that the model does not allow (an image size, checkpointing) is named on stderr and left out.
Needs the zstd program.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys

TOOLS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(TOOLS)
sys.path.insert(0, os.path.join(ROOT, "bench", "accuracy"))

from environments import BUILD, Environment, SetupError  # noqa: E402
from recording import Job, record_all  # noqa: E402
from tables import read_tsv, value  # noqa: E402
from template import sized  # noqa: E402

DATA = os.path.join(ROOT, "data", "tapes")
LIMIT_BYTES = 10 << 20  # all bundles and the index together
# 2^23 bytes of window: a bundle's variants share most of their text, and no reader needs more memory than that
PACK = ["zstd", "--quiet", "--ultra", "-22", "--long=23", "--no-progress", "--stdout"]
# columns of index.tsv that are keys of the header
KEYS = ("model mode image_size sequence_length target_length precision layout optimizer accumulation checkpointing ema "
        "grad_scaler cudnn_benchmark prefetch zero_grad attention classes parameters library torch rules recorder").split()
HAVE_CLASSES = ("image", "image-few", "detect", "detect-few", "encoder", "encoder-few")  # models that end in a classifier
TEMPLATE_KEYS = ["image_least", "image_most", "image_step"]
THREE_BATCHES = ("image", "seq2seq")  # sets checked at a third batch, too
LEFT_OUT = ("seconds",)  # of the header: differs from run to run


class Bundle:
    """One file: a model at all its sizes, at each of them in all its variants."""

    def __init__(self, row, variants, environment):
        self.name = row["bundle"]
        batches = (2, 4, 8) if row["set"] in THREE_BATCHES else (2, 4)
        mine = [v for v in variants if v["set"] == row["set"]]
        self.jobs = [self._job(environment, row, knobs(row, size, v["knobs"]), batches) for size in row["sizes"].split() for v in mine]
        self.grid = int(row["grid"] or 0)
        self.more = [self._job(environment, row, without_classes(knobs(row, size, v["knobs"])), (2, 4))
                     for v in mine for size in row["more"].split()]

    @staticmethod
    def _job(environment, row, said, batches):
        return Job(environment, row["source"], said, batches, os.path.join(BUILD, "tapes"))

    def fall_back(self):
        """Where a size is no line in the number of classes (8-bit states, detection losses), record for the usual number."""
        again = []
        for i, job in enumerate(self.jobs):
            if job.error and job.knobs.pop("classes_derivative", None):
                self.jobs[i] = Job(job.environment, job.source, job.knobs, job.batches, os.path.join(BUILD, "tapes"))
                again.append(self.jobs[i])
        return again

    def trainings(self):
        """The jobs of each variant, at all sizes, in the order of the variants."""
        out = {}
        for job in self.jobs + self.more:
            variant = {k: v for k, v in job.knobs.items() if k not in ("img_size", "classes_derivative")}
            out.setdefault(json.dumps(variant, sort_keys=True), []).append(job)
        return list(out.values())

    def templates(self):
        """(header, bytes) of each variant's template; what cannot be one is named."""
        for jobs in self.trainings() if self.grid else ():
            jobs = [j for j in jobs if os.path.exists(j.path)]
            if not jobs:
                continue
            tapes = [sized.Tape(text(j.path)[1].decode()) for j in jobs]
            made, why = sized.best(tapes, self.grid)
            if why:
                print("%s: %s %s: %s" % ("no template" if not made else "no template of every size", self.name, jobs[0].knobs, why),
                      file=sys.stderr)
            if made:
                yield json.loads(made.partition("\n")[0]), made.encode()

    @property
    def path(self):
        """Of the shipped file."""
        return os.path.join(DATA, self.name + ".tapes.zst")


def knobs(row, size, variant):
    """The recorder's knobs for one tape."""
    out = {k: value(v) for k, _, v in (pair.partition("=") for pair in (variant + " " + row["extra"]).split())}
    if row["set"] in HAVE_CLASSES:
        out["classes_derivative"] = True
    tokens, _, target = size.partition("/")
    if row["set"].startswith(("image", "detect")):
        out["img_size"] = int(size)
    else:
        out["seq_len"] = int(tokens)
    if target:
        out["target_len"] = int(target)
    return out


def without_classes(said):
    """Of a tape that is recorded for a template: the classes are those of the tapes that are shipped."""
    return {k: v for k, v in said.items() if k != "classes_derivative"}


def text(path):
    """(header dict, bytes) of a tape without what differs from run to run."""
    with open(path, "rb") as f:
        first, rest = f.readline(), f.read()
    header = {k: v for k, v in json.loads(first).items() if k not in LEFT_OUT}
    return header, json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" + rest


def formed(piece, *option):
    """A tape in its packed form; with --text as text."""
    return subprocess.run([os.path.join(ROOT, "build", "tape_form"), *option], input=piece, stdout=subprocess.PIPE, check=True).stdout


def tapes(bundle):
    """(header, packed bytes) of each of its tapes."""
    for job in bundle.jobs:
        if os.path.exists(job.path):
            header, whole = text(job.path)
            yield header, formed(whole)


def pack(bundle):
    """Write the bundle; its rows of the index."""
    rows, pieces, offset = [], [], 0
    for header, piece in itertools.chain(tapes(bundle), bundle.templates()):
        bounds = header.get("dims", {}).get("image_size", ("",) * 3)
        rows.append([os.path.basename(bundle.path), str(offset), str(len(piece))]
                    + [cell(header.get(k)) for k in KEYS] + [str(b) for b in bounds])
        pieces.append(piece)
        offset += len(piece)
    if pieces and not holds(bundle.path, b"".join(pieces)):
        packed = subprocess.run(PACK + ["--stream-size=%d" % offset], input=b"".join(pieces), stdout=subprocess.PIPE,
                                check=True).stdout
        with open(bundle.path + ".part", "wb") as f:
            f.write(packed)
        os.replace(bundle.path + ".part", bundle.path)
    return rows


def holds(path, whole):
    """Is that what the bundle says already? To look takes a hundredth of the time that packing takes."""
    return os.path.exists(path) and subprocess.run(["zstd", "--quiet", "-dc", "--long=23", path], stdout=subprocess.PIPE,
                                                   check=True).stdout == whole


def cell(v):
    """A header's value in a table: empty for unknown, true and false as in JSON."""
    return "" if v is None else json.dumps(v) if isinstance(v, bool) else str(v)


def write_index(rows):
    """data/tapes/index.tsv."""
    path = os.path.join(DATA, "index.tsv")
    with open(path + ".part", "w", encoding="utf-8") as f:
        f.write("# Made by tools/tapes.py: every tape of the bundles beside this file; where it stands, in bytes of the\n"
                "# decompressed bundle, and what selects it.\n")
        f.write("\t".join(["file", "offset", "length"] + KEYS + TEMPLATE_KEYS) + "\n")
        f.write("".join("\t".join(row) + "\n" for row in rows))
    os.replace(path + ".part", path)


def record(bundles, wanted, workers):
    """Record the wanted bundles; for the others find out what there is."""
    record_all([j for b in wanted for j in b.jobs + b.more], workers)
    for job in (j for b in bundles for j in b.jobs + b.more):
        job.done()
    again = [j for b in bundles for j in b.fall_back()]
    if wanted:
        record_all(again, workers)


def unpack(bundles):
    """Put the tapes of the bundles where a recording would put them, unless there is one."""
    files = {}
    for row in read_tsv(os.path.join(DATA, "index.tsv")):
        files.setdefault(row["file"], []).append(row)
    for bundle in bundles:
        rows = files.get(os.path.basename(bundle.path), [])
        whole = subprocess.run(["zstd", "--quiet", "-dc", "--long=23", bundle.path], stdout=subprocess.PIPE,
                               check=True).stdout if rows else b""
        for job in bundle.jobs:
            row = next((r for r in rows if is_of(job, r)), None)
            if row and not os.path.exists(job.path):
                os.makedirs(os.path.dirname(job.path), exist_ok=True)
                with open(job.path, "wb") as f:
                    f.write(formed(whole[int(row["offset"]):int(row["offset"]) + int(row["length"])], "--text"))


def is_of(job, row):
    """Is the row of the index what the job records?"""
    said = {"mode": "train", "accumulation": 1, "checkpointing": False, "optimizer": "none"}
    said.update((k, v) for k, v in job.knobs.items() if k != "classes_derivative")
    names = {"img_size": "image_size", "seq_len": "sequence_length", "target_len": "target_length"}
    return not row.get("image_most") and all(row.get(names.get(k, k), cell(v)) == cell(v) for k, v in said.items())


def clean(bundles):
    """Drop bundles that the table no longer names."""
    wanted = {b.path for b in bundles}
    for name in os.listdir(DATA):
        path = os.path.join(DATA, name)
        if name.endswith(".tapes.zst") and path not in wanted:
            os.unlink(path)


def report(bundles, rows):
    """What there is and what there is not."""
    for bundle in bundles:
        for job in bundle.jobs + bundle.more:
            if not os.path.exists(job.path) and not job.done():
                print("missing: %s %s" % (job.source, job.knobs), file=sys.stderr)
            elif job.error:
                print("left out: %s %s: %s" % (job.source, job.knobs, job.error), file=sys.stderr)
    sizes = [os.path.getsize(os.path.join(DATA, n)) for n in os.listdir(DATA)]
    models = len({row[3] for row in rows})
    print("%d tapes of %d models in %d bundles, %.2f MB with the index" % (
        len(rows), models, len(sizes) - 1, sum(sizes) / 1e6))
    return 0 if sum(sizes) <= LIMIT_BYTES else "more than %d bytes: ship less" % LIMIT_BYTES


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--jobs", type=int, default=2, help="recorder processes (default 2)")
    p.add_argument("--only", default="", metavar="BUNDLE,...", help="record only these")
    p.add_argument("--unpack", action="store_true", help="begin with what is shipped")
    p.add_argument("--pack", action="store_true", help="record nothing")
    options = p.parse_args()
    variants = read_tsv(os.path.join(TOOLS, "tapes_variants.tsv"))
    environment = Environment("venv2", "")
    bundles = [Bundle(row, variants, environment) for row in read_tsv(os.path.join(TOOLS, "tapes.tsv"))]
    os.makedirs(DATA, exist_ok=True)
    if options.unpack:
        unpack(bundles)
    only = set(filter(None, options.only.split(",")))
    try:
        record(bundles, [] if options.pack else [b for b in bundles if not only or b.name in only], options.jobs)
    except SetupError as why:
        return str(why)
    clean(bundles)
    rows = [row for b in bundles for row in pack(b)]
    write_index(rows)
    return report(bundles, rows)


if __name__ == "__main__":
    sys.exit(main())
