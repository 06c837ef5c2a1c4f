# SPDX-License-Identifier: Apache-2.0
"""batchfit run on the real PyTorch (examples/run): memory that really runs out, processes that are really killed, ranks that
restart together. Whatever happens on the way, the weights are those of an undisturbed training with the same effective batch."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

from helper import BATCHFIT, HERE, InFolder, torch

SLOW = """
    test_a_flag_alone_resumes test_many_checkpoints_of_one_moment_hold_what_each_holds test_a_program_that_asks_grows_without_a_restart
    test_ranks_restart_together
"""

TRAIN = os.path.join(HERE, "..", "..", "examples", "run", "train.py")
MANY_SAVES = """
import sys, os, torch
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(1, 21):
    net(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    path = "c-%d.pt" % (4 * step)
    torch.save({"step": step}, path if sys.argv[1] == "plain" else "new")
    if sys.argv[1] != "plain":
        os.replace("new", path)
"""
SAVES_OVER = """
import sys, torch
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    net(torch.randn(int(sys.argv[1]), 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.save({"step": step}, "ck.pt")
"""
# Looks torch up before it imports it, as transformers does; `--resume` goes on from the one file that it writes over.
RESUMES = """
import importlib.util, os, sys, time
importlib.util.find_spec("torch")
import torch
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
begin = torch.load("ck.pt")["step"] if "--resume" in sys.argv else 0
for step in range(begin, 60):
    net(torch.randn(int(sys.argv[1]), 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.03)
    torch.save({"step": step + 1}, "ck.new")
    os.replace("ck.new", "ck.pt")
    if os.path.exists("dies") and step == 30:
        os.remove("dies")
        os.kill(os.getpid(), 9)
"""
# Updates that are written by hand: the emitter sees the backward that announces it, and no step.
BY_HAND = """
import time, torch
net = torch.nn.Linear(64, 64)
until = time.monotonic() + 6
while time.monotonic() < until:
    net(torch.randn(8, 64)).sum().backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 1e-3 * p.grad
            p.grad = None
torch.save(net.state_dict(), "done.pt")
"""
EXACT = dict(rtol=1e-3, atol=2e-4)  # sums of fp32 in another order


class Run(InFolder):
    plain = None

    def run_it(self, name, *words, options=(), batch=48, extra=(), ranks=1, meanwhile=None, template=True):
        """One run to its end: the document, and the weights. template: the run is told where checkpoints are."""
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        # Whatever script is behind torchrun, as with --ranks.
        start = [] if ranks > 1 else [sys.executable]
        argv = [BATCHFIT, "run", "--json", "--device", "cpu", "--python", sys.executable, "--store", folder, "--batch-size", str(batch),
                "--recover", "--backoff", "0.1", "--log", os.path.join(folder, "log"), *(["--checkpoint", folder + "/out/ckpt-*.pt"] if template else []), *options,
                *(["--ranks", str(ranks)] if ranks > 1 else []), "--", *start, TRAIN, "--batch-size", "{batch}",
                "--accumulate", "{accumulate}", "--output", folder + "/out", "{resume:--resume {checkpoint}}", *words, *extra]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment(), cwd=folder)
        helper = threading.Thread(target=meanwhile, args=(process.pid, folder)) if meanwhile else None
        if helper:
            helper.start()
        out, error = process.communicate(timeout=900)
        if helper:
            helper.join()
        self.assertEqual(process.returncode, 0, out + error)
        return json.loads(out), torch.load(folder + "/out/final.pt", map_location="cpu"), error

    def undisturbed(self):
        """The weights that the same training has when nothing happens to it."""
        if Run.plain is None:
            Run.plain = self.run_it("plain")[1]
        return Run.plain

    def assert_same(self, found, wanted):
        self.assertEqual(found["samples"], wanted["samples"])
        for name, weight in wanted["model"].items():
            torch.testing.assert_close(found["model"][name], weight, **EXACT)

    def test_memory_runs_out_and_half_the_batch_finishes(self):
        shape = ("--samples", "48", "--epochs", "2", "--image-size", "96", "--width", "32", "--checkpoint-every", "1")
        large, wanted, _ = self.run_it("large", *shape, options=("--memory", "64GiB"))
        small, same, _ = self.run_it("small", *shape, batch=12, options=("--memory", "64GiB", "--accumulation", "4"))
        self.assert_same(same, wanted)
        peaks = [document["attempts"][0]["peak_bytes"] for document in (small, large)]
        limit = sum(peaks) // 2
        found, weights, error = self.run_it("limited", *shape, options=("--memory", f"{limit}B"))
        self.assertGreaterEqual(found["restarts"], 1, (peaks, error))
        self.assertLess(found["batch"], 48)
        self.assertEqual((found["batch"] * found["accumulation"], found["samples"]), (48, 96), found)
        self.assert_same(weights, wanted)

    def kill_one(self, marked, count):
        """SIGKILL to the newest of `count` processes of the training, once the log has a checkpoint.

        Its file is there earlier: whoever kills then may come before the program has told what it holds."""
        def kill(batchfit, folder):
            end = time.monotonic() + 300
            while time.monotonic() < end and os.path.exists(f"/proc/{batchfit}/exe") and not is_logged(folder + "/log", "checkpoint"):
                time.sleep(0.02)
            pids = below(batchfit, marked)
            if len(pids) >= count:
                os.kill(pids[-1], signal.SIGKILL)
                self.killed = pids[-1]
        self.killed = None
        return kill

    def test_what_is_killed_goes_on_from_its_checkpoint(self):
        wanted = self.undisturbed()
        found, weights, error = self.run_it("killed", meanwhile=self.kill_one(TRAIN, 1))
        self.assertIsNotNone(self.killed)
        self.assertEqual((found["restarts"], found["samples"], found["batch"]), (1, 1920, 48), error)
        self.assertIn("ckpt-", found["attempts"][1]["checkpoint"])
        self.assert_same(weights, wanted)
        found, weights, error = self.run_it("untold", meanwhile=self.kill_one(TRAIN, 1), template=False)
        self.assertEqual((found["restarts"], found["samples"]), (1, 1920), error)
        self.assertIn("ckpt-", found["attempts"][1]["checkpoint"])
        self.assert_same(weights, wanted)

    @unittest.skipIf(torch.__version__.startswith("1.") and sys.version_info >= (3, 11), "torch 1.13's torchrun fails under Python 3.11")
    def test_ranks_restart_together(self):
        wanted = self.undisturbed()
        found, weights, error = self.run_it("ranks", batch=24, ranks=2, meanwhile=self.kill_one(TRAIN, 2))
        self.assertIsNotNone(self.killed)
        self.assertEqual((found["restarts"], found["samples"], found["effective_batch"]), (1, 1920, 48), error)
        self.assert_same(weights, wanted)

    def test_a_program_that_asks_grows_without_a_restart(self):
        wanted = self.undisturbed()
        options = ("--adaptive", "--initial-batch-size", "12", "--memory", "64GiB")
        found, weights, error = self.run_it("asks", options=options, extra=("--ask",))
        self.assertEqual((found["restarts"], found["effective_batch"], found["samples"]), (0, 48, 1920), error)
        self.assertGreater(found["batch"], 12, error)
        self.assert_same(weights, wanted)

    def run_text(self, text, *words, verb="run", options=(), python=()):
        """A program's text under a verb: what was said on both streams."""
        with open(os.path.join(self.folder, "train.py"), "w", encoding="utf-8") as f:
            f.write(text)
        argv = [BATCHFIT, verb, "--no-history", "--device", "cpu", *options, "--", sys.executable, *python, "train.py", *words]
        done = subprocess.run(argv, cwd=self.folder, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_torch_that_is_looked_up_first(self):
        said = self.run_text(RESUMES, "{batch}", verb="fit", options=("--memory", "4GiB", "--max-batch-size", "8", "--start-limit", "100"))
        self.assertIn("confirmed", said)

    def test_a_checkpoint_of_before_stays_in_a_trial_and_is_the_trainings_own_in_a_run(self):
        kept = self.file("ck.pt", "mine")
        self.run_text(SAVES_OVER, "{batch}", verb="fit", options=("--memory", "4GiB", "--max-batch-size", "1", "--start-limit", "100"))
        with open(kept, "rb") as f:
            self.assertEqual(f.read(), b"mine")
        self.run_text(SAVES_OVER, "4")
        self.assertEqual(torch.load(kept)["step"], 19)

    def test_a_flag_alone_resumes(self):
        for where in (("--checkpoint", "ck.pt"), ()):
            with self.subTest(where=where):
                open(os.path.join(self.folder, "dies"), "w").close()
                options = ("--log", "log", "--fresh", "--batch-size", "4", "--recover", "--backoff", "0.1", *where)
                said = self.run_text(RESUMES, "4", "{resume:--resume}", options=options)
                self.assertIn("from " + ("" if where else self.folder + "/") + "ck.pt (124 samples)", said)
                self.assertIn("1 restart, batch 4 x 1 (effective 4), samples seen: 240\n", said)

    def test_a_training_that_is_not_seen_is_left_alone(self):
        """-I keeps every module of PYTHONPATH out: the emitter too."""
        options = ("--log", "log", "--batch-size", "4", "--recover", "--start-limit", "0.5", "--stall-limit", "0.5")
        said = self.run_text(RESUMES, "4", options=options, python=("-I",))
        self.assertEqual(said.count("only its end is watched"), 1, said)
        self.assertIn("0 restarts, batch 4 x 1 (effective 4), samples seen: unknown\n", said)

    def test_updates_by_hand_are_steps(self):
        said = self.run_text(BY_HAND, options=("--log", "log", "--batch-size", "8", "--recover", "--stall-limit", "30"))
        self.assertRegex(said, r"0 restarts, batch 8 x 1 \(effective 8\), samples seen: [1-9][0-9]*\n")
        self.assertTrue(os.path.exists(os.path.join(self.folder, "done.pt")))

    def test_many_checkpoints_of_one_moment_hold_what_each_holds(self):
        """The clock of files ticks every few milliseconds: their times do not tell them apart."""
        for way in ("plain", "renamed"):
            for options in (("--checkpoint", "c-*.pt"), ()):
                with self.subTest(way=way, options=options):
                    folder = os.path.join(self.folder, way + str(len(options)))
                    os.makedirs(folder)
                    argv = [BATCHFIT, "run", "--no-history", "--device", "cpu", "--log", "log", "--batch-size", "4", "--recover", *options,
                            "--", sys.executable, "-c", MANY_SAVES, way, "{batch} {accumulate} {resume:{checkpoint}}"]
                    subprocess.run(argv, cwd=folder, check=True, timeout=300, capture_output=True)
                    with open(os.path.join(folder, "log")) as lines:
                        events = [json.loads(line) for line in lines]
                    held = {event["checkpoint"].rpartition("c-")[2]: event["samples"] for event in events
                            if "c-" in event.get("checkpoint", "") and event["event"] == "checkpoint"}
                    self.assertEqual(held, {f"{4 * step}.pt": 4 * step for step in range(1, 21)})


def is_logged(path, event):
    if not os.path.exists(path):
        return False
    with open(path) as lines:
        return any(line.endswith("\n") and json.loads(line)["event"] == event for line in lines)


def below(ancestor, word):
    """Pids of the processes below `ancestor` with that word in their command, the oldest first; no launcher."""
    parents, words = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                parents[int(pid)] = int(f.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words[int(pid)] = f.read().decode(errors="replace").split("\0")
        except OSError:
            pass

    def is_below(pid):
        while pid in parents and pid != ancestor:
            pid = parents[pid]
        return pid == ancestor

    return sorted(pid for pid in parents if pid != ancestor and is_below(pid) and word in words.get(pid, ())
                  and "torch.distributed.run" not in words[pid] and BATCHFIT not in words[pid])


if __name__ == "__main__":
    unittest.main()
