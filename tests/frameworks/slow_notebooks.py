# SPDX-License-Identifier: Apache-2.0
"""The steps of a real notebook, as the emitter sees them; fit, bench and run of one are rows of doc/trainers.md (slow_trainers.py)."""
import json
import os
import sys
import tempfile
import unittest

import examples

sys.path.insert(0, os.path.join(examples.ROOT, "tests", "torch"))
from emit_helper import PRELUDE, run_words  # noqa: E402


class Notebooks(unittest.TestCase):
    def test_notebooks(self):
        """nbconvert and papermill start a kernel, which has the environment; its cells are a program like others."""
        examples.need("nbconvert", "ipykernel", "papermill")
        cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None,
                "source": PRELUDE + "for x, y in loader: train(x, y)\n"}
        spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.ipynb")
            with open(path, "w", encoding="utf-8") as f:
                json.dump({"cells": [cell], "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}, f)
            env = {"PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"], "HOME": folder}
            for words in (["-m", "nbconvert", "--to", "notebook", "--execute", path, "--output", "done.ipynb"],
                          ["-m", "papermill", path, os.path.join(folder, "done2.ipynb")]):
                with self.subTest(words[1]):
                    done = run_words([sys.executable, *words], env=env, cwd=folder)
                    self.assertEqual((done.status, [step["samples"] for step in done.steps]), (0, [8, 8, 6]), done.err)


if __name__ == "__main__":
    unittest.main()
