# SPDX-License-Identifier: Apache-2.0
"""Two ranks over gloo: torchrun --nproc_per_node 2 ranks.py BATCH ACCUMULATE EPOCHS [CHECKPOINT]"""
import contextlib
import os
import sys

import common
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

batch, accumulate, epochs = map(int, sys.argv[1:4])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
net, steps, data = common.Net(), 0, common.Data()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
if len(sys.argv) > 4:
    kept = torch.load(sys.argv[4])
    net.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    steps = kept["steps"]
base = net.seen.clone()  # of all ranks
net.seen.zero_()
ddp = DistributedDataParallel(net, broadcast_buffers=False)
effective = batch * accumulate * world


def seen():
    total = net.seen.clone()
    dist.all_reduce(total)
    return base + total


while steps < epochs * common.SAMPLES // effective:
    order = torch.randperm(common.SAMPLES, generator=torch.Generator().manual_seed(steps * effective // common.SAMPLES))
    at = steps * effective % common.SAMPLES
    own = order[at:at + effective][rank::world].split(batch)
    optimizer.zero_grad()
    for i, micro in enumerate(own):
        with contextlib.nullcontext() if i == len(own) - 1 else ddp.no_sync():
            (ddp(**common.collate([data[int(k)] for k in micro]))["loss"] / accumulate).backward()
    optimizer.step()
    steps += 1
    if steps % 3 == 0:
        total = seen()
        if rank == 0:
            os.makedirs("out", exist_ok=True)
            state = dict(net.state_dict(), seen=total)
            torch.save({"model": state, "optimizer": optimizer.state_dict(), "steps": steps}, "out/step-%d.pt" % steps)
        dist.barrier()
net.seen.copy_(seen())
if rank == 0:
    common.result(net, steps)
dist.destroy_process_group()
