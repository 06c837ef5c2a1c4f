# SPDX-License-Identifier: Apache-2.0
"""Tapes for many jobs: taken from the cache, or recorded by a few worker processes and kept.

A cached tape is named by everything that decides its text: source, knobs, environment, batches and the recorder's version.
A model that cannot be recorded leaves its message there, so that a second run does not try again.
"""

import functools
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from environments import BUILD, ROOT

CACHE = os.path.join(BUILD, "accuracy-tapes")
CHUNK = 16          # jobs of one recorder process: its start costs as much as two models
CANNOT = 3          # the recorder's status for a model that cannot be recorded
PER_TAPE_S = 900.0  # a recording that takes longer is given up: the slowest, one rank of 80 layers, take some minutes on an idle core


@functools.lru_cache(maxsize=None)
def recorder_version():
    """What the recorder is: all its sources but those of steps and engines, and the models beside this file."""
    digest, here = hashlib.sha256(), os.path.dirname(os.path.abspath(__file__))
    recorder = os.path.join(ROOT, "python", "batchfit")
    for folder in (recorder, os.path.join(recorder, "sources"), here):
        for name in sorted(os.listdir(folder)):
            if name.endswith("_source.py") if folder == here else name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as f:
                    digest.update(name.encode() + f.read())
    return digest.hexdigest()


class Job:
    """One tape to record. `path` is where it lies, `error` says why it does not."""

    def __init__(self, environment, source, knobs, batches=(2, 4), folder=CACHE, version=None):
        self.environment, self.source, self.knobs, self.batches = environment, source, knobs, list(batches)
        self.spec = json.dumps([source, knobs, self.batches], sort_keys=True)
        text = "\n".join([self.spec, environment.key(), version or recorder_version()])
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", source.partition(":")[2])[:60]
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.path = os.path.join(folder, "%s-%s.tape" % (name, digest))
        self.error = None

    @property
    def failure(self):
        """Where the message of a failed recording lies."""
        return self.path + ".error"

    def done(self):
        """Is there a tape or a message? Fills `error`."""
        if self.error or os.path.exists(self.path):
            return True
        if os.path.exists(self.failure):
            with open(self.failure, encoding="utf-8") as f:
                self.error = f.read().strip()
            return True
        return False

    def fail(self, message, keep=True):
        """The message; `keep`: the model itself is the reason, and trying again would end the same way."""
        self.error = (message.strip().splitlines() or ["failed without a word"])[-1]
        if keep:
            with open(self.failure, "w", encoding="utf-8") as f:
                f.write(self.error + "\n")

    def forget(self):
        """Drop what the cache has."""
        for path in (self.path, self.failure):
            if os.path.exists(path):
                os.unlink(path)

    def line(self):
        """As the recorder's --jobs reads it."""
        return json.dumps(dict(self.knobs, source=self.source, batches=self.batches, output=self.path))


class Progress:
    """One line on stderr now and then."""

    def __init__(self, total):
        self.total, self.done, self.start, self.last = total, 0, time.time(), 0.0

    def step(self, count=1):
        self.done += count
        now = time.time()
        if now - self.last > 10 or self.done == self.total:
            self.last = now
            rest = (now - self.start) / self.done * (self.total - self.done) if self.done else 0
            print("recorded %d of %d, about %.0f s left" % (self.done, self.total, rest), file=sys.stderr, flush=True)


class Children:
    """The recorder processes that run; an interrupted driver takes them along."""

    def __init__(self):
        self._running, self._lock, self.stopped = set(), threading.Lock(), False

    def start(self, *arguments, **options):
        """Popen, unless we are stopping."""
        with self._lock:
            if self.stopped:
                raise InterruptedError("stopped")
            child = subprocess.Popen(*arguments, **options)
            self._running.add(child)
            return child

    def ended(self, child):
        """It is reaped."""
        with self._lock:
            self._running.discard(child)

    def stop(self, *_):
        """Kill all and let none start."""
        with self._lock:
            self.stopped = True
            for child in self._running:
                child.kill()


CHILDREN = Children()


def record_all(jobs, workers):
    """Record what is missing, `workers` processes at a time."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    todo = list({j.path: j for j in jobs if not j.done()}.values())
    for job in todo:
        os.makedirs(os.path.dirname(job.path), exist_ok=True)
    for environment in {j.environment.key(): j.environment for j in todo}.values():
        environment.prepare()
    progress = Progress(len(todo))
    with ThreadPoolExecutor(workers) as pool:
        try:
            list(pool.map(lambda chunk: _chunk(chunk, progress), _chunks(todo, workers)))
        except BaseException:
            CHILDREN.stop()
            raise
    for job in jobs:
        if not job.done():
            job.error = "not recorded"


def _chunks(jobs, workers):
    by_environment = {}
    for job in jobs:
        by_environment.setdefault(job.environment.key(), []).append(job)
    size = max(1, min(CHUNK, len(jobs) // (2 * workers)))
    return [group[i:i + size] for group in by_environment.values() for i in range(0, len(group), size)]


def _chunk(jobs, progress):
    """One recorder process for these jobs; if it dies, the job it was at has failed and another process does the rest."""
    while jobs:
        message = _run(jobs, progress)
        jobs = [j for j in jobs if not j.done()]
        if jobs and message:
            jobs[0].fail(message)
            progress.step()
            jobs = jobs[1:]


def _run(jobs, progress):
    """One process. '' if it came to its end, else why it did not; what jobs said of themselves is kept."""
    environment = jobs[0].environment
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "jobs.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            f.write("".join(j.line() + "\n" for j in jobs))
        with open(os.path.join(folder, "stderr"), "w+", encoding="utf-8", errors="replace") as err:
            child = CHILDREN.start([environment.python, "-m", "batchfit.record", "--quiet", "--jobs", path],
                                   env=environment.variables(), stdout=subprocess.PIPE, stderr=err, cwd=folder)
            late = _listen(child, jobs, progress)
            status = child.wait()
            CHILDREN.ended(child)
            if CHILDREN.stopped:
                raise InterruptedError("stopped")
            if late or status in (0, 3):
                return late
            err.seek(0)
            words = err.read().strip().splitlines()
            return words[-1] if words else "the recorder ended with status %d" % child.returncode


def _listen(child, jobs, progress):
    """Read results until the process ends. Text if a job took too long, the process being killed."""
    late = []

    def too_long():
        late.append("given up after %.0f s" % PER_TAPE_S)
        child.kill()

    paths = {j.path: j for j in jobs}
    timer = threading.Timer(PER_TAPE_S, too_long)
    timer.start()
    for line in child.stdout:
        timer.cancel()
        result = json.loads(line)
        if not result["ok"]:
            paths[result["output"]].fail(result["error"], result.get("status") == CANNOT)
        progress.step()
        timer = threading.Timer(PER_TAPE_S, too_long)
        timer.start()
    timer.cancel()
    return late[0] if late else ""
