# SPDX-License-Identifier: Apache-2.0
"""The shipped templates: their names, and one of them as a file."""

import csv
import os
import subprocess

from .check import ROOT

DATA = os.path.join(ROOT, "data", "templates")


def _rows(folder):
    with open(os.path.join(folder, "index.tsv"), encoding="utf-8") as f:
        lines = [line for line in f if not line.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t"))


def index():
    """{name: row of index.tsv}"""
    return {row["name"]: row for row in _rows(DATA)}


DICTIONARY = os.path.join(DATA, "dictionary")  # what the bundles have in common; the program has it, too


def bundle(name, folder=DATA):
    """The text of a bundle."""
    with_what = ["-D", DICTIONARY] if folder == DATA else []
    return subprocess.run(["zstd", "--quiet", "-dc", "--long=27", *with_what, os.path.join(folder, name)], stdout=subprocess.PIPE, check=True).stdout


TAPES = os.path.join(ROOT, "data", "tapes")


def tapes():
    """The rows of the recordings' index."""
    return _rows(TAPES)


def tape(row):
    """The bytes of a recording."""
    return bundle(row["file"], TAPES)[int(row["offset"]):int(row["offset"]) + int(row["length"])]


def extract(name, folder):
    """The path of the template's text, written to the folder."""
    row = index()[name]
    text = bundle(row["file"])
    path = os.path.join(folder, name + ".tape")
    with open(path, "wb") as f:
        f.write(text[int(row["offset"]):int(row["offset"]) + int(row["length"])])
    return path
