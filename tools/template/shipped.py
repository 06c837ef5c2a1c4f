# SPDX-License-Identifier: Apache-2.0
"""The shipped templates: their names, and one of them as a file."""

import csv
import os
import subprocess

from .check import ROOT

DATA = os.path.join(ROOT, "data", "templates")


def index():
    """{name: row of index.tsv}"""
    with open(os.path.join(DATA, "index.tsv"), encoding="utf-8") as f:
        lines = [line for line in f if not line.startswith("#")]
    return {row["name"]: row for row in csv.DictReader(lines, delimiter="\t")}


def bundle(name):
    """The text of a bundle."""
    return subprocess.run(["zstd", "--quiet", "-dc", "--long=23", os.path.join(DATA, name)], stdout=subprocess.PIPE, check=True).stdout


def extract(name, folder):
    """The path of the template's text, written to the folder."""
    row = index()[name]
    text = bundle(row["file"])
    path = os.path.join(folder, name + ".tape")
    with open(path, "wb") as f:
        f.write(text[int(row["offset"]):int(row["offset"]) + int(row["length"])])
    return path
