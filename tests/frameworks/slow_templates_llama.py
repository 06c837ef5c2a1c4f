# SPDX-License-Identifier: Apache-2.0
"""Shipped templates against recordings, event by event. Llama's kinds at seven shapes of real models, those that differ from others in the optimizer or by dropout alone at two.

A template that is not made yet is a skipped subtest."""

import unittest

from templates_helper import BASE, SHAPES, TWO, Compared, families

NEEDS_TORCH_2 = True


class TestSeven(Compared):
    def test_llama(self):
        for kind in families.KINDS:
            for checkpointing in (False, True):
                for shape in SHAPES if kind in BASE else TWO:
                    self.compare("llama", kind, checkpointing, shape)


if __name__ == "__main__":
    unittest.main()
