# SPDX-License-Identifier: Apache-2.0
"""torch.compile without a GPU: what Inductor plans for one, against the same training without a compiler."""

import unittest

import helper
import torch
from torch import nn

from batchfit.errors import UsageError
from batchfit.recorder import record

SLOW = "test_dropout_has_seeds"

IS_OLD = tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 4)
assert helper.HERE  # puts python/ on the path
WIDE, BATCH, BATCHES = 512, 8, (8, 16)


class Part(nn.Module):
    """A product and a chain of element-wise operations."""

    def __init__(self, again):
        super().__init__()
        self.linear, self.norm, self.again = nn.Linear(WIDE, WIDE), nn.LayerNorm(WIDE), again

    def _run(self, x):
        return x + torch.sigmoid(nn.functional.gelu(self.linear(self.norm(x)), approximate="tanh")) * 2

    def forward(self, x):
        """(batch, tokens, WIDE) -> the same."""
        if self.again:
            return torch.utils.checkpoint.checkpoint(self._run, x, use_reentrant=False)
        return self._run(x)


def small(again=False, dropout=0.0):
    """A network with its loss inside, as language models have it."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.Sequential(Part(again), nn.Dropout(dropout), Part(again))
            self.head = nn.Linear(WIDE, 1000)

        def forward(self, x, y):
            """The loss."""
            logits = self.head(self.parts(x))
            return nn.functional.cross_entropy(logits.view(-1, 1000), y.view(-1))
    return Net(), None, lambda batch: {"x": torch.empty(batch, 128, WIDE), "y": torch.zeros(batch, 128, dtype=torch.int64)}


def peak(text, batch=BATCH):
    """The largest sum of live bytes of a pass, how many gradients stay, and what lives when the last forward pass ends."""
    live, most, gradients, phase, saved = {}, 0, 0, "", 0
    for line in text.splitlines()[1:]:
        words = line.split()
        if words[0] == "m":
            saved = sum(live.values()) if phase == "forward" else saved
            phase = words[1]
        elif words[0][0] == "a":
            live[words[1]] = int(words[2]) + batch * int(words[3])
            gradients += words[4] == "gradient" and phase == "backward"
        elif words[0] == "f":
            del live[words[1]]
        if phase in ("forward", "backward"):
            most = max(most, sum(live.values()))
    return most, gradients, saved


def recorded(compile=None, **how):
    """The tape of the network."""
    return record(lambda: small(**how), dict(precision="amp-bf16", name="small", compile=compile, batches=list(BATCHES), rules="2.13"))


@unittest.skipIf(IS_OLD, "torch 2.4 or later has the plan")
class Plans(unittest.TestCase):
    def test_needs_less_and_has_every_gradient(self):
        eager, compiled = recorded(), recorded("model")
        self.assertIn('"compile":"model"', compiled.splitlines()[0])
        (most, gradients, _), (less, same, _) = peak(eager), peak(compiled)
        self.assertLess(less, 0.9 * most)
        self.assertEqual((same, gradients), (gradients, 2 * 10))  # of two steps, of weights and biases of three products and two norms

    def test_what_is_checkpointed_is_not_saved(self):
        kept, again = peak(recorded("model"))[2], peak(recorded("model", again=True))[2]
        self.assertLess(again, kept - 2 * BATCH * 128 * WIDE)  # a bf16 output of a product less, at least half of its bytes

    def test_dropout_has_seeds(self):
        self.assertIn("compile", recorded("model", dropout=0.1).splitlines()[0])

    def test_products_are_there_for_the_time(self):
        lines = [line.split() for line in recorded("model").splitlines() if line.startswith("o mm ")]
        self.assertEqual(sum(int(words[6]) for words in lines), 3 * 3)  # forward, and two each in backward


class Refusals(unittest.TestCase):
    def test_what_is_not_recorded_is_said(self):
        for said, words in ((dict(compile="layers"), "layers"), (dict(compile="all"), "choose from")):
            with self.assertRaises(UsageError) as raised:
                record(small, said)
            self.assertIn("torch 2.4" if IS_OLD and said["compile"] == "layers" else words, str(raised.exception))


if __name__ == "__main__":
    unittest.main()
