# SPDX-License-Identifier: Apache-2.0
"""Small models for python:models:NAME."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from batchfit.dispatch import Recorder
from batchfit.real_loss import real_loss


class Linear(nn.Module):
    """One matrix product of `activation`; the smallest thing with a gradient."""

    def __init__(self, act):
        super().__init__()
        self.a, self.b, self.act = nn.Linear(64, 64, bias=False), nn.Linear(64, 10, bias=False), act

    def forward(self, x):
        return self.b(self.act(self.a(x)))


def _vectors(batch):
    return torch.empty(batch, 64, device="meta"), torch.empty(batch, dtype=torch.int64, device="meta")


def _images(batch):
    return torch.empty(batch, 8, 16, 16, device="meta"), torch.empty(batch, dtype=torch.int64, device="meta")


def relu():
    return Linear(nn.ReLU()), None, _vectors


def relu6():
    return Linear(nn.ReLU6(inplace=True)), None, _vectors


def gelu():
    return Linear(nn.GELU()), None, _vectors


def dropout():
    return Linear(nn.Dropout(0.5)), None, _vectors


def softmax():
    return Linear(nn.Softmax(-1)), None, _vectors


def layernorm():
    return Linear(nn.LayerNorm(64)), None, _vectors


def conv():
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return nn.Sequential(nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), head), None, _images


def rmsnorm():
    return Linear(nn.RMSNorm(64)), None, _vectors


def upsample():
    return nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.Upsample(scale_factor=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)), None, _images


class Looping(nn.Module):
    """Its loss looks at values, one image after the other."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 10)

    def forward(self, x):
        def compute(real):
            return sum(row[row > row.mean()].exp().sum() for row in real)
        return real_loss(Recorder.running, compute, self.a(x), loops=True)


def looping():
    return Looping(), None, lambda b: _vectors(b)[0]


def depthwise():
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    return nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), head), None, _images


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(64, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def lstm():
    return Lstm(), None, lambda b: (torch.empty(b, 7, 64, device="meta"), torch.empty(b, dtype=torch.int64, device="meta"))


class NotAffine(nn.Module):
    """Its work grows with the square of the batch."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 10)

    def forward(self, x):
        y = self.a(x)
        return y + (y @ y.t()).sum()


def quadratic():
    return NotAffine(), None, _vectors


class Branch(nn.Module):
    """Another sequence of ops at every batch."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 10)

    def forward(self, x):
        y = self.a(x)
        for _ in range(x.shape[0]):
            y = y.exp()
        return y


def branch():
    return Branch(), None, _vectors


class NeedsData(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 10)

    def forward(self, x):
        y = self.a(x)
        return y[torch.nonzero(y > 0)[:, 0]]


def needs_data():
    return NeedsData(), None, _vectors


def sized(num_classes=10):
    """Declares a knob."""
    return nn.Sequential(nn.Linear(64, num_classes)), F.cross_entropy, _vectors


def broken():
    raise ValueError("no such thing")
