# SPDX-License-Identifier: Apache-2.0
"""Shipped templates against recordings, event by event. Families like Llama at two shapes of real models, and ranks.

A template that is not made yet is a skipped subtest."""

import unittest

from templates_helper import BASE, OWN_SHAPES, TWO, Compared, families

NEEDS_TORCH_2 = True


class TestSeven(Compared):
    def test_others(self):
        for family in [f for f in families.FAMILIES if f != "llama" and f not in OWN_SHAPES]:
            for kind in BASE:
                for checkpointing in (False, True):
                    for shape in TWO:
                        self.compare(family, kind, checkpointing, shape)

    def test_one_matrix_for_embedding_and_head(self):
        for family, kind in (("llama", "lora"), ("qwen2", "qlora"), ("qwen3", "full")):
            for shape in TWO:
                self.compare(family, kind, True, shape, tied=True)

    def test_ranks(self):
        for family in ("qwen2", "qwen3"):
            for shape in TWO:
                self.compare(family, "fsdp2", True, shape)
            self.compare(family, "fsdp2-lora", False, "qwen3-4B b8 s8192")
            self.compare(family, "fsdp2-lora-accumulating", True, "3B b4 s1000")


if __name__ == "__main__":
    unittest.main()
