# SPDX-License-Identifier: Apache-2.0
"""As test_engine.py: a compiled model, models of the libraries, memory that runs out."""

import importlib.util
import json
import shutil
import unittest

import torch
from engine_helper import SMALL, Bench, needs_ort


class Measured(Bench):
    @unittest.skipUnless(hasattr(torch, "compile") and shutil.which("g++"), "SKIPPED: no torch.compile or no compiler")
    def test_compiled(self):
        found = self.bench("--engine", "torch-compile", "--batch-sizes", "2", *SMALL)
        self.check_row(found["rows"][0], 1e-4)

    @needs_ort
    def test_models_of_libraries(self):
        bert = self.file("bert.json", json.dumps(dict(model_type="bert", hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                                                      intermediate_size=32, vocab_size=50)))
        for module, *words in (("timm", "--model", "timm:resnet18", "--img-size", "64"),
                               ("transformers", "--model", "hf:" + bert, "--seq-len", "8"),
                               ("ultralytics", "--model", "ultralytics:yolo11n", "--img-size", "64"),
                               ("torch", "--model", "python:engine_models:two")):
            with self.subTest(words[1]):
                if importlib.util.find_spec(module) is None:
                    self.skipTest("SKIPPED: %s is not installed" % module)
                found = self.bench("--engine", "torch", "onnxruntime", "--batch-sizes", "2", *words)
                for row in found["rows"]:
                    self.check_row(row, 1e-3)

    @needs_ort
    def test_memory_that_runs_out(self):
        found = self.bench("--engine", "torch", "onnxruntime", "--model", "python:engine_models:hungry", "--batch-sizes", "1", "64",
                           "--memory", "2GiB")
        self.assertEqual([(r["axes"]["engine"], r["batch_size"], r["status"]) for r in found["rows"]],
                         [(e, b, s) for e in ("torch", "onnxruntime") for b, s in ((1, "OK"), (64, "OOM"))], found["rows"])


if __name__ == "__main__":
    unittest.main()
