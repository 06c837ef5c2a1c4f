# SPDX-License-Identifier: Apache-2.0
"""A loop with accelerate: accelerated.py BATCH ACCUMULATE EPOCHS [CHECKPOINT]"""
import sys

import common
import torch
from accelerate import Accelerator

batch, accumulate, epochs = map(int, sys.argv[1:4])
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
net = common.Net()
optimizer = torch.optim.AdamW(net.parameters())
order = torch.Generator()
loader = torch.utils.data.DataLoader(common.Data(), batch_size=batch, collate_fn=common.collate, shuffle=True, generator=order)
net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
steps = 0
if len(sys.argv) > 4:
    accelerator.load_state(sys.argv[4])
    accelerator.step = 0  # it counts micro-batches, of the accumulation that was
    steps = int(sys.argv[4].rpartition("-")[2])
a_epoch = common.SAMPLES // (batch * accumulate)
for epoch in range(steps // a_epoch, epochs):
    order.manual_seed(epoch)
    made = steps - epoch * a_epoch
    rest = accelerator.skip_first_batches(loader, made * accumulate) if made else loader
    for rows in rest:
        with accelerator.accumulate(net):
            accelerator.backward(net(**rows)["loss"])
            optimizer.step()
            optimizer.zero_grad()
        if not accelerator.sync_gradients:
            continue
        steps += 1
        if steps % 3 == 0:
            accelerator.save_state("out/step-%d" % steps)
common.result(accelerator.unwrap_model(net), steps)
