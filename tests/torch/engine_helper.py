# SPDX-License-Identifier: Apache-2.0
"""What test_engine.py and slow_engine.py share: models, `batchfit bench --engine --json`, and what must hold for each row."""

import importlib.util
import os
import subprocess
import sys
import textwrap
import unittest
from unittest import mock

from helper import BATCHFIT, HERE, InFolder

ENGINES = os.path.join(HERE, "..", "engines")
ROOT = os.path.join(HERE, "..", "..")
HAS_ORT = all(importlib.util.find_spec(name) for name in ("onnxruntime", "onnx"))
needs_ort = unittest.skipUnless(HAS_ORT, "SKIPPED: onnxruntime and onnx are not installed")

MODELS = textwrap.dedent("""
    import torch
    from torch import nn

    class Two(nn.Module):
        # two inputs, of which one is of tokens
        def __init__(self):
            super().__init__()
            self.words, self.out = nn.Embedding(50, 8), nn.Linear(12, 5)
        def forward(self, tokens, more):
            return self.out(torch.cat([self.words(tokens).mean(1), more], 1))

    def two():
        return Two(), lambda y, t: y.sum(), lambda b: ((torch.zeros(b, 6, dtype=torch.int64), torch.ones(b, 4)), torch.zeros(b))

    class Huge(nn.Module):
        # more than half precision can hold
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(4, 3)
            nn.init.constant_(self.out.weight, 1e5)
        def forward(self, x):
            return self.out(x)

    def huge():
        return Huge(), lambda y, t: y.sum(), lambda b: (torch.ones(b, 4), torch.zeros(b))

    class Hungry(nn.Module):
        # 64 MiB for each sample, in several steps
        def forward(self, x):
            y = x.repeat(1, 1 << 22)
            for _ in range(3):
                y = (y * 1.5).exp()
            return y.mean(1, keepdim=True).repeat(1, 4)

    def hungry():
        return Hungry(), lambda y, t: y.sum(), lambda b: (torch.ones(b, 4), torch.zeros(b))
    """)
SMALL = ("--img-size", "16", "--depth", "1", "--hidden", "4")


class Bench(InFolder):
    """What `bench --json` answers; the folder that the engines share is gone afterwards."""

    def setUp(self):
        super().setUp()
        self.file("engine_models.py", MODELS)
        kept = mock.patch.dict(os.environ, {"PYTHONPATH": self.folder})
        kept.start()
        self.addCleanup(kept.stop)

    def bench(self, *words, status=0):
        document = self.answer("bench", "--steps", "4", "--warmup", "1", *words, status=status)
        self.assertEqual(os.listdir(os.path.join(self.folder, "cache", "batchfit", "engines")), [], "nothing is left")
        return document

    def refuse(self, status, what, *words):
        argv = [BATCHFIT, "bench", "--device", "cpu", "--python", sys.executable, "--batch-sizes", "2", *words]
        done = subprocess.run(argv, capture_output=True, text=True, env=self.environment(), cwd=self.folder, timeout=300, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertIn(what, done.stderr)

    def check_row(self, row, off):
        self.assertEqual(row["status"], "OK", row)
        self.assertGreater(row["median_ms"], 0)
        self.assertLessEqual(row["median_ms_ci"][0], row["median_ms"])
        self.assertGreaterEqual(row["median_ms_ci"][1], row["median_ms"])
        self.assertIsNone(row["p99_ms"], "of fewer than 100 batches there is none")
        self.assertEqual(row["forward_ms"], row["total_ms"])
        self.assertIsNone(row["backward_ms"])
        self.assertGreater(row["memory_bytes"], 1 << 20)
        self.assertLessEqual(row["outputs"]["max_rel"], off)
        self.assertLessEqual(row["outputs"]["mean_abs"], row["outputs"]["max_abs"])
