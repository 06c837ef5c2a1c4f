# SPDX-License-Identifier: Apache-2.0
"""Losses that never have all logits at once, or not in fp32: liger's fused linear cross-entropy, Apple's cut one, torchtune's chunked one.

Triton's kernels need a GPU; what they are given to write to is allocated by Python, and that is what stands here. Sources: liger-kernel
0.5.2 to 0.8.5 (ops/fused_linear_cross_entropy.py, transformers/model/loss_utils.py), cut-cross-entropy in Axolotl's fork, 25.5.2 at 5f0c7a7 (cce.py,
cce_lse_forward.py, indexed_dot.py, cce_backward.py, utils.py, transformers/utils.py; that of PyPI, 25.1.1, which Unsloth has, differs in locks of
some kilobytes), torchtune 0.6.1 (modules/loss/ce_chunked_output_loss.py, and chunked_output of its
modules/transformer.py; modules/loss/cross_entropy_loss.py).

liger takes 2^n rows of tokens at a time, so many that a chunk of logits is about as large as the hidden states. That number is no sum of
constants and batches, so such sizes say which chunk they are of (events.Log.of_chunk). The first two chunks are gone through: the logits of
the first are still there while the second one's are made, and every later chunk asks for blocks of these sizes again.
"""

import types

import torch
import torch.nn.functional as F

from . import composites, liger
from .autocast import AUTOCAST
from .errors import RecordError
from .four_bit import rounded, up
from .loss_words import FAMILIES, Loss, chunk_rows

IGNORED = -100


# ---- liger's ---------------------------------------------------------------------------------------------------------

def _of_chunk(tensor, which, rows):
    composites.STATE.rec.log.of_chunk(tensor, which, rows)
    return tensor


def _product(a, b, which, rows):
    """a @ b as autocast has it; what is cast of a chunk's rows is of the chunk as well."""
    low = AUTOCAST.lower([a, b])
    for given, cast in zip((a, b), low):
        if cast is not given and given.shape[0] == rows and given._is_view():
            _of_chunk(cast, which, rows)
    out = low[0] @ low[1]
    del cast, low[1], low[0]
    return out


IN_PLACE = (0, 5, 3)  # before it a chunk's gradients were its logits times a number, in a tensor of their own
BY_SUMS = (0, 6, 2)  # before it the weight's gradient was added up by the product itself, addmm


def _zeros(tensor):
    return torch.zeros_like(tensor) if tensor.requires_grad else None


def _observe(rec, x, weight, dtype, is_trained):
    """The products of all chunks as if there were one."""
    if rec.work is None:
        return
    rec.quiet = True
    x, weight, logits = (torch.empty(shape, dtype=dtype, device="meta") for shape in (x.shape, weight.shape, (x.shape[0], weight.shape[0])))
    for a, b in [(x, weight.t()), (logits, weight)] + [(logits.t(), x)] * is_trained:
        rec.work.observe("mm", torch.ops.aten.mm.default, (a, b), {}, a @ b)
    rec.quiet = False


class _Liger(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, target, version):
        tokens, hidden = x.shape
        rec = composites.STATE.rec
        work, rec.work = rec.work, None
        first = _zeros(weight) if version < BY_SUMS else None
        grad_x, grad_w = _zeros(x), first if version < BY_SUMS else _zeros(weight)
        losses = torch.zeros(tokens, dtype=torch.float32, device=x.device)
        mask = target != IGNORED
        counted = mask.sum()
        if version >= IN_PLACE:
            counted = None  # .item()
        else:
            mask = None
        at = 0
        for which, rows in enumerate(chunk_rows(tokens, -(-weight.shape[0] // hidden))):
            if not rows:
                break
            part = x[at:at + rows]
            logits = _of_chunk(_product(part, weight.t(), which, rows), which, rows)
            grads = _of_chunk(logits * 1.0, which, rows) if version < IN_PLACE else logits
            grad_x[at:at + rows] = _of_chunk(_product(grads, weight, which, rows), which, rows)
            if grad_w is not None:
                _Liger._add(grad_w, grads, part, which, version)
            at += rows
        rec.work = work
        _observe(rec, x, weight, logits.dtype, grad_w is not None)
        loss = losses.sum()
        del mask, losses
        ctx.save_for_backward(grad_x, grad_w)
        ctx.counted = counted
        return loss

    @staticmethod
    def _add(grad_w, grads, part, which, version):
        """The weight's gradient with this chunk's."""
        rows = part.shape[0]
        if version >= BY_SUMS:
            grad_w += _product(grads.t(), part, which, rows).float()
        else:
            same = grads.dtype == part.dtype or version < IN_PLACE
            torch.addmm(grad_w, grads.t() if same else _of_chunk(grads.t().to(part.dtype), which, rows), part, out=grad_w)

    @staticmethod
    def backward(ctx, grad):
        grad_x, grad_w = ctx.saved_tensors
        torch.equal(grad, torch.tensor(1.0, device=grad.device))
        return grad_x, grad_w, None, None


def _liger_loss(model, hidden, labels, how):
    labels = F.pad(labels, (0, 1), value=IGNORED)[..., 1:].contiguous()
    loss = _Liger.apply(hidden.view(-1, hidden.shape[-1]), model.lm_head.weight, labels.view(-1), how.version)
    return loss / labels.numel()  # num_items_in_batch, a number of the Trainer's


# ---- Apple's ---------------------------------------------------------------------------------------------------------

def _locks(tokens, weight):
    """Of the kernel that makes gradients: a word for each 128 rows and 64 columns. Where the batch, which stays free, is among the rows, a byte
    for each and 2048 columns: no less."""
    rows, hidden = weight.shape
    of_tokens = torch.empty(tokens, up(hidden, 2048), dtype=torch.uint8, device=weight.device)
    out = [rounded(of_tokens, 1, tokens, 1, hidden, 2048)]
    if weight.requires_grad:
        words = torch.empty(up(rows, 128), up(hidden, 64), dtype=torch.int32, device=weight.device)
        out.append(rounded(words, 4, rows, 128, hidden, 64))
    return out


class _Cut(torch.autograd.Function):
    """cce.LinearCrossEntropyFunction."""

    @staticmethod
    def forward(ctx, x, weight, valid, is_capped):
        tokens, device = valid.shape[0], x.device
        sums = torch.empty(tokens, dtype=torch.float32, device=device)
        torch.empty(x.shape[0], dtype=torch.uint8, device=device)  # locks, which are fewer
        means = torch.empty(weight.shape[0], dtype=torch.float32, device=device)
        losses = torch.zeros(tokens, dtype=torch.float32, device=device)
        if is_capped:
            losses = torch.empty_like(losses)  # by one compiled kernel
        ctx.save_for_backward(x, weight, sums, valid, means)
        return losses.add_(sums).sum()

    @staticmethod
    def backward(ctx, grad):
        x, weight, _, _, means = ctx.saved_tensors
        order = torch.argsort(means).to(torch.int32)
        grad_x = torch.zeros_like(x)
        grad_w = torch.zeros_like(weight) if weight.requires_grad else None
        locks = _locks(x.shape[0], weight)
        del locks, order
        return grad_x, grad_w, None, None


def _valid(labels):
    """utils._build_flat_valids: where labels count, as if all did."""
    rows, columns = labels.shape
    counts = labels[..., 1:] != IGNORED
    places = torch.empty(rows * (columns - 1), 2, dtype=torch.int64, device=labels.device)
    del counts
    places = places.to(torch.int32)
    return places.sum(1)


def _cut_loss(model, hidden, labels, how):
    weight = model.lm_head.weight
    if hidden.dtype == torch.float32 and torch.is_autocast_enabled():  # its kernels take no fp32
        hidden, weight = hidden.to(torch.get_autocast_dtype("cuda")), weight.to(torch.get_autocast_dtype("cuda"))
    hidden = hidden.contiguous()
    is_capped = getattr(model.config, "final_logit_softcapping", None) is not None
    loss = _Cut.apply(hidden.view(-1, hidden.shape[-1]), weight, _valid(labels), is_capped)
    return loss / labels.numel()  # num_items_in_batch, a number of the Trainer's


# ---- torchtune's -----------------------------------------------------------------------------------------------------

def _chunked_loss(model, hidden, labels, how):
    """Chunks of the sequence: logits of each in the model's type, and each in fp32 in its turn."""
    logits = [model.lm_head(part) for part in hidden.chunk(how.chunks, dim=1)]
    labels = torch.hstack((labels[..., 1:], torch.full_like(labels[:, :1], IGNORED)))
    counted = (labels != IGNORED).sum()
    labels = [part.reshape(-1) for part in labels.chunk(how.chunks, dim=1)]
    logits = [part.reshape(-1, part.size(-1)) for part in logits]
    loss = 0.0
    for part, label in zip(logits, labels):
        loss = loss + F.cross_entropy(part.float(), label, ignore_index=IGNORED, reduction="sum")
    return loss / counted


def _places(labels):
    """torch.where(labels != ignored), where none is."""
    mask = labels != IGNORED
    places = torch.empty(labels.numel(), labels.dim(), dtype=torch.int64, device=labels.device)
    del mask
    return places


def _loss_of_chunk(model, hidden, labels):
    logits = model.lm_head(hidden)
    return F.cross_entropy(logits.float(), labels, reduction="sum", ignore_index=IGNORED)


def _linear_loss(model, hidden, labels, how):
    """Chunks of the tokens that are not masked, as if none were: logits of each, and at once in fp32; what is left of each is its softmax."""
    _places(labels)  # they are counted; they come shifted
    labels, hidden = labels.reshape(-1), hidden.reshape(-1, hidden.shape[-1])
    places = _places(labels)[:, 0]
    hidden, labels = hidden.index_select(0, places), labels.index_select(0, places)
    loss = torch.tensor(0.0, device=labels.device)
    del places
    for part, label in zip(hidden.tensor_split(how.chunks), labels.tensor_split(how.chunks)):
        of_chunk = _loss_of_chunk(model, part, label)  # it stays until the next one's is there
        loss += of_chunk
    return loss / labels.shape[0]


TABLE = {"liger": _liger_loss, "cut": _cut_loss, "chunked": _chunked_loss, "linear": _linear_loss}


def apply(model, knobs, is_outside=False):
    """Puts the knobs' loss into a transformers decoder; with liger's its layers, too. is_outside: the model gives its hidden states, and
    (hidden states, labels) -> loss is returned, as torchtune's recipes have it."""
    how = Loss(knobs.loss)
    kind = model.config.model_type
    if kind not in FAMILIES:
        raise RecordError("--loss %s: modelled for %s, not for a %s" % (how.text, ", ".join(FAMILIES), kind))
    if how.name == "liger" and not how.is_alone:
        liger.apply(model)

    def loss(hidden, labels):
        return TABLE[how.name](model, hidden, labels, how)

    def forward(self, labels=None, **inputs):
        hidden = self.model(**inputs)[0]
        return hidden if is_outside else {"loss": loss(hidden, labels)}
    model.forward = types.MethodType(forward, model)
    return loss
