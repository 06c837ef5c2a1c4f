# SPDX-License-Identifier: Apache-2.0
"""Shapes of real models (their public config.json), at which templates and recordings are compared. Layers are cut to a few: that
they repeat is checked where a template is made."""

import importlib.util
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tools"), os.path.join(ROOT, "python")]

from template import check, dims, families, record, shipped, with_one_order  # noqa: E402

with_one_order()


def _shape(batch, sequence, hidden, heads, kv_heads, ffn, vocabulary, head_size=128):
    return {"B": batch, "S": sequence, "D": hidden, "K": kv_heads, "G": heads // kv_heads, "F": ffn, "V": vocabulary,
            "E": head_size, "R": 16, "L": 3, "N": 8}


SHAPES = {
    "7B b3 s512": _shape(3, 512, 4096, 32, 32, 11008, 32000),
    "8B b2 s2048": _shape(2, 2048, 4096, 32, 8, 14336, 128256),
    "qwen3-4B b8 s8192": _shape(8, 8192, 2560, 32, 8, 9728, 151936),
    "3B b4 s1000": _shape(4, 1000, 3072, 24, 8, 8192, 128256),
    "70B b16 s4096": _shape(16, 4096, 8192, 64, 8, 28672, 128256),
    "8B b1 s131072": _shape(1, 131072, 4096, 32, 8, 14336, 128256),
    "7B b1 s640": _shape(1, 640, 4096, 32, 32, 11008, 32000),
}


# Of families that have dimensions or layers of their own kind; all layers of the smaller models.
OWN_SHAPES = {
    "gemma": {"2B b2 s2048": _shape(2, 2048, 2048, 8, 1, 16384, 256000, 256),
              "2B b1 s8192": dict(_shape(1, 8192, 2048, 8, 1, 16384, 256000, 256), L=18),
              "7B b3 s1000": _shape(3, 1000, 3072, 16, 16, 24576, 256000, 256)},
    "gemma2": {"2B b2 s2048": dict(_shape(2, 2048, 2304, 8, 4, 9216, 256000, 256), L=26),
               "9B b1 s4096": dict(_shape(1, 4096, 3584, 16, 8, 14336, 256000, 256), L=8),
               "27B b3 s1000": dict(_shape(3, 1000, 4608, 32, 16, 36864, 256000), L=9)},
    "gemma3_text": {"1B b2 s2048": dict(_shape(2, 2048, 1152, 4, 1, 6912, 262144, 256), L=26),
                    "270M b8 s512": dict(_shape(8, 512, 640, 4, 1, 2048, 262144, 256), L=18),
                    "1B b1 s8192": dict(_shape(1, 8192, 1152, 4, 1, 6912, 262144, 256), L=12)},
    "phi3": {"mini b2 s4096": _shape(2, 4096, 3072, 32, 32, 8192, 32064, 96),
             "mini b1 s1000": dict(_shape(1, 1000, 3072, 32, 32, 8192, 32064, 96), L=32),
             "phi-4 b4 s2048": _shape(4, 2048, 5120, 40, 10, 17920, 100352),
             "phi-4 b1 s16384": _shape(1, 16384, 5120, 40, 10, 17920, 100352)},
}


class Compared(unittest.TestCase):
    """What both halves do."""

    def compare(self, family, kind, checkpointing, shape, tied=False):
        """The shipped template of the shape's kind, at the shape, is the tape that a recording gives."""
        value = OWN_SHAPES.get(family, SHAPES)[shape]
        variant = families.Variant(family, kind, checkpointing, value["G"] > 1, tied, value["B"] == 1)
        value = {k: v if k in variant.letters else 1 for k, v in value.items()}
        with tempfile.TemporaryDirectory() as folder, self.subTest(variant=variant.name, shape=shape):
            if variant.name not in shipped.index():
                self.skipTest("not made yet")
            if kind.startswith("zero3") and importlib.util.find_spec("deepspeed") is None:
                self.skipTest("no DeepSpeed here")
            path = shipped.extract(variant.name, folder)
            self.assertIsNone(check.difference(variant, path, value))
            self.free_batch(variant, path, value)

    def free_batch(self, variant, path, value):
        """A batch that stays free gives the sizes of one that is given."""
        if variant.one:
            return
        given, free = check.instance(path, variant.letters, value), check.instance(path, variant.letters, value, True)
        self.assertEqual(given, [at_batch(line, value["B"]) for line in free])


def at_batch(line, batch):
    """'a 1 5 2 …' -> 'a 1 11 0 …' at batch 3."""
    words = line.split(" ")
    if words[0].startswith("a"):
        words[2:4] = [str(int(words[2]) + int(words[3]) * batch), "0"]
    return " ".join(words)
