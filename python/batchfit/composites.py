# SPDX-License-Identifier: Apache-2.0
"""Composite ops whose CUDA path differs from the meta device's *above* autograd: what is saved differs too.

Registered at the meta device's autograd key, so they apply to meta tensors only. Recording runs without inference
mode (which would bypass that key); `torch.no_grad` is fine.
"""

import math

import torch

from .autocast import AUTOCAST

aten = torch.ops.aten


class _State:
    """What the running recording wants; set by `active`."""

    attention, softmax_keeps_input, hardtanh_copies_input, fuses_rms_norm, rec = "fused", False, True, True, None


STATE = _State()
_LIBRARY, _OLD = [], []  # the latter: of ops that are no composites today, as long as an old torch's recording runs


class _OldSoftmax(torch.autograd.Function):
    """Softmax of torch <= 1.10: its formula names self, so the input is kept as well."""

    @staticmethod
    def forward(ctx, x, dim, log, half_to_float):
        out = (aten._log_softmax if log else aten._softmax).default(x, dim, half_to_float)
        ctx.save_for_backward(x, out)
        ctx.dim, ctx.log = dim, log
        return out

    @staticmethod
    def backward(ctx, grad):
        x, out = ctx.saved_tensors
        back = aten._log_softmax_backward_data if ctx.log else aten._softmax_backward_data
        return back.default(grad, out, ctx.dim, x.dtype), None, None, None


def _softmax(op, log):
    def softmax(x, dim, dtype=None):
        """softmax(): fp16 in and fp32 out is one kernel on CUDA (native/SoftMax.cpp)."""
        fused = dtype == torch.float32 and x.dtype == torch.float16
        if dtype is not None and not fused and dtype != x.dtype:
            x = x.to(dtype)
        if STATE.softmax_keeps_input:
            return _OldSoftmax.apply(x, dim, log, fused)
        return op.default(x, dim, fused)
    return softmax


class _OldRelu(torch.autograd.Function):
    """relu() of torch < 1.10: its formula names self, so that the input is kept, beside the output that the next layer keeps (pull request 63089)."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return aten.clamp_min.default(x, 0)  # the same; relu would come here again

    @staticmethod
    def backward(ctx, grad):
        return aten.threshold_backward.default(grad, ctx.saved_tensors[0], 0)


class _Hardtanh(torch.autograd.Function):
    """hardtanh_, and so ReLU6(inplace=True). Before torch 1.10 its formula took the result; since then the input is copied (issue 95432)."""

    @staticmethod
    def forward(ctx, x, low, high):
        kept = x.clone() if STATE.hardtanh_copies_input else None
        ctx.mark_dirty(x.clamp_(low, high))
        ctx.save_for_backward(x if kept is None else kept)
        ctx.ends = low, high
        return x

    @staticmethod
    def backward(ctx, grad):
        return aten.hardtanh_backward.default(grad, ctx.saved_tensors[0], *ctx.ends), None, None


def _hardtanh(x, low=-1, high=1):
    if torch.is_grad_enabled() and x.requires_grad:
        return _Hardtanh.apply(x, low, high)
    return x.clamp_(low, high)


def _dropout(x, p, train):
    """native_dropout keeps one byte an element (native/Dropout.cpp, is_fused_kernel_acceptable)."""
    if p == 0 or not train or x.numel() == 0:
        return x
    if p >= 1:
        return x * torch.zeros((), dtype=x.dtype, device=x.device)
    return aten.native_dropout.default(x, p, train)[0]


class _FusedRmsNorm(torch.autograd.Function):
    """aten::_fused_rms_norm, which is a kernel on CUDA alone: everywhere else torch takes it apart, above autograd. Keeps what its formula
    in derivatives.yaml names."""

    @staticmethod
    def forward(ctx, x, shape, weight, eps):
        out, rows = _as_kernel(aten._fused_rms_norm.default, x, shape, weight, eps)
        ctx.save_for_backward(x, rows, weight)
        ctx.shape = shape
        return out

    @staticmethod
    def backward(ctx, grad):
        x, rows, weight = ctx.saved_tensors
        mask = [ctx.needs_input_grad[0], ctx.needs_input_grad[2]]
        dx, dweight = _as_kernel(aten._fused_rms_norm_backward.default, grad, x, ctx.shape, rows, weight, mask)
        return dx, None, dweight, None


def _as_kernel(op, *args):
    """Straight to the recorder, as an op comes there that is not taken apart."""
    from torch.utils._python_dispatch import _disable_current_modes  # pylint: disable=import-outside-toplevel
    with _disable_current_modes():
        return STATE.rec.__torch_dispatch__(op, (), args)


def _rms_norm(x, shape, weight=None, eps=None):
    """One kernel on CUDA from torch 2.9 on, where weight and input are of one type (native/layer_norm.cpp, rms_norm_symint); else, and
    before, single operations in fp32. What ranks share (DTensor) has a rule of torch's own for the kernel, which comes here again as
    single operations without autograd."""
    is_one = weight is None or weight.dtype == x.dtype
    if is_one and type(x) is not torch.Tensor:
        return aten._fused_rms_norm.default(x, shape, weight, eps)[0]
    if is_one and STATE.fuses_rms_norm and STATE.rec:
        return _FusedRmsNorm.apply(x, shape, weight, eps)
    wide = x.float()
    rows = wide.pow(2).mean(list(range(-len(shape), 0)), True).add_(torch.finfo(wide.dtype).eps if eps is None else eps)
    out = wide * rows.rsqrt()
    if weight is not None:
        out = out * weight
    return out.to(x.dtype)


# ---- attention -----------------------------------------------------------------------------------------------------

def _pad_to(x, multiple):
    short = -x.shape[-1] % multiple
    return torch.nn.functional.pad(x, (0, short)) if short else x


def _flash_ok(q, k, v, mask):
    """native/transformers/cuda/sdp_utils.cpp: half types, no mask, equal head sizes up to 256."""
    return (mask is None and q.dim() == 4 and q.dtype in (torch.float16, torch.bfloat16)
            and q.shape[-1] == k.shape[-1] == v.shape[-1] <= 256)


def _efficient_ok(q, k, v, mask):
    """The mem-efficient kernel: 4-D, head sizes aligned to 16 bytes, unit stride of the last axis."""
    align = 16 // q.element_size()
    return (q.dim() == 4 and q.dtype != torch.float64 and q.shape[-1] % align == 0 and v.shape[-1] % align == 0
            and all(t.stride(-1) == 1 for t in (q, k, v)) and q.shape[-3] == k.shape[-3])


def _efficient_mask(mask, q, k):
    """preprocess_mask: rows padded to a multiple of 16 elements, then expanded."""
    if mask.dtype == torch.bool:
        mask = torch.empty_like(mask, dtype=q.dtype)
    short = -mask.shape[-1] % 16
    if short:
        mask = torch.nn.functional.pad(mask, (0, short))[..., :mask.shape[-1]]
    return mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])


def _attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    fused = STATE.attention == "fused"
    if fused and _flash_ok(q, k, v, attn_mask):
        size = q.shape[-1]
        scale = scale or 1 / math.sqrt(size)
        parts = [_pad_to(t, 8) for t in (q, k, v)]
        out = aten._scaled_dot_product_flash_attention.default(*parts, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., :size] if out.shape[-1] != size else out
    if fused and _efficient_ok(q, k, v, attn_mask):
        mask = None if attn_mask is None else _efficient_mask(attn_mask, q, k)
        grad = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
        return aten._scaled_dot_product_efficient_attention.default(q, k, v, mask, grad, dropout_p, is_causal,
                                                                    scale=scale)[0]
    extra = {"enable_gqa": True} if enable_gqa else {}
    return aten._scaled_dot_product_attention_math.default(q, k, v, attn_mask, dropout_p, is_causal, None, scale=scale,
                                                           **extra)[0]


# ---- recurrent nets ------------------------------------------------------------------------------------------------

class _CudnnRnn(torch.autograd.Function):
    """cuDNN's fused RNN: keeps input, weights, output and a reserve space of its own."""

    @staticmethod
    def forward(ctx, gates, hidden, layers, dirs, batch_first, x, *rest):
        steps, batch = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
        shape = (batch, steps, dirs * hidden) if batch_first else (steps, batch, dirs * hidden)
        out = torch.empty(shape, dtype=x.dtype, device=x.device)
        states = [torch.empty((layers * dirs, batch, hidden), dtype=x.dtype, device=x.device) for _ in range(2)]
        # gates, cell and hidden of every step, layer and direction (cuDNN's own layout is not published)
        reserve = torch.empty((layers * dirs * steps * batch * hidden * (gates + 2),), dtype=x.dtype, device=x.device)
        ctx.save_for_backward(x, out, reserve, *[r for r in rest if r is not None])
        ctx.shapes = [None if r is None else r.shape for r in rest]
        return (out, *states)

    @staticmethod
    def backward(ctx, grad, *_):
        x = ctx.saved_tensors[0]
        make = [None if s is None else torch.empty(s, dtype=x.dtype, device=x.device) for s in ctx.shapes]
        return (None, None, None, None, None, torch.empty_like(x), *make)


def _rnn(gates, states):
    def rnn(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        x, = AUTOCAST.lower([x])
        hx, params = AUTOCAST.lower(hx if isinstance(hx, (list, tuple)) else [hx]), AUTOCAST.lower(params)
        out = _CudnnRnn.apply(gates, hx[0].shape[-1], num_layers, 2 if bidirectional else 1, batch_first, x, *hx,
                              *params)
        return tuple(out[:1 + states])
    return rnn


TABLE = {
    "softmax.int": _softmax(aten._softmax, False),
    "log_softmax.int": _softmax(aten._log_softmax, True),
    "dropout": _dropout,
    "hardtanh_": _hardtanh,
    "rms_norm": _rms_norm,
    "scaled_dot_product_attention": _attention,
    "lstm.input": _rnn(4, 2),
    "gru.input": _rnn(3, 1),
    "rnn_tanh.input": _rnn(1, 1),
    "rnn_relu.input": _rnn(1, 1),
}


def install():
    """Register the table for meta tensors. Idempotent; ops this torch lacks are skipped."""
    if _LIBRARY:
        return
    library = torch.library.Library("aten", "IMPL")
    for name, function in TABLE.items():
        if hasattr(aten, name.split(".")[0]):
            library.impl(name, function, "AutogradMeta")
    _LIBRARY.append(library)


def configure(knobs, rec):
    """Rules of this recording. softmax kept its input up to 1.10, hardtanh_ does since then (derivatives.yaml names `self`)."""
    STATE.attention, STATE.rec = knobs.attention, rec
    del _OLD[:]
    if knobs.rules < (1, 10):
        _OLD.append(torch.library.Library("aten", "IMPL"))
        _OLD[0].impl("relu", _OldRelu.apply, "AutogradMeta")
    STATE.fuses_rms_norm = knobs.rules >= (2, 9) and hasattr(aten, "_fused_rms_norm")
    STATE.softmax_keeps_input, STATE.hardtanh_copies_input = knobs.rules <= (1, 10), knobs.rules >= (1, 10)
