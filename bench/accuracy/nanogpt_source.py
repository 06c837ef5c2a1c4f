# SPDX-License-Identifier: Apache-2.0
"""python:nanogpt_source:gpt2 - GPT-2 (124M) as the training loops after nanoGPT have it: fused query, key and value, scaled_dot_product_attention,
GELU by tanh, embedding and head one matrix of 50304 rows, logits and loss from one call, both held by the script. Ours, after its description."""

import torch
from torch import nn
from torch.nn import functional as F

HIDDEN, HEADS, LAYERS, VOCABULARY, LENGTH = 768, 12, 12, 50304, 1024


class Block(nn.Module):
    """One layer."""

    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        """(batch, length, hidden) -> the same."""
        batch, length, _ = x.shape
        heads = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in self.qkv(self.before(x)).split(HIDDEN, 2))
        y = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).contiguous().view(batch, length, HIDDEN)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.between(x)), approximate="tanh"))


class Model(nn.Module):
    """Tokens and the next ones -> (logits, loss)."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(LENGTH, HIDDEN)
        self.layers, self.last = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        """(logits, loss)."""
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.last(x))
        return logits, F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def gpt2():
    """The model, its loss, and a batch."""
    def batch_of(batch):
        return {name: torch.zeros(batch, LENGTH, dtype=torch.int64) for name in ("tokens", "targets")}
    return Model(), lambda output: output[1], batch_of
