# SPDX-License-Identifier: Apache-2.0
"""Trainings that change their weights without torch.optim, batches whose first dimension is the sequence, programs that only
predict, and a real Keras where it is installed."""

import importlib.util
import unittest

from emit_helper import PRELUDE, run

HAND = """
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
criterion = nn.CrossEntropyLoss()
def backward(batch=4): criterion(net(torch.randn(batch, 8)), torch.randint(0, 3, (batch,))).backward()
"""
UPDATES = {
    "in place": "with torch.no_grad():\n        for w in net.parameters(): w -= 0.1 * w.grad; w.grad = None",
    "data": "for w in net.parameters(): w.data.add_(w.grad, alpha=-0.1); w.grad.zero_()",
    "zeroed late": "for w in net.parameters(): w.data = w.data - 0.1 * w.grad",
    "own optimizer": "mine.step()",
}
OWN = """
class Mine:
    def step(self):
        with torch.no_grad():
            torch._foreach_add_(list(net.parameters()), [-0.1 * w.grad for w in net.parameters()])
        net.zero_grad()
mine = Mine()
"""


class ByHand(unittest.TestCase):
    def micro_batches(self, text, **more):
        done = run(text, prelude=more.pop("prelude", HAND), **more)
        self.assertEqual((done.status, done.err), (0, ""))
        self.assertEqual([step["step"] for step in done.steps], list(range(1, len(done.steps) + 1)))
        for step in done.steps:
            self.assertAlmostEqual(sum(step[part] for part in step if part.endswith("_ms") and part != "total_ms"), step["total_ms"],
                                   places=2)
        return [step.get("micro_batches") for step in done.steps]

    def test_ways_to_change_weights(self):
        """One step each, with its own samples; two backwards before a change are one step of two micro-batches."""
        text, wanted = OWN, []
        for update in UPDATES.values():
            for times in (1, 2):
                text += "for _ in range(3):\n    net.zero_grad()\n" + "    backward()\n" * times + "    " + update + "\n"
                wanted += [[4] * times] * 3
        self.assertEqual(self.micro_batches(text), wanted)

    def test_tensors_without_a_module(self):
        text = """
w = torch.randn(8, 3, requires_grad=True)
for _ in range(4):
    criterion(torch.randn(4, 8) @ w, torch.randint(0, 3, (4,))).backward()
    with torch.no_grad(): w -= 0.1 * w.grad
    w.grad.zero_()
"""
        self.assertEqual(len(self.micro_batches(text)), 4)

    def test_with_a_loader_and_an_odd_last_batch(self):
        text = "for x, y in loader:\n    criterion(net(x), y).backward()\n    " + UPDATES["in place"] + "\n"
        self.assertEqual(self.micro_batches(text, prelude=PRELUDE.replace("optimizer = ", "unused = lambda: ")), [[8], [8], [6]])

    def test_two_nets(self):
        """As in a GAN: each net's update is a step, and the samples are counted once."""
        text = """
other = nn.Linear(8, 3)
for x, y in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 8), torch.randint(0, 3, (8,))), batch_size=4):
    for model in (net, other):
        criterion(model(x), y).backward()
        with torch.no_grad():
            for w in model.parameters(): w -= 0.1 * w.grad; w.grad = None
"""
        self.assertEqual(self.micro_batches(text), [[4], [], [4], []])

    def test_a_backward_is_no_step(self):
        """One that changes no weight (a check before the training), and then torch's own optimizer."""
        text = """
backward(); net.zero_grad()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad(); backward(); optimizer.step()
"""
        found = self.micro_batches(text)
        self.assertEqual(len(found), 3)
        self.assertEqual(found[1:], [[4], [4]])


SEQUENCE_FIRST = """
import torch
from torch import nn
torch.set_num_threads(1)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers, self.out = nn.Embedding(50, 8), nn.LSTM(8, 8), nn.Linear(8, 50)
    def forward(self, x): return self.out(self.layers(self.words(x))[0]).view(-1, 50)
net = Model()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def train(x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y.reshape(-1)).backward()
    optimizer.step()
"""
MAKE = "for b in (20, 20, 7): train(torch.randint(0, 50, (35, b)), torch.randint(0, 50, (35, b)))\n"
LOADER = """
def collate(rows): return tuple(torch.stack(part, 1) for part in zip(*rows))
data = torch.utils.data.TensorDataset(torch.randint(0, 50, (47, 35)), torch.randint(0, 50, (47, 35)))
for x, y in torch.utils.data.DataLoader(data, batch_size=20, collate_fn=collate): train(x, y)
"""


class Dimension(unittest.TestCase):
    def counted(self, text, **env):
        done = run(text, prelude=SEQUENCE_FIRST, env=env)
        self.assertEqual((done.status, done.err), (0, ""))
        return done.all("start")[0].get("batch_dim"), [step["samples"] for step in done.steps]

    def test_the_batch_that_was_asked_for(self):
        self.assertEqual(self.counted(MAKE, BATCHFIT_BATCH="20"), (1, [20, 20, 7]))
        self.assertEqual(self.counted(MAKE, BATCHFIT_BATCH="16"), (None, [35, 35, 35]))  # it does not take it: that is told

    def test_the_loader_knows(self):
        self.assertEqual(self.counted(LOADER), (1, [20, 20, 7]))

    def test_said(self):
        self.assertEqual(self.counted(MAKE, BATCHFIT_BATCH_DIM="1"), (1, [20, 20, 7]))
        self.assertEqual(self.counted(MAKE), (None, [35, 35, 35]))


class Predicting(unittest.TestCase):
    def test_forwards_alone_are_told(self):
        """Once, after two seconds; nothing else is."""
        text = "import time\nend = time.monotonic() + 3\nwith torch.no_grad():\n    while time.monotonic() < end: net(torch.ones(1, 8))\n"
        done = run(text, prelude=HAND)
        self.assertEqual([(e["event"], e["what"], e["gradients"]) for e in done.events], [("seen", "forward", False)])


class Real(unittest.TestCase):
    def test_keras(self):
        if importlib.util.find_spec("keras") is None:
            raise unittest.SkipTest("SKIPPED: keras is not installed")
        text = """
os.environ["KERAS_BACKEND"] = "torch"
import numpy, keras
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
model.fit(numpy.zeros((72, 8), "f"), numpy.ones((72, 1), "f"), batch_size=16, epochs=2, verbose=0)
"""
        done = run(text, prelude="")
        self.assertEqual((done.status, [step["samples"] for step in done.steps]), (0, [16, 16, 16, 16, 8] * 2), done.err)


if __name__ == "__main__":
    unittest.main()
