# SPDX-License-Identifier: Apache-2.0
"""Pairs without a reference, as trl's ORPOTrainer and CPOTrainer train on them, the latter with SimPO's loss, too.

All logits are there once, and beside them a cross-entropy of the preferred half: ORPO's and CPO's, and SimPO's where cpo_alpha is not 0.
Sources: trl 0.24.0 and 1.16.0 (experimental/orpo/orpo_trainer.py, experimental/cpo/cpo_trainer.py, trainer/utils.py selective_log_softmax,
kernels/logprob_entropy.py). What the losses differ in has an entry a pair. LLaMA-Factory's are its DPO without the reference
(preference.py).
"""

import torch
import torch.nn.functional as F

from .preference import Chosen, PairJob, Whole

IGNORED = -100
LN_2 = 0.6931471805599453


class _Fused(torch.autograd.Function):
    """The same from trl 1.14 on, whose kernel makes the entropy along."""

    @staticmethod
    def forward(ctx, logits, words):
        each = torch.empty(words.shape, dtype=torch.float32, device=logits.device)
        entropy, log_z, expected = (torch.empty_like(each) for _ in range(3))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(logits, words, log_z, expected)
        return each, entropy

    @staticmethod
    def backward(ctx, grad, _):
        logits, _, _, _ = ctx.saved_tensors
        grad = grad.contiguous()
        return torch.empty_like(logits, memory_format=torch.contiguous_format), None


def _whole(logits, words):
    return Chosen.apply(logits, words).squeeze(-1)


def _fused(logits, words):
    return _Fused.apply(logits, words)[0]


SCORES = {"whole": _whole, "fused": _fused}


class _Used(torch.autograd.Function):
    """One of two uses of a tensor. Autograd adds their gradients in place, but not where a dispatch mode looks on (input_buffer.cpp): the
    first one is kept until the second is there."""

    @staticmethod
    def forward(ctx, values, kept):
        ctx.kept = kept
        return values.view_as(values)

    @staticmethod
    def backward(ctx, grad):
        if not ctx.kept:
            ctx.kept.append(grad)
            return None, None
        return ctx.kept.pop().add_(grad), None


def _cross_entropy(logits, labels):
    logits, labels = logits[..., :-1, :].contiguous(), labels[..., 1:].contiguous()
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


def _mean_scores(score, logits, labels):
    """Of each sequence, over the tokens of its answer."""
    labels = labels[:, 1:].clone()
    logits = logits[:, :-1, :]
    counted = labels != IGNORED
    labels = torch.where(labels == IGNORED, 0, labels)
    each = score(logits, labels)
    return (each * counted).sum(-1) / counted.sum(-1)


def _log1mexp(x):
    return torch.where(x < -LN_2, torch.log1p(-torch.exp(x)), torch.log(-torch.expm1(x)))


def _log_odds(chosen, rejected):
    chosen, rejected = chosen.float(), rejected.float()
    return (chosen - rejected) - (_log1mexp(chosen) - _log1mexp(rejected))


class OddsJob(PairJob):
    """Pairs of full length, each half with its labels, and the prompts, which are no longer than that."""

    def inputs(self, batch):
        parts = ("input_ids", "attention_mask", "labels")
        return {"%s_%s" % (half, part): self._tokens(batch, self.length, part == "attention_mask")
                for half in ("prompt", "chosen", "rejected") for part in parts[:2 if half == "prompt" else 3]}

    def _scored(self, inputs):
        """(scores of chosen and rejected, their logits, cross-entropy of the chosen)"""
        both = {part: torch.cat((inputs["chosen_" + part], inputs["rejected_" + part])) for part in ("input_ids", "attention_mask", "labels")}
        pairs = len(inputs["chosen_labels"])
        out = self._call(Whole, self.model, both)
        score, kept = SCORES[self.how.way], []
        if self.how.has_cross_entropy:
            labels = both["input_ids"].clone()
            labels = torch.where(both["attention_mask"] == 1, labels, IGNORED)
            beside = _cross_entropy(_Used.apply(out, kept)[:pairs], labels[:pairs])
            each = _mean_scores(score, _Used.apply(out, kept), both["labels"])
        else:
            beside = torch.tensor(0.0).to(out.device)
            each = _mean_scores(score, out, both["labels"])
        return each[:pairs], each[pairs:], out[:pairs, :-1].detach(), out[pairs:, :-1].detach(), beside

    def forward_loss(self, inputs):
        """(None, loss) of ORPO, or of what differs from it by a few scalars."""
        chosen, rejected, chosen_logits, rejected_logits, beside = self._scored(inputs)
        odds = _log_odds(chosen, rejected)
        ratio = F.logsigmoid(odds)
        losses = 0.1 * ratio
        good, bad = 0.1 * chosen.float().detach(), 0.1 * rejected.float().detach()
        mean_ratio, mean_odds = torch.mean(ratio), torch.mean(odds)
        loss = beside - losses.mean()
        is_better = (good > bad).float()
        figures = [good.mean(), bad.mean(), is_better.mean(), (good - bad).mean(), rejected.detach().mean(), chosen.detach().mean(),
                   rejected_logits.mean().mean(), chosen_logits.mean().mean(), beside.detach().mean(), mean_ratio.detach().mean(), mean_odds.detach().mean()]
        for x in figures:
            x.item()
        return None, loss
