# SPDX-License-Identifier: Apache-2.0
"""Ways to start a training with the real launchers and the real packages: the emitter is in it, once a rank; where it cannot be,
`fit` says so within seconds. One small script trains 3 steps of 8, 8 and 6 samples."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

import examples

SLOW = "test_workers_and_children test_import_orders test_a_title_of_its_own"

TRAIN = """
import gc, os, sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def main():
    torch.manual_seed(0)
    net, data = nn.Linear(8, 3), TensorDataset(torch.randn(22, 8), torch.randint(0, 3, (22,)))
    world = int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        torch.distributed.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for x, y in DataLoader(data, batch_size=8, num_workers=int(os.environ.get("WORKERS", 0)),
                           multiprocessing_context=os.environ.get("START") or None):
        optimizer.zero_grad(); nn.functional.cross_entropy(net(x), y).backward(); optimizer.step()
    if world > 1:
        torch.distributed.barrier()
        del net, optimizer; gc.collect()  # DDP would keep gloo's threads until the interpreter ends, where they may abort it (pytorch issue 190489)
        torch.distributed.destroy_process_group()
if __name__ == "__main__": main()
"""
ACCELERATE = """
import torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
net = torch.nn.Linear(8, 3)
data = torch.utils.data.TensorDataset(torch.randn(48, 8), torch.randint(0, 3, (48,)))
net, optimizer, loader = accelerator.prepare(net, torch.optim.SGD(net.parameters(), 0.1), torch.utils.data.DataLoader(data, batch_size=8))
for x, y in loader:
    accelerator.backward(torch.nn.functional.cross_entropy(net(x), y)); optimizer.step(); optimizer.zero_grad()
accelerator.wait_for_everyone()
accelerator.end_training()
"""
FORKS = """
import multiprocessing, runpy, torch
torch.ones(2) @ torch.ones(2)
def child(path): runpy.run_path(path, run_name="__main__")
if __name__ == "__main__":
    p = multiprocessing.get_context(%r).Process(target=child, args=(%r,)); p.start(); p.join()
"""
LOOKS = """
import importlib, importlib.util
for name in ("torch", "torch.utils.data", "datasets", "transformers"): importlib.util.find_spec(name)
import %s
"""


def program(name):
    """A program beside this Python, or in PATH."""
    found = shutil.which(name, path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    if found is None:
        raise unittest.SkipTest("SKIPPED: %s is not installed" % name)
    return found


class Launchers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.script = self.put("train.py", TRAIN)

    def put(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def trained(self, command, samples=(8, 8, 6), world=1, **more):
        """Each rank told of its steps, and nobody else of anything."""
        status, output, told = examples.run_watched(command, self.folder, **more)
        self.assertEqual(status, 0, output[-3000:])
        seen = []
        for lines in told:
            starts = [line for line in lines if line["event"] == "start"]
            seen.append((starts[0]["rank"], starts[0]["world"], [line["samples"] for line in lines if line["event"] == "step"]))
        self.assertEqual(sorted(seen), [(rank, world, list(samples)) for rank in range(world)], output[-2000:])
        return output

    def test_python_itself(self):
        """By a module, with -P, from a zip file, behind a shell; with a sitecustomize of the user's and a path of their own."""
        with zipfile.ZipFile(os.path.join(self.folder, "app.pyz"), "w") as archive:
            archive.writestr("__main__.py", TRAIN)
        self.put("site/sitecustomize.py", "print('mine')")
        self.trained([sys.executable, "-m", "train"])
        self.trained([sys.executable, "app.pyz"])
        self.assertIn("mine", self.trained(["bash", "-c", 'exec "$0" "$@"', sys.executable, self.script],
                                           PYTHONPATH=os.path.join(self.folder, "site")))
        if sys.version_info >= (3, 11):
            self.trained([sys.executable, "-P", self.script])

    def test_workers_and_children(self):
        """Data workers, forked and spawned, say nothing; a child that trains does."""
        for start in ("fork", "spawn"):
            with self.subTest(start):
                self.trained([sys.executable, self.script], WORKERS="1", START=start)
                self.trained([sys.executable, self.put("forks.py", FORKS % (start, self.script))])

    def test_import_orders(self):
        """torch is looked up by others before it is imported."""
        for module in ("transformers", "datasets", "evaluate"):
            with self.subTest(module):
                examples.need(module)
                self.trained([sys.executable, self.put("looks.py", LOOKS % module + TRAIN)])

    def test_torchrun(self):
        command = examples.torchrun("8", script=self.script)
        self.trained(command[:-2], world=2)

    def test_accelerate(self):
        examples.need("accelerate")
        script = self.put("accelerated.py", ACCELERATE)
        launch = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_machines", "1", "--mixed_precision", "no",
                  "--dynamo_backend", "no", "--num_processes"]
        self.trained([*launch, "1", script], samples=[8] * 6)

    def test_uv(self):
        self.trained([program("uv"), "run", "--no-project", "--offline", "--python", sys.executable, self.script])

    def test_poetry(self):
        poetry = program("poetry")
        self.put("pyproject.toml", '[project]\nname = "x"\nversion = "0.1"\nrequires-python = ">=3.9"\n[tool.poetry]\n'
                                   "package-mode = false\n")
        self.trained([poetry, "run", sys.executable, self.script], POETRY_VIRTUALENVS_CREATE="false",
                     HOME=self.folder, PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring")

    def test_a_title_of_its_own(self):
        examples.need("setproctitle")
        text = TRAIN.replace("def main():", "import setproctitle\nsetproctitle.setproctitle('my training ' + 'x' * 3000)\ndef main():")
        self.trained([sys.executable, self.put("titled.py", text)])

    def fit(self, *words):
        return subprocess.run([examples.BATCHFIT, "fit", "--device", "cpu", "--memory", "3GiB", *words], capture_output=True, text=True,
                              cwd=self.folder, timeout=280,
                              env=examples.environment(self.folder, BATCHFIT_STORE=os.path.join(self.folder, "history")))

    def refused(self, command, reason):
        """Two seconds after torch was loaded, long before --start-limit, by the process and what is to be done."""
        script = self.put("long.py", TRAIN.replace('"__main__": main()', '"__main__":\n    while True: main()'))
        began = time.monotonic()
        done = self.fit("--", *command, script, "{batch}")
        self.assertLess(time.monotonic() - began, 100)  # torch's import on a machine that has other things to do
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertRegex(done.stderr, reason)

    def test_jax_by_its_printed_steps(self):
        examples.need("jax")
        script = self.put("jaxed.py", """
import jax, jax.numpy as jnp, sys, time
step = jax.jit(lambda w, x: w - 0.01 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w))
w, x = jnp.ones((8, 8)), jnp.ones((int(sys.argv[1]), 8))
for i in range(100000):
    w = step(w, x).block_until_ready()
    time.sleep(0.02)
    print("step: %d, loss: %.3f" % (i, float(w.sum())))
""")
        done = self.fit("--min-batch-size", "8", "--max-batch-size", "8", "--json", "--", sys.executable, script, "{batch}")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual([(t["batch_size"], t["status"]) for t in answer["trials"]], [(8, "OK")])
        self.assertLess(answer["trials"][0]["samples_per_s"], 8 / 0.02)
        self.assertTrue(any("read from the command's output" in note for note in answer["notes"]), answer["notes"])

    def test_refused(self):
        for option in ("-I", "-E", "-S"):
            with self.subTest(option):
                python = [sys.executable, option]
                if option == "-S":  # the packages are where site would have put them
                    python += ["-c", "import sys; sys.path[:0] = %r; sys.argv = sys.argv[1:]; exec(open(sys.argv[0]).read())" % sys.path]
                self.refused(python, r"PyTorch runs in process \d+, whose Python was started with %s" % option)
        self.refused(["env", "-i", sys.executable], r"PyTorch runs in process \d+, which did not get the environment")


if __name__ == "__main__":
    unittest.main()
