# SPDX-License-Identifier: Apache-2.0
"""python:mpt_source:NAME - an MPT of llm-foundry (2023) as Composer trains it, for the recorder's fsdp1.

NAME "MPT-1b" and so on. Learned positions, biases, attention by one fused kernel that keeps query, key, value
and its output, layer norms in the arithmetic's type, embedding and head one matrix of 50368 rows. The loss is flash-attn's fused one: it
keeps the logits and recomputes their gradient, both in the arithmetic's type. Embeddings and the last norm are units of their own, as every
child of the model is there. Ours, after the description in llm-foundry 5e85bd6 (models/mpt, yamls/pretrain) and Composer 0.17."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

VOCABULARY = 50368
# hidden size, heads, layers
SIZES = {"MPT-125m": (768, 12, 12), "MPT-350m": (1024, 16, 24), "MPT-760m": (1536, 12, 24), "MPT-1b": (2048, 16, 24), "MPT-3b": (2560, 20, 32),
         "MPT-7b": (4096, 32, 32), "MPT-13b": (5120, 40, 40), "MPT-30b": (7168, 56, 48), "MPT-70b": (8192, 64, 80)}


class Norm(nn.LayerNorm):
    """In the type of what comes in."""

    def forward(self, x):
        dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
        x, weight, bias = (t.to(dtype) for t in (x, self.weight, self.bias))
        with torch.autocast("cuda", enabled=False):
            return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


class Last(Norm):
    """After all layers: a unit."""


class Tokens(nn.Embedding):
    """Tokens to hidden states and, the second time, these to logits: a unit."""

    def forward(self, x, is_head=False):
        return F.linear(x, self.weight) if is_head else super().forward(x)


class Places(nn.Embedding):
    """Where in the sequence: a unit."""


class Block(nn.Module):
    """One layer."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.recomputes = heads, False
        self.before, self.between = Norm(hidden), Norm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        """(batch, length, hidden) -> the same."""
        return checkpoint(self._layer, x, use_reentrant=False) if self.recomputes else self._layer(x)

    def _layer(self, x):
        batch, length, hidden = x.shape
        heads = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, 2))
        y = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(batch, length, hidden)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.between(x))))


class Model(nn.Module):
    """Tokens -> logits."""

    _no_split_modules = ["Block", "Tokens", "Places", "Last"]

    def __init__(self, name, length):
        super().__init__()
        hidden, heads, layers = SIZES[name]
        self.tokens, self.places = Tokens(VOCABULARY, hidden), Places(length, hidden)
        self.layers, self.last = nn.ModuleList(Block(hidden, heads) for _ in range(layers)), Last(hidden)

    def set_grad_checkpointing(self, recomputes):
        """Each layer by itself, not reentrant."""
        for layer in self.layers:
            layer.recomputes = recomputes

    def forward(self, tokens):
        """(batch, length) -> (batch, length, vocabulary)."""
        x = self.tokens(tokens)
        x = x + self.places(torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0))
        for layer in self.layers:
            x = layer(x)
        return self.tokens(self.last(x), True)


class FusedLoss(torch.autograd.Function):
    """Cross entropy of (tokens, vocabulary) by one kernel each way: a loss and a normalizer a token, both fp32."""

    @staticmethod
    def forward(ctx, logits, targets):
        losses, normalizers = (torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device) for _ in range(2))
        ctx.save_for_backward(logits, normalizers, targets)
        return losses

    @staticmethod
    def backward(ctx, grad):
        return torch.empty_like(ctx.saved_tensors[0]), None


def _make(name, length):
    def loss(logits, labels):
        targets = torch.roll(labels, -1)
        targets[:, -1] = -100
        return FusedLoss.apply(logits.view(-1, VOCABULARY), targets.view(-1)).sum() / (targets != -100).sum()

    def inputs(batch):
        return tuple(torch.empty(batch, length, dtype=torch.int64, device="meta") for _ in range(2))
    with torch.device("meta"):
        return Model(name, length), loss, inputs


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def make(seq_len):
        return _make(name, seq_len)
    return make
