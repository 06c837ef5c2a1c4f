# SPDX-License-Identifier: Apache-2.0
"""Where the wheel's program does not run, `python -m batchfit` says what to do (python/batchfit/platform_note.py)."""
import os
import subprocess
import sys
import tempfile
import unittest

from helper import PYTHON

from batchfit.platform_note import note

SAID = [
    (("win32", "AMD64", None), "WSL2"),
    (("darwin", "arm64", None), "container"),
    (("freebsd14", "amd64", None), "not on freebsd14"),
    (("linux", "riscv64", (2, 36)), "no program for riscv64"),
    (("linux", "x86_64", None), "musl"),
    (("linux", "aarch64", (2, 17)), "this system has 2.17"),
]


class Elsewhere(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def module(self, program, text):
        path = os.path.join(self.folder.name, program)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o755)
        env = dict(os.environ, PYTHONPATH=PYTHON, BATCHFIT=path)
        return subprocess.run([sys.executable, "-m", "batchfit", "--version"], env=env, capture_output=True, text=True, check=False)

    def test_says_what_to_do(self):
        for place, said in SAID:
            self.assertIn(said, note(*place), place)

    def test_says_nothing_where_it_runs(self):
        for place in ("linux", "x86_64", (2, 28)), ("linux", "aarch64", (3, 0)):
            self.assertIsNone(note(*place))

    def test_is_the_program(self):
        done = self.module("batchfit", "#!/bin/sh\necho program \"$@\"\nexit 3\n")
        self.assertEqual((done.returncode, done.stdout), (3, "program --version\n"))

    def test_a_file_that_is_no_program(self):
        done = self.module("batchfit", "MZ")
        self.assertEqual(done.returncode, 1)
        self.assertIn("reinstall it", done.stderr)

    def test_one_of_the_user_alone(self):
        home = os.path.join(self.folder.name, "home")
        os.makedirs(os.path.join(home, "bin"))
        path = os.path.join(home, "bin", "batchfit")
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\necho mine\n")
        os.chmod(path, 0o755)
        env = dict(os.environ, PYTHONPATH=PYTHON, PYTHONUSERBASE=home, PATH="/usr/bin:/bin")
        env.pop("BATCHFIT", None)
        done = subprocess.run([sys.executable, "-m", "batchfit"], env=env, capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout, "mine\n", done)


if __name__ == "__main__":
    unittest.main()
