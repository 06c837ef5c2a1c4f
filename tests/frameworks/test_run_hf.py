# SPDX-License-Identifier: Apache-2.0
"""`batchfit run --recover` with Hugging Face's Trainer and with accelerate, on the CPU, and no word on where their checkpoints are."""

import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

import examples

HERE = os.path.join(examples.ROOT, "tests", "frameworks")


class RunHuggingFace(unittest.TestCase):
    def setUp(self):
        examples.need("transformers", "accelerate")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_it(self, *command):
        """(the document, (batch, accumulation, name of the checkpoint) of each attempt, all that was said)"""
        done = subprocess.run([examples.BATCHFIT, "run", "--json", "--device", "cpu", "--memory", "1500MiB", "--batch-size", "8", "--recover",
                               "--backoff", "0", "--store", "history", "--python", sys.executable, "--", sys.executable, *command],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, timeout=examples.SECONDS,
                              env=examples.environment(self.folder, XDG_CACHE_HOME=os.path.join(self.folder, "cache")))
        self.assertEqual(done.returncode, 0, done.stderr[-4000:] + done.stdout)
        answer = json.loads(done.stdout)
        return answer, [(attempt["batch"], attempt["accumulation"], os.path.basename(attempt["checkpoint"] or ""))
                        for attempt in answer["attempts"]], done.stderr

    def test_each_time_from_the_newest_whole_folder(self):
        """Memory runs out in step 5: half the batch, from the folder of step 4. Killed while the folder of step 6 is written: it is
        not taken, and is written again."""
        import transformers
        # Older ones take the batch of the checkpoint whatever the command says (doc/run.md): 8 x 2, and that is told.
        obeys = int(transformers.__version__.partition(".")[0]) >= 5
        answer, found, said = self.run_it(
            os.path.join(HERE, "faults.py"), self.folder, "--per_device_train_batch_size", "{batch}", "--gradient_accumulation_steps",
            "{accumulate}", "--use_cpu", "true", "--output_dir", "out", "--max_steps", "8", "--save_steps", "2",
            "--save_total_limit", "8", "--samples", "256", "{resume:--resume_from_checkpoint {checkpoint}}")
        self.assertEqual(found, [(8, 1, ""), (4, 2, "checkpoint-4"), (4, 2, "checkpoint-4")], said[-4000:])
        self.assertEqual(answer["samples"], 64 if obeys else 96)
        self.assertEqual("continues with its previous batch, 8" in said, not obeys, said[-4000:])
        steps = []
        for name in glob.glob(os.path.join(self.folder, "out", "*", "trainer_state.json")):
            with open(name, encoding="utf-8") as f:
                steps.append(json.load(f)["global_step"])
        self.assertEqual(sorted(steps), [2, 4, 6, 8])

    def test_the_state_of_accelerate(self):
        answer, found, said = self.run_it(os.path.join(HERE, "saves.py"), "{resume:{checkpoint}}")
        self.assertEqual([name for _, _, name in found], ["", "checkpoint_1"], said[-4000:])
        saved = examples.files(self.folder, "out/checkpoints/*")
        self.assertEqual([os.path.basename(name) for name in saved], ["checkpoint_0", "checkpoint_1", "checkpoint_2"])


if __name__ == "__main__":
    unittest.main()
