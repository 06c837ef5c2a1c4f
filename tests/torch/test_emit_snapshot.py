# SPDX-License-Identifier: Apache-2.0
"""The emitter's memory snapshot of an out-of-memory. There is no CUDA here: torch's recorder, dump and observer are FAKES; what
is tested is when they are called, what the files are called, and that nothing that goes wrong reaches the program.
tests/gpu/snapshots.py does it for real."""

import contextlib
import importlib
import io
import os
import sys
import unittest
from unittest import mock

import torch

from helper import PYTHON, InFolder

sys.path.insert(0, PYTHON)
snapshot = importlib.import_module("batchfit.emit.snapshot")


class Snapshot(InFolder):
    def setUp(self):
        super().setUp()
        self.recorded, self.observers = [], []

        def record(enabled="all", context="all", stacks="all", max_entries=sys.maxsize):
            self.recorded.append(max_entries)

        def dump(path):
            with open(path, "wb") as f:
                f.write(b"\x80\x04N.")
        for where, name, fake in ((torch.cuda.memory, "_record_memory_history", record), (torch.cuda.memory, "_dump_snapshot", dump),
                                  (torch._C, "_cuda_attach_out_of_memory_observer", self.observers.append)):
            patch = mock.patch.object(where, name, fake, create=True)
            patch.start()
            self.addCleanup(patch.stop)

    def begin(self, folder):
        with mock.patch.dict(os.environ, {"BATCHFIT_SNAPSHOT": folder, "RANK": "3"}):
            return snapshot.start()

    def test_nothing_without_a_folder(self):
        self.assertIsNone(self.begin(""))
        self.assertEqual((self.recorded, self.observers), ([], []))

    def test_one_file_each_death_and_three_at_most(self):
        out = os.path.join(self.folder, "out")
        os.mkdir(out)
        self.begin(out)
        self.assertEqual(self.recorded, [snapshot.ENTRIES])
        said = io.StringIO()
        with contextlib.redirect_stderr(said), mock.patch.dict(os.environ, {"RANK": "3"}):
            for _ in range(5):
                self.observers[0](0, 1, 2, 3)
        names = sorted(os.listdir(out))
        self.assertEqual(names, ["oom-rank3-%d-%d.pickle" % (os.getpid(), i) for i in range(3)])
        self.assertIn(os.path.join(out, names[0]), said.getvalue())

    def test_what_goes_wrong_is_not_the_programs(self):
        absent = os.path.join(self.folder, "absent")
        self.begin(absent)
        self.observers[0](0, 1, 2, 3)
        self.assertFalse(os.path.exists(absent))


if __name__ == "__main__":
    unittest.main()
