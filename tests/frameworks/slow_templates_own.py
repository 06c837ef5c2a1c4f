# SPDX-License-Identifier: Apache-2.0
"""Shipped templates against recordings, event by event. Families with layers or dimensions of another kind, at shapes of their own.

A template that is not made yet is a skipped subtest."""

import unittest

from templates_helper import OWN_SHAPES, Compared, families

NEEDS_TORCH_2 = True


class TestSeven(Compared):
    def test_families_at_their_own_shapes(self):
        for family, shapes in OWN_SHAPES.items():
            for kind in families.FEW[family]:
                # All shapes where nothing is sharded; else the first and the last, which are of two models.
                some = list(shapes) if not families.KINDS[kind][0].get("shard") else (list(shapes)[0], list(shapes)[-1])
                for checkpointing in (False, True):
                    for shape in some:
                        self.compare(family, kind, checkpointing, shape, tied="untied" not in families.FAMILIES[family][2].split())


if __name__ == "__main__":
    unittest.main()
