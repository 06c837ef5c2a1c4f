# SPDX-License-Identifier: Apache-2.0
"""Two ranks of which the last needs more memory with each sample, and may have only LEFT more than it has at its beginning: for
test_fit.py.

    torchrun --nproc_per_node 2 uneven.py --batch-size B --note FILE [--wait]

FILE: when memory ran out, as seconds since 1970.
--wait: the rank that runs out of memory catches the error and waits, as a handler that never comes to an end does.
"""
import os
import resource
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES = 1 << 16  # a sample's: 256 KiB in 32-bit floats
LEFT = 500 << 20


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        for _ in range(4):
            x = torch.tanh(x * self.weight)
        return x.mean()


def take_the_rest():
    with open("/proc/self/status", encoding="ascii") as f:
        kib = next(int(line.split()[1]) for line in f if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, ((kib << 10) + LEFT, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def main():
    batch, note = (sys.argv[sys.argv.index(name) + 1] for name in ("--batch-size", "--note"))
    batch, wait = int(batch), "--wait" in sys.argv
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    size = batch * 4 if rank == world - 1 else batch
    if rank == world - 1:
        take_the_rest()
    try:
        for _ in range(200):
            optimizer.zero_grad()
            model(torch.rand(size, FEATURES)).backward()
            optimizer.step()
    except RuntimeError:
        if rank == world - 1:
            with open(note, "w", encoding="utf-8") as f:
                f.write(repr(time.time()))
        if not wait:
            raise
        time.sleep(600)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
