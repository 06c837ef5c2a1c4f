# SPDX-License-Identifier: Apache-2.0
"""hydra-core and the config room compose the same configs out of random trees of files."""

import os
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DUMP = os.path.join(ROOT, "build", "tests", "unit", "config_dump")
TREES = 40


class Layers(unittest.TestCase):
    def test_random_trees(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "configs_layers.py"), DUMP, str(TREES), "7"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue(done.stdout.startswith("hydra-core: "), done.stdout)


if __name__ == "__main__":
    unittest.main()
