# SPDX-License-Identifier: Apache-2.0
"""bitsandbytes' 4-bit layers as rules: its kernels need CUDA, its memory does not.

What stands here follows bitsandbytes 0.43.2 to 0.45 (nn/modules.py, autograd/_functions.py, functional.py): a weight of n elements
is ceil(n/2) bytes, with an fp32 scale for each 64 of them; with double quantisation the scales are bytes, with an fp32 scale
for each 256, one offset and a table of 256 floats of their own. A product dequantizes the weight into the compute type. Up to
0.43.1 the input was kept as well (pull request 1270).

The sizes are the same in 0.50.2 (functional.quantize_4bit, backends/cuda/ops.py: absmax of -(n // -64) floats, (n + 1) // 2 bytes). There a
product of more than 1,536 rows (batch x sequence) still makes the weight; one of fewer may run in a kernel that does not
(_gemm_4bit_use_custom_cuda), so that for short batches this is an upper bound.
"""

import importlib.machinery
import sys
import types

import torch

from . import composites
from .events import ID

BLOCK, NESTED_BLOCK = 64, 256


def up(n, by):
    """n / by, rounded up."""
    return -(-n // by)


def rounded(tensor, each, *parts):
    """Says that the tensor has each * ceil(n / by) bytes, parts being n, by: what its size alone no longer tells. Of two such factors: n, by, m, by."""
    tensor.batchfit_rounded = (each, *parts)
    event = composites.STATE.rec and composites.STATE.rec.log.event_of(tensor)
    if event:  # it was seen as it was made
        composites.STATE.rec.log.rounded[event[ID]] = tensor.batchfit_rounded
    return tensor


class Params4bit(torch.nn.Parameter):
    """The packed weight; peft and transformers know it by its class."""

    def __new__(cls, data, quant_type="nf4", compress_statistics=True):
        self = torch.Tensor._make_subclass(cls, data, False)
        self.quant_type, self.compress_statistics = quant_type, compress_statistics
        return self


class _State:
    """What dequantising needs (functional.QuantState)."""

    dtype = None  # of the weight that was put into four bits, where it was not the compute type's

    def __init__(self, shape, device, double):
        n = self.n = shape.numel()
        self.shape, self.double = shape, double
        self.code = torch.empty(16, device=device)
        blocks = up(n, BLOCK)
        self.absmax = rounded(torch.empty(blocks, dtype=torch.uint8 if double else torch.float32, device=device),
                              1 if double else 4, n, BLOCK)
        if double:
            self.offset = torch.empty((), device=device)
            self.code2 = torch.empty(256, device=device)
            self.absmax2 = rounded(torch.empty(up(blocks, NESTED_BLOCK), device=device), 4, n, BLOCK * NESTED_BLOCK)

    def tensors(self):
        """By name, in the order in which they are made."""
        names = ("absmax", "code", "offset", "absmax2", "code2") if self.double else ("absmax", "code")
        return {name: getattr(self, name) for name in names}


def _dequantize(state, dtype):
    """The weight in full, in the type that it had and then in the compute type: with double quantisation its scales come first, and go after it
    is there."""
    scales = None
    if state.double:
        scales = rounded(torch.empty_like(state.absmax, dtype=torch.float32), 4, state.n, BLOCK)
    weight = torch.empty(state.shape, dtype=state.dtype or dtype, device=state.code.device)
    del scales
    return weight.to(dtype)


class _MatMul4Bit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, packed, state, bias, keep):
        ctx.state = state
        # A view: what gathers the weight for as long as its layer runs, and then gives the parameter other data, does not end it.
        ctx.packed = packed if ctx.needs_input_grad[0] else None
        ctx.kept = x if keep and ctx.needs_input_grad[0] else None
        return torch.nn.functional.linear(x, _dequantize(state, x.dtype), bias)

    @staticmethod
    def backward(ctx, grad):
        if not ctx.needs_input_grad[0]:
            return None, None, None, None, None
        return torch.matmul(grad, _dequantize(ctx.state, grad.dtype)), None, None, None, None


class Linear4bit(torch.nn.Linear):
    """A frozen linear layer in four bits."""

    keeps_input = False  # as up to 0.43.1

    def __init__(self, like, compute_dtype=torch.bfloat16, double=False, storage=torch.uint8):
        torch.nn.Module.__init__(self)
        shape = like.weight.shape if isinstance(like, torch.nn.Linear) else like.weight.shape[::-1]
        self.in_features, self.out_features, self.compute_dtype = shape[1], shape[0], compute_dtype
        device, n = like.weight.device, like.weight.numel()
        size = torch.empty((), dtype=storage).element_size()
        packed = torch.empty((up(up(n, 2), size), 1), dtype=storage, device=device)
        self.weight = rounded(Params4bit(packed, compress_statistics=double), size, n, 2 * size)
        self.bias = like.bias
        self.state = _State(shape, device, double)
        for name, tensor in self.state.tensors().items():
            self.register_buffer(name, tensor, persistent=False)

    def hide_state(self):
        """bitsandbytes has no buffers: neither FSDP nor DeepSpeed shards or casts what dequantising needs. For the recorder only."""
        self._buffers.clear()
        self.hidden = self.state.tensors()

    def forward(self, x):
        bias = self.bias
        if bias is not None and bias.dtype != x.dtype:
            bias = bias.to(x.dtype)
        given = x.dtype
        x = x.to(self.compute_dtype)
        if bias is not None:
            bias = bias.to(self.compute_dtype)
        return _MatMul4Bit.apply(x, self.weight.view(-1, 1), self.state, bias, self.keeps_input).to(given)


def install():
    """Puts these rules in the place of bitsandbytes, so that peft's own layers for it run. Idempotent."""
    if getattr(sys.modules.get("bitsandbytes"), "batchfit_rules", False):
        return
    module, layers = types.ModuleType("bitsandbytes"), types.ModuleType("bitsandbytes.nn")
    module.__spec__ = importlib.machinery.ModuleSpec("bitsandbytes", None)
    module.__version__, module.batchfit_rules, module.nn = "0.45.0", True, layers
    layers.Linear4bit, layers.Params4bit = Linear4bit, Params4bit
    layers.Linear8bitLt = type("Linear8bitLt", (torch.nn.Linear,), {})
    sys.modules.update({"bitsandbytes": module, "bitsandbytes.nn": layers})


def quantize(model, skip, compute_dtype, double, keeps_input=False, was=None, storage=torch.uint8, is_sharded=False):
    """Every linear layer but those named in `skip` becomes one of four bits, transformers' Conv1D (GPT-2's, whose weight lies the other way)
    too. keeps_input: as bitsandbytes up to 0.43.1 has it; was: the type of the weights that were put into four bits, where it is not the
    compute type's; storage: bnb_4bit_quant_storage, for FSDP that of the other weights. is_sharded: by FSDP or ZeRO."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            is_linear = type(child) is torch.nn.Linear or type(child).__name__ == "Conv1D"
            if is_linear and name not in skip:
                made = Linear4bit(child, compute_dtype, double, storage)
                if is_sharded:
                    made.hide_state()
                made.keeps_input, made.state.dtype = keeps_input, was
                setattr(parent, name, made)
    model.is_loaded_in_4bit = True
