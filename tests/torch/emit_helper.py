# SPDX-License-Identifier: Apache-2.0
"""What the emitter's tests share: a program is run with the hook in its environment, and its lines are read. The first test
that sees an event sees it as doc/formats/steps.md writes it."""

import atexit
import contextlib
import glob
import json
import os
import select
import signal
import subprocess
import sys
import tempfile

from helper import HERE, PYTHON

HOOK = os.path.realpath(os.path.join(PYTHON, "hook"))
TIMES = ("io_ms", "h2d_ms", "forward_ms", "backward_ms", "optimizer_ms", "other_ms")

# A net, data and a loop, in the words that the programs below use.
PRELUDE = """
import os, sys, time, torch, warnings
warnings.filterwarnings("ignore")
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Sequential(nn.Linear(32, 32), nn.ReLU()), nn.Linear(32, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters())
data = TensorDataset(torch.randn(22, 8), torch.randint(0, 3, (22,)))
loader = DataLoader(data, batch_size=8)
def train(x, y):
    optimizer.zero_grad()
    criterion(net(x), y).backward()
    optimizer.step()
"""


class Run:
    """A finished program: its status, what it wrote, and its events."""

    def __init__(self, status, out, err, lines):
        self.status, self.out, self.err = status, out, err
        self.events = [json.loads(line) for line in lines]
        for event in self.events:
            assert event["v"] == 1 and isinstance(event["rank"], int) and isinstance(event["pid"], int), event
            assert event["event"] != "fault", event

    def all(self, name):
        return [event for event in self.events if event["event"] == name]

    @property
    def steps(self):
        return self.all("step")


def plain():
    """Without the hook."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BATCHFIT_", "PYTHON"))}
    return {**env, "PYTHONWARNINGS": "ignore"}


def environment(folder, extra=None):
    return {**plain(), "PYTHONPATH": HOOK, "BATCHFIT_STEPS_DIR": folder, "BATCHFIT_EMIT_DEBUG": "1", **(extra or {})}


def lines_of(steps):
    lines = []
    for name in sorted(glob.glob(os.path.join(steps, "*"))):
        with open(name, encoding="utf-8") as f:
            lines += f.read().splitlines()
    return lines


@contextlib.contextmanager
def written(text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        yield path


class Forks:
    """A process that has imported torch, and forks for each program: emit_forks.py."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "import emit_forks; emit_forks.main()"], cwd=HERE, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=plain(), start_new_session=True)
        atexit.register(self.end)

    def status(self, task, timeout):
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(task["path"], timeout)
        return int(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


forks = None


def run(program, env=None, prelude=PRELUDE, timeout=300):
    """A Run of a program's text with the folder's transport, in a fork."""
    global forks
    if forks is None or forks.process.poll() is not None:
        forks = Forks()
    with written(prelude + program) as path, tempfile.TemporaryDirectory() as steps, \
            tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        status = forks.status({"path": path, "env": environment(steps, env), "out": out.name, "err": err.name,
                               "hook": os.path.join(HOOK, "sitecustomize.py")}, timeout)
        return Run(status, out.read(), err.read(), lines_of(steps))


def run_alone(program, env=None, prelude=PRELUDE, **options):
    """The same in a Python of its own, with options of subprocess.run."""
    with written(prelude + program) as path:
        return run_words([sys.executable, path], env, os.path.dirname(path), **options)


def run_words(words, env=None, cwd=None, **options):
    """A Run of a command."""
    with tempfile.TemporaryDirectory() as steps:
        done = subprocess.run(words, env=environment(steps, env), cwd=cwd or steps, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300, **options)
        return Run(done.returncode, done.stdout, done.stderr, lines_of(steps))
