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
# Of them two, for what differs little; the kinds of the families like Llama.
TWO = ("3B b4 s1000", "8B b1 s131072")
BASE = ("full", "lora", "qlora", "qlora-dq", "lora-w32", "lora-w32-dropout", "lora-w32-qv-dropout",
        "qlora-dq-left-dropout", "qlora-left-dropout", "liger-full", "liger-lora", "liger-qlora", "liger-qlora-dq")


def _many(name, of, *runs, **more):
    """{"NAME b2 s2048": a shape}: of the widths of a model, at several (batch, sequence)."""
    return {"%s b%d s%d" % (name, b, s): dict(_shape(b, s, *of), **more) for b, s in runs}


def _t5(name, of, *runs):
    """The same of (batch, source, target); hidden, heads, ffn, vocabulary, head size."""
    hidden, heads, ffn, vocabulary, size = of
    return {"%s b%d s%d/%d" % (name, b, s, y): dict(_shape(b, s, hidden, heads, heads, ffn, vocabulary, size), Y=y, L=4) for b, s, y in runs}


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
    "gemma3": {"4B b2 s2048": dict(_shape(2, 2048, 2560, 8, 4, 10240, 262208, 256), L=12),
               "12B b1 s4096": dict(_shape(1, 4096, 3840, 16, 8, 15360, 262208, 256), L=13),
               "27B b3 s1000": dict(_shape(3, 1000, 5376, 32, 16, 21504, 262208), L=14),
               "4B b8 s512": dict(_shape(8, 512, 2560, 8, 4, 10240, 262208, 256), L=34)},
    "phi3": {"mini b2 s4096": _shape(2, 4096, 3072, 32, 32, 8192, 32064, 96),
             "mini b1 s1000": dict(_shape(1, 1000, 3072, 32, 32, 8192, 32064, 96), L=32),
             "phi-4 b4 s2048": _shape(4, 2048, 5120, 40, 10, 17920, 100352),
             "phi-4 b1 s16384": _shape(1, 16384, 5120, 40, 10, 17920, 100352)},
    "gpt2": dict(_many("124M", (768, 12, 12, 3072, 50257, 64), (8, 1024), (1, 1000), L=12, P=1024),
                 **_many("medium", (1024, 16, 16, 4096, 50257, 64), (3, 512), P=1024),
                 **_many("large", (1280, 20, 20, 5120, 50257, 64), (2, 1000), P=1024),
                 **_many("xl", (1600, 25, 25, 6400, 50257, 64), (4, 1024), (1, 640), P=1024),
                 **_many("distilled", (768, 12, 12, 3072, 50257, 64), (16, 128), L=6, P=2048)),
    "gpt_neox": dict(_many("70m", (512, 8, 8, 2048, 50304, 64), (32, 512), L=6), **_many("410m", (1024, 16, 16, 4096, 50304, 64), (4, 1000)),
                     **_many("1b", (2048, 8, 8, 8192, 50304, 256), (2, 2048)), **_many("2.8b", (2560, 32, 32, 10240, 50304, 80), (1, 2048)),
                     **_many("6.9b", (4096, 32, 32, 16384, 50432, 128), (8, 2048)), **_many("12b", (5120, 40, 40, 20480, 50688, 128), (1, 640)),
                     **_many("20b", (6144, 64, 64, 24576, 50432, 96), (3, 2048))),
    "mixtral": dict(_many("8x7B", (4096, 32, 8, 14336, 32000), (2, 2048), (1, 4096), (3, 1000), (8, 512), X=8, A=2),
                    **_many("8x22B", (6144, 48, 8, 16384, 32768), (2, 2048), (1, 640), (4, 8192), X=8, A=2)),
    "qwen2_moe": _many("A2.7B", (2048, 16, 16, 5632, 151936), (2, 2048), (1, 8192), (4, 1000), (16, 512), (1, 640), (3, 4096), (8, 32768),
                       X=60, A=4, W=1408),
    "qwen3_moe": dict(_many("30B-A3B", (2048, 32, 4, 6144, 151936), (2, 2048), (1, 8192), (4, 1000), (8, 512), X=128, A=8, W=768),
                      **_many("235B-A22B", (4096, 64, 4, 12288, 151936), (2, 4096), (1, 640), X=128, A=8, W=1536),
                      **_many("480B-A35B", (6144, 96, 8, 8192, 151936), (3, 2048), X=160, A=8, W=2560)),
    "olmo2": dict(_many("7B", (4096, 32, 32, 11008, 100352), (2, 2048), (1, 4096), (8, 512), (3, 1000)),
                  **_many("13B", (5120, 40, 40, 13824, 100352), (4, 4096), (1, 640), (2, 1024))),
    "granite": dict(_many("2B", (2048, 32, 8, 8192, 49155, 64), (2, 2048), (1, 4096), (8, 512), (3, 1000)),
                    **_many("8B", (4096, 32, 8, 12800, 49155), (4, 4096), (1, 640), (2, 131072))),
    "starcoder2": dict(_many("3b", (3072, 24, 2, 12288, 49152), (2, 2048), (1, 4096), (8, 512)),
                       **_many("7b", (4608, 36, 4, 18432, 49152), (3, 1000), (1, 640)), **_many("15b", (6144, 48, 4, 24576, 49152), (4, 4096), (1, 16384))),
    "olmo": dict(_many("7B", (4096, 32, 32, 11008, 50304), (2, 2048), (1, 1024), (3, 1000)), **_many("1B", (2048, 16, 16, 8192, 50304), (8, 512), (4, 2048), L=16)),
    "olmo3": dict(_many("7B", (4096, 32, 32, 11008, 100278), (2, 2048), (1, 4096), (3, 1000), L=8),
                  **_many("32B", (5120, 40, 8, 27648, 100278), (4, 4096), (1, 640), L=9), **_many("32B", (5120, 40, 8, 27648, 100278), (2, 1000), L=12)),
    "olmoe": _many("1B-7B", (2048, 16, 16, 1024, 50304), (2, 2048), (1, 4096), (4, 1000), (8, 512), X=64, A=8),
    "gpt_oss": dict(_many("20b", (2880, 64, 8, 2880, 201088, 64), (2, 2048), (1, 4096), (3, 1000), X=32, A=4, L=4),
                    **_many("120b", (2880, 64, 8, 2880, 201088, 64), (4, 512), X=128, A=4, L=4)),
    "glm4": dict(_many("9B", (4096, 32, 2, 13696, 151552), (2, 2048), (1, 8192), (3, 1000)), **_many("32B", (6144, 48, 2, 23040, 151552), (4, 4096), (1, 640))),
    "seed_oss": _many("36B", (5120, 80, 8, 27648, 155136), (2, 2048), (1, 8192), (3, 1000), (8, 512)),
    "smollm3": dict(_many("3B", (2048, 16, 4, 11008, 128256), (2, 2048), (1, 8192), (3, 1000), L=3), **_many("whole", (2048, 16, 4, 11008, 128256), (8, 512), L=9)),
    "opt": dict(_many("125m", (768, 12, 12, 3072, 50272, 64), (16, 512), (1, 2048), L=12, P=2050), **_many("1.3b", (2048, 32, 32, 8192, 50272, 64), (4, 1000), P=2050),
                **_many("6.7b", (4096, 32, 32, 16384, 50272), (2, 2048), P=2050)),
    "phi": _many("1.5", (2048, 32, 32, 8192, 51200, 64), (2, 2048), (1, 1024), (8, 512), (3, 1000), (1, 640), (16, 2048), (4, 128)),
    "bert": dict(_many("base", (768, 12, 12, 3072, 30522, 64), (32, 128), (8, 512), L=12, P=512),
                 **_many("large", (1024, 16, 16, 4096, 30522, 64), (16, 384), P=512),
                 **_many("multilingual", (768, 12, 12, 3072, 119547, 64), (3, 500), P=512),
                 **_many("MiniLM-L6", (384, 12, 12, 1536, 30522, 32), (64, 256), L=6, P=512),
                 **_many("tiny", (128, 2, 2, 512, 30522, 64), (256, 64), L=2, P=512),
                 **_many("bge-m3 wide", (1024, 16, 16, 4096, 250002, 64), (2, 8192), P=8194)),
    "roberta": dict(_many("base", (768, 12, 12, 3072, 50265, 64), (32, 128), (8, 512), L=12, P=514),
                    **_many("large", (1024, 16, 16, 4096, 50265, 64), (16, 384), (3, 500), P=514),
                    **_many("xlm base", (768, 12, 12, 3072, 250002, 64), (16, 256), P=514), **_many("xlm large", (1024, 16, 16, 4096, 250002, 64), (2, 512), P=514),
                    **_many("klue base", (768, 12, 12, 3072, 32000, 64), (64, 64), P=514)),
    "distilbert": dict(_many("base", (768, 12, 12, 3072, 30522, 64), (32, 128), (8, 512), (3, 500), (64, 384), L=6, P=512),
                       **_many("cased", (768, 12, 12, 3072, 28996, 64), (16, 256), P=512),
                       **_many("multilingual", (768, 12, 12, 3072, 119547, 64), (2, 512), (128, 32), P=512)),
    "t5": dict(_t5("small", (512, 8, 2048, 32128, 64), (32, 512, 128), (1, 64, 16)), **_t5("base", (768, 12, 3072, 32128, 64), (7, 512, 256), (2, 1024, 64)),
               **_t5("large", (1024, 16, 4096, 32128, 64), (4, 512, 128), (1, 1024, 128)), **_t5("3b", (1024, 32, 16384, 32128, 128), (2, 512, 512))),
    "t5-gated": dict(_t5("flan-small", (512, 6, 1024, 32128, 64), (16, 512, 128)), **_t5("flan-base", (768, 12, 2048, 32128, 64), (8, 1024, 64)),
                     **_t5("flan-large", (1024, 16, 2816, 32128, 64), (4, 512, 128)), **_t5("flan-xl", (2048, 32, 5120, 32128, 64), (2, 512, 256)),
                     **_t5("flan-xxl", (4096, 64, 10240, 32128, 64), (1, 1024, 128)), **_t5("mt5-base", (768, 12, 2048, 250112, 64), (3, 528, 112)),
                     **_t5("mt5-xl", (2048, 32, 5120, 250112, 64), (2, 64, 16))),
}


class Compared(unittest.TestCase):
    """What both halves do."""

    def compare(self, family, kind, checkpointing, shape, tied=False):
        """The shipped template of the shape's kind, at the shape, is the tape that a recording gives."""
        value = OWN_SHAPES.get(family, SHAPES)[shape]
        if kind in families.COMPLETIONS:
            value = dict(value, Y=2 * value["S"] // 3)
        one = value["B"] == 1 and kind not in families.PAIRS  # of pairs there are two sequences then
        variant = families.Variant(family, kind, checkpointing, value["G"] > 1, tied, one)
        if variant.one and (kind in families.ANY_BATCH or (family, kind) in families.ANY_BATCH_OF):
            return  # a template for more serves it, too
        if value["B"] == 1 and kind.startswith(("orpo", "kto", "grpo")) and "llamafactory" not in kind:
            return  # it has copies that vanish there
        if variant.is_split:  # of one GPU of four, or of as many as there are heads of keys and values
            among = value["K"] if kind in families.SINGLE_KINDS else 4
            value = dict(value, T=among, **{k: value[k] // among for k in "SFKV"})
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
        by_rows = "liger" in variant.name  # n= is of rows then, not of classes (doc/formats/tape.md)
        self.assertEqual(given, [at_batch(line, value["B"], by_rows) for line in free])


def at_batch(line, batch, by_rows=False):
    """'a 1 5 2 …' -> 'a 1 11 0 …' at batch 3."""
    words = line.split(" ")
    if words[0].startswith("a"):
        words[2:4] = [str(int(words[2]) + int(words[3]) * batch), "0"]
        if words[-1].startswith("n=") and not by_rows:
            each, of_batch = words[-1][2:].split(",")
            words[-1] = "n=%d,0" % (int(each) + int(of_batch) * batch)
    return " ".join(words)
