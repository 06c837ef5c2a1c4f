# SPDX-License-Identifier: Apache-2.0
"""A training as notebooks have it, with a cell of parameters that papermill fills in; nbconvert has no such thing, so they come from
the environment there. A line with %% begins a cell: trainers.py makes a notebook of this file."""
# %% parameters
import os

batch = int(os.environ.get("BATCH", 4))
accumulate = int(os.environ.get("ACCUMULATE", 1))
out = os.environ.get("OUT", "out")
resume = os.environ.get("RESUME", "")
# %%
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
os.makedirs(out, exist_ok=True)
data = TensorDataset(torch.randn(512, 256), torch.randint(0, 10, (512,)))
# %%
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
begin = 0
if resume:
    state = torch.load(resume, weights_only=False)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    begin = state["epoch"]
# %%
for epoch in range(begin, 3):
    for step, (x, y) in enumerate(DataLoader(data, batch, shuffle=True)):
        (F.cross_entropy(model(x), y) / accumulate).backward()
        if (step + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}, os.path.join(out, f"epoch{epoch + 1}.pt"))
    print(f"epoch {epoch + 1} is done")
