# SPDX-License-Identifier: Apache-2.0
"""`batchfit run --recover` with Hugging Face's Trainer, on the CPU, and no word on where its checkpoints are."""

import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

import examples

BATCHFIT = os.environ.get("BATCHFIT", os.path.join(examples.ROOT, "build", "batchfit"))
FAULTS = os.path.join(examples.ROOT, "tests", "frameworks", "faults.py")


class RunHuggingFace(unittest.TestCase):
    def test_each_time_from_the_newest_whole_folder(self):
        """Memory runs out in step 5: half the batch, from the folder of step 4. Killed while the folder of step 6 is written: it is
        not taken, and is written again."""
        examples.need("transformers", "accelerate")
        import transformers
        # Older ones take the batch of the checkpoint whatever the command says (doc/run.md): there it is killed only.
        obeys = int(transformers.__version__.partition(".")[0]) >= 5
        with tempfile.TemporaryDirectory() as folder:
            if not obeys:
                open(os.path.join(folder, "memory"), "x").close()
            command = [sys.executable, FAULTS, folder, "--per_device_train_batch_size", "{batch}", "--gradient_accumulation_steps",
                       "{accumulate}", "--use_cpu", "true", "--output_dir", "out", "--max_steps", "8", "--save_steps", "2",
                       "--save_total_limit", "8", "--samples", "256", "{resume:--resume_from_checkpoint {checkpoint}}"]
            done = subprocess.run([BATCHFIT, "run", "--json", "--device", "cpu", "--memory", "1500MiB", "--batch-size", "8", "--recover",
                                   "--backoff", "0", "--store", "history", "--python", sys.executable, "--", *command], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, timeout=examples.SECONDS,
                                  env=examples.environment(folder, XDG_CACHE_HOME=os.path.join(folder, "cache")))
            self.assertEqual(done.returncode, 0, done.stderr[-4000:] + done.stdout)
            answer = json.loads(done.stdout)
            found = [(attempt["batch"], attempt["accumulation"], os.path.basename(attempt["checkpoint"] or ""))
                     for attempt in answer["attempts"]]
            wanted = [(8, 1, ""), *([(4, 2, "checkpoint-4")] if obeys else []), (4, 2, "checkpoint-4") if obeys else (8, 1, "checkpoint-4")]
            self.assertEqual(found, wanted, done.stderr[-4000:])
            self.assertEqual(answer["samples"], 64)
            steps = []
            for name in glob.glob(os.path.join(folder, "out", "*", "trainer_state.json")):
                with open(name, encoding="utf-8") as f:
                    steps.append(json.load(f)["global_step"])
            self.assertEqual(sorted(steps), [2, 4, 6, 8])


if __name__ == "__main__":
    unittest.main()
