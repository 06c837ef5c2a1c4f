# SPDX-License-Identifier: Apache-2.0
"""Losses that depend on the data (detection's assigners): run on small real tensors on the CPU inside the recording.

The predictions are replaced by real values; every image of the batch gets the same ones and the same targets, so that
whatever the loss selects is proportional to the batch. What the loss allocates on the CPU is logged as the device's. A loss that loops
over the images is run on one of them, and each allocation counts as often as there are images.
"""

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from .autocast import AUTOCAST


# torch 1.x lacks half-precision kernels on the CPU: there the loss runs in fp32, which is a little high under autocast
HALF_ON_CPU = int(torch.__version__.split(".")[0]) >= 2


class _Counting:
    """Real tensors of at least one dimension count as device memory inside."""

    def __init__(self, log, times):
        self.log, self.times = log, times

    def __enter__(self):
        self.log.cpu_counts, AUTOCAST.cpu_counts = self.times, HALF_ON_CPU

    def __exit__(self, *exc):
        self.log.cpu_counts, AUTOCAST.cpu_counts = 0, False


def _stand_in(rec, tensor, images):
    """A real tensor of that many images in place of a prediction; its memory is the prediction's own."""
    rec.quiet = True
    generator = torch.Generator().manual_seed(20261121)
    one = torch.randn(tensor.shape[1:], generator=generator)
    dtype = tensor.dtype if HALF_ON_CPU else torch.float32
    real = one.expand(images, *one.shape).to(dtype).contiguous().requires_grad_()
    rec.quiet = False
    rec.log.ignore(real)
    return real


class _RealLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rec, compute, spec, loops, *leaves):
        ctx.rec, ctx.metas = rec, [(t.shape, t.dtype, t.stride()) for t in leaves]
        ctx.times = len(leaves[0]) if loops else 1
        ctx.real = [_stand_in(rec, t, len(t) // ctx.times) for t in leaves]
        with torch.enable_grad(), _Counting(rec.log, ctx.times):
            ctx.loss = compute(tree_unflatten(ctx.real, spec))
        return torch.empty((), device="meta")

    @staticmethod
    def backward(ctx, grad):
        with _Counting(ctx.rec.log, ctx.times):
            grads = list(torch.autograd.grad(ctx.loss, ctx.real, allow_unused=True))
            del ctx.loss
        out = []
        for i, (shape, dtype, stride) in enumerate(ctx.metas):
            used, grads[i] = grads[i] is not None, None  # the real gradient makes room for its image on the device
            out.append(torch.empty_strided(shape, stride, dtype=dtype, device="meta") if used else None)
        ctx.real = None
        return (None, None, None, None, *out)


def real_loss(rec, compute, predictions, loops=False):
    """compute(predictions on the CPU) -> scalar loss. predictions: nested containers of meta tensors (batch, ...); loops: compute gets one
    image's. Returns a meta scalar whose backward gives gradients to all of them."""
    leaves, spec = tree_flatten(predictions)
    return _RealLoss.apply(rec, compute, spec, loops, *leaves)
