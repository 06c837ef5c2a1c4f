# SPDX-License-Identifier: Apache-2.0
"""batchfit's callbacks in real trainers, under `batchfit run`: a scheduler wants the machine back, the training saves and goes on later."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import examples

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, SECONDS = 60, 0.25


class Callbacks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = examples.environment(self.folder, BATCHFIT=examples.BATCHFIT, PYTHONPATH=os.path.join(examples.ROOT, "python"),
                                                XDG_CACHE_HOME=os.path.join(self.folder, "cache"))

    def start(self, kind, steps, seconds):
        words = ["run", "--device", "cpu", "--memory", "1500MiB", "--batch-size", "4", "--recover", "--backoff", "0", "--store", "history",
                 "--no-history", "--python", sys.executable, "--", sys.executable, os.path.join(HERE, "asked.py"), kind, str(steps), str(seconds)]
        return subprocess.Popen([examples.BATCHFIT, *words, "{resume:{checkpoint}}"], cwd=self.folder, env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def steps(self):
        try:
            with open(os.path.join(self.folder, "steps"), encoding="utf-8") as f:
                return int(f.read())
        except FileNotFoundError:
            return 0

    def tracked(self):
        with open(os.path.join(self.folder, "tracked.json"), encoding="utf-8") as f:
            return json.load(f)

    def asked(self, kind, *modules):
        """The training is asked to end after some steps, and begun again: it saved, and makes the rest."""
        examples.need(*modules)
        first = self.start(kind, STEPS, SECONDS)
        limit = time.monotonic() + examples.SECONDS
        while self.steps() < 3 and first.poll() is None and time.monotonic() < limit:
            time.sleep(0.05)
        first.send_signal(signal.SIGTERM)
        said, _ = first.communicate(timeout=examples.SECONDS)
        self.assertEqual(first.returncode, 75, said)
        made = self.steps()
        self.assertTrue(3 <= made < STEPS, (made, said))
        self.assertRegex(said, r"batchfit: predicted [\d.]+ GiB; there is no GPU to compare with; [\d.]+ samples/s")
        self.assertIn("samples seen: %d;" % (4 * made), said)  # none of the recording's
        figures, step = self.tracked()
        self.assertEqual(step, made)
        self.assertGreater(figures["batchfit/samples_per_second"], 0)
        self.assertGreater(figures["batchfit/predicted_allocated_gib"], 0)
        self.assertLess(figures["batchfit/samples_per_second"], 4 / SECONDS)
        second = self.start(kind, STEPS, 0)
        said, _ = second.communicate(timeout=examples.SECONDS)
        self.assertEqual(second.returncode, 0, said)
        self.assertEqual(self.steps(), STEPS)
        self.assertRegex(said, "(?i)checkpoint")
        return figures

    def test_trainer(self):
        self.asked("trainer", "transformers", "accelerate")

    def test_lightning(self):
        self.asked("lightning", "lightning")

    def test_a_loop_of_accelerate_s(self):
        figures = self.asked("loop", "accelerate")
        self.assertGreater(figures["batchfit/forward_ms"], 1000 * SECONDS / 2)

    def test_tensorboard(self):
        """A figure that was logged stands in the file of events."""
        examples.need("tensorboardX")
        program = ("import sys, batchfit, tensorboardX; meter = batchfit.Meter(); [meter.step(8) for _ in range(3)]\n"
                   "writer = tensorboardX.SummaryWriter('events'); found, _ = batchfit.log(writer, meter, 3); writer.close(); print(*found)")
        done = subprocess.run([sys.executable, "-c", program], cwd=self.folder, env=self.environment, check=True, stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.stdout, "batchfit/samples_per_second\n")
        name, = os.listdir(os.path.join(self.folder, "events"))
        with open(os.path.join(self.folder, "events", name), "rb") as f:
            self.assertIn(b"batchfit/samples_per_second", f.read())


if __name__ == "__main__":
    unittest.main()
