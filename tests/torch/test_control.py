# SPDX-License-Identifier: Apache-2.0
"""What a training asks of `batchfit run` (python/batchfit/control.py), in processes of their own."""

import json
import os
import subprocess
import sys
import unittest

from emit_helper import run_alone
from helper import PYTHON, InFolder

SLOW = "test_the_example_learns_the_same_at_every_batch"

ASK = """
import sys
import batchfit
assert "torch" not in sys.modules
print(batchfit.next_batch_size(64), batchfit.accumulation(2))
"""
EXAMPLE = os.path.join(PYTHON, "..", "examples", "run", "train.py")


class Control(InFolder):
    def ask(self, text=None, program=ASK, env=None):
        """(what the program printed, its `batch` events); text: of the control file, None: there is none."""
        extra = {"PYTHONPATH": os.environ.get("PYTHONPATH", PYTHON)}
        if text is not None:
            extra["BATCHFIT_CONTROL"] = self.file("control.json", text)
        extra.update(env or {})
        done = run_alone(program, env=extra, prelude="")
        self.assertEqual((done.status, done.err), (0, ""))
        return done.out.split(), done.all("batch")

    def test_without_run_the_argument(self):
        self.assertEqual(self.ask(), (["64", "2"], []))

    def test_what_run_says(self):
        out, events = self.ask('{"v":1,"batch":32,"accumulation":4}')
        self.assertEqual(out, ["32", "4"])
        self.assertEqual([(e["batch"], e["accumulation"], e["rank"]) for e in events], [(32, 4, 0)])

    def test_a_file_that_cannot_be_read_is_the_argument(self):
        whole = '{"v":1,"batch":32,"accumulation":4}'
        texts = [whole[:cut] for cut in range(len(whole))]
        texts += ['{"v":2,"batch":32,"accumulation":4}', '{"v":1,"batch":0,"accumulation":4}', "[]", "null", "\x00",
                  '{"v":1,"batch":true,"accumulation":4}', '{"v":1,"batch":32}', '{"v":1,"batch":"32","accumulation":4}',
                  '{"v":1,"batch":32.5,"accumulation":4}', " " * 5000 + whole]
        program = ASK.split("assert")[0] + """
import os, json
for text in json.loads(sys.argv[1]):
    with open(os.environ["BATCHFIT_CONTROL"], "w") as f:
        f.write(text)
    if (batchfit.next_batch_size(64), batchfit.accumulation(2)) != (64, 2):
        print("took", repr(text))
os.remove(os.environ["BATCHFIT_CONTROL"])
print(batchfit.next_batch_size(64), batchfit.accumulation(2))
"""
        program = "import sys; sys.argv.append(%r)\n%s" % (json.dumps(texts), program)
        self.assertEqual(self.ask("", program), (["64", "2"], []))

    def test_each_change_is_told_once(self):
        program = """
import batchfit, os
def say(batch, accumulation):
    path = os.environ["BATCHFIT_CONTROL"]
    with open(path + ".new", "w") as f:
        f.write('{"v":1,"batch":%d,"accumulation":%d}' % (batch, accumulation))
    os.replace(path + ".new", path)
batch = batchfit.next_batch_size(64)
for next in 64, 64, 32, 32, 48:
    say(next, 96 // next)
    batch = batchfit.next_batch_size(batch)
    print(batch)
os.remove(os.environ["BATCHFIT_CONTROL"])
print(batchfit.next_batch_size(batch), batchfit.accumulation(7))
"""
        out, events = self.ask('{"v":1,"batch":64,"accumulation":1}', program)
        self.assertEqual(out, ["64", "64", "32", "32", "48", "48", "2"])
        self.assertEqual([e["batch"] for e in events], [64, 32, 48])

    def test_ranks_do_not_change_while_they_live(self):
        program = """
import batchfit, os
print(batchfit.next_batch_size(64))
with open(os.environ["BATCHFIT_CONTROL"], "w") as f:
    f.write('{"v":1,"batch":16,"accumulation":8}')
print(batchfit.next_batch_size(32), batchfit.accumulation())
"""
        out, events = self.ask('{"v":1,"batch":32,"accumulation":4}', program, {"WORLD_SIZE": "2", "RANK": "1"})
        self.assertEqual(out, ["32", "32", "4"])
        self.assertEqual([(e["batch"], e["rank"]) for e in events], [(32, 1)])

    def test_a_child_tells_for_itself(self):
        program = """
import batchfit, os
batchfit.next_batch_size(64)
if os.fork() == 0:
    batchfit.next_batch_size(64)
    os._exit(0)
os.wait()
"""
        _, events = self.ask('{"v":1,"batch":32,"accumulation":4}', program)
        self.assertEqual(len({e["pid"] for e in events}), 2)

    def test_wrong_arguments(self):
        for argument, error in (("0", "ValueError"), ("-3", "ValueError"), ("2.5", "TypeError"), ("'8'", "TypeError"),
                                ("None", "TypeError")):
            for name in "next_batch_size", "accumulation":
                done = run_alone("import batchfit\nbatchfit.%s(%s)" % (name, argument), env={"PYTHONPATH": PYTHON}, prelude="")
                self.assertEqual(done.status, 1)
                self.assertIn(error, done.err.splitlines()[-1])

    def train(self, *words, control=None):
        """The final state of the example, and what it printed."""
        import torch
        output = os.path.join(self.folder, "out%d" % len(os.listdir(self.folder)))
        env = {k: v for k, v in os.environ.items() if not k.startswith("BATCHFIT_")}
        env.update(PYTHONPATH=PYTHON, OMP_NUM_THREADS="1")
        if control:
            env["BATCHFIT_CONTROL"] = self.file("control.json", control)
        done = subprocess.run([sys.executable, EXAMPLE, "--samples", "96", "--output", output, *words], env=env,
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return torch.load(os.path.join(output, "final.pt")), done.stdout, output

    def same(self, a, b):
        import torch
        self.assertEqual(a["samples"], b["samples"])
        for name, tensor in a["model"].items():
            torch.testing.assert_close(tensor, b["model"][name], rtol=1e-4, atol=1e-5)

    def test_the_example_learns_the_same_at_every_batch(self):
        whole, _, folder = self.train("--epochs", "2", "--batch-size", "48", "--checkpoint-every", "1")
        cut, _, _ = self.train("--epochs", "2", "--batch-size", "16", "--accumulate", "3")
        self.same(whole, cut)
        checkpoint = os.path.join(folder, "ckpt-%08d.pt" % 144)  # in the middle of the second epoch
        resumed, out, _ = self.train("--epochs", "2", "--batch-size", "12", "--accumulate", "4", "--resume", checkpoint)
        self.same(whole, resumed)
        self.assertNotIn("epoch 1:", out)
        asked, out, _ = self.train("--epochs", "2", "--batch-size", "48", "--ask",
                                   control='{"v":1,"batch":24,"accumulation":2}')
        self.assertIn("batch 24 x 2", out)
        self.same(whole, asked)


if __name__ == "__main__":
    unittest.main()
