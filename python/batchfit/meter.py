# SPDX-License-Identifier: Apache-2.0
"""What a training needs and how fast it is, from inside it, beside its plan; and the word of a scheduler that wants the machine back.

    meter = batchfit.Meter(plan, run=True)
    for inputs, target in loader:
        ...
        if meter.step(len(inputs)):        # asked to end: save, and leave the loop
            accelerator.save_state(folder)
            break
    batchfit.log(accelerator, meter)

hf.py, lightning.py and ultralytics.py call it for the trainers that have callbacks. Importing this module loads no PyTorch."""

import json
import os
import signal
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from .api import RAN, Error, Plan, _ask

GIB = 1 << 30
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)  # what `batchfit run` passes on, with a grace time (doc/run.md)


class Meter:
    """Counts steps of this process. plan: what api.fit returned, or None. run: SIGTERM and SIGUSR1 no longer end the program at once
    but make step() return True, so that it can save first (only in the main thread, and not over a handler of the program's own)."""

    def __init__(self, plan: Optional[Plan] = None, run: bool = False) -> None:
        self.plan, self.samples, self.steps, self.batch, self.asked = plan, 0, 0, None, False
        self.began = self.ended = None
        for number in SIGNALS if run else ():
            if signal.getsignal(number) is signal.SIG_DFL:
                self.listen(number)

    def listen(self, number: int) -> None:
        """This signal makes step() return True, whatever handler there was."""
        def ask(number, frame):
            self.asked = True

        if threading.current_thread() is threading.main_thread():
            signal.signal(number, ask)

    def step(self, samples: Optional[int] = None) -> bool:
        """After a step of the data loader with so many samples. Returns whether the program was asked to end. The first step, which
        warms up, is not timed."""
        now = time.monotonic()
        self.began, self.ended = self.began or now, now
        self.steps += 1
        if samples:
            self.samples += samples if self.steps > 1 else 0
            self.batch = max(self.batch or 0, samples)
        return self.asked

    def figures(self) -> Dict[str, float]:
        """{name: number}: memory of PyTorch's allocator in GiB (of a GPU that it used), samples/s, and what the plan says of this
        batch. What is unknown is left out."""
        found = {}
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            found["allocated_gib"] = torch.cuda.max_memory_allocated() / GIB
            found["reserved_gib"] = torch.cuda.max_memory_reserved() / GIB
        peak = self.plan.details["results"][0]["peak"] if self.plan is not None and self.batch == self.plan.batch_size else None
        if peak:
            found["predicted_allocated_gib"] = peak["allocated_bytes"] / GIB
            found["predicted_reserved_gib"] = peak["reserved_bytes"] / GIB
        if self.samples and self.ended > self.began:
            found["samples_per_second"] = self.samples / (self.ended - self.began)
        return found

    def __str__(self) -> str:
        """One line: "batchfit: allocated 7.1 GiB, predicted 7.3 (+2.8 %); 211 samples/s"."""
        figures = self.figures()
        said, parts = figures.get("predicted_allocated_gib"), []
        if "allocated_gib" in figures:
            real = figures["allocated_gib"]
            beside = "" if not said or not real else ", predicted %.2f (%+.1f %%)" % (said, 100 * (said / real - 1))
            parts.append("allocated %.2f GiB%s" % (real, beside))
        elif said:
            parts.append("predicted %.2f GiB; there is no GPU to compare with" % said)
        if self.plan is not None and self.batch and self.batch != self.plan.batch_size:
            parts.append("batch %d is not the plan's %d" % (self.batch, self.plan.batch_size))
        if "samples_per_second" in figures:
            parts.append("%.4g samples/s" % figures["samples_per_second"])
        return "batchfit: " + ("; ".join(parts) or "nothing was measured")


def _ancestors():
    """Numbers of this process and of those that launched it."""
    found, pid = set(), os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as f:
                pid = int(f.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            break
    return found


def seen() -> Tuple[Optional[dict], List[dict]]:
    """This training as `batchfit watch` sees it: (the run, findings about its GPU), doc/formats/watch.md. (None, []) where no
    batchfit launched it, or the program is not here."""
    if not (os.environ.get("BATCHFIT_FD") or os.environ.get("BATCHFIT_STEPS_DIR")):
        return None, []
    try:
        done = _ask("watch", ["--json", "--duration", "1", "--interval", "0.5"], None)
        machine = json.loads(done.stdout.splitlines()[-1]) if done.returncode in RAN else {}
    except (Error, ValueError, IndexError):
        return None, []
    ours = [run for run in machine.get("runs", ()) if run["pid"] in _ancestors()]
    if not ours:
        return None, []
    return ours[0], [f for f in machine["findings"] if f["card"] in (None, ours[0]["card"]) and f["status"] in ("warn", "fail")]


def _metrics(meter):
    """({name: number}, [what was found])"""
    found = dict(meter.figures()) if meter is not None else {}
    run, findings = seen()
    if run:
        found.update({name + "_ms": value for name, value in (run["phases_ms"] or {}).items()})
        found.update({name: run[name] for name in ("samples_per_second", "samples_per_joule")})
    return {"batchfit/" + name: value for name, value in found.items() if value is not None}, [f["what"] for f in findings]


# How trackers are told: the name of the method, and the call.
TRACKERS = (
    ("log_metrics", lambda log, found, step: log(found, step=step)),  # Lightning's loggers, mlflow
    ("add_scalar", lambda log, found, step: [log(name, value, step) for name, value in found.items()]),  # TensorBoard
    ("log", lambda log, found, step: log(found, step=step)),  # wandb and its runs, trackio, accelerate's Accelerator
)


def log(tracker: Any, meter: Optional[Meter] = None, step: Optional[int] = None) -> Tuple[Dict[str, float], List[str]]:
    """Tells a tracker the peak, what the plan said, samples/s, and under `batchfit run`, `fit --` or `bench` the phases of the step in
    ms and samples/J. tracker: wandb or a run of it, mlflow, a TensorBoard SummaryWriter, trackio, a logger of Lightning, an
    Accelerator. Returns (what was logged, [what batchfit found about the run]). Raises TypeError for any other object."""
    found, findings = _metrics(meter)
    for name, call in TRACKERS:
        if hasattr(tracker, name):
            if found:
                call(getattr(tracker, name), found, step)
            return found, findings
    raise TypeError("log: a tracker has one of %s; this is %s" % (", ".join(name for name, _ in TRACKERS), type(tracker).__name__))
