# SPDX-License-Identifier: Apache-2.0
"""The emitter in programs that only predict (BATCHFIT_MODE=inference), and fit --inference with such a program as its command."""

import sys
import textwrap
import unittest

from emit_helper import run
from helper import InFolder

SLOW = "test_views_by_what_was_measured"

MODE = {"BATCHFIT_MODE": "inference"}

# A folder of samples, predicted batch by batch. Each keeps some megabytes on the way, so that the batch decides about the memory.
SCRIPT = textwrap.dedent("""
    import sys
    import torch
    from torch import nn
    batch = int(sys.argv[1])
    model = nn.Sequential(nn.Linear(256, 262144), nn.ReLU(), nn.Linear(262144, 4)).eval()
    data = torch.utils.data.TensorDataset(torch.randn(4096, 256))
    with torch.inference_mode():
        for epoch in range(1000):
            for (x,) in torch.utils.data.DataLoader(data, batch_size=batch):
                model(x).argmax(1)
    """)


class Inference(unittest.TestCase):
    def predicted(self, program, samples=(8, 8, 6)):
        done = run(program, env=MODE)
        self.assertEqual((done.status, done.err), (0, ""))
        self.assertEqual([e["event"] for e in done.events], ["start"] + ["step"] * len(samples) + ["end"], done.events)
        self.assertEqual(done.events[0]["device"], "cpu")
        self.assertEqual([e["samples"] for e in done.steps], list(samples))
        for number, step in enumerate(done.steps, 1):
            self.assertEqual((step["step"], step["micro_batches"]), (number, [step["samples"]]))
            self.assertNotIn("backward_ms", step)
            self.assertNotIn("optimizer_ms", step)
            parts = sum(step[name] for name in ("io_ms", "h2d_ms", "forward_ms", "other_ms"))
            self.assertAlmostEqual(step["total_ms"], parts, places=2)
            self.assertGreater(step["forward_ms"], 0)
        return done

    def test_a_loader(self):
        self.predicted("net.eval()\nwith torch.no_grad():\n    for x, y in loader: net(x)\n")
        self.predicted("net.eval()\nwith torch.inference_mode():\n    for x, y in loader: net(x).argmax(1)\n")

    def test_gradients_that_nobody_takes(self):
        """A script that forgot no_grad predicts all the same."""
        self.predicted("for x, y in loader: net(x)\n")

    def test_slices_without_a_loader(self):
        self.predicted("xs = data.tensors[0]\nwith torch.inference_mode():\n    for i in range(0, 22, 8): net(xs[i:i + 8])\n")

    def test_views_one_after_the_other_are_one_step(self):
        done = self.predicted("with torch.no_grad():\n    for x, y in loader:\n"
                              "        net(x), time.sleep(0.02), net(x.flip(1)), net(-x)\n")
        for step in done.steps:
            self.assertGreater(step["forward_ms"], 15)  # what lies between the views belongs to them

    def test_views_stacked_are_counted_as_images(self):
        self.predicted("with torch.no_grad():\n    for x, y in loader: net(torch.cat([x, -x])).view(2, len(x), 3).mean(0)\n")

    def test_a_call_before_the_loader_is_no_step(self):
        self.predicted("with torch.no_grad():\n    net(torch.zeros(1, 8))\n    for x, y in loader: net(x)\n")

    def test_other_modules_belong_to_the_models_step(self):
        program = "soft, head = nn.Softmax(1), nn.Linear(3, 2)\nxs = data.tensors[0]\nwith torch.no_grad():\n"
        self.predicted(program + "    for i in range(0, 22, 8): head(soft(net(xs[i:i + 8])))\n")
        self.predicted(program + "    for x, y in loader: head(soft(net(x)))\n")

    def test_weights_without_gradients_and_another_epoch(self):
        self.predicted("net.requires_grad_(False).eval()\nfor epoch in range(2):\n    for x, y in loader: net(x)\n", (8, 8, 6) * 2)

    def test_memory_that_runs_out(self):
        """The batch is named, and the program may go on with a smaller one."""
        done = run("""
class Big(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net
    def forward(self, x):
        if len(x) > 4:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return self.net(x)
big = Big()
with torch.no_grad():
    for x, y in loader:
        try:
            big(x)
        except RuntimeError:
            break
    for x, y in DataLoader(data, batch_size=4): big(x)
""", env=MODE)
        self.assertEqual((done.status, done.err), (0, ""))
        (oom,) = done.all("oom")
        self.assertEqual((oom["phase"], oom["samples"]), ("forward", 8))
        self.assertEqual([e["samples"] for e in done.steps], [4] * 5 + [2])

    def test_out_of_memory_ends_the_program(self):
        done = run("net.forward = None\nxs = data.tensors[0]\n"
                   "class Big(nn.Linear):\n    def forward(self, x): raise MemoryError('no more')\n"
                   "with torch.no_grad(): Big(8, 8)(xs)\n", env=MODE)
        self.assertEqual(done.status, 1)
        self.assertEqual([e["event"] for e in done.events], ["start", "oom", "end"])
        self.assertEqual((done.all("oom")[0]["samples"], done.all("end")[0]["ok"]), (22, False))

    def test_without_the_variable_nothing_is_written(self):
        self.assertEqual(run("with torch.no_grad():\n    for x, y in loader: net(x)\n").events, [])

    def test_a_training_is_none(self):
        """Steps of a training that was announced as inference are its batches; nothing is wrong or lost."""
        done = run("for x, y in loader: train(x, y)\n", env=MODE)
        self.assertEqual([e["samples"] for e in done.steps], [8, 8, 6])


class FitInference(InFolder):
    def test_views_by_what_was_measured(self):
        command = (sys.executable, self.file("infer.py", SCRIPT), "{batch}")
        words = ("--tta", "auto", "--min-f1", "0.945", "--images", "1000", "--memory", "1536MiB", "--steps", "3", "--warmup", "1",
                 "--max-batch-size", "64")
        found = self.answer("fit", *words, command=command)
        self.assertEqual(found["recommended"], "essential", found)
        rate = next(t for t in found["trials"] if t["batch_size"] == found["largest_batch_size"])["samples_per_s"]
        for row in found["tta"]:
            self.assertAlmostEqual(row["time_s"]["likely"], 1000 * row["views"] / rate, places=3)
            self.assertEqual(row["batch_size"], found["largest_batch_size"] // row["views_at_once"])


if __name__ == "__main__":
    unittest.main()
