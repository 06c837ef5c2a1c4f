# SPDX-License-Identifier: Apache-2.0
"""Shipped templates of image models against recordings at sizes that none of them was made of, event by event."""

import csv
import importlib.metadata
import os
import subprocess
import unittest

from helper import BATCHFIT, HERE, InFolder, record, torch

try:
    TIMM = importlib.metadata.version("timm")
except importlib.metadata.PackageNotFoundError:
    TIMM = "none"
ROOT = os.path.dirname(os.path.dirname(HERE))
DATA = os.path.join(ROOT, "data", "tapes")
TRAINING = {"mode": "train", "precision": "amp-fp16", "optimizer": "adamw", "accumulation": "1", "checkpointing": "false"}
# The sizes people ask for, some of which are no multiple of 32
CASES = (("timm:resnet18", (176, 208), {}), ("timm:resnet50", (320,), {"checkpointing": "true"}),
         ("timm:efficientnet_b0", (240, 272), {}), ("timm:efficientnet_b3", (288, 304), {"precision": "fp32"}),
         ("timm:mobilenetv3_large_100", (240,), {}), ("timm:regnety_032", (272,), {"optimizer": "sgd"}),
         ("timm:tf_efficientnetv2_s", (320, 480), {"precision": "fp32"}), ("timm:densenet121", (320,), {}),
         ("timm:convnext_tiny", (288, 448), {}), ("timm:vit_small_patch16_224", (240, 448), {}),
         ("timm:vit_base_patch16_224", (400,), {"precision": "fp32"}))


def row_of(model, training):
    """The template's row of the index."""
    with open(os.path.join(DATA, "index.tsv"), encoding="utf-8") as f:
        rows = list(csv.DictReader((line for line in f if not line.startswith("#")), delimiter="\t"))
    wanted = dict(TRAINING, model=model, **training)
    return next(r for r in rows if r["image_most"] and all(r[k] == v for k, v in wanted.items()))


def events(lines):
    """Without work, whose sizes are rounded, and the bytes of a class, which are not recorded here."""
    return [[w for w in line.split(" ") if not w.startswith("n=")] for line in lines if line[0] != "o"]


class Sizes(InFolder):
    def extract(self, row):
        """The template's path."""
        text = subprocess.run(["zstd", "--quiet", "-dc", "--long=23", os.path.join(DATA, row["file"])], stdout=subprocess.PIPE,
                              check=True).stdout
        piece = text[int(row["offset"]):int(row["offset"]) + int(row["length"])]
        return self.file("of.tape", piece.decode())

    def made(self, path, size):
        """Its events at a size."""
        out = os.path.join(self.folder, "made.tape")
        subprocess.run([BATCHFIT, "sim", path, "--batch", "2", "--dims", "image_size=%d" % size, "--write-tape", out, "--json"],
                       stdout=subprocess.DEVNULL, check=True)
        with open(out, encoding="utf-8") as f:
            return events(f.read().splitlines()[1:])

    def test_between(self):
        for model, sizes, training in CASES:
            row = row_of(model, training)
            if (row["torch"], row["library"]) != (torch.__version__.split("+")[0], "timm " + TIMM):
                self.skipTest("templates are of torch %s and %s" % (row["torch"], row["library"]))
            path = self.extract(row)
            knobs = {k: v for k, v in dict(TRAINING, **training).items() if k in ("precision", "optimizer")}
            knobs.update(batches=[2, 3], checkpointing=training.get("checkpointing") == "true")
            for size in sizes:
                with self.subTest(model=model, size=size):
                    direct = events(record(model, img_size=size, **knobs).lines)
                    made = self.made(path, size)
                    self.assertEqual(len(made), len(direct))
                    for a, b in zip(made, direct):
                        self.assertEqual(a, b)


if __name__ == "__main__":
    unittest.main()
