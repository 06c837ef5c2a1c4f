# SPDX-License-Identifier: Apache-2.0
"""What the emitter's tests share: a program is run with the hook in its environment, and its lines are read. The first test
that sees an event sees it as doc/formats/steps.md writes it."""

import glob
import json
import os
import subprocess
import sys
import tempfile

from helper import PYTHON

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


def environment(folder, extra=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BATCHFIT_", "PYTHON"))}
    env.update(PYTHONPATH=HOOK, BATCHFIT_STEPS_DIR=folder, BATCHFIT_EMIT_DEBUG="1", PYTHONWARNINGS="ignore")
    env.update(extra or {})
    return env


def run(program, *arguments, env=None, command=None, prelude=PRELUDE, timeout=300, **options):
    """A Run of a program's text with the folder's transport. command: words in front of the file's name."""
    with tempfile.TemporaryDirectory() as folder:
        steps = os.path.join(folder, "steps")
        os.mkdir(steps)
        path = os.path.join(folder, "train.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(prelude + program)
        done = subprocess.run((command or [sys.executable]) + [path, *arguments], env=environment(steps, env), cwd=folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, **options)
        lines = []
        for name in sorted(glob.glob(os.path.join(steps, "*"))):
            with open(name, encoding="utf-8") as f:
                lines += f.read().splitlines()
        return Run(done.returncode, done.stdout, done.stderr, lines)


def run_words(words, env=None, cwd=None):
    """A Run of a command."""
    with tempfile.TemporaryDirectory() as steps:
        done = subprocess.run(words, env=environment(steps, env), cwd=cwd or steps, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300)
        lines = []
        for name in sorted(glob.glob(os.path.join(steps, "*.jsonl"))):
            with open(name, encoding="utf-8") as f:
                lines += f.read().splitlines()
        return Run(done.returncode, done.stdout, done.stderr, lines)
