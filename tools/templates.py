#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the shipped templates: data/templates/FAMILY-KIND.templates.zst and data/templates/index.tsv.

  build/frameworks2/bin/python tools/templates.py [--jobs J] [--only WORD,...] [--pack] [--dictionary] [--list]

Families and kinds are tables of tools/template/families.py. Every variant is recorded at prime-valued dimensions and three
layer counts, and the template is then checked event by event against recordings at other primes and layer counts (check.py):
one that differs, or a size that is no product of dimensions, is named and not shipped. Templates that are in build/templates
are not made again; --only takes those whose names begin so (or, with = before it, that one), --pack makes none, --no-pack leaves data/templates as it is,
--unpack first puts the shipped ones into build/templates, --list shows the names. --dictionary makes what all bundles have in
common again, from every third of those that are shipped, and packs them with it: where other families have come. Needs the zstd program.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tools"), os.path.join(ROOT, "python")]

from template import dims, families, ids, shipped, with_one_order  # noqa: E402

DATA, BUILD = os.path.join(ROOT, "data", "templates"), os.path.join(ROOT, "build", "templates")
PACK = ["zstd", "--quiet", "--ultra", "-22", "-D", shipped.DICTIONARY, "--no-progress", "--stdout"]
TRAIN = ["zstd", "--quiet", "--train-fastcover=k=2000,d=8,f=22,accel=1", "-B8192", "--maxdict=262144", "-o", shipped.DICTIONARY]
KEYS = ("name model mode precision optimizer checkpointing adapter quant weights shard loss accumulation fused grouped tied single attention library torch rules "
        "recorder").split()


def path_of(variant):
    """Where its text is kept."""
    return os.path.join(BUILD, variant.name + ".tape")


def make(variant):
    """(variant, None or what is wrong)"""
    from template import check, make as maker, record  # pylint: disable=import-outside-toplevel
    path = path_of(variant)
    try:
        with open(path + ".part", "w", encoding="utf-8") as f:
            f.write(record.template(variant))
        for layers in variant.checked_layers:
            value = dict(variant.dims(dims.second).value, L=layers)
            wrong = check.difference(variant, path + ".part", value)
            if wrong:
                return variant, "at %d layers %s" % (layers, wrong)
        os.replace(path + ".part", path)
        return variant, None
    except (maker.NotATemplate, ValueError) as why:
        return variant, str(why)
    except StopIteration as why:  # would end the pool's own iteration, as if all were made
        return variant, "nothing was found: %s" % traceback.extract_tb(why.__traceback__)[-1]


def make_all(variants, jobs):
    """How many could not be made."""
    bad = 0
    from template import record  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import  - once, not in each process
    with multiprocessing.Pool(jobs, maxtasksperchild=1) as pool:  # libraries remember what they found in another variant
        for variant, wrong in pool.imap_unordered(make, variants):
            print("%-40s %s" % (variant.name, wrong or "%d bytes" % os.path.getsize(path_of(variant))), flush=True)
            bad += wrong is not None
    return bad


def cell(value):
    """Of a table: empty for what a header does not have."""
    return "" if value is None else json.dumps(value) if isinstance(value, bool) else str(value)


def with_facts(variant):
    """(header, text) of a variant's file, as it is shipped: with what is known of the variant in its first line, and its ids told."""
    with open(path_of(variant), "rb") as f:
        line, rest = f.read().split(b"\n", 1)
    rest = ids.told(rest.decode()).encode()
    header = dict(json.loads(line), **variant.facts)
    return header, json.dumps(header, separators=(",", ":")).encode() + b"\n" + rest


def pack(family, kind, variants):
    """Write the bundle of a family and a kind: so a program unpacks little to get at one. Its rows of the index."""
    rows, pieces, offset = [], [], 0
    name = "%s-%s.templates.zst" % (family, kind)
    for variant in variants:
        if os.path.exists(path_of(variant)):
            header, piece = with_facts(variant)
            rows.append([name, str(offset), str(len(piece))] + [cell(header.get(k)) for k in KEYS])
            pieces.append(piece)
            offset += len(piece)
    if pieces:
        out, text = os.path.join(DATA, name), b"".join(pieces)
        if os.path.exists(out) and shipped.bundle(name) == text:
            return rows
        compress(out, text)
        print("%s: %d templates, %d bytes" % (out, len(pieces), os.path.getsize(out)))
    return rows


def compress(out, text):
    """Write a bundle."""
    with open(out, "wb") as f:
        subprocess.run(PACK + ["--stream-size=%d" % len(text)], input=text, stdout=f, check=True)


def renew_dictionary():
    """Another dictionary, and all bundles packed with it."""
    texts = {name: shipped.bundle(name) for name in sorted(os.listdir(DATA)) if name.endswith(".zst")}
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in list(texts)[::3]]
        for path in paths:
            with open(path, "wb") as f:
                f.write(texts[os.path.basename(path)])
        subprocess.run(TRAIN + paths, check=True)
    for name, text in texts.items():
        compress(os.path.join(DATA, name), text)


def unpack():
    """The shipped templates as files, where there is none yet."""
    texts = {}
    for name, row in shipped.index().items():
        path = os.path.join(BUILD, name + ".tape")
        if row["file"] not in texts:
            texts[row["file"]] = shipped.bundle(row["file"])
        if not os.path.exists(path):
            with open(path, "wb") as f:
                f.write(texts[row["file"]][int(row["offset"]):int(row["offset"]) + int(row["length"])])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    p.add_argument("--only", default="", metavar="WORD,...")
    p.add_argument("--pack", action="store_true")
    p.add_argument("--no-pack", action="store_true")
    p.add_argument("--unpack", action="store_true")
    p.add_argument("--dictionary", action="store_true")
    p.add_argument("--list", action="store_true")
    o = p.parse_args()
    with_one_order()
    everything = families.variants()
    if o.list:
        print("\n".join(v.name for v in everything))
        return 0
    if o.dictionary:
        renew_dictionary()
        return 0
    os.makedirs(BUILD, exist_ok=True)
    if o.unpack:
        unpack()
    words = o.only.split(",")
    begins, whole = tuple(w for w in words if w[:1] != "="), {w[1:] for w in words if w[:1] == "="}
    wanted = [v for v in everything if (v.name.startswith(begins) or v.name in whole) and not os.path.exists(path_of(v))]
    os.makedirs(DATA, exist_ok=True)
    bad = 0 if o.pack else make_all(wanted, o.jobs)
    bundles = dict.fromkeys((v.family, v.kind) for v in everything)
    if o.no_pack:
        return 3 if bad else 0
    rows = [r for b in bundles for r in pack(*b, [v for v in everything if (v.family, v.kind) == b])]
    with open(os.path.join(DATA, "index.tsv"), "w", encoding="utf-8") as f:
        f.write("# Made by tools/templates.py: every template of the bundles beside this file; offset and length of its text,\n"
                "# in bytes of the decompressed bundle, and what selects it.\n")
        f.writelines("\t".join(r) + "\n" for r in [["file", "offset", "length"] + KEYS] + rows)
    return 3 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
