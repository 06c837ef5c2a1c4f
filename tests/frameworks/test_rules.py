# SPDX-License-Identifier: Apache-2.0
"""Rules that stand for other people's kernels against what their own Python allocates, recorded once; and what ends a recording."""

import importlib.util
import os
import tempfile
import types
import unittest
import unittest.mock

import torch

from templates_helper import families, record
from batchfit import composites, losses, torchao_nf4
from batchfit.dispatch import Recorder
from batchfit.knobs import Knobs

NEEDS_TORCH_2 = True


class TestMaking(unittest.TestCase):
    def test_what_ends_a_recording_ends_no_others(self):
        """A StopIteration would end the pool's loop as if all were made."""
        path = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools", "templates.py")
        spec = importlib.util.spec_from_file_location("templates", path)
        templates = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(templates)
        variant = families.Variant("llama", "full")
        with tempfile.TemporaryDirectory() as templates.BUILD, unittest.mock.patch.object(record, "template", lambda _: next(iter(()))):
            made, wrong = templates.make(variant)
        self.assertIs(made, variant)
        self.assertRegex(wrong, "nothing was found: .*test_rules.py")


class TestTorchao(unittest.TestCase):
    """torchtune's four bits are torchao's."""

    # What torchao 0.9.0's own linear_nf4 allocates (+bytes) and frees (-which) on meta tensors, forward and backward, under this recorder: an
    # NF4Tensor of 256 rows of 64, 24 rows of input
    REAL = ("m +8192 +65536 -0 +8192 +65536 -2 +16384 +16384 +512 +512 -6 +16384 +16384 -8 +16384 +16384 -10 +32768 -1 -3 -4 -5 -7 -9 -11 "
            "+12288 -12 m +12288 +8192 +65536 -15 +8192 +65536 -17 +16384 +16384 +512 +512 -21 +16384 +16384 -23 +16384 +16384 -25 +32768 "
            "-16 -18 -19 -20 -22 -24 -26 +3072 -27 -14")

    def test_a_product_is_as_torchaos_own(self):
        composites.install()
        knobs = Knobs("python", torch.__version__, dict(precision="bf16", optimizer="none", cublas_workspace=0))
        rec = Recorder(knobs, torch.nn.Linear(1, 1))
        composites.configure(knobs, rec)
        layer = torchao_nf4.Linear(torch.nn.Linear(64, 256, bias=False, device="meta"), torch.bfloat16)
        x = torch.empty(3, 8, 64, dtype=torch.bfloat16, requires_grad=True, device="meta")
        for there in (x, *layer.parameters(), *layer.buffers()):
            rec.log.ignore(there)
        with rec:
            rec.log.mark("forward")
            y = layer(x)
            rec.log.mark("backward")
            kept = torch.autograd.grad(y, x, torch.empty_like(y))
        rec.log.poll()
        made = [e[1] for e in rec.log.events if e[0] == "a"]
        words = [{"a": lambda e: "+%d" % e[2], "f": lambda e: "-%d" % made.index(e[1]), "m": lambda e: "m"}[e[0]](e) for e in rec.log.events]
        self.assertEqual((words, len(kept)), (self.REAL.split(), 1))

    def test_sizes(self):
        layer = torchao_nf4.Linear(torch.nn.Linear(4096, 1024, device="meta"), torch.bfloat16)
        n = 4096 * 1024
        sizes = {name: t.numel() * t.element_size() for name, t in (("weight", layer.weight), *layer.named_buffers())}
        self.assertEqual(sizes, {"weight": n // 2, "scalers": n // 64, "factors": 2 * n // 16384, "mean": 2, "table": 32})


class TestCut(unittest.TestCase):
    """Cut cross-entropy: what the Python around its kernels allocates."""

    # Of Axolotl's fork 25.5.2 (5f0c7a7) itself on meta tensors under this recorder, its kernels being no operations: 2 sequences of 257 tokens, 4096
    # wide, a vocabulary of 1024. Locks, of 16, 1024 and 2048 bytes there, are left out
    FORWARD = [512, 8192, 4096, 4096, 2048, 4096, 2048, 4, 4]
    BACKWARD = [4, 4, 4096, 8192, 4096, 2 * 2 * 257 * 4096]

    def allocated(self, trains):
        composites.install()
        rec = Recorder(Knobs("python", torch.__version__, dict(precision="bf16", optimizer="none", cublas_workspace=0)), torch.nn.Linear(1, 1))
        composites.configure(Knobs("python", torch.__version__, {}), rec)
        x = torch.empty(2, 257, 4096, dtype=torch.bfloat16, requires_grad=True, device="meta")
        head = torch.nn.Linear(4096, 1024, bias=False, device="meta", dtype=torch.bfloat16).requires_grad_(trains)
        labels = torch.empty(2, 257, dtype=torch.int64, device="meta")
        for there in (x, head.weight, labels):
            rec.log.ignore(there)
        with rec:
            rec.log.mark("forward")
            loss = losses.TABLE["cut"](types.SimpleNamespace(lm_head=head, config=None), x, labels, None)
            rec.log.mark("backward")
            kept = torch.autograd.grad(loss, [x] + [head.weight] * trains)
        self.assertEqual(len(kept), 1 + trains)
        sizes = [e[2] if e[0] == "a" else e[1] for e in rec.log.events if e[0] in "am"]
        return sizes[1:sizes.index("backward")], sizes[sizes.index("backward") + 1:]

    def test_a_loss_is_as_the_forks_own(self):
        for trains in (False, True):
            forward, backward = self.allocated(trains)
            self.assertEqual([n for n in forward if n != 514], self.FORWARD)
            gradients = self.BACKWARD + [2 * 1024 * 4096] * trains
            self.assertEqual(backward, gradients + [1028] + [2048] * trains)


if __name__ == "__main__":
    unittest.main()
