# SPDX-License-Identifier: Apache-2.0
"""A training whose first product of matrices comes when memory is nearly out: for test_fit.py.

    starved.py --batch-size B

It reserves all but 100 MiB of what its data segment may have, and uses nothing of it. OpenBLAS wants 128 MiB then, and asks for them for ever.
"""
import resource
import sys

import torch

LEFT = 100 << 20


def data_bytes():
    with open("/proc/self/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmData:")) * 1024


def main():
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    held = torch.empty((limit - data_bytes() - LEFT) // 4)
    model = torch.nn.Linear(1024, 1024)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.rand(int(sys.argv[2]) * 64, 1024)).sum().backward()
        optimizer.step()
    del held


main()
