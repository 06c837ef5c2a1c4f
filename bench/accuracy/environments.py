# SPDX-License-Identifier: Apache-2.0
"""Pythons for the recorder: a virtual environment of `make`, and pinned libraries in folders beside it.

build/venv1 has Debian's torch, build/venv2 the newest; `timm==0.6.7` lies in build/timm-0.6.7 and goes in front of the
environment's own timm through PYTHONPATH. What is on no index is `https://HOST/OWNER/detectron2@v0.1`, a tag of a repository,
which lies in build/detectron2-v0.1. All are made on first use.
"""

import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")


class SetupError(Exception):
    """An environment could not be made."""


def three_times(command):
    """Downloads fail now and then."""
    for wait in (5, 30, None):
        done = subprocess.run(command, cwd=ROOT, stdout=sys.stderr)
        if done.returncode == 0:
            return
        if wait:
            time.sleep(wait)
    raise SetupError("failed three times: " + " ".join(command))


class Environment:
    """venv: 'venv1' or 'venv2'; packages: 'timm==0.6.7' or '' or several, blanks between."""

    def __init__(self, venv, packages):
        self.python = os.path.join(BUILD, venv, "bin", "python")
        self.venv, self.packages = venv, packages.split()

    def key(self):
        """Text that two environments with the same contents have in common."""
        return " ".join([self.venv] + self.packages)

    def prepare(self):
        """Make what is missing."""
        if not os.path.exists(self.python):
            three_times(["make", "build/%s/.ready" % self.venv])
        for package in self.packages:
            if not os.path.isdir(self._folder(package)):
                three_times(self._making(package))

    def variables(self):
        """The process environment for this Python."""
        paths = [self._folder(p) for p in self.packages] + [os.path.join(ROOT, "python"), os.path.join(ROOT, "bench", "accuracy")]
        # one thread each: nothing is computed, and two recorders share the machine
        return dict(os.environ, PYTHONPATH=os.pathsep.join(paths), OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1",
                    PYTHONDONTWRITEBYTECODE="")

    def _making(self, package):
        """The command that makes its folder."""
        folder = self._folder(package)
        if package.startswith("https:"):
            url, _, tag = package.partition("@")
            return ["git", "clone", "--quiet", "--depth", "1", "--branch", tag, url, folder]
        return [self.python, "-m", "pip", "install", "--quiet", "--retries", "5", "--no-deps", "--target", folder, package]

    @staticmethod
    def _folder(package):
        return os.path.join(BUILD, os.path.basename(package).replace("==", "-").replace("@", "-"))
