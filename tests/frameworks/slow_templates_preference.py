# SPDX-License-Identifier: Apache-2.0
"""Shipped templates against recordings, event by event. Pairs and completions.

A template that is not made yet is a skipped subtest."""

import unittest

from templates_helper import SHAPES, TWO, Compared, families

NEEDS_TORCH_2 = True


class TestSeven(Compared):
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


if __name__ == "__main__":
    unittest.main()
