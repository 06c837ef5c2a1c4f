# SPDX-License-Identifier: Apache-2.0
"""A loop as nanoGPT's: one file, written over, and a flag that resumes. nano.py BATCH ACCUMULATE EPOCHS [--init_from=resume]"""
import os
import sys

import common
import torch

batch, accumulate, epochs = map(int, sys.argv[1:4])
net, steps = common.Net(), 0
optimizer = torch.optim.AdamW(net.parameters())
data = common.Data()
if "--init_from=resume" in sys.argv:
    kept = torch.load("out/ckpt.pt")
    net.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    steps = kept["iter_num"]
os.makedirs("out", exist_ok=True)
effective = batch * accumulate
while steps < epochs * common.SAMPLES // effective:
    order = torch.randperm(common.SAMPLES, generator=torch.Generator().manual_seed(steps * effective // common.SAMPLES))
    at = steps * effective % common.SAMPLES
    optimizer.zero_grad()
    for micro in order[at:at + effective].split(batch):
        (net(**common.collate([data[int(i)] for i in micro]))["loss"] / accumulate).backward()
    optimizer.step()
    steps += 1
    if steps % 3 == 0:  # whole or not at all
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": steps}, "out/ckpt.tmp")
        os.replace("out/ckpt.tmp", "out/ckpt.pt")
common.result(net, steps)
