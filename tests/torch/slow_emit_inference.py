# SPDX-License-Identifier: Apache-2.0
"""As test_emit_inference.py: the largest batch of a program that predicts."""

import sys
import unittest

from helper import InFolder
from test_emit_inference import SCRIPT


class FitInference(InFolder):
    def test_fit_measures_a_program_that_predicts(self):
        command = (sys.executable, self.file("infer.py", SCRIPT), "{batch}")
        words = ("--inference", "--memory", "1536MiB", "--steps", "4", "--warmup", "1", "--max-batch-size", "2048")
        found = self.answer("fit", *words, command=command)
        (result,) = found["results"]
        best = result["plan"]["batch_size"]
        self.assertTrue(result["fits_budget"] and result["confirmed"] and result["plan"]["inference"], found)
        self.assertGreater(best, 16, found)
        self.assertLess(best, 2048, found)
        chosen = next(t for t in found["trials"] if t["batch_size"] == best)
        self.assertLess(0.85, chosen["peak_bytes"] / result["budget_bytes"], found)
        self.assertLessEqual(chosen["peak_bytes"], result["budget_bytes"], found)
        self.assertGreater(chosen["samples_per_s"], 0)
        self.assertNotIn("backward", chosen["covered"])


if __name__ == "__main__":
    unittest.main()
