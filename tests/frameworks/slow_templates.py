# SPDX-License-Identifier: Apache-2.0
"""Shipped templates against recordings, event by event, at seven shapes of real models."""

import unittest

from templates_helper import SHAPES, Compared, families


class TestSeven(Compared):
    def test_llama(self):
        for kind in families.KINDS:
            for checkpointing in (False, True):
                for shape in SHAPES:
                    self.compare("llama", kind, checkpointing, shape)

    def test_others(self):
        for family in [f for f in families.FAMILIES if f != "llama"]:
            for kind in families.KINDS:
                for checkpointing in (False, True):
                    for shape in ("3B b4 s1000", "8B b1 s131072"):
                        self.compare(family, kind, checkpointing, shape)

    def test_one_matrix_for_embedding_and_head(self):
        for family, kind in (("llama", "lora"), ("qwen2", "qlora"), ("qwen3", "full")):
            for shape in ("3B b4 s1000", "8B b1 s131072"):
                self.compare(family, kind, True, shape, tied=True)


if __name__ == "__main__":
    unittest.main()
