# SPDX-License-Identifier: Apache-2.0
"""GRPO as trl's GRPOTrainer trains it: a batch is of completions behind their prompts, of which only the completions' tokens are scored. What
a reference gives of them is made before the step, as the completions are, and comes with the batch; so do the scores that the model gave
them when they were made. Sources: trl 1.16.0 (trainer/grpo_trainer.py), which scores tokens by tiles of logits, and 1.13.0, which has all
logits of the completions. What generates the completions is none of the step: the program counts it (src/predict/tape/generate.c).
"""

import torch

from . import build
from .errors import UsageError
from .preference import ENTROPY, IGNORED, Chosen, PairJob, Tiled, Whole, entropy_of

BETA, CLIP, TEMPERATURE = 0.04, 0.2, 1.0  # any


class _Tiled(Tiled):
    """trl's kernels from 1.15 on."""

    def __init__(self, ids, mask, kept):
        self.answers, self.inputs = kept, {"input_ids": ids, "attention_mask": mask}
        self.labels = ids.masked_fill(mask == 0, IGNORED)
        self.labels[:, :-kept] = IGNORED

    def score(self, call):
        """(scores, entropies) of the completions' tokens."""
        out = call(self)
        scores, entropies = out.scores[:, -self.answers:], out.entropy[:, -self.answers:]
        return torch.cat([scores], dim=0), torch.cat([entropies], dim=0)


class _Whole(Whole):
    """All logits of the completions, before."""

    def __init__(self, ids, mask, kept):
        self.answers, self.inputs = kept, {"input_ids": ids, "attention_mask": mask}
        self.words = ids[:, -kept:]

    def call(self, model, inputs, _):
        return model(**inputs, logits_to_keep=self.answers + 1, use_cache=False).logits

    def score(self, call):
        """(scores, entropies)"""
        out = call(self)
        logits = out[:, :-1, :] / TEMPERATURE
        scores = Chosen.apply(logits, self.words).squeeze(-1)
        with torch.no_grad():
            entropies = entropy_of(logits)
        return torch.cat([scores], dim=0), torch.cat([entropies], dim=0)


WAYS = {"tiled": _Tiled, "whole": _Whole}


class CompletionJob(PairJob):
    """Completions behind prompts: knobs.seq_len tokens, of which knobs.target_len are the completion's."""

    def __init__(self, model, reference, library, config, kind, knobs, how):
        super().__init__(model, reference, library, config, kind, knobs, how)
        self.completion = knobs.target_len or self.length // 2
        self.header["target_length"] = self.completion
        if self.completion >= self.length:
            raise UsageError("--target-len %d: the completion is a part of the %d tokens of --seq-len" % (self.completion, self.length))

    def inputs(self, batch):
        made = {part + "_" + what: self._tokens(batch, length, what == "mask")
                for part, length in (("prompt", self.length - self.completion), ("completion", self.completion)) for what in ("ids", "mask")}
        made.update(advantages=build.new((batch,)), num_items_in_batch=build.new((), torch.int64), old=build.new((batch, self.completion)))
        if self.how.has_reference:
            made["referred"] = build.new((batch, self.completion))
        return made

    def count(self, inputs):
        """Tells the recorder how many of a batch's tokens are scored."""
        mask = inputs["completion_mask"]
        self.rec.counted = {(mask.size(0), self.length - 1): mask.numel()}

    def forward_loss(self, inputs):
        """(None, loss), of trl's usual kind (dapo)."""
        self.count(inputs)
        mask = inputs["completion_mask"]
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        every = torch.cat([inputs["prompt_mask"], mask], dim=1)
        scores, entropies = WAYS[self.how.way](ids, every, mask.size(1)).score(lambda way: self._call(way, self.model, way.inputs, ENTROPY))
        gains = inputs["advantages"].unsqueeze(1)
        ratio = scores - inputs["old"]
        share = torch.exp(ratio)
        if self.how.has_reference:
            referred = inputs["referred"]
            apart = torch.exp(referred - scores) - (referred - scores) - 1
        clipped = torch.clamp(share, 1 - CLIP, 1 + CLIP)
        first = share * gains
        second = clipped * gains
        losses = -torch.min(first, second)
        if self.how.has_reference:
            losses = losses + BETA * apart
        items = inputs["num_items_in_batch"].clamp(min=1.0) / 1
        items = items * 1 / 1
        loss = (losses * mask).sum() / items
        if self.how.has_reference:
            _mean(apart, mask)
        _mean(entropies, mask)
        low = (share < 1 - CLIP) & (gains < 0)
        high = (share > 1 + CLIP) & (gains > 0)
        both = low | high
        for clips in (low, high, both):
            _mean(clips.float(), mask)
        lows = _by_sequence(low.float(), mask)
        _finite(lows).min().item()
        highs = _by_sequence(high.float(), mask)
        _finite(highs).max().item()
        return None, loss


def _mean(x, mask):
    """Of all completions' tokens."""
    total, count = (x * mask).sum(), mask.sum().float()
    sums = torch.stack([total, count])
    (sums[0] / sums[1].clamp(min=1.0)).item()


def _by_sequence(x, mask):
    return (x * mask).sum(-1) / mask.sum(-1)


def _finite(x):
    """Those that are numbers: all."""
    torch.isnan(x).all()
    good = ~torch.isnan(x)
    return x[good]
