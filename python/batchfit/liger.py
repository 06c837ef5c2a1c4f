# SPDX-License-Identifier: Apache-2.0
"""What liger-kernel's layers allocate and keep for backward: RMSNorm, SwiGLU and GEGLU, rotary embedding.

From its own ops/rms_norm.py, swiglu.py, geglu.py and rope.py (0.4 to 0.8.5, alike in this), put on the layers that transformers' Trainer
gives it (monkey_patch.py with a model): the norms between the parts of a layer and the last one, of Gemma 3 those of queries and keys, too.
"""

import sys
import types

import torch

# Rows of the weight's gradient, one for each multiprocessor: 108 of an A100, 128 of an RTX 4090, 132 of an H100, 170 of an RTX 5090. It lives for
# one kernel; a row is 16 KiB where a model is 4,096 wide.
MULTIPROCESSORS = 144
NORMS = ("norm", "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
HEAD_NORMS = {"gemma3_text": ("q_norm", "k_norm")}
BESIDE = ("gemma2", "gemma3_text")  # whose norms may not write their gradient over the one that they are given


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, in_place):
        x = x.contiguous()
        out = torch.empty_like(x)
        ctx.save_for_backward(x, weight, torch.empty(x.shape[:-1].numel(), dtype=torch.float32, device=x.device))
        ctx.in_place = in_place
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight, _ = ctx.saved_tensors
        grad = grad.contiguous()
        parts = torch.empty(MULTIPROCESSORS, x.shape[-1], dtype=torch.float32, device=x.device)
        grad_x = grad if ctx.in_place else torch.zeros_like(grad)
        return grad_x.view_as(x), parts.sum(0).to(weight.dtype), None


class _GatedUnit(torch.autograd.Function):
    """act(gate) * up: both stay, and their gradients are written over them."""

    @staticmethod
    def forward(ctx, gate, up):
        gate, up = gate.contiguous(), up.contiguous()
        ctx.save_for_backward(gate, up)
        return torch.empty_like(gate)

    @staticmethod
    def backward(ctx, grad):
        grad.contiguous()
        gate, up = ctx.saved_tensors
        return gate.view_as(gate), up.view_as(up)


class _Rotary(torch.autograd.Function):
    """In place where query and key lie as a projection leaves them."""

    @staticmethod
    def forward(ctx, q, k, cos, sin):
        q, k = (t.transpose(1, 2).contiguous() for t in (q, k))
        ctx.save_for_backward(cos.contiguous(), sin.contiguous())
        return q.transpose(1, 2), k.transpose(1, 2)

    @staticmethod
    def backward(ctx, grad_q, grad_k):
        grad_q, grad_k = (t.transpose(1, 2).contiguous() for t in (grad_q, grad_k))
        return grad_q.transpose(1, 2), grad_k.transpose(1, 2), None, None


def _rotate(q, k, cos, sin, *_, **__):
    return _Rotary.apply(q, k, cos, sin)


def _norm(self, x):
    return _RmsNorm.apply(x, self.weight, self.batchfit_in_place)


def _gated(self, x):
    return self.down_proj(_GatedUnit.apply(self.gate_proj(x), self.up_proj(x)))


def _gated_fused(self, x):
    gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
    return self.down_proj(_GatedUnit.apply(gate, up))


def _with_rotary(method):
    """The same method, for which the module's apply_rotary_pos_emb is ours."""
    names = dict(method.__globals__, apply_rotary_pos_emb=_rotate)
    copy = types.FunctionType(method.__code__, names, method.__name__, method.__defaults__, method.__closure__)
    copy.__kwdefaults__ = method.__kwdefaults__
    return copy


def apply(model):
    """Puts liger's layers into a transformers decoder."""
    kind = model.config.model_type
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last in NORMS + HEAD_NORMS.get(kind, ()):
            module.batchfit_in_place = kind not in BESIDE
            module.forward = types.MethodType(_norm, module)
        elif hasattr(module, "down_proj"):
            module.forward = types.MethodType(_gated_fused if hasattr(module, "gate_up_proj") else _gated, module)
        elif last == "self_attn" and hasattr(sys.modules[type(module).__module__], "apply_rotary_pos_emb"):
            module.forward = types.MethodType(_with_rotary(type(module).forward), module)
