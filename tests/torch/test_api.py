# SPDX-License-Identifier: Apache-2.0
"""batchfit.fit of a model that the program holds (python/batchfit/api.py)."""

import copy
import os
import random
import subprocess
import sys
import unittest
from unittest import mock

import torch
from helper import BATCHFIT, HERE, PYTHON, InFolder  # first: it says where the rest is

import batchfit
import models
from batchfit import api, record, stubs

TARGET = torch.zeros(4, dtype=torch.long)
IMAGES = torch.randn(4, 3, 32, 32), TARGET


def network():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Dropout(0.1),
                               torch.nn.Flatten(), torch.nn.Linear(16 * 30 * 30, 10))


def steps(model, optimizer, count):
    for _ in range(count):
        loss = torch.nn.functional.cross_entropy(model(IMAGES[0]), TARGET)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Fit(InFolder):
    def setUp(self):
        super().setUp()
        patched = mock.patch.dict(os.environ, {**self.environment(), "BATCHFIT": BATCHFIT})
        patched.start()
        self.addCleanup(patched.stop)

    def test_the_tape_is_record_s(self):
        """The same events as `batchfit record python:MODULE:FUNCTION` has of the same model."""
        tape = os.path.join(self.folder, "x.tape")
        self.assertEqual(record.main(["python:models:dropout", "--optimizer", "adamw", "--weight-decay", "0.01", "--quiet", "-o", tape]), 0)
        model, _, inputs = models.dropout()
        optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
        (_, text), = api._record(model, inputs(3), None, api._knobs(model, optimizer, None, None), (1,))
        with open(tape, encoding="utf-8") as f:
            self.assertEqual(f.read().split("\n")[1:], text.split("\n")[1:])

    def test_the_loader_s_batch_is_the_host_s(self):
        """On the device lies only what it is moved to: an allocation for each tensor of a step."""
        model, _, inputs = models.dropout()
        made = inputs(3)
        (_, text), = api._record(model, inputs(3), None, api._knobs(model, "sgd", None, None), (1,))
        phases = [part.split("\n") for part in text.split("\nm ")]
        arrived = [[line for line in phase[1:] if line.startswith("a ")] for phase in phases if phase[0].startswith("input")]
        self.assertEqual([len(a) for a in arrived], [len(made) if isinstance(made, tuple) else 1] * 2, arrived)

    def test_a_plan(self):
        plan = batchfit.fit(network(), IMAGES, gpu="rtx3060", effective_batch_size=48, max_batch_size=16)
        self.assertEqual((plan.batch_size, plan.accumulation, plan.effective_batch_size, plan.ranks), (16, 3, 48, 1))
        self.assertEqual((plan.gpu, plan.fits, plan.precision, plan.optimizer), ("NVIDIA GeForce RTX 3060", True, "fp32", "adamw"))
        self.assertTrue(str(plan).startswith("FITS  batch 16 x 3 = 48 on RTX 3060: "), plan)
        self.assertLess(0, plan.expected_bytes)
        self.assertLessEqual(plan.expected_bytes, plan.worst_bytes)
        self.assertLess(plan.worst_bytes, plan.usable_bytes)
        self.assertEqual(plan.details["results"][0]["plan"]["model"], "python:Sequential")
        self.assertNotIn("no tape with accumulation", str(plan))
        page = plan._repr_html_()
        self.assertIn("<iframe srcdoc=", page)
        self.assertIn("<svg", page)

    def test_nothing_fits(self):
        plan = batchfit.fit(network(), IMAGES, gpu_memory="200MiB", effective_batch_size=48)
        self.assertEqual((plan.fits, plan.batch_size), (False, 0))
        self.assertTrue(plan.headline.startswith("DOES NOT FIT  "), plan)
        self.assertIn("<iframe", plan._repr_html_())

    def test_the_training_goes_on_as_without(self):
        """Weights, gradients, running statistics, the optimizer and every generator: the same to the last bit."""
        torch.manual_seed(0)
        ours = network()
        other = copy.deepcopy(ours)
        pairs = [(m, torch.optim.AdamW(m.parameters(), lr=1e-2)) for m in (ours, other)]
        ends = []
        for model, optimizer in pairs:
            torch.manual_seed(1)
            random.seed(1)
            steps(model, optimizer, 2)
            if model is ours:
                model.eval()
                batchfit.fit(model, IMAGES, gpu="rtx3060", optimizer=optimizer, max_batch_size=8)
                self.assertFalse(model.training)
                model.train()
            steps(model, optimizer, 2)
            ends.append((list(model.state_dict().values()) + [p.grad for p in model.parameters()], torch.rand(3), random.random()))
        for left, right in zip(ends[0][0], ends[1][0]):
            self.assertTrue(torch.equal(left, right))
        self.assertTrue(torch.equal(ends[0][1], ends[1][1]))
        self.assertEqual(ends[0][2], ends[1][2])

    def test_what_is_shared_or_frozen_stays_so(self):
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
        model[1].weight = model[0].weight
        model[0].bias.requires_grad = False
        twin = api._twin(model)
        self.assertIs(twin[0].weight, twin[1].weight)
        self.assertEqual([p.requires_grad for p in twin.parameters()], [p.requires_grad for p in model.parameters()])
        self.assertEqual({p.device.type for p in twin.parameters()}, {"meta"})

    def test_a_model_of_transformers(self):
        stubs.prepare()  # the gate's torchvision is built for a torch with CUDA
        import transformers
        config = transformers.GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=128)
        ids = torch.zeros(2, 32, dtype=torch.long)
        plan = batchfit.fit(transformers.GPT2LMHeadModel(config), {"input_ids": ids, "attention_mask": ids, "labels": ids}, gpu="rtx3060",
                            precision="amp-bf16", max_batch_size=8)
        self.assertEqual((plan.fits, plan.batch_size, plan.precision), (True, 8, "amp-bf16"))
        self.assertIn('"script": "hf-trainer"', plan._tapes[0][1].partition("\n")[0].replace('":"', '": "'))

    def test_a_name_or_a_config(self):
        plan = batchfit.fit("resnet50", gpu="rtx3060", optimizer="sgd", precision="fp32", max_batch_size=8)
        self.assertEqual((plan.batch_size, plan.optimizer), (8, "sgd"))
        config = self.file("train.yaml", "train:\n  batch_size: 16\n  gradient_accumulation_steps: 1\nmodel:\n  name: resnet50\n  img_size: 224\n"
                           "optimizer:\n  name: adamw\n")
        plan = batchfit.fit(config=config, gpu="rtx3060")
        self.assertEqual((plan.effective_batch_size, plan.optimizer), (16, "adamw"))
        with open(config, encoding="utf-8") as f:
            self.assertIn("batch_size: 16\n", f.read())

    def test_what_cannot_be_answered(self):
        """(what is raised, a word of it) of each."""
        small = torch.nn.Linear(64, 2), torch.randn(2, 64)
        wants_data, _, vectors = models.needs_data()
        cases = (
            (batchfit.Error, "rtx306000", lambda: batchfit.fit(*small, gpu="rtx306000")),
            (batchfit.Error, "no-such-option", lambda: batchfit.fit(*small, gpu="rtx3060", no_such_option=1)),
            (batchfit.Error, "nonzero", lambda: batchfit.fit(wants_data, vectors(2), gpu="rtx3060")),
            (batchfit.Error, "choose from", lambda: batchfit.fit(*small, gpu="rtx3060", optimizer="shampoo")),
            (batchfit.Error, "returns no loss", lambda: batchfit.fit(torch.nn.Linear(4, 4), torch.randn(2, 3, 4), gpu="rtx3060")),
            (ValueError, "precision", lambda: batchfit.fit(torch.nn.Linear(4, 2).half(), small[1], gpu="rtx3060")),
            (ValueError, "a tensor in it", lambda: batchfit.fit(small[0], {"text": "hello"}, gpu="rtx3060")),
            (ValueError, "a model", lambda: batchfit.fit(gpu="rtx3060")),
            (ValueError, "wraps", lambda: batchfit.fit(torch.nn.DataParallel(small[0]), small[1], gpu="rtx3060")),
        )
        for kind, word, ask in cases:
            with self.assertRaises(kind, msg=word) as caught:
                ask()
            self.assertIn(word, str(caught.exception))

    def test_without_the_program(self):
        with mock.patch.dict(os.environ, BATCHFIT="", PATH=self.folder), self.assertRaises(batchfit.Error) as caught:
            batchfit.fit("resnet50", gpu="rtx3060")
        self.assertEqual(caught.exception.status, 4)

    def test_it_is_loaded_only_when_it_is_asked_for(self):
        """A training that asks only for its next batch pays for neither PyTorch nor the rest."""
        said = subprocess.run([sys.executable, "-c", "import sys, batchfit; print([m for m in ('torch', 'batchfit.api') if m in sys.modules]);"
                               "batchfit.fit; print('torch' in sys.modules, 'batchfit.api' in sys.modules)"],
                              env=dict(os.environ, PYTHONPATH=PYTHON), cwd=HERE, capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout.split("\n")[:2], ["[]", "False True"])


if __name__ == "__main__":
    unittest.main()
