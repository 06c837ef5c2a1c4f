# SPDX-License-Identifier: Apache-2.0
"""The examples under the emitter, put in by the environment alone: what they report is what they do."""

import os
import sys
import tempfile
import unittest

import examples

PARTS = ("io_ms", "h2d_ms", "forward_ms", "backward_ms", "optimizer_ms", "other_ms")


class Process:
    """One process's lines."""

    def __init__(self, lines):
        self.lines = lines
        self.start = next((line for line in lines if line["event"] == "start"), {})
        self.end = [line for line in lines if line["event"] == "end"]
        self.steps = [line for line in lines if line["event"] == "step"]
        self.phases = {line["phase"] for line in lines if line["event"] == "phase"}
        self.micro_batches = [step["micro_batches"] for step in self.steps]


class Steps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.output = folder.name, os.path.join(folder.name, "out")

    def watch(self, command, **more):
        """The processes that reported, by rank; each report is held against the rules that all must keep."""
        status, output, told = examples.run_watched(command, self.folder, **more)
        self.assertEqual(status, 0, output[-3000:])
        processes = sorted(map(Process, told), key=lambda p: p.start.get("rank", -1))
        for process in processes:
            self.check(process)
        return processes

    def check(self, process):
        self.assertEqual((process.start.get("framework"), process.start.get("device")), ("torch", "cpu"), process.lines[:2])
        self.assertEqual([end["ok"] for end in process.end], [True])
        self.assertEqual([step["step"] for step in process.steps], list(range(1, len(process.steps) + 1)))
        for step in process.steps:
            self.assertEqual(step["samples"], sum(step["micro_batches"]), step)
            parts = [step[part] or 0.0 for part in PARTS]
            self.assertGreaterEqual(min(parts), 0.0, step)
            self.assertAlmostEqual(sum(parts), step["total_ms"], delta=0.02 * step["total_ms"])
            for part in ("forward_ms", "backward_ms", "optimizer_ms"):
                self.assertGreater(step[part], 0.0, step)

    def alone(self, command, **more):
        """The one process that may report."""
        processes = self.watch(command, **more)
        self.assertEqual([p.start.get("rank") for p in processes], [0])
        return processes[0]

    def test_plain(self):
        seen = self.alone(examples.plain(self.output, "16", "--epochs", "1", "--samples", "120", "--accumulate", "2",
                                         "--workers", "2"))
        self.assertEqual(seen.micro_batches, [[16, 16]] * 3 + [[12]])
        self.assertEqual(seen.phases, {"validation", "checkpoint"})

    def test_huggingface(self):
        seen = self.alone(examples.huggingface(self.output, "8", "--samples", "64", "--num_train_epochs", "1",
                                               "--gradient_accumulation_steps", "2", "--save_steps", "2"))
        self.assertEqual(seen.micro_batches, [[8, 8]] * 4)
        self.assertEqual(seen.phases, {"validation", "checkpoint"})

    def test_lightning(self):
        seen = self.alone(examples.lightning(self.output, "16", "--epochs", "1", "--samples", "72", "--accumulate", "2"))
        self.assertEqual(seen.micro_batches, [[16, 16], [16, 16], [8]])
        self.assertEqual(seen.phases, {"validation", "checkpoint"})

    def test_ultralytics(self):
        command = examples.ultralytics(self.output, "8", os.path.join(self.folder, "boxes", "data.yaml"), "epochs=1")
        examples.make_boxes(os.path.join(self.folder, "boxes"))
        seen = self.alone(command)
        self.assertEqual(seen.micro_batches, [[8]] * 3)  # accumulation is ramped up from 1 over the first 100 batches
        self.assertEqual(seen.phases, {"validation", "checkpoint"})

    def test_two_ranks(self):
        seen = self.watch(examples.torchrun("16", "--samples", "96", "--epochs", "1", "--output", self.output))
        self.assertEqual([(p.start["rank"], p.start["world"]) for p in seen], [(0, 2), (1, 2)])
        self.assertEqual([p.micro_batches for p in seen], [[[16]] * 3] * 2)
        self.assertEqual([p.phases for p in seen], [{"checkpoint"}, set()])

    def test_workload(self):
        seen = self.alone([sys.executable, "-m", "batchfit.workload", "--device", "cpu", "--batch-size", "8", "--accumulation",
                           "2", "--num-workers", "2", "--steps", "3", "--img-size", "32", "--precision", "amp-bf16"],
                          PYTHONPATH=os.path.join(examples.ROOT, "python"))
        self.assertEqual((seen.micro_batches, seen.phases), ([[8, 8]] * 3, set()))


if __name__ == "__main__":
    unittest.main()
