# SPDX-License-Identifier: Apache-2.0
"""Trainings on the real PyTorch that do what programs do not usually do: fork once they have begun, go into the background, save where
nothing can be written, train under another clock. What is said of them is what they did."""

import json
import os
import subprocess
import sys
import unittest

from helper import BATCHFIT, InFolder, modern

SLOW = "test_saves_where_nothing_can_be_written test_goes_into_the_background"

BEGIN = """
import os, sys, time, torch
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def step(n=1):
    for _ in range(n):
        net(torch.randn(int(sys.argv[1]), 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
# After it has trained: a child that only computes, one that dies, and one that is a program of its own.
FORKS = BEGIN + """
step(3)
for work in ("net(torch.randn(2, 8))", "os.abort()", "os.execvp('true', ['true'])"):
    child = os.fork()
    if child == 0:
        exec(work)
        os._exit(0)
    os.waitpid(child, 0)
    step(2)
"""
DAEMON = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
null = os.open("/dev/null", os.O_RDWR)
for fd in range(3): os.dup2(null, fd)
os.closerange(3, 1024)
""" + BEGIN + """
for _ in range(int(sys.argv[2])):
    step()
    time.sleep(0.01)
open("done", "w").write("%d" % os.getppid())
"""
# From child to child for a second, so that no look at the processes is sure to find one, and then a daemon.
HOPS = """
import os, time
end = time.monotonic() + 1
while time.monotonic() < end:
    if os.fork(): os._exit(0)
""" + DAEMON
SAVES = BEGIN + """
for _ in range(3):
    step(2)
    try:
        torch.save(net.state_dict(), "/proc/checkpoint.pt")
    except Exception as error:
        if "dies" in sys.argv: raise
torch.save(net.state_dict(), "done.pt")
"""


class Strange(InFolder):
    def run_it(self, script, *words, options=(), status=0):
        """`run` of a script: its document, and what it said."""
        argv = [BATCHFIT, "run", "--json", "--device", "cpu", "--python", sys.executable, "--store", "history", "--batch-size", "4", "--accumulation", "1",
                *options, "--", sys.executable, self.file("train.py", script), "{batch}", *words, "{accumulate}"]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=self.folder, timeout=600, check=False,
                              env={**os.environ, "XDG_CACHE_HOME": os.path.join(self.folder, "cache"), "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_forks_after_it_has_begun(self):
        answer, said = self.run_it(FORKS)
        self.assertEqual((answer["samples"], answer["restarts"], answer["batch"]), (9 * 4, 0, 4), said)

    def test_goes_into_the_background(self):
        """Without any descriptor of ours: its steps come by their folder."""
        answer, said = self.run_it(DAEMON, "40")
        self.assertEqual((answer["samples"], answer["restarts"]), (40 * 4, 0), said)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "done")))
        fit = self.answer("fit", "--memory", "2GiB", "--max-batch-size", "8", "--steps", "3",
                          command=[sys.executable, os.path.join(self.folder, "train.py"), "{batch}", "2000"])
        self.assertEqual((fit["largest_batch_size"], fit["trials"][-1]["status"]), (8, "OK"))

    def test_hops_into_the_background(self):
        """A process that a look at /proc misses, since its parent ended meanwhile, is no reason to end it."""
        answer, said = self.run_it(HOPS, "40")
        self.assertEqual((answer["samples"], answer["restarts"]), (40 * 4, 0), said)

    def test_saves_where_nothing_can_be_written(self):
        answer, said = self.run_it(SAVES, "goes-on", options=["--recover"])
        self.assertRegex(said, r"/proc/checkpoint.pt could not be saved and does not count as a checkpoint: \w+")
        self.assertEqual((answer["samples"], answer["restarts"]), (6 * 4, 0), said)
        # torch 1 does not say why it could not: that may be a full disk, which is tried again until somebody has made room.
        answer, said = self.run_it(SAVES, "dies", options=["--recover", "--backoff", "0", "--max-restarts", "2"], status=1)
        self.assertRegex(said, r"/proc/checkpoint.pt could not be saved and does not count as a checkpoint: \w+")
        self.assertIn("giving up", said)
        self.assertEqual(answer["restarts"], 1 if modern() else 2, said)


if __name__ == "__main__":
    unittest.main()
