# SPDX-License-Identifier: Apache-2.0
"""What the tests of the PyTorch side share: small models, and a reader of tapes."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.join(HERE, "..", "..", "python")
sys.path[:0] = [HERE, PYTHON]
warnings.filterwarnings("ignore")

import torch  # noqa: E402

KINDS = "init input forward backward optimizer zero_grad".split()
TAGS = "param buffer input activation cast gradient optimizer temporary other reference".split()
CLASSES = "mm bmm conv_fwd conv_dgrad conv_wgrad attention elem noncontig norm bn_fwd bn_bwd reduce heavy opt".split()

BATCHFIT = os.environ.get("BATCHFIT", os.path.join(HERE, "..", "..", "build", "batchfit"))


class InFolder(unittest.TestCase):
    """A test with a folder of its own, in which batchfit keeps its cache and history, too."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="batchfit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def environment(self):
        return {**os.environ, "XDG_CACHE_HOME": os.path.join(self.folder, "cache"),
                "BATCHFIT_STORE": os.path.join(self.folder, "history"), "OMP_NUM_THREADS": "1"}

    def answer(self, verb, *words, status=0, command=(), timeout=900):
        """The document that a verb prints with --json, on the CPU and with our Python."""
        argv = [BATCHFIT, verb, "--json", "--device", "cpu", "--python", sys.executable, *words]
        argv += ["--", *command] if command else []
        done = subprocess.run(argv, capture_output=True, text=True, env=self.environment(), cwd=self.folder, timeout=timeout, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout)


class Tape:
    """A parsed tape; reading it checks the grammar of doc/formats/tape.md."""

    def __init__(self, text):
        assert text.endswith("\n") and "\r" not in text
        first, *self.lines = text[:-1].split("\n")
        self.header = json.loads(first)
        self.allocs, self.order, self.phases, self.work = {}, [], {}, []
        self._live, self._phase = set(), None
        for number, line in enumerate(self.lines, 2):
            assert line and line == line.strip() and "  " not in line, "line %d: %r" % (number, line)
            word, *rest = line.split(" ")
            name, _, stream = word.partition("@")
            getattr(self, "_" + name)(rest, int(stream or 0))

    def _m(self, rest, stream):
        kind, step = rest
        assert kind in KINDS
        self._phase = (kind, int(step))
        self.phases.setdefault(self._phase, [])

    def _a(self, rest, stream):
        ident, c, k, tag, *more = rest
        ident, c, k = int(ident), int(c), int(k)
        assert tag in TAGS and len(more) <= 3 and ident < 1 << 62 and ident not in self.allocs
        batches = self.header["batches"]
        assert all(c + k * b >= 0 for b in batches), rest
        self.allocs[ident] = (c, k, tag, more, stream, self._phase)
        self._live.add(ident)
        self.phases[self._phase].append(("a", ident, c, k))
        self.order.append(("a", ident))

    def _f(self, rest, stream):
        ident, = map(int, rest)
        self._live.remove(ident)
        self.phases[self._phase].append(("f", ident))
        self.order.append(("f", ident))

    def _e(self, rest, stream):
        assert not rest
        self.order.append(("e",))

    def _w(self, rest, stream):
        c, k = map(int, rest)

    def _o(self, rest, stream):
        assert rest[0] in CLASSES, rest
        numbers = list(map(int, rest[1:6]))
        assert all("=" in word for word in rest[6:])
        self.work.append((rest[0], numbers, dict(word.split("=", 1) for word in rest[6:]), self._phase))

    def peak(self, batch, phase=None):
        """Highest sum of live bytes (in the phase)."""
        live = top = 0
        at = None
        for line in self.lines:
            word, *rest = line.split(" ")
            if word == "m":
                at = rest[0]
            elif word[0] == "a":
                live += int(rest[1]) + int(rest[2]) * batch
            elif word == "f":
                c, k = self.allocs[int(rest[0])][:2]
                live -= c + k * batch
            if phase in (None, at):
                top = max(top, live)
        return top

    def bytes_of(self, tag, batch, phase=None):
        """Sum of the sizes of all allocations with a tag (made in a phase)."""
        return sum(c + k * batch for c, k, t, _, _, p in self.allocs.values() if t == tag and phase in (None, p))


def record(source, **said):
    """A Tape recorded in this process."""
    from batchfit import recorder
    return Tape(recorder.record(source, said))


def command(*arguments, stdin=""):
    """(status, stdout, stderr) of batchfit.record's main, in this process."""
    from batchfit import record as program
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(stdin)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = program.main(list(arguments))
    finally:
        sys.stdin = before
    return status, out.getvalue(), err.getvalue()


def process(*arguments):
    """The same as its own process."""
    done = subprocess.run([sys.executable, "-m", "batchfit.record", *arguments], capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=os.pathsep.join([PYTHON, HERE])), cwd=tempfile.gettempdir())
    return done.returncode, done.stdout, done.stderr


def modern():
    """torch 2?"""
    return int(torch.__version__.split(".")[0]) >= 2
