# SPDX-License-Identifier: Apache-2.0
"""As test_engine.py: a compiled model, models of the libraries, memory that runs out, a file
that is not the model's, a precision that an engine has not."""

import importlib.util
import json
import os
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

    @needs_ort
    def test_precisions_that_an_engine_has_not(self):
        found = self.bench("--engine", "onnxruntime", "torch", "--precision", "fp32", "bf16", "--batch-sizes", "2", "4", *SMALL)
        self.assertEqual([(r["axes"]["engine"], r["precision"], r["status"]) for r in found["rows"]],
                         [("onnxruntime", "fp32", "OK"), ("onnxruntime", "fp32", "OK"), ("onnxruntime", "bf16", "FAILED"),
                          ("torch", "fp32", "OK"), ("torch", "fp32", "OK"), ("torch", "bf16", "OK"), ("torch", "bf16", "OK")])


@needs_ort
class Wrong(Bench):
    def export(self, name, model, shape):
        more = {"dynamo": False} if "dynamo" in torch.onnx.export.__code__.co_varnames else {}
        torch.onnx.export(model.eval(), (torch.zeros(2, *shape),), os.path.join(self.folder, name), input_names=["x"],
                          output_names=["y"], dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, **more)

    def test_a_file_that_is_not_the_model(self):
        torch.manual_seed(1)
        self.export("other.onnx", torch.nn.Linear(4, 3), (4,))
        self.export("shape.onnx", torch.nn.Linear(4, 2), (4,))
        words = ("--engine", "torch", "onnxruntime", "--batch-sizes", "2", "--model", "python:engine_models:huge")
        found = self.bench("--onnx", "other.onnx", *words, status=1)
        self.assertEqual([r["status"] for r in found["rows"]], ["OK", "DIFFERS"])
        found = self.bench("--onnx", "shape.onnx", *words, status=1)
        self.assertIn("output 0 is 2x2, the reference's is 2x3", found["rows"][1]["reason"])
        self.export("input.onnx", torch.nn.Linear(5, 3), (5,))
        self.refuse(3, "its input 'x' is nx5, the model's is 8x4", "--onnx", "input.onnx", *words)


if __name__ == "__main__":
    unittest.main()
