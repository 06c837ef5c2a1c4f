# SPDX-License-Identifier: Apache-2.0
"""`batchfit fit -- COMMAND` on the examples, on the CPU with so little memory that the batch meets it. More of them: slow_fit.py."""

import os
import sys
import time
import unittest

import examples
from fitting import Fitting

SLOW = "test_the_batch_that_the_command_trains_with_by_itself test_a_rank_that_has_no_memory_and_waits"


class Fit(Fitting):
    def test_plain(self):
        command = examples.plain("{scratch}", "{batch}", "--accumulate", "{accumulate}")
        self.confirmed(command, 1000)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "runs")), "the user's own output folder was used")

    def test_the_batch_that_the_command_trains_with_by_itself(self):
        """No option names it: its own parser does. With {accumulate} it is kept, without it the answer says what changes."""
        command = examples.huggingface("{scratch}", "{batch}", "--gradient_accumulation_steps", "{accumulate}")
        answer = self.ask(command, 700)
        self.assertEqual(answer["effective_batch_size"], {"before": 8, "after": 8, "from": "default", "is_kept": True})
        answer = self.ask(examples.huggingface("{scratch}", "{batch}"), 700, "--min-batch-size", "12", "--max-batch-size", "12")
        self.assertEqual(answer["effective_batch_size"], {"before": 8, "after": 12, "from": "default", "is_kept": False})
        self.assertTrue(any("{accumulate}" in note and "learning rate (x 1.5 for SGD" in note for note in answer["notes"]))

    def lose_a_rank(self, *options):
        """The last of two ranks runs out of memory, the other waits for it: the trial and all of it ends soon."""
        note = os.path.join(self.folder, "note")
        command = examples.torchrun("{batch}", "--note", note, *options,
                                    script=os.path.join(examples.ROOT, "tests", "frameworks", "uneven.py"))
        answer = self.ask(command, 2400, "--ranks", "2", "--min-batch-size", "300", "--max-batch-size", "300", status=1)
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
        self.assertIn("never gives up", answer["trials"][0]["reason"])

    def test_a_rank_that_dies_of_memory(self):
        self.lose_a_rank()

    def test_a_rank_that_has_no_memory_and_waits(self):
        self.lose_a_rank("--wait")


if __name__ == "__main__":
    unittest.main()
