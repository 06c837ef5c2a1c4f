# SPDX-License-Identifier: Apache-2.0
"""What test_fit.py and slow_fit.py share: a question to `batchfit fit -- COMMAND`, and what must hold for each answer."""

import json
import os
import subprocess
import tempfile
import unittest

import examples

MIB = 1 << 20


class Fitting(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def ask(self, command, mib, *options, status=0):
        """The answer's document; what must hold for each is checked."""
        os.makedirs(os.path.join(self.folder, "tmp"), exist_ok=True)
        done = subprocess.run([examples.BATCHFIT, "fit", "--device", "cpu", "--memory", "%dMiB" % mib, "--steps", "3", "--json", *options,
                               "--", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                              timeout=900, env=examples.environment(self.folder, TMPDIR=os.path.join(self.folder, "tmp"),
                                                       BATCHFIT_STORE=os.path.join(self.folder, "history")))
        self.assertEqual(done.returncode, status, done.stderr[-2000:] + done.stdout[-4000:])
        left = [name for name in os.listdir(os.path.join(self.folder, "tmp")) if name.startswith("batchfit")]
        self.assertEqual(left, [], "something was left behind")
        answer = json.loads(done.stdout)
        for trial in answer["trials"]:
            if trial["status"] == "OK":
                self.assertLessEqual(trial["peak_bytes"], mib * MIB, trial)
                self.assertGreaterEqual(trial["steps"], 3, trial)
        return answer

    def confirmed(self, command, mib, *options, next_batch=None):
        """A batch was found by few launches, was tried itself, and is near the limit; or, where an effective batch is kept,
        next_batch, which gives the next one that keeps it, was tried, too."""
        answer = self.ask(command, mib, *options)
        tried = {trial["batch_size"]: trial for trial in answer["trials"]}
        self.assertTrue(answer["confirmed"], answer["trials"])
        self.assertEqual(answer["launches"], len(answer["trials"]))
        self.assertLessEqual(answer["launches"], 8, tried.keys())
        largest = answer["largest_batch_size"]
        self.assertEqual(tried[largest]["status"], "OK", tried)
        for name in ("forward", "backward", "second_optimizer_step"):
            self.assertIn(name, tried[largest]["covered"])
        if next_batch:
            self.assertIn(next_batch(largest), tried)
        else:
            self.assertGreater(tried[largest]["peak_bytes"], 0.6 * mib * MIB, "there is room for a larger batch")
        for batch, trial in tried.items():
            self.assertTrue(batch <= largest or trial["status"] != "OK", "%d ran as well" % batch)
        return answer
