# SPDX-License-Identifier: Apache-2.0
"""The small network of `depth` residual blocks of `hidden` channels, for signals, images and volumes."""

import torch
from torch import nn

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


class Block(nn.Module):
    """x + conv(gelu(norm(conv(x)))): same shape out as in."""

    def __init__(self, hidden, axes):
        super().__init__()
        self.first = CONV[axes](hidden, hidden, 3, padding=1, bias=False)
        self.norm = NORM[axes](hidden)
        self.second = CONV[axes](hidden, hidden, 3, padding=1)

    def forward(self, x):
        return x + self.second(nn.functional.gelu(self.norm(self.first(x))))


class Network(nn.Module):
    """(batch, channels, *space) -> (batch, outputs), or (batch, outputs, *space) when `dense`.

    channels, axes   of a sample: axes is the number of spatial axes, 1 to 3
    """

    def __init__(self, channels, axes, outputs, depth=3, hidden=16, dense=False):
        super().__init__()
        self.dense = dense
        self.stem = CONV[axes](channels, hidden, 3, padding=1)
        self.body = nn.Sequential(*(Block(hidden, axes) for _ in range(depth)))
        self.head = CONV[axes](hidden, outputs, 1) if dense else nn.Linear(hidden, outputs)

    def forward(self, x):
        x = self.body(self.stem(x))
        return self.head(x if self.dense else torch.flatten(x, 2).mean(2))
