# SPDX-License-Identifier: Apache-2.0
"""Preference training as trl's trainers do it: pairs of answers, of which one is preferred, in one batch, and a reference beside the model.

The reference is a second model in the weights' type or, under an adapter, the model with its adapter switched off; it computes without
gradients while what the model keeps for its own is there. How many logits are there at once is a matter of the version. Sources: trl 1.15.0 and 1.16.0 (trainer/dpo_trainer.py, trainer/utils.py
add_fused_lm_head, kernels/chunked_logprob.py), which score tokens by tiles of logits, and 1.13.0, which has all of them; LLaMA-Factory 000526908ae9
(train/dpo/trainer.py, train/trainer_utils.py get_batch_logps).

A tile has 4,096 tokens and 32,768 words, so its size says nothing of the batch. Of fewer tokens or words its rows or columns are fewer:
a full one is taken always, so that the tape of such a batch is an upper bound.
"""

import contextlib
import types

import torch
import torch.nn.functional as F

from . import build, composites
from .autocast import AUTOCAST
from .four_bit import rounded
from .loss_words import Preference
from .sources.job import TextJob

IGNORED = -100
ROWS, COLUMNS = 4096, 32768  # of a tile
BETA = 0.1
# What the head tells of tokens besides their scores: GRPO's trainer asks for the entropy alone, KTO's not for which were likeliest.
ENTROPY, MEANS, ALL_FIGURES = 1, 2, 3
ENTROPY_ROWS = 128  # tokens of which the entropy is made at a time (entropy_from_logits)


# ---- the head that scores tokens by tiles ----------------------------------------------------------------------------

def _tile(dtype, device):
    tile = torch.empty(ROWS * COLUMNS, dtype=dtype, device=device)
    return rounded(tile, tile.numel() * tile.element_size(), 1, 1)


def _part(of, rows, dtype):
    """So many rows of a matrix in the tiles' type: a copy where that is another."""
    return None if of.dtype == dtype else torch.empty(rows, of.shape[1], dtype=dtype, device=of.device)


def _observe(hidden, weight, dtype, products):
    """The work of all tiles as if there were one: logits, and of the backward pass the gradients of hidden states and of weights."""
    rec = composites.STATE.rec
    if rec.work is None:
        return
    rec.quiet = True
    x, w, z = (torch.empty(shape, dtype=dtype, device="meta") for shape in (hidden.shape, weight.shape, (hidden.shape[0], weight.shape[0])))
    for a, b in [(x, w.t()), (z, w), (z.t(), x)][:products]:
        rec.work.observe("mm", torch.ops.aten.mm.default, (a, b), {}, a @ b)
    rec.quiet = False


class _Scores(torch.autograd.Function):
    """Of each token the logarithm of its probability; of the model that is trained also entropy, mean logit and whether it was likeliest."""

    @staticmethod
    def forward(ctx, hidden, weight, target, with_figures):
        ctx.set_materialize_grads(False)
        dtype = AUTOCAST.dtype() or hidden.dtype
        tokens, device = hidden.shape[0], hidden.device
        highest, total, weighted, squares, mean, before, own = (torch.empty(tokens, dtype=torch.float32, device=device) for _ in range(7))
        tile, rows = _tile(dtype, device), None
        for _ in range(2):  # each further one takes the place of the one before
            rows = _part(hidden, ROWS, dtype)
            for _ in range(2):
                _part(weight, COLUMNS, dtype)
        _observe(hidden, weight, dtype, 1)
        log_z = highest + torch.log(total)
        scores = own - log_z
        entropy = log_z - weighted / total if with_figures else None
        logits = mean / weight.shape[0] if with_figures >= MEANS else None
        is_first = (own >= highest) & (own > before) if with_figures == ALL_FIGURES else None
        ctx.save_for_backward(hidden, weight, target, log_z, log_z if entropy is None else entropy)
        ctx.dtype = dtype
        if with_figures >= MEANS:
            ctx.mark_non_differentiable(*(x for x in (logits, is_first) if x is not None))
        del tile, rows, squares
        return scores, entropy, logits, is_first

    @staticmethod
    def backward(ctx, grad, *_):
        hidden, weight, _, _, _ = ctx.saved_tensors
        grad_hidden = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
        grad_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if ctx.needs_input_grad[1] else None
        tile, rows, columns = _tile(ctx.dtype, hidden.device), None, None
        grad = grad.float().contiguous()
        for _ in range(2):
            rows = _part(hidden, ROWS, ctx.dtype)
            for _ in range(2):
                columns = _part(weight, COLUMNS, ctx.dtype)
                composites.STATE.rec.product()
        _observe(hidden, weight, ctx.dtype, 2 + ctx.needs_input_grad[1])
        out = grad_hidden.to(hidden.dtype), grad_weight.to(weight.dtype) if ctx.needs_input_grad[1] else None, None, None
        del tile, rows, columns
        return out


class Scored:
    """What the head gives of each token."""

    def __init__(self, scores, entropy, logits, is_first, loss, counted):
        self.scores, self.entropy, self.logits, self.is_first, self.loss, self.counted = scores, entropy, logits, is_first, loss, counted


def _score(self, labels=None, with_figures=False, **inputs):
    """In a decoder's place of its forward."""
    kept = self.base_model(use_cache=False, **inputs)
    hidden, labels = kept.last_hidden_state[:, :-1], labels[:, 1:]
    counted = labels != IGNORED
    each = _Scores.apply(hidden[counted], self.get_output_embeddings().weight, labels[counted], with_figures)
    each = [None if x is None else x.new_zeros(counted.shape).masked_scatter(counted, x) for x in each]
    loss = -each[0].sum() / counted.sum().clamp(min=1)
    return Scored(*each, loss, counted)


def apply(model, knobs):
    """Puts that head on a transformers decoder, where trl does."""
    if Preference(knobs.loss).way == "tiled":
        model.forward = types.MethodType(_score, model)


# ---- what is trained on it -------------------------------------------------------------------------------------------

@contextlib.contextmanager
def uncheckpointed(model):
    """Inside, no layer is computed again."""
    was = getattr(model, "is_gradient_checkpointing", False)
    if was:
        model.gradient_checkpointing_disable()
    try:
        yield
    finally:
        if was:
            model.gradient_checkpointing_enable()


class Tiled:
    """What trl has of a pass from 1.15 on: the scores of tokens, made by tiles."""

    keeps_reference = True  # what the reference gave is there until the loss is

    def __init__(self, inputs):
        self.labels = inputs["input_ids"].masked_fill(inputs["completion"] == 0, IGNORED)
        self.answers = inputs["completion"][..., 1:]

    def call(self, model, inputs, with_figures):
        """What is kept of the pass until the loss is there."""
        return model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], labels=self.labels, with_figures=with_figures)

    @staticmethod
    def kept(out):
        """The same where autocast has ended."""
        return out

    def scores(self, out):
        """Of each token."""
        return out.scores[:, -self.answers.size(1):]

    @staticmethod
    def entropy(out):
        return out.entropy.detach()

    @staticmethod
    def halves(out):
        return out.logits.chunk(2, dim=0)

    @staticmethod
    def mean(logits):
        """Of each token's logits: it is that already."""
        return logits

    def figures(self, out, mask):
        """What is logged of each step's tokens."""
        _figures(self, out, mask)

    @staticmethod
    def right(out, half):
        """Which tokens of the preferred answers were the likeliest."""
        is_first, _ = out.is_first.chunk(2, dim=0)
        return is_first & half.bool()


class Chosen(torch.autograd.Function):
    """Of all logits the logarithms of the probabilities of the words that are there, as selective_log_softmax makes them: the sum over the words
    sequence by sequence, where what one of them needs for itself the next one needs again. In the backward pass gather's gradient and the sum
    of both are made in place, which autograd leaves when a dispatch mode looks on (FunctionsManual.cpp gather_backward, input_buffer.cpp)."""

    @staticmethod
    def forward(ctx, logits, words):
        own = torch.gather(logits, dim=-1, index=words.unsqueeze(-1))
        torch.logsumexp(logits[0], dim=-1)
        each = torch.empty(words.shape, dtype=logits.dtype, device=logits.device)
        ctx.save_for_backward(logits, words, each)
        return own - torch.empty_like(each).unsqueeze(-1)

    @staticmethod
    def backward(ctx, grad):
        logits, _, each = ctx.saved_tensors
        of_sums = grad.neg()
        every = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        shares = (logits[0] - each[0].unsqueeze(-1)).exp()
        del shares
        out = torch.empty_like(every)
        del every, of_sums
        torch.zeros(logits.shape, dtype=logits.dtype, device=logits.device)
        return out, None


def entropy_of(logits):
    """Of each token, made of some tokens at a time."""
    flat = logits.reshape(-1, logits.shape[-1])
    each = torch.empty(flat.shape[0], dtype=flat.dtype, device=flat.device)
    chunk = F.log_softmax(flat[:min(ENTROPY_ROWS, flat.shape[0])], dim=-1)
    -(torch.exp(chunk) * chunk).sum(-1)
    del chunk
    return torch.empty_like(each).reshape(logits.shape[0], -1)


class Whole(Tiled):
    """What it has before: all logits, which accelerate hands out in fp32. Versions from 0.12 to 0.28 take copies of fewer."""

    def __init__(self, inputs):
        self.words = inputs["input_ids"][..., 1:]
        self.answers = inputs["completion"][..., 1:]

    @staticmethod
    def call(model, inputs, _):
        return model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False).logits

    @staticmethod
    def kept(out):
        return out.float()

    def scores(self, out):
        each = Chosen.apply(out[..., :-1, :], self.words).squeeze(-1)
        each[self.answers == 0] = 0.0
        return each

    @staticmethod
    def entropy(out):
        return entropy_of(out[..., :-1, :].detach())

    @staticmethod
    def halves(out):
        return out[..., :-1, :].detach().chunk(2, dim=0)

    @staticmethod
    def mean(logits):
        return logits.mean(-1)

    def right(self, out, half):
        likeliest = out[..., :-1, :].detach().chunk(2, dim=0)[0].argmax(dim=-1)
        half = half.bool()
        return (likeliest == self.words[:len(self.words) // 2]) & half


class _Gathered(torch.autograd.Function):
    """gather, whose gradient is added in place (see Chosen)."""

    @staticmethod
    def forward(ctx, values, words):
        ctx.shape = values.shape
        return torch.gather(values, dim=2, index=words.unsqueeze(2))

    @staticmethod
    def backward(ctx, grad):
        return torch.zeros(ctx.shape, dtype=grad.dtype, device=grad.device), None


class _Softmax(Whole):
    """What LLaMA-Factory has, by the code of trl 0.8: a softmax of all logits beside them."""

    keeps_reference = False

    def __init__(self, inputs):
        super().__init__(inputs)
        self.words = inputs["input_ids"]

    def scores(self, out):
        words = self.words[:, 1:].clone()
        counted = words != IGNORED
        words[words == IGNORED] = 0
        each = _Gathered.apply(out[:, :-1, :].log_softmax(-1), words).squeeze(2)
        return each * counted

    def figures(self, out, mask):
        del mask
        for part in out.split(out.shape[0] // 2, dim=0):
            part.mean().item()


class PairJob(TextJob):
    """Pairs of full length: the preferred answers of a batch and behind them the others, so twice as many sequences as the batch."""

    casts_itself = True  # accelerate's autocast is around the forward of each model, not around the loss

    def __init__(self, model, reference, library, config, kind, knobs, how):
        super().__init__(model, library, config, "causal-lm", kind, knobs)
        self.reference, self.how = reference, how
        self.autocast = knobs.autocast_dtype
        self.loss_facts = {"loss": how.text}

    def inputs(self, batch):
        made = {"input_ids": self._tokens(2 * batch, self.length), "attention_mask": self._tokens(2 * batch, self.length, True),
                "completion": self._tokens(2 * batch, self.length, True)}
        if self.how.is_precomputed:
            made.update(chosen=build.new((batch,)), rejected=build.new((batch,)))
        return made

    def _call(self, way, model, inputs, with_figures=False):
        how = torch.autocast("cuda", getattr(torch, self.autocast)) if self.autocast else contextlib.nullcontext()
        with how:
            out = way.call(model, inputs, with_figures)
        return way.kept(out)

    def _refer(self, way, inputs):
        """By the reference."""
        with torch.no_grad(), uncheckpointed(self.model):
            if self.reference is not None:
                return self._call(way, self.reference, inputs)
            with self.model.disable_adapter():
                return self._call(way, self.model, inputs, ALL_FIGURES)

    def forward_loss(self, inputs):
        """(None, loss) of DPO."""
        way = WAYS[self.how.way](inputs)
        out = self._call(way, self.model, inputs, ALL_FIGURES)
        each = way.scores(out)
        sums = each.sum(dim=1)
        chosen, rejected = sums.chunk(2, dim=0)
        if self.how.is_precomputed:
            of_chosen, of_rejected = inputs["chosen"], inputs["rejected"]
        elif self.how.has_reference:
            referred = self._refer(way, inputs)
            of_each = way.scores(referred)
            referred = referred if way.keeps_reference else None
            of_sums = of_each.sum(dim=1)
            of_chosen, of_rejected = of_sums.chunk(2, dim=0)
        else:
            of_chosen, of_rejected = torch.zeros_like(chosen), torch.zeros_like(rejected)
        better, worse = chosen - of_chosen, rejected - of_rejected
        apart = better - worse
        losses = -F.logsigmoid(BETA * apart)
        loss = 0.0 + losses.mean() * 1.0
        way.figures(out, inputs["attention_mask"])
        _rewards(better, worse, chosen, rejected)
        return None, loss


WAYS = {"tiled": Tiled, "whole": Whole, "llamafactory": _Softmax}


def _figures(way, out, mask):
    weighed, total = (way.entropy(out) * way.answers).sum(), way.answers.sum()
    weighed, total = weighed.sum(), total.sum()
    (weighed / total).item() if total > 0 else 0.0
    mask.sum().sum().item()
    halves = way.answers.chunk(2, dim=0)
    sums = [x for part, half in zip(way.halves(out), halves) for x in (way.mean(part[half.bool()]).sum(), half.sum())]
    for x in sums:
        x.sum().item()
    right = way.right(out, halves[0])
    total, right = halves[0].sum(), right.sum()
    total = total.sum()
    (right.sum() / total).item() if total > 0 else 0.0


def _rewards(better, worse, chosen, rejected):
    """And of its pairs."""
    good, bad = BETA * better.detach(), BETA * worse.detach()
    good.mean().item(), bad.mean().item()
    (good > bad).float().mean().item()
    (good - bad).mean().item()
    chosen.mean().item(), rejected.mean().item()
