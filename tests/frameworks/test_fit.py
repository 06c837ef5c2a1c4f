# SPDX-License-Identifier: Apache-2.0
"""`batchfit fit -- COMMAND` on the examples, on the CPU with so little memory that the batch meets it."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import examples

BATCHFIT = os.environ.get("BATCHFIT", os.path.join(examples.ROOT, "build", "batchfit"))
MIB = 1 << 20


class Fit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def ask(self, command, mib, *options, status=0):
        """The answer's document; what must hold for each is checked."""
        os.makedirs(os.path.join(self.folder, "tmp"), exist_ok=True)
        done = subprocess.run([BATCHFIT, "fit", "--device", "cpu", "--memory", "%dMiB" % mib, "--steps", "3", "--json", *options,
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

    def confirmed(self, command, mib, *options):
        """A batch was found by few launches, was tried itself, and is near the limit."""
        answer = self.ask(command, mib, *options)
        tried = {trial["batch_size"]: trial for trial in answer["trials"]}
        self.assertTrue(answer["confirmed"], answer["trials"])
        self.assertEqual(answer["launches"], len(answer["trials"]))
        self.assertLessEqual(answer["launches"], 8, tried.keys())
        largest = answer["largest_batch_size"]
        self.assertEqual(tried[largest]["status"], "OK", tried)
        for name in ("forward", "backward", "second_optimizer_step"):
            self.assertIn(name, tried[largest]["covered"])
        self.assertGreater(tried[largest]["peak_bytes"], 0.6 * mib * MIB, "there is room for a larger batch")
        for batch, trial in tried.items():
            self.assertTrue(batch <= largest or trial["status"] != "OK", "%d ran as well" % batch)
        return answer

    def test_plain(self):
        command = examples.plain("{scratch}", "{batch}", "--accumulate", "{accumulate}")
        self.confirmed(command, 1000)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "runs")), "the user's own output folder was used")

    def test_plain_by_its_config(self):
        """No placeholder for the batch: the trial's copy of the config gets it, and keeps the effective batch."""
        config = os.path.join(self.folder, "train.yaml")
        with open(os.path.join(examples.EXAMPLES, "plain", "train.yaml"), encoding="utf-8") as f:
            text = f.read()
        with open(config, "w", encoding="utf-8") as f:
            f.write(text)
        command = [sys.executable, os.path.join(examples.EXAMPLES, "plain", "train.py"), "--config", "{config}", "--workers", "0",
                   "--device", "cpu", "--output", "{scratch}"]
        answer = self.confirmed(command, 700, "--config", config, "--test-only")
        self.assertEqual({t["batch_size"] * t["gradient_accumulation_steps"] for t in answer["trials"]}, {64})
        with open(config, encoding="utf-8") as f:
            self.assertEqual(f.read(), text)

    def test_huggingface(self):
        self.confirmed(examples.huggingface("{scratch}", "{batch}", "--gradient_accumulation_steps", "{accumulate}"), 700)

    def test_lightning(self):
        self.confirmed(examples.lightning("{scratch}", "{batch}", "--accumulate", "{accumulate}"), 800)

    def test_ultralytics(self):
        command = examples.ultralytics("{scratch}", "{batch}", os.path.join(self.folder, "boxes", "data.yaml"), "epochs=100")
        examples.make_boxes(os.path.join(self.folder, "boxes"), 128)
        self.confirmed(command, 800, "--max-batch-size", "128")

    def test_two_ranks(self):
        self.confirmed(examples.torchrun("{batch}"), 1400, "--ranks", "2")

    def lose_a_rank(self, *options):
        """The last of two ranks runs out of memory, the other waits for it: the trial and all of it ends soon."""
        note = os.path.join(self.folder, "note")
        command = examples.torchrun("{batch}", "--note", note, *options,
                                    script=os.path.join(examples.ROOT, "tests", "frameworks", "uneven.py"))
        answer = self.ask(command, 1400, "--ranks", "2", "--min-batch-size", "300", "--max-batch-size", "300", status=1)
        ended = time.time()
        with open(note, encoding="utf-8") as f:
            self.assertLess(ended - float(f.read()), 10)
        self.assertEqual([(t["batch_size"], t["status"]) for t in answer["trials"]], [(300, "OOM")])
        self.assertIs(answer["confirmed"], False)

    def test_a_library_that_asks_for_ever(self):
        """The real OpenBLAS; what it does is no late start but memory that ran out, and is told long before --start-limit."""
        script = os.path.join(examples.ROOT, "tests", "frameworks", "starved.py")
        if not examples.has_openblas():
            self.skipTest("SKIPPED: this PyTorch computes without OpenBLAS")
        answer = self.ask([sys.executable, script, "--batch-size", "{batch}"], 700, "--min-batch-size", "8", "--max-batch-size", "8",
                          "--start-limit", "120", status=1)
        self.assertEqual([(t["batch_size"], t["status"]) for t in answer["trials"]], [(8, "OOM")])
        self.assertIn("for ever", answer["trials"][0]["reason"])

    def test_a_rank_that_dies_of_memory(self):
        self.lose_a_rank()

    def test_a_rank_that_has_no_memory_and_waits(self):
        self.lose_a_rank("--wait")


if __name__ == "__main__":
    unittest.main()
