# SPDX-License-Identifier: Apache-2.0
"""tests/gpu without a GPU: its tables, its verdicts, its questions to a FAKE of the driver, and that it skips loudly."""

import contextlib
import csv
import io
import os
import subprocess
import sys
import tempfile
import unittest

from helper import HERE

GPU = os.path.join(HERE, "..", "gpu")
STANDIN = os.path.join(HERE, "..", "..", "build", "tests", "standin")
sys.path.insert(0, GPU)

import compare  # noqa: E402

import torch  # noqa: E402

MIB = 1 << 20


def row(kind="cuda", predicted=1000 * MIB, measured=1000 * MIB, **more):
    """FAKE for a measured row."""
    return dict(dict(source="fake:net", knobs="precision=fp32", batch=32, tape=kind, predicted_allocated=predicted,
                     torch_allocated=measured, predicted_reserved=1200 * MIB, torch_reserved=1200 * MIB, predicted_needed=1100 * MIB,
                     nvml_process=1700 * MIB, nvml_device=1710 * MIB, device="fake, no card"), **more)


class Tables(unittest.TestCase):
    def test_the_models_are_at_least_ten_and_known_to_the_recorder(self):
        from batchfit.knobs import Knobs
        lines = compare.read_models(os.path.join(GPU, "models.tsv"))
        self.assertGreaterEqual(len({source for source, _, _ in lines}), 10)
        for source, knobs, batch in lines:
            Knobs(source.split(":")[0], torch.__version__, compare.said_of(knobs))
            self.assertNotIn(batch, (2, 4, 8))

    def test_a_broken_line_is_named(self):
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
            f.write("# comment\ntimm:x precision=fp32 32\n")
            f.flush()
            with self.assertRaisesRegex(SystemExit, ":2: not SOURCE"):
                compare.read_models(f.name)

    def test_knobs_as_options_and_as_values(self):
        knobs = {"img_size": "64", "ema": "true", "foreach": "false", "precision": "fp32"}
        self.assertEqual(compare.arguments_of(knobs), ["--img-size", "64", "--ema", "--no-foreach", "--precision", "fp32"])
        self.assertEqual(compare.said_of(knobs), {"img_size": 64, "ema": True, "foreach": False, "precision": "fp32"})

    def test_csv_keeps_unknown_apart_from_zero(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "measured", "x.csv")
            compare.write_csv(path, [row(nvml_process=None, upper_sizes=0), row("meta", error='predicting: a "b", c')])
            with open(path, newline="", encoding="utf-8") as f:
                read = list(csv.DictReader(f))
            self.assertEqual(os.listdir(os.path.dirname(path)), ["x.csv"])
        self.assertEqual(tuple(read[0]), compare.COLUMNS)
        self.assertEqual((read[0]["nvml_process"], read[0]["upper_sizes"], read[1]["upper_sizes"]), ("", "0", ""))
        self.assertEqual(read[1]["error"], 'predicting: a "b", c')
        self.assertEqual(int(read[0]["predicted_allocated"]), 1000 * MIB)

    def test_verdicts(self):
        self.assertEqual(compare.verdict(row(predicted=1019 * MIB)), "passed")
        self.assertEqual(compare.verdict(row(predicted=1021 * MIB)), "failed")
        self.assertEqual(compare.verdict(row("meta", predicted=1500 * MIB)), "passed")
        self.assertEqual(compare.verdict(row(predicted=None)), "failed")
        self.assertEqual(compare.verdict(row(error="measuring: cannot import timm")), "skipped")
        self.assertEqual(compare.verdict(row(error="measuring: died")), "failed")

    def test_summary(self):
        rows = [row("meta", predicted=900 * MIB), row(predicted=1010 * MIB), row(predicted=1030 * MIB), row(error="died")]
        lines = compare.summary(rows)
        self.assertEqual(lines[0], "meta tape, allocated: median error -10.00 %, worst -10.00 %, 1 rows")
        self.assertIn("cuda tape, allocated: median error +1.00 %, worst +3.00 %, 3 rows", lines)
        self.assertIn("outside the allocator (driver's figure less torch's reserved): median 510 MiB, 510 to 510", lines)
        self.assertEqual(lines[-1], "2 passed, 2 failed, 0 skipped")


class Flow(unittest.TestCase):
    def setUp(self):
        self.saved = compare.child, compare.predict
        self.addCleanup(lambda: [setattr(compare, n, f) for n, f in zip(("child", "predict"), self.saved)])

    def run_it(self, child, predict):
        compare.child, compare.predict = child, predict
        with tempfile.TemporaryDirectory() as folder:
            out = io.StringIO()
            path = os.path.join(folder, "x.csv")
            with contextlib.redirect_stdout(out):
                status = compare.main(["--out", path, "--only", "distilgpt2"])
            with open(path, newline="", encoding="utf-8") as f:
                return status, out.getvalue(), list(csv.DictReader(f))

    def test_two_rows_a_line(self):
        """FAKES for the processes and the program."""
        def child(what, order):
            if what == "card":
                return {"device": "fake, no card", "uuid": None, "torch": "2", "cuda": "12", "cudnn": 9}
            return {"torch_allocated": 100, "torch_reserved": 200, "nvml_process": None, "nvml_device": 300, "driver": "1"}

        def predict(batchfit, source, knobs, batch, kind, folder):
            self.assertEqual((source, batch, knobs["seq_len"]), ("hf:distilgpt2", 16, "512"))
            return {"predicted_allocated": 101, "predicted_reserved": 200, "predicted_needed": 150}
        status, out, rows = self.run_it(child, predict)
        self.assertEqual((status, [r["tape"] for r in rows]), (0, ["meta", "cuda"]))
        self.assertTrue(out.endswith("2 passed, 0 failed, 0 skipped\n"), out)

    def test_what_fails_is_in_the_table(self):
        def child(what, order):
            if what == "card":
                return {"device": "fake, no card"}
            raise RuntimeError("CUDA error")

        def predict(*_):
            raise RuntimeError("record: error: no")
        status, out, rows = self.run_it(child, predict)
        self.assertEqual(status, 1)
        self.assertEqual(rows[0]["error"], "measuring: CUDA error; predicting: record: error: no")

    def test_without_a_card_it_skips_loudly(self):
        if torch.cuda.is_available():
            self.skipTest("this machine has a card")
        for command in ([sys.executable, os.path.join(GPU, "compare.py")], [os.path.join(GPU, "run")]):
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ, BATCHFIT_PYTHON=sys.executable))
            self.assertEqual(done.returncode, 77)
            self.assertTrue(done.stdout.startswith("SKIP: no GPU"), done.stdout)
            self.assertTrue(done.stdout.endswith("0 passed, 0 failed, 1 skipped\n"), done.stdout)


QUESTIONS = """
import sys
sys.path.insert(0, sys.argv[1])
from nvml import Card, Watch
card = Card()
watch = Watch(card, 0.001)
watch.start()
before = card.used()
open(sys.argv[2], "w").write("1048576")
while watch.most is None or watch.most == before: pass
open(sys.argv[2], "w").write("0")
print(before, watch.finish(), card.driver(), card.processes(), card.process({}))
"""


class Driver(unittest.TestCase):
    def test_the_questions_to_the_driver(self):
        if not os.path.exists(os.path.join(STANDIN, "libnvidia-ml.so.1")):
            self.skipTest("SKIPPED: the fake driver is not built")
        with tempfile.TemporaryDirectory() as folder:
            used = os.path.join(folder, "used")
            done = subprocess.run(
                [sys.executable, "-c", QUESTIONS, GPU, used], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                env=dict(os.environ, LD_LIBRARY_PATH=STANDIN, BATCHFIT_STANDIN_USED=used,
                         BATCHFIT_STANDIN_MACHINE=os.path.join(HERE, "..", "machines", "rtx3060")))
        self.assertEqual(done.stdout, "%d %d 535.183.01 {} None\n" % (412 * MIB, 413 * MIB), done.stderr)


if __name__ == "__main__":
    unittest.main()
