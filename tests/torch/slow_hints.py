# SPDX-License-Identifier: Apache-2.0
"""The commands that hints print, recorded by the real PyTorch: of those models that are small (tests/cli/hints, REAL)."""

import os
import subprocess
import sys
import unittest

from helper import BATCHFIT, HERE, modern


class Hints(unittest.TestCase):
    def test_they_run(self):
        if not modern():
            self.skipTest("SKIPPED: the tables are of the newer timm and transformers")
        done = subprocess.run([sys.executable, os.path.join(HERE, "..", "cli", "hints"), BATCHFIT, sys.executable],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=1800, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
