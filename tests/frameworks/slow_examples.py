# SPDX-License-Identifier: Apache-2.0
"""The examples run as they are, by the command that a user types; in the gate test_steps.py runs them under the emitter."""

import os
import tempfile
import unittest

import examples


class Alone(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.output = folder.name, os.path.join(folder.name, "out")

    def ends_well(self, command):
        status, output = examples.run(command, self.folder)
        self.assertEqual(status, 0, output[-3000:])
        return output

    def test_plain(self):
        for more in ((), ("--amp", "--accumulate", "2", "--img-size", "32")):
            out = self.ends_well(examples.plain(self.output, "16", "--epochs", "1", "--samples", "160", *more))
            self.assertRegex(out, r"(?m)^epoch 1: accuracy 0\.\d+$")
        self.assertEqual(examples.files(self.output, "**/*.*"), ["last.pt"])

    def test_huggingface(self):
        out = self.ends_well(examples.huggingface(self.output, "8", "--samples", "64", "--num_train_epochs", "1",
                                                  "--gradient_accumulation_steps", "2", "--save_steps", "2"))
        self.assertIn("eval_loss", out)
        self.assertTrue(examples.files(self.output, "checkpoint-*/model.safetensors"), examples.files(self.output, "**"))

    def test_lightning(self):
        out = self.ends_well(examples.lightning(self.output, "16", "--epochs", "1", "--samples", "128", "--accumulate", "2"))
        self.assertIn("val_loss", out)
        self.assertEqual(len(examples.files(self.output, "**/*.ckpt")), 1)

    def test_ultralytics(self):
        command = examples.ultralytics(self.output, "8", os.path.join(self.folder, "boxes", "data.yaml"), "epochs=1")
        examples.make_boxes(os.path.join(self.folder, "boxes"))
        out = self.ends_well(command)
        self.assertIn("1 epochs completed", out)
        self.assertEqual(examples.files(self.output, "**/last.pt"), ["train/weights/last.pt"])

    def test_two_ranks(self):
        out = self.ends_well(examples.torchrun("16", "--samples", "320", "--epochs", "1", "--output", self.output))
        self.assertIn("epoch 1 batch 10/10", out)
        self.assertEqual(examples.files(self.output, "*"), ["last.pt"])


if __name__ == "__main__":
    unittest.main()
