# SPDX-License-Identifier: Apache-2.0
"""batchfit bench --engine on the real PyTorch and the real onnxruntime, on the CPU; trtexec is a fake (tests/engines). More:
slow_engine.py."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy
import torch

from engine_helper import ENGINES, HAS_ORT, ROOT, SMALL, Bench, needs_ort

from batchfit.engine import compare, onnx_file
from batchfit.engine.trtexec import Summary, read_outputs, read_times
from batchfit.errors import RecordError

SLOW = "test_what_goes_wrong test_weights test_without_the_file_of_times test_engines_are_kept"

NEW = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 3)


class Measured(Bench):
    @unittest.skipUnless(HAS_ORT and NEW, "SKIPPED: onnxruntime, or half precision of torch on the CPU, is not there")
    def test_engines_and_precisions(self):
        found = self.bench("--engine", "torch", "onnxruntime", "trtexec", "--trtexec", "no-such-trtexec", "--precision", "fp32",
                           "fp16", "--batch-sizes", "2", "4", *SMALL, "-o", "out.csv")
        rows = found["rows"]
        seen = [(r["axes"]["engine"], r["precision"], r["batch_size"], r["status"]) for r in rows]
        self.assertEqual(seen, [(e, p, b, "OK") for e in ("torch", "onnxruntime") for p in ("fp32", "fp16") for b in (2, 4)]
                         + [("trtexec", "fp32", 2, "NOT INSTALLED")])
        for row in rows[:-1]:
            self.check_row(row, 1e-5 if row["precision"] == "fp32" else 2e-2)
            self.assertEqual(row["outputs"]["samples"], row["batch_size"])
            self.assertEqual(row["outputs"]["top1"], 1)
            if row["precision"] == "fp16":
                self.assertGreater(row["outputs"]["max_rel"], 1e-5, "half precision shows")
        self.assertEqual(rows[0]["engine_version"], torch.__version__)
        self.assertIn("TensorRT", rows[-1]["reason"])
        self.assertIn("random", " ".join(found["notes"]))
        for best in found["best"].values():
            self.assertNotEqual(best["axes"]["engine"], "trtexec")
        with open(os.path.join(self.folder, "out.csv"), encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual([float(line["max_rel"]) for line in lines[:2]], [r["outputs"]["max_rel"] for r in rows[:2]])
        conforms = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "cli", "conforms"),
                                   os.path.join(ROOT, "doc", "formats", "bench.schema.json")], input=json.dumps(found), text=True,
                                  capture_output=True, check=False)
        self.assertEqual(conforms.stdout, "conforms\n", conforms.stderr)

    def test_torch_alone_on_any_version(self):
        found = self.bench("--inference", "--batch-sizes", "2", *SMALL)
        self.check_row(found["rows"][0], 1e-5)
        self.assertEqual(found["rows"][0]["axes"], {"engine": "torch"})

    @needs_ort
    def test_weights(self):
        path = os.path.join(self.folder, "best.pth")
        sys.path.insert(0, self.folder)
        import engine_models
        sys.path.remove(self.folder)
        state = engine_models.Two().state_dict()
        torch.save({"epoch": 3, "state_dict": {"module." + k: v for k, v in state.items()}}, path)
        words = ("--model", "python:engine_models:two", "--batch-sizes", "2", "--weights", "best.pth")
        found = self.bench("--engine", "onnxruntime", *words)
        self.check_row(found["rows"][0], 1e-5)
        self.assertNotIn("random", " ".join(found["notes"]))
        self.refuse(3, "does not match this model", "--inference", "--model", "python:engine_models:huge", "--weights", "best.pth")
        self.file("text.pth", "no weights")
        self.refuse(3, "torch.load cannot read it", "--inference", "--model", "python:engine_models:two", "--weights", "text.pth")

    def test_an_engine_that_is_broken_is_not_installed(self):
        os.mkdir(os.path.join(self.folder, "onnxruntime"))
        self.file("onnxruntime/__init__.py", "raise ImportError('libcudart.so.12: cannot open shared object file')\n")
        found = self.bench("--engine", "torch", "onnxruntime", "--batch-sizes", "2", *SMALL)
        self.assertEqual([r["status"] for r in found["rows"]], ["OK", "NOT INSTALLED"])
        self.assertIn("pip install onnxruntime", found["rows"][1]["reason"])
        self.assertIn("libcudart.so.12", found["rows"][1]["reason"])


@needs_ort
class Wrong(Bench):
    def test_beyond_the_tolerance(self):
        found = self.bench("--engine", "onnxruntime", "--precision", "fp32", "fp16", "--tolerance", "0.00001", "--batch-sizes", "2",
                           *SMALL, status=1)
        self.assertEqual([r["status"] for r in found["rows"]], ["OK", "DIFFERS"])
        self.assertEqual(found["best"]["throughput"]["row"], 0, "what is wrong is never the best")
        finding = [f for f in found["diagnosis"] if f["id"] == "outputs-differ"]
        self.assertEqual([(f["row"], f["level"]) for f in finding], [(1, "warning")])
        self.assertGreater(found["rows"][1]["samples_per_s"], 0)

    def test_overflow_of_half_precision(self):
        found = self.bench("--engine", "onnxruntime", "--precision", "fp32", "fp16", "--batch-sizes", "2", "--model",
                           "python:engine_models:huge", status=1)
        self.assertEqual([r["status"] for r in found["rows"]], ["OK", "DIFFERS"], found["rows"])


@needs_ort
class Files(Bench):
    def model(self, name, dims, ops=("Relu",), weights=()):
        from onnx import TensorProto, helper, save
        nodes, last = [], "x"
        for number, op in enumerate(ops):
            nodes.append(helper.make_node(op, [last], ["y%d" % number]))
            last = "y%d" % number
        tensors = [helper.make_tensor(n, TensorProto.FLOAT, [2], [0.5, 1.5]) for n in weights]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)]
        inputs += [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in weights]  # as old exporters did
        graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(last, TensorProto.FLOAT, dims)], tensors)
        path = os.path.join(self.folder, name)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
        return path

    def test_a_file_alone(self):
        self.model("mine.onnx", ["n", 3, "h", "w"], ("Relu", "Sigmoid"))
        found = self.bench("--onnx", "mine.onnx", "--batch-sizes", "2", "--img-size", "12", "--precision", "fp32", "fp16")
        for row in found["rows"]:
            self.check_row(row, 2e-3)
            self.assertEqual(row["outputs"]["reference"], "onnxruntime, fp32, CPU")
            self.assertIsNone(row["outputs"]["top1"], "an image is no list of scores")
        found = self.bench("--engine", "torch", "onnxruntime", "--onnx", "mine.onnx", "--batch-sizes", "2", "--img-size", "12")
        self.assertEqual([r["status"] for r in found["rows"]], ["FAILED", "OK"])
        self.assertIn("--model", found["rows"][0]["reason"])

    def test_a_fixed_batch(self):
        self.model("fixed.onnx", [4, 6])
        found = self.bench("--onnx", "fixed.onnx", "--batch-sizes", "4")
        self.check_row(found["rows"][0], 1e-6)
        self.refuse(3, "has a fixed batch of 4: --batch-sizes 4", "--onnx", "fixed.onnx")

    def test_a_file_that_onnxruntime_refuses(self):
        self.model("odd.onnx", ["n", 4], ("NoSuchOperator",))
        self.refuse(3, "onnxruntime cannot run odd.onnx", "--onnx", "odd.onnx")

    def test_the_reader_against_onnxruntime(self):
        import onnxruntime
        path = self.model("weights.onnx", ["n", 3, 8, 8], weights=("w", "b"))
        inputs, outputs = onnx_file.read(path)
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        self.assertEqual([(i.name, i.shape) for i in inputs], [(i.name, i.shape) for i in session.get_inputs()])
        self.assertEqual(outputs, [o.name for o in session.get_outputs()])

    def test_no_bytes_make_the_reader_fall_over(self):
        path = self.model("whole.onnx", ["n", 3, 8, 8], weights=("w", "b"))
        with open(path, "rb") as file:
            whole = file.read()
        broken = os.path.join(self.folder, "broken.onnx")
        refused = 0
        for at in range(len(whole)):
            for cut in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xff]) + whole[at + 1:]):
                with open(broken, "wb") as file:
                    file.write(cut)
                try:
                    onnx_file.read(broken)
                except RecordError as why:
                    self.assertIn("broken.onnx", str(why))
                    refused += 1
        self.assertGreater(refused, len(whole), "every cut is refused")


@needs_ort
class StandIn(Bench):
    """The fake of trtexec: its options are ours, its outputs onnxruntime's, its times made up."""

    def play(self, plays, *words, status=0, **more):
        with mock.patch.dict(os.environ, {"TRTEXEC_PLAYS": plays, "PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]}):
            return self.bench("--engine", "torch", "trtexec", "--trtexec", os.path.join(ENGINES, "trtexec"), "--batch-sizes", "2",
                              *SMALL, *words, status=status, **more)

    def test_times_and_outputs(self):
        found = self.play("plain", "--precision", "fp32")
        row = found["rows"][1]
        self.assertEqual((row["status"], row["memory_bytes"]), ("OK", None), "the card that it speaks of is not there")
        self.assertLess(row["outputs"]["max_rel"], 1e-5)
        self.assertTrue(2 <= row["median_ms"] <= 2.5, row)
        self.assertEqual(row["engine_version"], "10.3.0")
        self.assertTrue(any("FAKE" in note for note in found["notes"]), found["notes"])

    def test_engines_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = os.path.join(folder, "kept")
            self.play("plain", "--precision", "fp32", "--keep-engines", kept)
            self.assertEqual(sorted(os.listdir(kept)), ["model.onnx", "trtexec-fp32-batch2.engine"])

    def test_wrong_outputs(self):
        found = self.play("off", status=1)
        self.assertEqual([r["status"] for r in found["rows"]], ["OK", "DIFFERS"])

    def test_what_goes_wrong(self):
        found = self.play("memory")
        self.assertEqual([r["status"] for r in found["rows"]], ["OK", "OOM"])
        found = self.play("fails")
        self.assertEqual(found["rows"][1]["status"], "FAILED")
        self.assertIn("No importer registered", found["rows"][1]["reason"])

    def test_without_the_file_of_times(self):
        row = self.play("summary")["rows"][1]
        self.assertEqual((row["total_ms"], row["steps"], row["samples_per_s_ci"]), (2.25, 1, [None, None]))


class Texts(unittest.TestCase):
    def read(self, name):
        with open(os.path.join(ENGINES, name), encoding="utf-8") as file:
            return Summary(file.read())

    def test_reported_texts(self):
        ten = self.read("trtexec-10.2.txt")
        self.assertEqual(ten.version, "10.2.0")
        self.assertEqual(ten.figures["Throughput"], {"qps": 130.298})
        self.assertEqual(ten.figures["GPU Compute Time"], {"min": 5.34595, "max": 13.3388, "mean": 7.58404, "median": 7.14139,
                                                           "percentile(90%)": 10.2881, "percentile(95%)": 10.8175,
                                                           "percentile(99%)": 12.9485})
        eight = self.read("trtexec-8.0.txt")
        self.assertEqual(eight.figures["Latency"]["percentile(99%)"], 638.123)
        self.assertEqual(self.read("trtexec-8.6.txt").version, "8.6.1")
        memory = self.read("trtexec-10.3-memory.txt")
        self.assertEqual(len(memory.errors), 4)
        self.assertIn("out of memory", memory.errors[0])

    def test_files_that_are_not_there_or_broken(self):
        self.assertEqual(read_times("/nonexistent"), [])
        with self.assertRaises(RecordError):
            read_outputs("/nonexistent", ["y"])


class Compared(unittest.TestCase):
    def test_by_hand(self):
        wanted = [numpy.array([[1.0, 2.0], [4.0, -8.0]], dtype="float32")]
        found = [numpy.array([[1.0, 2.5], [4.0, -7.0]], dtype="float32")]
        event = compare.difference(found, wanted)
        self.assertEqual(event, {"samples": 2, "max_abs": 1.0, "mean_abs": 0.375, "max_rel": 0.125, "mean_rel": 0.1, "top1": 1.0})
        self.assertEqual(compare.difference([found[0][:, ::-1]], wanted)["top1"], 0)
        self.assertEqual(compare.difference([found[0][:1]], wanted)["samples"], 1)
        found[0][0, 0] = numpy.inf
        self.assertIn("not finite", compare.difference(found, wanted)["problem"])
        self.assertIn("1 outputs, the reference has 2", compare.difference(found, wanted * 2)["problem"])

    def test_the_worst_output_counts(self):
        one, two = numpy.ones((2, 3)), numpy.ones((2, 5))
        self.assertEqual(compare.difference([one, two * 1.5], [one, two])["max_rel"], 0.5)


if __name__ == "__main__":
    unittest.main()
