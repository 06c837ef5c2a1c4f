# SPDX-License-Identifier: Apache-2.0
"""The emitter in training loops as people write them: what is a step, which phase has the time, how many samples."""

import unittest

from emit_helper import TIMES, run
from helper import modern, torch


class Loops(unittest.TestCase):
    def good(self, done):
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.err, "")
        self.assertEqual([e["event"] for e in done.events].count("start"), 1)
        self.assertEqual(done.events[0]["event"], "start")
        self.assertEqual(done.events[-1]["event"], "end")
        self.assertEqual([s["step"] for s in done.steps], list(range(1, len(done.steps) + 1)))
        for step in done.steps:
            self.assertAlmostEqual(sum(step[name] for name in TIMES), step["total_ms"], delta=0.001)
            self.assertTrue(all(step[name] >= 0 for name in TIMES), step)
        return done

    def samples(self, done):
        return [step.get("samples") for step in done.steps]

    def test_plain(self):
        """A step an update, the smaller last batch, every phase."""
        done = self.good(run("for epoch in range(2):\n    for x, y in loader:\n        train(x, y)"))
        start, end = done.events[0], done.events[-1]
        self.assertEqual((start["framework"], start["device"], start["world"]), ("torch", "cpu", 1))
        self.assertEqual(start["framework_version"], torch.__version__)
        self.assertEqual(end["ok"], True)
        self.assertEqual(self.samples(done), [8, 8, 6, 8, 8, 6])
        for step in done.steps:
            self.assertEqual(step["micro_batches"], [step["samples"]])
            for name in ("io_ms", "forward_ms", "backward_ms", "optimizer_ms"):
                self.assertGreater(step[name], 0)
            self.assertFalse({"allocated", "reserved", "dropped"} & set(step))

    def test_phases_have_their_time(self):
        """Sleeps of known length end up in the right phase: 30 ms stand far above what else is there."""
        done = self.good(run("""
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 9
    def __getitem__(self, i):
        time.sleep(0.03)
        return torch.randn(8), 0
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net
    def forward(self, x):
        time.sleep(0.05)
        return self.net(x)
class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, g):
        time.sleep(0.07)
        return g
model = Net()
for x, y in DataLoader(Slow(), batch_size=3):
    time.sleep(0.01)
    out = model(x)
    time.sleep(0.02)
    loss = Function.apply(criterion(out, y))
    loss.backward()
    time.sleep(0.04)
    optimizer.step()
    time.sleep(0.06)
    optimizer.zero_grad()
"""))
        self.assertEqual(self.samples(done), [3, 3, 3])
        for step in done.steps[1:]:
            for name, least in (("io_ms", 90), ("forward_ms", 70), ("backward_ms", 70), ("optimizer_ms", 40), ("other_ms", 70)):
                self.assertGreaterEqual(step[name], least - 1, (name, step))
            self.assertLess(step["total_ms"], 340 * 4, step)

    def test_total_is_the_wall(self):
        """With accumulation and autocast: the steps' sum is the time that the loop took, within 2 %."""
        done = self.good(run("""
big = nn.Sequential(nn.Linear(8, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 3))
optimizer = torch.optim.SGD(big.parameters(), 0.01)
def epoch():
    for i, (x, y) in enumerate(DataLoader(data, batch_size=4)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(big(x), y)
        loss.backward()
        if i % 2 == 1:
            ends.append(time.perf_counter())
            optimizer.step()
            ends[-1] = time.perf_counter()
            optimizer.zero_grad()
ends = []
for _ in range(30): epoch()
print(ends[-1] - ends[0])
"""))
        self.assertEqual(done.steps[0]["micro_batches"], [4, 4])
        self.assertEqual({s["samples"] for s in done.steps}, {8, 6})
        wall = float(done.out) * 1e3
        self.assertAlmostEqual(sum(s["total_ms"] for s in done.steps[1:]) / wall, 1, delta=0.02)

    def test_accumulation_without_a_loader(self):
        done = self.good(run("""
for i in range(6):
    loss = criterion(net(torch.randn(5, 8)), torch.zeros(5, dtype=torch.long))
    loss.backward()
    if i % 3 == 2:
        optimizer.step(); optimizer.zero_grad()
"""))
        self.assertEqual([s["micro_batches"] for s in done.steps], [[5, 5, 5], [5, 5, 5]])
        self.assertEqual(done.steps[1]["io_ms"], 0)

    def test_one_batch_again_and_again(self):
        """A batch that is fetched once and used for every step: the samples are those of the model's argument."""
        done = self.good(run("x, y = next(iter(loader))\nfor _ in range(9): train(x, y)"))
        self.assertEqual(self.samples(done)[4:], [8] * 5)

    def test_validation(self):
        """A stretch of forwards without gradients is one event, and in no step's time; so is saving."""
        done = self.good(run("""
for epoch in range(2):
    for x, y in loader: train(x, y)
    net.eval()
    with torch.no_grad():
        for x, y in loader:
            time.sleep(0.1)
            criterion(net(x), y)
    net.train()
    time.sleep(0.1)
    torch.save(net.state_dict(), "c.pt")
"""))
        self.assertEqual(self.samples(done), [8, 8, 6] * 2)
        validations = [e["ms"] for e in done.all("phase") if e["phase"] == "validation"]
        self.assertEqual(len(validations), 2)
        self.assertGreaterEqual(min(validations), 400)
        self.assertEqual(len([e for e in done.all("phase") if e["phase"] == "checkpoint"]), 2)
        self.assertLess(sum(s["total_ms"] for s in done.steps), 400)

    def test_validation_by_hand(self):
        """No loader, eval mode (as nanoGPT does); and before the first step."""
        done = self.good(run("""
def estimate():
    net.eval()
    with torch.no_grad():
        for _ in range(3): criterion(net(torch.randn(4, 8)), torch.zeros(4, dtype=torch.long))
    time.sleep(0.1)
    net.train()
for i in range(4):
    if i % 2 == 0: estimate()
    train(torch.randn(5, 8), torch.zeros(5, dtype=torch.long))
"""))
        self.assertEqual(self.samples(done), [5] * 4)
        self.assertLess(done.steps[2]["total_ms"], 100)
        self.assertGreaterEqual([e["ms"] for e in done.all("phase")][-1], 100)

    def test_model_that_is_run_while_it_is_built(self):
        """Without a batch from a loader, before any training: no validation."""
        done = self.good(run("""
with torch.no_grad(): net(torch.zeros(1, 8))
for x, y in loader: train(x, y)
"""))
        self.assertEqual(self.samples(done), [8, 8, 6])
        self.assertEqual([e for e in done.all("phase")], [])

    def test_teacher(self):
        """A forward without gradients before the one with them belongs to the step."""
        done = self.good(run("""
teacher = nn.Linear(8, 3).eval()
for x, y in loader:
    with torch.no_grad(): t = teacher(x); time.sleep(0.03)
    optimizer.zero_grad()
    (criterion(net(x), y) + (net(x) - t).square().mean()).backward()
    optimizer.step()
"""))
        self.assertEqual(self.samples(done), [8, 8, 6])
        self.assertEqual(done.all("phase"), [])
        self.assertGreaterEqual(done.steps[1]["forward_ms"], 30)

    def test_several_optimizers(self):
        """Two after one backward are one step; a GAN's two backwards are two steps of one batch."""
        done = self.good(run("""
second = torch.optim.SGD(net.parameters(), 0.01)
for x, y in loader:
    criterion(net(x), y).backward()
    optimizer.step(); second.step(); optimizer.zero_grad()
"""))
        self.assertEqual(self.samples(done), [8, 8, 6])
        done = self.good(run("""
D, G = nn.Linear(8, 1), nn.Linear(4, 8)
d, g = torch.optim.Adam(D.parameters()), torch.optim.Adam(G.parameters())
for x, _ in loader:
    z = torch.randn(len(x), 4)
    d.zero_grad(); D(x).mean().backward(); D(G(z).detach()).mean().backward(); d.step()
    g.zero_grad(); D(G(z)).mean().backward(); g.step()
"""))
        self.assertEqual(self.samples(done), [8, 0, 8, 0, 6, 0])

    def test_closure(self):
        """LBFGS: forward and backward inside the optimizer's step; it is one step."""
        done = self.good(run("""
optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4)
for x, y in loader:
    def closure():
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        return loss
    optimizer.step(closure)
"""))
        self.assertEqual(len(done.steps), 3)
        self.assertEqual(done.steps[0]["micro_batches"], [8])
        for name in ("forward_ms", "backward_ms", "optimizer_ms"):
            self.assertGreater(done.steps[1][name], 0)

    def test_scaler_that_skips(self):
        """An attempt that the scaler leaves out is a step. (A CPU scaler exists from torch 2.3 on; before, torch's own
        GradScaler is given a subclass's step, as a fake.)"""
        text = """
scaler = torch.amp.GradScaler("cpu")
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = criterion(net(x), y) * (float("inf") if i == 1 else 1)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
""" if modern() else """
from torch.cuda.amp.grad_scaler import OptState
class Scaler(torch.cuda.amp.GradScaler):
    def __init__(self): self._enabled = True
    def _check_scale_growth_tracker(self, name): pass
    def unscale(self):
        self._per_optimizer_states = {id(optimizer): dict(stage=OptState.UNSCALED, found_inf_per_device={0: torch.ones(())})}
scaler = Scaler()
for x, y in loader:
    optimizer.zero_grad(); criterion(net(x), y).backward()
    scaler.unscale()
    before = net[0].weight.clone()
    scaler.step(optimizer)
    assert bool((before == net[0].weight).all())
"""
        self.assertEqual(self.samples(self.good(run(text))), [8, 8, 6])

    def test_workers_and_their_modules(self):
        """Data workers stay silent, and a transform that is a module is no forward."""
        for workers in (0, 2):
            done = self.good(run("""
class Data(torch.utils.data.Dataset):
    transform = nn.Sequential(nn.Linear(8, 8))
    def __len__(self): return 22
    def __getitem__(self, i): return self.transform(torch.ones(8)).detach(), 0
for x, y in DataLoader(Data(), batch_size=8, num_workers=%d): train(x, y)
""" % workers))
            self.assertEqual(self.samples(done), [8, 8, 6])
            self.assertEqual(len({e["pid"] for e in done.events}), 1)

    def test_batches_of_frameworks(self):
        """Dictionaries, lists of images, and a detector's batch with more boxes than images; the odd last one too."""
        done = self.good(run("""
def boxes(items):
    n = 3 * len(items)
    return {"batch_idx": torch.zeros(n), "bboxes": torch.zeros(n, 4), "cls": torch.zeros(n), "im_file": ["a"] * len(items),
            "img": torch.stack([i[0] for i in items])}
def images(items):
    return tuple(torch.randn(3, 8, 8) for _ in items), tuple({"boxes": torch.zeros(7, 4)} for _ in items)
for collate in (boxes, images):
    for batch in DataLoader(data, batch_size=8, collate_fn=collate):
        train(torch.randn(4, 8), torch.zeros(4, dtype=torch.long))
"""))
        self.assertEqual(self.samples(done), [8, 8, 6] * 2)

    def test_a_long_evaluation_shows_that_it_lives(self):
        done = self.good(run("""
sys.modules["_batchfit_emit.journal"].ALIVE_NS = 50_000_000
for x, y in loader: train(x, y)
net.eval()
end = time.monotonic() + 0.5
with torch.no_grad():
    while time.monotonic() < end: net(x); time.sleep(0.01)
"""))
        self.assertEqual(self.samples(done), [8, 8, 6])
        seen = done.all("seen")
        self.assertGreaterEqual(len(seen), 2)
        self.assertEqual({e["pid"] for e in seen}, {e["pid"] for e in done.steps})

    def test_model_that_is_a_function(self):
        """No module is called: what comes between the batch and the backward is the forward."""
        done = self.good(run("""
w = torch.randn(8, 3, requires_grad=True)
optimizer = torch.optim.SGD([w], 0.1)
for x, y in loader:
    loss = nn.functional.cross_entropy(x @ w, y)
    time.sleep(0.02)
    loss.backward(); optimizer.step(); optimizer.zero_grad()
"""))
        self.assertEqual(self.samples(done), [8, 8, 6])
        self.assertGreaterEqual(done.steps[1]["forward_ms"], 20)

    @unittest.skipUnless(modern(), "hooks of accumulated gradients came with torch 2.1")
    def test_optimizer_inside_backward(self):
        done = self.good(run("""
each = {p: torch.optim.SGD([p], 0.1) for p in net.parameters()}
for p in net.parameters():
    p.register_post_accumulate_grad_hook(lambda p: each[p].step())
for x, y in loader: criterion(net(x), y).backward()
"""))
        self.assertEqual(self.samples(done), [8, 8, 6])


if __name__ == "__main__":
    unittest.main()
