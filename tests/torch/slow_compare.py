# SPDX-License-Identifier: Apache-2.0
"""As test_compare.py: the built-in workload by two configs."""

import unittest

from helper import InFolder

MEASURES = True


class Compare(InFolder):
    def test_the_built_in_workload_by_both_configs(self):
        text = "batch_size: %d\nnum_workers: 0\nimage_size: 16\nmodel:\n  depth: 1\n  hidden: 4\n"
        a, b = self.file("a.yaml", text % 1), self.file("b.yaml", text % 64)
        found = self.answer("compare", "--pairs", "4", "--a", a, "--b", b, "--steps", "5", "--metrics", "throughput", timeout=600)
        throughput = found["metrics"]["throughput"]
        self.assertEqual(throughput["verdict"], "b", throughput)


if __name__ == "__main__":
    unittest.main()
