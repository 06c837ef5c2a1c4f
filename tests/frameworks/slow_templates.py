# SPDX-License-Identifier: Apache-2.0
"""Shipped templates against recordings, event by event, at seven shapes of real models; the kinds that differ from these in the
optimizer or by dropout alone at two; families with layers or dimensions of another kind at shapes of their own. A template that
is not made yet is a skipped subtest."""

import unittest

from templates_helper import OWN_SHAPES, SHAPES, Compared, families


TWO = ("3B b4 s1000", "8B b1 s131072")
BASE = ("full", "lora", "qlora", "qlora-dq", "lora-w32", "lora-w32-dropout", "lora-w32-qv-dropout", "qlora-dq-left-dropout", "qlora-left-dropout", "liger-full", "liger-lora", "liger-qlora", "liger-qlora-dq")


class TestSeven(Compared):
    def test_llama(self):
        for kind in families.KINDS:
            for checkpointing in (False, True):
                for shape in SHAPES if kind in BASE else TWO:
                    self.compare("llama", kind, checkpointing, shape)

    def test_others(self):
        for family in [f for f in families.FAMILIES if f != "llama" and f not in OWN_SHAPES]:
            for kind in BASE:
                for checkpointing in (False, True):
                    for shape in TWO:
                        self.compare(family, kind, checkpointing, shape)

    def test_families_at_their_own_shapes(self):
        for family, shapes in OWN_SHAPES.items():
            for kind in families.FEW[family]:
                for checkpointing in (False, True):
                    for shape in shapes:
                        self.compare(family, kind, checkpointing, shape, tied="untied" not in families.FAMILIES[family][2].split())

    def test_one_matrix_for_embedding_and_head(self):
        for family, kind in (("llama", "lora"), ("qwen2", "qlora"), ("qwen3", "full")):
            for shape in TWO:
                self.compare(family, kind, True, shape, tied=True)

    def test_pairs(self):
        for kind in families.PAIRS:
            for checkpointing in (False, True):
                for shape in SHAPES:
                    self.compare("llama", kind, checkpointing, shape)
                for family in ("mistral", "qwen2", "qwen3"):
                    for shape in TWO:
                        self.compare(family, kind, checkpointing, shape)

    def test_completions(self):
        for kind in families.COMPLETIONS:
            for checkpointing in (False, True):
                for shape in SHAPES:
                    self.compare("llama", kind, checkpointing, shape)
                for family in ("mistral", "qwen2", "qwen3"):
                    for shape in TWO:
                        self.compare(family, kind, checkpointing, shape)

    def test_ranks(self):
        for family in ("qwen2", "qwen3"):
            for shape in TWO:
                self.compare(family, "fsdp2", True, shape)
            self.compare(family, "fsdp2-lora", False, "qwen3-4B b8 s8192")
            self.compare(family, "fsdp2-lora-accumulating", True, "3B b4 s1000")


if __name__ == "__main__":
    unittest.main()
