# SPDX-License-Identifier: Apache-2.0
"""SYNTHETIC: trainings that run out of memory in the ways that doctor tells apart, on the allocator of allocator.py.

tests/snapshot/training.py FOLDER    writes each of SCENES as FOLDER/NAME.pickle, with torch's own writer where torch can be
imported (torch.cuda.memory._dump_snapshot, over our dictionary) and as it does (pickle.dump) where not."""

import pickle
import sys

from allocator import MIB, Allocator, OutOfMemory, snapshot

SITE = "/usr/lib/python3/site-packages/"


def frame(file, line, name):
    """One dict for each different frame, as torch's symbolizer makes them."""
    return _frames.setdefault((file, line, name), {"name": name, "filename": file, "line": line})


_frames, _stacks = {}, {}


def stack(*frames):
    """Innermost first; equal stacks are different lists, as in torch."""
    return [frame(*f) for f in frames]


MAIN = ("/home/u/train.py", 90, "<module>")
CALL = [(SITE + "torch/nn/modules/module.py", 1775, "_call_impl"), (SITE + "torch/nn/modules/module.py", 1764, "_wrapped_call_impl")]


def loading():
    return stack((SITE + "torch/nn/modules/module.py", 957, "convert"), (SITE + "torch/nn/modules/module.py", 915, "_apply"),
                 (SITE + "torch/nn/modules/module.py", 1355, "to"), ("/home/u/train.py", 20, "main"), MAIN)


def feeding():
    return stack(("/home/u/train.py", 41, "main"), MAIN)


def forward(layer):
    return stack((SITE + "torch/nn/modules/linear.py", 125, "forward"), *CALL, ("/home/u/model.py", 30 + layer, "forward"), *CALL,
                 ("/home/u/train.py", 43, "main"), MAIN)


def keeping():
    return stack(("/home/u/train.py", 55, "main"), MAIN)


def optimizing():
    return stack((SITE + "torch/optim/adamw.py", 160, "_init_group"), (SITE + "torch/optim/adamw.py", 232, "step"),
                 (SITE + "torch/optim/optimizer.py", 493, "wrapper"), ("/home/u/train.py", 50, "main"), MAIN)


def stepping():
    return stack((SITE + "torch/optim/adamw.py", 600, "_multi_tensor_adamw"), (SITE + "torch/optim/adamw.py", 245, "step"),
                 (SITE + "torch/optim/optimizer.py", 493, "wrapper"), ("/home/u/train.py", 50, "main"), MAIN)


BACKWARD = []  # autograd's thread has no Python frames


class Training:
    """layers with `weight` bytes each; `activation` bytes a layer and sample."""

    def __init__(self, allocator, layers=8, weight=8 * MIB, activation=MIB // 2, batch=16):
        self.m, self.layers, self.weight, self.activation, self.batch = allocator, layers, weight, activation, batch
        self.weights = [self.m.malloc(weight, loading()) for _ in range(layers)]
        self.state, self.kept = [], []

    def step(self, batch=None, leak=0, sizes=None):
        """One step of it."""
        m, batch = self.m, batch or self.batch
        x = m.malloc(batch * 3 * 4096, feeding())
        acts = [m.malloc(batch * (sizes[i] if sizes else self.activation), forward(i)) for i in range(self.layers)]
        if leak:
            self.kept.append(m.malloc(leak, keeping()))
        grads = []
        for i in reversed(range(self.layers)):
            scratch = m.malloc(batch * self.activation, BACKWARD)
            grads.append(m.malloc(self.weight, BACKWARD))
            m.free(scratch, BACKWARD)
            m.free(acts[i], BACKWARD)
        if not self.state:
            self.state = [m.malloc(self.weight, optimizing()) for _ in range(2 * self.layers)]
        scratch = m.malloc(self.weight, stepping())
        m.free(scratch, stepping())
        for address in grads + [x]:
            m.free(address, stepping())


def run(allocator, scene):
    """The allocator after the death."""
    try:
        scene(allocator)
    except OutOfMemory:
        pass
    return allocator


def peak(m):
    """Too large a batch: dies in the first forward pass."""
    Training(m, batch=64).step()


def leak(m):
    """20 MiB stay of every step; dies in a later one."""
    training = Training(m)
    for _ in range(200):
        training.step(leak=20 * MIB)


def fragmented(m):
    """Sequences that get longer: half of each stays in the piece that was large enough for it."""
    training = Training(m, layers=4)
    training.step()
    for length in range(20, 68, 4):
        m.free(m.malloc(length * MIB, forward(0)), forward(0))
        m.malloc((length // 2 + 1) * MIB, forward(2))
    m.malloc(100 * MIB, forward(1))


def healthy(m):
    """Three steps, nothing dies."""
    training = Training(m)
    for _ in range(3):
        training.step()


SCENES = {
    "peak": ([310 * MIB], peak, None),
    "leak": ([448 * MIB], leak, None),
    "fragmented": ([620 * MIB], fragmented, None),
    "healthy": ([1024 * MIB], healthy, None),
    "ring": ([448 * MIB], leak, 300),
    "two-gpus": ([310 * MIB, 2048 * MIB], peak, None),
}


def make(name):
    """The dictionary of a scene."""
    _frames.clear()
    capacities, scene, entries = SCENES[name]
    return snapshot([run(Allocator(c, entries), scene) for c in capacities])


def write(dictionary, path):
    """As torch.cuda.memory._dump_snapshot does it."""
    try:
        import torch
        torch._C._cuda_memorySnapshot = lambda *_: dictionary
        torch.cuda.memory._dump_snapshot(path)
    except ImportError:
        with open(path, "wb") as f:
            pickle.dump(dictionary, f)


def main():
    for name in SCENES:
        write(make(name), "%s/%s.pickle" % (sys.argv[1], name))


if __name__ == "__main__":
    main()
