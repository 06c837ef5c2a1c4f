#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the steps emitter costs on a training step of about 10 ms on one thread of the CPU.

bench/emitter.py [--pairs N] [--python PYTHON]...      prints rows of a table; status 1 when a goal is missed

The workload is a net of 56 modules (MODULES below), trained from a DataLoader. Two comparisons, both interleaved:

- blocks: one process, in which blocks of BLOCK steps run in turn with the hooks in PyTorch and with PyTorch's own functions
  put back. The ratio of the medians of two neighbouring blocks, its median over all pairs of blocks, and that median's
  bootstrap interval. Of CPU time. This is the figure that is held against the goal.
- processes: N pairs of whole processes, with and without the hook in the environment, in random order: nothing of ours in one
  of them. Two processes differ by more than the emitter costs, so its interval is wide.

Besides, the emitter's own work is counted: nanoseconds for a module call inside a forward, and microseconds for all that the
hooks do in a step besides (marks, phases, the line), both by calling them with nothing in between."""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOOK = os.path.join(ROOT, "python", "hook")
BLOCK, BLOCKS, WARM_UP = 8, 100, 20
PROCESS_STEPS = 60
GOAL = 0.01


def workload():
    """One training step as a function: (step, modules of the net)."""
    import torch
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(1)
    blocks = [nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()) for _ in range(9)]
    mlp = [layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.ReLU())]
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *blocks, nn.AdaptiveAvgPool2d(2), nn.Flatten(), *mlp, nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    data = torch.utils.data.TensorDataset(torch.randn(160, 3, 20, 20), torch.randint(0, 10, (160,)))
    loader = torch.utils.data.DataLoader(data, batch_size=16)

    def batches():
        while True:
            yield from loader
    source = batches()

    def step():
        x, y = next(source)
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
    return step, sum(1 for _ in net.modules())


def timed(step, count):
    """Median of the CPU time of some steps, s: a busy machine changes it less than wall time."""
    times = []
    for _ in range(count):
        begin = time.process_time()
        step()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def places():
    """(object, name) of everything the hooks have replaced that the workload calls."""
    import torch
    loader = torch.utils.data.dataloader
    return ((torch.nn.Module, "__call__"), (torch.Tensor, "backward"), (torch.autograd, "backward"), (torch.optim.SGD, "step"),
            (torch.optim.Optimizer, "zero_grad"), (loader._BaseDataLoaderIter, "__next__"), (loader.DataLoader, "__iter__"))


def run_blocks():
    """In a process with the hook: [(with, without)] of neighbouring blocks."""
    step, _ = workload()
    timed(step, WARM_UP)
    hooked = [(where, name, getattr(where, name)) for where, name in places()]
    assert all(hasattr(f, "__wrapped__") for _, _, f in hooked), hooked

    def put(ours):
        for where, name, f in hooked:
            setattr(where, name, f if ours else f.__wrapped__)
        timed(step, 2)  # caches of the interpreter
        return timed(step, BLOCK)
    pairs = []
    for i in range(BLOCKS):
        first = put(i % 2 == 0)
        second = put(i % 2 == 1)
        pairs.append((first, second) if i % 2 == 0 else (second, first))
    return pairs


def run_count():
    """The emitter's own work with nothing in between: (ns of a nested call, us of a step without them, modules)."""
    import torch
    _, modules = workload()
    nothing = torch.nn.Identity()
    nothing.forward = lambda x: x
    ours, theirs = torch.nn.Module.__call__, torch.nn.Module.__call__.__wrapped__
    journal = next(c.cell_contents for c in ours.__closure__ if hasattr(c.cell_contents, "forward_begin"))
    x, best = torch.ones(16, 2), {}
    batch, rounds = [x, x], 2000
    net = torch.nn.Linear(2, 2)
    journal.busy = True
    for _ in range(30):
        for name, call in (("ours", ours), ("theirs", theirs)):
            begin = time.perf_counter_ns()
            for _ in range(rounds):
                call(nothing, x)
            best[name] = min(best.get(name, 1e12), (time.perf_counter_ns() - begin) / rounds)
    journal.busy = False
    begin = time.perf_counter_ns()
    for _ in range(rounds):
        journal.io_begin()
        journal.io_end(journal, batch, "batch")
        for _ in range(2):  # the net and the criterion
            journal.forward_begin(net, batch, {}, True)
            journal.busy = False
        journal.backward_begin(x)
        journal.backward_end()
        journal.optimizer_begin()
        journal.optimizer_end(True)
    return best["ours"] - best["theirs"], (time.perf_counter_ns() - begin) / 1e3 / rounds, modules


def bootstrap(ratios, rounds=4000):
    """(median, low, high) of ratios: 95 %."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return statistics.median(ratios), medians[int(rounds * 0.025)], medians[int(rounds * 0.975)]


def child(python, what, hook):
    """What a process of this program's own prints."""
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith("BATCHFIT_")}
        if hook:
            env.update(PYTHONPATH=HOOK, BATCHFIT_STEPS_DIR=folder)
        done = subprocess.run([python, "-W", "ignore", os.path.abspath(__file__), "--child", what], env=env, check=True,
                              stdout=subprocess.PIPE, cwd=folder)
    return json.loads(done.stdout)


def as_child(what):
    if what == "blocks":
        answer = run_blocks()
    elif what == "count":
        answer = run_count()
    else:
        step, _ = workload()
        timed(step, WARM_UP)
        answer = timed(step, PROCESS_STEPS)
    print(json.dumps(answer))


def measure(python, pair_count):
    """Prints the rows of one Python; True when the goal is met."""
    version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], stdout=subprocess.PIPE, text=True,
                             check=True).stdout.split("+")[0].strip()
    blocks = child(python, "blocks", True) + child(python, "blocks", True)
    ratio, low, high = bootstrap([ours / theirs for ours, theirs in blocks])
    step_ms = statistics.median(theirs for _, theirs in blocks) * 1e3
    ok = ratio - 1 <= GOAL
    print(f"| emitter, torch {version}, blocks of one process | ≤ {GOAL:.0%} | {ratio - 1:+.2%} [{low - 1:+.2%}, {high - 1:+.2%}] "
          f"| {step_ms:.2f} ms a step, {len(blocks)} pairs | {'yes' if ok else 'NO'} |", flush=True)
    nested_ns, step_us, modules = child(python, "count", True)
    own = (nested_ns * modules / 1e3 + step_us) / (step_ms * 1e3)
    print(f"| its own work, counted | ≤ {GOAL:.0%} | {own:.2%} | {nested_ns:.0f} ns × {modules} modules + {step_us:.1f} µs a step "
          f"| {'yes' if own <= GOAL else 'NO'} |", flush=True)
    ratios = []
    for _ in range(pair_count):
        order = random.sample([True, False], 2)
        times = {hook: child(python, "steps", hook) for hook in order}
        ratios.append(times[True] / times[False])
    if ratios:
        ratio, low, high = bootstrap(ratios)
        print(f"| pairs of processes | – | {ratio - 1:+.2%} [{low - 1:+.2%}, {high - 1:+.2%}] | {len(ratios)} pairs | – |")
    return ok and own <= GOAL


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=10, help="pairs of processes (default 10)")
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.child:
        return as_child(said.child)
    pythons = said.python or [os.path.join(ROOT, "build", name, "bin", "python") for name in ("venv1", "venv2")]
    pythons = [python for python in pythons if os.path.exists(python)]
    if not pythons:
        print("SKIPPED: emitter (neither build/venv1 nor build/venv2 is there)")
        return 0
    print("| what | goal | cost | from | met |\n|---|---|---|---|---|")
    return 0 if all([measure(python, said.pairs) for python in pythons]) else 1


sys.exit(main())
