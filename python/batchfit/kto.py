# SPDX-License-Identifier: Apache-2.0
"""KTO as trl's KTOTrainer trains it: answers that are good or bad, one a sample, and beside them those of other prompts, whose scores stand for
the distance to the reference. The model scores the others first, without gradients, then its own; the reference, or the model with its
adapter switched off, scores both. Sources: trl 1.13.0 and 1.16.0 (trainer/kto_trainer.py). All samples are taken as good ones: copies of
good and bad together are as large as the batch, whichever they are.
"""

import torch
import torch.nn.functional as F

from . import build
from .preference import BETA, MEANS, PairJob, Tiled, Whole, uncheckpointed


class _Samples:
    """A pass over sequences that are no pairs."""

    def __init__(self, ids, mask, completion):
        super().__init__({"input_ids": ids, "completion": completion})
        self.inputs = {"input_ids": ids, "attention_mask": mask}


class _Tiled(_Samples, Tiled):
    """trl's kernels from 1.15 on."""

    def sums(self, out):
        """The score of each sequence."""
        return self.scores(out).sum(-1)

    @staticmethod
    def logits(out, places):
        """Of the samples there, one number a token."""
        return out.logits.index_select(0, places)


class _Whole(_Samples, Whole):
    """All logits, before, and beside them the keys and values that a model keeps where nobody tells it not to."""

    @staticmethod
    def call(model, inputs, _):
        return model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])

    @staticmethod
    def kept(out):
        out.logits = out.logits.float()
        return out

    def sums(self, out):
        return self.scores(out.logits).sum(-1)

    def entropy(self, out):
        return Whole.entropy(out.logits)

    @staticmethod
    def logits(out, places):
        return out.logits[..., :-1, :].detach().index_select(0, places)


WAYS = {"tiled": _Tiled, "whole": _Whole}


class KtoJob(PairJob):
    """Samples of full length, and as many others."""

    def inputs(self, batch):
        made = {prefix + part: self._tokens(batch, self.length, part != "input_ids")
                for prefix in ("", "KL_") for part in ("input_ids", "attention_mask", "completion_mask")}
        return dict(made, label=build.new((batch,), torch.bool))

    def _way(self, inputs, prefix=""):
        return WAYS[self.how.way](*(inputs[prefix + part] for part in ("input_ids", "attention_mask", "completion_mask")))

    def _others(self, model, inputs, with_figures):
        """The scores of the others, by that model."""
        way = self._way(inputs, "KL_")
        with torch.no_grad():
            out = self._call(way, model, way.inputs, with_figures)
        out.past_key_values = None  # the logits alone are kept
        return way.sums(out)

    def _refer(self, way, inputs):
        """(scores of the others, what is kept of its pass) of the reference."""
        with torch.no_grad(), uncheckpointed(self.model):
            if self.reference is not None:
                return self._others(self.reference, inputs, False), self._call(way, self.reference, way.inputs, False)
            with self.model.disable_adapter():
                return self._others(self.model, inputs, MEANS), self._call(way, self.model, way.inputs, MEANS)

    def forward_loss(self, inputs):
        """(None, loss)"""
        labels = inputs["label"]
        good = labels.sum()
        bad = len(labels) - good
        others = self._others(self.model, inputs, MEANS)
        way = self._way(inputs)
        out = self._call(way, self.model, way.inputs, MEANS)
        scores = way.sums(out)
        places = torch.nonzero(labels, as_tuple=False).view(-1)
        none = torch.nonzero(~labels, as_tuple=False).view(-1)[:0]
        chosen, rejected = scores.index_select(0, places), scores.index_select(0, none)
        referred_others, referred = self._refer(way, inputs)
        referred_scores = way.sums(referred)
        referred_chosen, referred_rejected = referred_scores.index_select(0, places), referred_scores.index_select(0, none)
        apart = (others - referred_others).mean().detach()
        apart = apart.mean().clamp(min=0)
        ratios = chosen - referred_chosen
        losses = 1 - F.sigmoid(BETA * (ratios - apart))
        rewards = BETA * ratios.detach()
        nothing = torch.empty((0,), device=losses.device)
        losses = torch.cat((1.0 * losses, nothing), 0)
        del referred_rejected
        apart.item()
        _figures(way, out, inputs, places, none)
        for x in (good, bad):
            x.sum().item()
        for x in (rewards, chosen, nothing, rejected):
            x.nansum().nansum().item()
        return None, losses.nanmean()


def _figures(way, out, inputs, places, none):
    """What is logged of each step's tokens."""
    mask = inputs["completion_mask"][:, 1:]
    weighed, total = (way.entropy(out) * mask).sum(), mask.sum()
    weighed, total = weighed.sum(), total.sum()
    (weighed / total).item() if total > 0 else 0.0
    inputs["attention_mask"].sum().sum().item()
    logits, fewer = way.logits(out, places), way.logits(out, none)
    masks = mask.index_select(0, places), mask.index_select(0, none)
    sums = [x for part, some in zip((logits, fewer), masks) for x in (way.mean(part[some.bool()]).sum(), some.sum())]
    for x in sums:
        x.sum().item()
