# SPDX-License-Identifier: Apache-2.0
"""The built-in workload: it trains for real, on made-up samples, HDF5 files and models of the libraries, and ends well."""

import contextlib
import importlib.util
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import numpy
import torch

from helper import HERE, PYTHON, modern, record

SLOW = "test_sigterm_is_quiet test_two_ranks"

try:
    import h5py
except ImportError:  # the tests that need it skip themselves
    h5py = None

torch.set_num_threads(1)  # small tensors: threads that wait for each other on a busy machine take most of the time


def run(*arguments):
    """(status, stdout, stderr) of the workload on the CPU, in this process."""
    from batchfit.workload.__main__ import main
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["--device", "cpu", *map(str, arguments)])
    return status, out.getvalue(), err.getvalue()


def start(*arguments, **environment):
    """The same as a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "batchfit.workload", "--device", "cpu", *map(str, arguments)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                            env=dict(os.environ, PYTHONPATH=os.pathsep.join([PYTHON, HERE]), **environment))


def loss_of(result):
    status, out, err = result
    assert status == 0, err
    return float(re.fullmatch(r"batchfit\.workload: \d+ steps of \d+ samples on cpu, last loss (\S+)\n", out).group(1))


class Network(unittest.TestCase):
    def test_parameters_of_depth_and_hidden(self):
        from batchfit.workload.network import Network as Made
        for depth, hidden in ((3, 16), (6, 64), (0, 4)):
            block = 2 * 9 * hidden * hidden + hidden + 2 * hidden
            count = 10 * hidden + depth * block + 10 * hidden + 10
            self.assertEqual(sum(p.numel() for p in Made(1, 2, 10, depth, hidden).parameters()), count)

    def test_shapes(self):
        from batchfit.workload.network import Network as Made
        for axes in (1, 2, 3):
            x = torch.randn((2, 3) + (5,) * axes)
            self.assertEqual(Made(3, axes, 7)(x).shape, (2, 7))
            self.assertEqual(Made(3, axes, 7, dense=True)(x).shape, (2, 7) + (5,) * axes)


class Estimate(unittest.TestCase):
    def test_a_few_samples_tell_what_many_keep(self):
        from batchfit.workload import estimate, models, train
        from batchfit.workload.__main__ import parser
        for precision in ("fp32", "amp-bf16"):
            options = parser().parse_args(["--img-size", "24", "--batch-size", "24", "--precision", precision, "--optimizer", "adam"])
            task = models.load(options, None)

            def autocast():
                return train._autocast(options, torch.device("cpu"))
            state = 4 * 4 * sum(p.numel() for p in task.model.parameters())
            many = estimate.kept(task, autocast, 24)
            self.assertGreater(many, 24 * 24 * 24 * 4)
            self.assertAlmostEqual(estimate.needed(task, options, autocast) / (state + many), 1, delta=0.01)

    def test_what_cannot_fit_is_no_training(self):
        made = start("--steps", "1", "--batch-size", "64", "--img-size", "64", BATCHFIT_MEMORY_LIMIT=str(100 << 20))
        out, err = made.communicate(timeout=300)
        self.assertEqual(made.returncode, 1, out + err)
        self.assertRegex(err.splitlines()[-1], r"^MemoryError: batch 64 needs at least \d+ MiB, .* 100 MiB are allowed$")
        self.assertRegex(out, r"^batchfit.workload: batch 64 needs at least")


class Synthetic(unittest.TestCase):
    def test_seed_decides(self):
        first, again, other = (run("--steps", 2, "--batch-size", 4, "--img-size", 16, "--seed", s) for s in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(loss_of(first), loss_of(other))

    def test_every_micro_batch_is_drawn_and_full(self):
        from batchfit.workload import data
        drawn, original = [], data.Synthetic.__getitem__

        def count(dataset, index):
            drawn.append(index)
            return original(dataset, index)
        with mock.patch.object(data.Synthetic, "__getitem__", count):
            status, out, _ = run("--steps", 3, "--batch-size", 5, "--accumulation", 2, "--seq-len", 32)
        self.assertEqual((status, drawn), (0, list(range(30))))
        self.assertIn("3 steps of 10 samples", out)

    def test_workers_precision_optimizers(self):
        small = ("--steps", 2, "--batch-size", 4, "--img-size", 8)
        plain = loss_of(run(*small))
        self.assertEqual(loss_of(run(*small, "--num-workers", 2)), plain)
        self.assertAlmostEqual(loss_of(run(*small, "--precision", "amp-bf16")), plain, delta=0.1)
        for optimizer in ("sgd", "adam", "rmsprop", "adafactor", "lion"):
            self.assertLess(loss_of(run(*small, "--optimizer", optimizer)), 20)

    def test_what_this_torch_lacks(self):
        status, _, err = run("--steps", 1, "--img-size", 8, "--precision", "amp-fp16")
        self.assertEqual(status, 0 if modern() else 4, err)
        if not modern():
            self.assertIn("use amp-bf16", err)
            self.assertEqual(run("--compile")[0], 4)
        if not torch.cuda.is_available():
            self.assertEqual(run("--device", "cuda")[0], 4)


@unittest.skipIf(h5py is None, "SKIPPED: h5py is not installed")
class Hdf5(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.files = folder.name, 0

    @property
    def path(self):
        return os.path.join(self.folder, "%d.h5" % self.files)

    def write(self, **datasets):
        self.files += 1  # a name of its own: a dataset that still has the last one open must not matter
        with h5py.File(self.path, "w") as file:
            for name, values in datasets.items():
                file[name.replace("__", "/")] = values

    def read(self, wanted=None):
        from batchfit.workload.hdf5 import File
        return File(self.path, wanted)

    def test_what_stands_in_it(self):
        def real(*shape):
            return numpy.random.default_rng(0).normal(size=shape)
        labels = numpy.array([0, 1, 2, 1])
        for datasets, inputs, targets, shape, kind, outputs in (
                (dict(x=real(4, 1, 8, 9), y=labels), "x", "y", (1, 8, 9), "class", 3),
                (dict(images=real(4, 8, 9, 3), labels=labels[:, None]), "images", "labels", (3, 8, 9), "class", 3),
                (dict(train__spectra=real(4, 100), train__target=real(4)), "train/spectra", "train/target", (1, 100), "values", 1),
                (dict(b=real(4, 100), a=real(5, 3)), "b", None, (1, 100), "dense", 1),
                (dict(data=real(4, 40, 50), target=real(4, 40, 50)), "data", "target", (1, 40, 50), "dense", 1),
                (dict(x=real(4, 20, 20, 20), y=real(4, 6)), "x", "y", (1, 20, 20, 20), "values", 6),
                (dict(x=real(4), y=labels + 70000), "x", "y", (1, 1), "values", 1)):
            self.write(**datasets)
            file = self.read()
            self.assertEqual((file.inputs, file.targets, file.shape, file.kind), (inputs, targets, shape, kind))
            self.assertEqual(file.classes if kind == "class" else file.outputs, outputs)
            self.assertEqual(tuple(file[3][0].shape), shape)
            self.assertEqual(run("--data-path", self.path, "--steps", 1, "--batch-size", 6)[0], 0, datasets.keys())

    def test_values_arrive(self):
        images = numpy.arange(4 * 5 * 6 * 3).reshape(4, 5, 6, 3)
        self.write(images=images.astype("uint8"), labels=numpy.array([0, 1, 2, 1]))
        image, label = self.read()[2]
        self.assertEqual(label, 2)
        self.assertTrue(torch.equal(image, torch.tensor(images[2].astype("uint8")).permute(2, 0, 1) / 255))

    def test_key(self):
        self.write(x=numpy.zeros((4, 3, 8)), other=numpy.zeros((6, 2, 8)), why=numpy.arange(6))
        file = self.read("other,why")
        self.assertEqual((file.inputs, file.targets, len(file)), ("other", "why", 6))
        self.assertEqual(run("--data-path", self.path, "--data-key", "other", "--steps", 1, "--batch-size", 2)[0], 0)

    def test_it_learns(self):
        values = numpy.random.default_rng(0).normal(size=(64, 32)).astype("float32")
        labels = numpy.arange(64) % 2
        self.write(x=values + 3 * labels[:, None], y=labels)
        self.assertLess(loss_of(run("--data-path", self.path, "--steps", 60, "--batch-size", 16, "--lr", 0.01)), 0.3)

    def test_each_worker_opens_it(self):
        self.write(x=numpy.random.default_rng(0).normal(size=(100, 1, 16, 16)), y=numpy.arange(100) % 5)
        results = [run("--data-path", self.path, "--steps", 4, "--batch-size", 8, "--num-workers", w) for w in (0, 2)]
        self.assertEqual(loss_of(results[0]), loss_of(results[1]))

    def refuse(self, status, *words, options=()):
        got, out, err = run("--data-path", self.path, "--steps", 1, *options)
        self.assertEqual((got, out), (status, ""), err)
        self.assertRegex(err, r"\Abatchfit\.workload: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, err)

    def test_what_cannot_be_used(self):
        self.refuse(3, "no such file")
        with open(self.path, "w") as f:
            f.write("x,y\n1,2\n")
        self.refuse(3, "not an HDF5 file")
        self.write(x=numpy.zeros((300, 40)))
        os.truncate(self.path, 900)
        self.refuse(3, "HDF5")
        self.write(text=numpy.array([b"a", b"b"]))
        self.refuse(3, "no numeric dataset")
        self.write(x=numpy.zeros((0, 4)))
        self.refuse(3, "x is empty")
        self.write(x=numpy.zeros((2, 20, 20, 20, 20)))
        self.refuse(3, "20x20x20x20")
        self.write(x=numpy.zeros((4, 3, 8)), y=numpy.zeros((4, 5, 6)))
        self.refuse(3, "do not match inputs")
        self.write(x=numpy.zeros((4, 3, 8)), y=numpy.array([0, 1, -1, 2]))
        self.refuse(3, "class -1")
        self.refuse(3, "no dataset 'z'", "x, y", options=("--data-key", "z"))
        self.write(x=numpy.zeros((4, 3, 8)), y=numpy.arange(5))
        self.refuse(3, "x has 4 samples, y has 5", options=("--data-key", "x,y"))

    def test_missing_h5py(self):
        self.write(x=numpy.zeros((4, 8)))
        with mock.patch.dict(sys.modules, {"h5py": None}):
            self.refuse(4, "pip install h5py")


class Models(unittest.TestCase):
    def need(self, module):
        if importlib.util.find_spec(module) is None:
            self.skipTest("SKIPPED: %s is not installed" % module)

    def test_libraries_train(self):
        for module, name, *more in (("timm", "timm:resnet18", "--img-size", 32),
                                    ("ultralytics", "ultralytics:yolo11n", "--img-size", 64)):
            with self.subTest(name):
                self.need(module)
                self.assertLess(loss_of(run("--model", name, "--steps", 1, "--batch-size", 2, *more)), 100)

    def test_transformers_train(self):
        self.need("transformers")
        small = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=50)
        with tempfile.TemporaryDirectory() as folder:
            for kind, values, *more in (("bert", small, "--seq-len", 8), ("vit", small, "--img-size", 32),
                                        ("gpt2", dict(n_embd=32, n_layer=1, n_head=2, vocab_size=50), "--seq-len", 8),
                                        ("t5", dict(d_model=32, d_kv=16, d_ff=32, num_layers=1, num_heads=2, vocab_size=50,
                                                    decoder_start_token_id=0), "--seq-len", 8)):
                path = os.path.join(folder, kind + ".json")
                with open(path, "w") as f:
                    json.dump(dict(values, model_type=kind), f)
                with self.subTest(kind):
                    self.assertLess(loss_of(run("--model", "hf:" + path, "--steps", 2, "--batch-size", 2, *more)), 100)

    def test_own_function(self):
        self.assertLess(loss_of(run("--model", "python:models:conv", "--steps", 2, "--batch-size", 2)), 20)

    def test_weights_are_real_and_the_recorder_is_left_alone(self):
        before = record("python:models:conv").lines
        run("--model", "python:models:conv", "--steps", 1, "--batch-size", 2)
        self.assertEqual(record("python:models:conv").lines, before)

    @unittest.skipIf(h5py is None, "SKIPPED: h5py is not installed")
    def test_images_of_a_file(self):
        self.need("timm")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "images.h5")
            with h5py.File(path, "w") as file:
                file["images"], file["labels"] = numpy.zeros((6, 32, 32, 3), "uint8"), numpy.arange(6)
            options = ("--model", "timm:resnet18", "--data-path", path, "--steps", 1, "--batch-size", 2)
            self.assertLess(loss_of(run(*options, "--img-size", 32)), 20)
            for more, word in (((), "--img-size"), (("--img-size", 32, "--num-classes", 4), "--num-classes")):
                status, _, err = run(*options, *more)
                self.assertEqual(status, 3)
                self.assertIn(word, err)


class CommandLine(unittest.TestCase):
    def test_usage(self):
        for arguments in (["--batch-size", "0"], ["--batch-size", "x"], ["--steps", "-1"], ["--precision", "fp8"], ["--no-such"],
                          ["--model", "resnet"], ["--data-key", "x"], ["--accumulation", "0"], ["--optimizer", "none"]):
            status, out, err = run(*arguments)
            self.assertEqual((status, out), (2, ""), arguments)
            self.assertRegex(err, r"\Abatchfit\.workload: [^\n]+\n\Z")

    def test_no_such_model(self):
        if importlib.util.find_spec("timm") is None:
            self.skipTest("SKIPPED: timm is not installed")
        status, _, err = run("--model", "timm:nope")
        self.assertEqual(status, 3)
        self.assertIn("nope", err)

    def test_an_error_of_the_training_is_shown_as_python_shows_it(self):
        with mock.patch("batchfit.workload.models.F.cross_entropy", side_effect=RuntimeError("out of memory, says the test")):
            with self.assertRaisesRegex(RuntimeError, "says the test"):
                run("--steps", 1, "--img-size", 8)


class Ending(unittest.TestCase):
    def test_sigterm_is_quiet(self):
        for workers in (0, 2):
            child = start("--batch-size", 4, "--img-size", 16, "--num-workers", workers, "--model", "python:test_workload:told")
            line = child.stderr.readline()
            time.sleep(0.5)
            os.killpg(child.pid, signal.SIGTERM)
            out, err = child.communicate(timeout=60)
            self.assertEqual((line, child.returncode, out, err), ("training\n", 0, "", ""))

    def test_a_worker_without_its_training_is_quiet(self):
        from batchfit.workload import data
        shown = []
        with mock.patch("sys.excepthook", lambda *what: shown.append(what[0])):
            data.quiet_worker(0)
            for kind in (EOFError, BrokenPipeError, ConnectionResetError, ValueError):
                sys.excepthook(kind, kind(), None)
        self.assertEqual(shown, [ValueError])

    def test_two_ranks(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        children = [start("--steps", 2, "--batch-size", 4, "--img-size", 16, WORLD_SIZE="2", RANK=str(rank), LOCAL_RANK=str(rank),
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1") for rank in (0, 1)]
        results = [child.communicate(timeout=120) for child in children]
        self.assertEqual([child.returncode for child in children], [0, 0], results)
        self.assertIn("2 steps of 8 samples", results[0][0])
        self.assertEqual(results[1][0], "")


class _Told(torch.nn.Linear):
    """Says once that it trains."""

    def forward(self, x):
        if not getattr(self, "said", False):
            print("training", file=sys.stderr, flush=True)
            self.said = True
        return super().forward(x.mean((2, 3)))


def told():
    """For test_sigterm_is_quiet."""
    return _Told(3, 5)


if __name__ == "__main__":
    unittest.main()
