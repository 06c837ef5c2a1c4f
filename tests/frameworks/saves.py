# SPDX-License-Identifier: Apache-2.0
"""A training with accelerate that saves its state after each 4th step and is killed in the 10th: python saves.py [CHECKPOINT]. With
one it goes on from there to the end."""

import os
import signal
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration

resumed = sys.argv[1] if len(sys.argv) > 1 else None
torch.manual_seed(0)
accelerator = Accelerator(cpu=True, project_config=ProjectConfiguration(project_dir="out", automatic_checkpoint_naming=True))
net = torch.nn.Linear(8, 3)
optimizer = torch.optim.Adam(net.parameters())
data = torch.utils.data.TensorDataset(torch.randn(96, 8), torch.randint(0, 3, (96,)))
net, optimizer, loader = accelerator.prepare(net, optimizer, torch.utils.data.DataLoader(data, batch_size=8))
made = 0
if resumed:
    accelerator.load_state(resumed)
    made = 4 * (int(resumed.rpartition("_")[2]) + 1)
    accelerator.project_configuration.iteration = made // 4
for step, (x, y) in enumerate(loader, 1):
    if step <= made:
        continue
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.cross_entropy(net(x), y))
    optimizer.step()
    if step % 4 == 0:
        accelerator.save_state()
    if step == 10 and not resumed:
        os.kill(os.getpid(), signal.SIGKILL)
print("steps from", made, "to", step)
