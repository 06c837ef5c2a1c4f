# SPDX-License-Identifier: Apache-2.0
"""As test_fit.py: each test starts its training up to eight times."""

import os
import sys
import unittest

import examples
from fitting import Fitting


class Fit(Fitting):
    def test_plain_by_its_config(self):
        """No placeholder for the batch: the trial's copy of the config gets it, and keeps the effective batch."""
        config = os.path.join(self.folder, "train.yaml")
        with open(os.path.join(examples.EXAMPLES, "plain", "train.yaml"), encoding="utf-8") as f:
            text = f.read()
        with open(config, "w", encoding="utf-8") as f:
            f.write(text)
        command = [sys.executable, os.path.join(examples.EXAMPLES, "plain", "train.py"), "--config", "{config}", "--workers", "0",
                   "--device", "cpu", "--output", "{scratch}"]
        answer = self.confirmed(command, 700, "--config", config, "--test-only", next_batch=lambda batch: 2 * batch)
        self.assertEqual({t["batch_size"] * t["gradient_accumulation_steps"] for t in answer["trials"]}, {64})
        with open(config, encoding="utf-8") as f:
            self.assertEqual(f.read(), text)

    def test_huggingface(self):
        self.confirmed(examples.huggingface("{scratch}", "{batch}", "--gradient_accumulation_steps", "{accumulate}"), 700, "--free-batch")

    def test_lightning(self):
        self.confirmed(examples.lightning("{scratch}", "{batch}", "--accumulate", "{accumulate}"), 800)

    def test_ultralytics(self):
        command = examples.ultralytics("{scratch}", "{batch}", os.path.join(self.folder, "boxes", "data.yaml"), "epochs=100")
        examples.make_boxes(os.path.join(self.folder, "boxes"), 128)
        self.confirmed(command, 800, "--max-batch-size", "128")

    def test_two_ranks(self):
        self.confirmed(examples.torchrun("{batch}"), 1400, "--ranks", "2")


if __name__ == "__main__":
    unittest.main()
