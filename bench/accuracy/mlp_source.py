# SPDX-License-Identifier: Apache-2.0
"""python:mlp_source:INPUTS LAYERS - a network as the table of random ones lists its layers: [('linear', 96, 10464), ('ReLU', 96, 0), ...],
the second figure being the width after each."""

import ast

import torch
from torch import nn

KINDS = {"linear": lambda before, width: nn.Linear(before, width), "batch_normalization": lambda _, width: nn.BatchNorm1d(width),
         "dropout": lambda _, __: nn.Dropout(0.5), "Softmax": lambda _, __: nn.Softmax(dim=1)}


def _layer(kind, before, width):
    return KINDS[kind](before, width) if kind in KINDS else getattr(nn, kind)()


def _make(name):
    first, _, listed = name.partition(" ")
    width, layers = int(first), []
    for kind, after, _ in ast.literal_eval(listed):
        layers.append(_layer(kind, width, after))
        width = after

    def inputs(batch):
        kind = torch.int64 if width > 1 else torch.float32
        return torch.empty(batch, int(first), device="meta"), torch.empty((batch,) if width > 1 else (batch, 1), dtype=kind, device="meta")
    return nn.Sequential(*layers), nn.CrossEntropyLoss() if width > 1 else nn.BCEWithLogitsLoss(), inputs


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda: _make(name)
