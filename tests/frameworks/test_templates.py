# SPDX-License-Identifier: Apache-2.0
"""Templates: the maker's parts, and shipped ones against recordings at two shapes (slow_templates.py: at seven)."""

import unittest

from templates_helper import Compared, dims
from template import fold, make


class TestDims(unittest.TestCase):
    def setUp(self):
        self.d = dims.first("SDFVEKLBGR")
        self.v = self.d.value

    def text(self, n):
        found = self.d.product(n)
        return found and dims.text(found)

    def test_products(self):
        v = self.v
        self.assertEqual(self.text(2 * v["B"] * v["S"] * v["D"]), "2BSD")
        self.assertEqual(self.text(4 * v["D"] * v["F"]), "4DF")
        self.assertEqual(self.text(6 * v["K"] * v["G"] * v["E"]), "6EKG")
        self.assertEqual(self.text(v["B"] * v["S"] * v["E"] // 2 * v["K"]), None)  # not a whole constant
        self.assertEqual(self.text(8 * v["B"] * (v["S"] + 1)), "8BS+8B")
        self.assertEqual(self.text(4 * v["B"] * v["K"] * v["G"] * 128 * dims.ceil(v["S"], 128)), "512BKG[S/128]")
        self.assertEqual(self.text(2 * v["D"] * v["D"]), "2DD")

    def test_what_is_none(self):
        v = self.v
        for n in (v["D"] + 1, 2 * v["B"] * v["S"] * v["D"] + 512, 5 * 10 ** 9 + 1, 4 * v["B"], 4 * v["D"] * 1000003,
                  4 * v["F"] * (dims.CONSTANT_MOST + 1)):
            self.assertIsNone(self.text(n), n)

    def test_two_sets_have_no_marker_in_common_at_one_place(self):
        one, two = dims.first("SDFVEKLBGR"), dims.second("SDFVEKLBGR")
        self.assertFalse([k for k in one.marker if one.marker[k] == two.marker[k]])


class TestFold(unittest.TestCase):
    def test_blocks(self):
        tokens = {n: list("ab" + "cde" * n + "cd" + "xy" * n + "z") for n in (3, 4, 5)}
        values = {n: [(i,) for i in range(len(t))] for n, t in tokens.items()}
        found = fold.loops(tokens, values)
        self.assertEqual([(loop.period, loop.begin[3], loop.turns[3]) for loop in found], [(3, 2, 3), (2, 13, 3)])

    def test_a_first_turn_that_frees_something_else_is_written_out(self):
        tokens = {n: list("a" + "bc" * n + "z") for n in (3, 4, 5)}
        values = {n: [(7 if i == 2 else i,) for i in range(len(t))] for n, t in tokens.items()}
        loop, = fold.loops(tokens, values)
        self.assertEqual((loop.begin[3] % 2, loop.turns[3], loop.more), (1, 2, {-1}))

    def test_what_is_not_repeated(self):
        with self.assertRaises(fold.NotRepeated):
            fold.loops({n: list("a" + "bcdefg"[:n]) for n in (3, 4, 5)}, {n: [(0,)] * (n + 1) for n in (3, 4, 5)})

    def test_affine(self):
        self.assertEqual(fold.affine([(i, n, 5 + 3 * i - 2 * n) for n in (3, 4) for i in range(n)]), (5, 3, -2))
        self.assertIsNone(fold.affine([(i, n, i * i) for n in (3, 4) for i in range(n)]))


class TestMake(unittest.TestCase):
    def test_a_size_that_is_no_product_is_an_error(self):
        d = dims.first("SDFVEKL")

        class Log:
            rounded = {}
            events = [("m", "init", 0), ["a", 1, 2 * d.value["V"] + 2, "param", "-", "-", 0]]
        with self.assertRaisesRegex(make.NotATemplate, "no product of dimensions"):
            make.body({n: Log for n in make.LAYERS}, d)


class TestShipped(Compared):
    def test_two_shapes(self):
        self.compare("llama", "qlora", True, "8B b2 s2048")
        self.compare("llama", "full", False, "7B b1 s640")


if __name__ == "__main__":
    unittest.main()
