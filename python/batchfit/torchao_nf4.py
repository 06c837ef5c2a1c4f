# SPDX-License-Identifier: Apache-2.0
"""torchao's 4-bit layers, which torchtune's QLoRA is made of, as rules: values decide nothing of what they allocate.

What stands here follows torchao 0.9.0 (dtypes/nf4tensor.py, as it was in 0.4 and is in 0.13) and torchtune 0.6.1 (modules/peft/lora.py,
modules/low_precision/nf4_linear.py). A weight of n elements is n / 2 bytes, with a byte of scale for each 64 of them, and for each 256
scales a number of the weight's type; every layer has a mean and a table of its own. torchao takes no n that is no multiple of 64 * 256.

A product dequantizes the weight, forward and backward, by indices of 64 bits into the table: with all that lives until it is there 14
bytes an element, where bitsandbytes has 2 to 4.
"""

import torch

from .four_bit import BLOCK, NESTED_BLOCK, rounded, up


class _Parts:
    """The tensors of an NF4Tensor."""

    def __init__(self, shape, dtype, device):
        n = self.n = shape.numel()
        self.shape, self.dtype = shape, dtype
        self.scalers = rounded(torch.empty(up(n, BLOCK), dtype=torch.int8, device=device), 1, n, BLOCK)
        self.factors = rounded(torch.empty(up(n, BLOCK * NESTED_BLOCK), dtype=dtype, device=device), dtype.itemsize, n, BLOCK * NESTED_BLOCK)
        self.mean = torch.empty((), dtype=dtype, device=device)
        self.table = torch.empty(16, dtype=dtype, device=device)

    def tensors(self):
        """By name, in the order in which they are made."""
        return {name: getattr(self, name) for name in ("scalers", "factors", "mean", "table")}

    def _halves(self, tensor):
        """Of every second element."""
        return rounded(tensor, tensor.element_size(), self.n, 2)

    def _scales(self, tensor):
        """One for each block."""
        return rounded(tensor, tensor.element_size(), self.n, BLOCK)

    def weight(self, packed):
        """get_original_weight: what is assigned there lives until it returns."""
        first = self._halves(self._halves(packed >> 4).to(torch.long))
        second = self._halves(self._halves(packed & 0b1111).to(torch.long))
        first_of_table, second_of_table = self._halves(self.table[first]), self._halves(self.table[second])
        scales = self._scales(self._scales(self.scalers.to(self.dtype)) + self.mean)
        first_scaled = self._halves(first_of_table * self._halves(torch.empty_like(first_of_table)))  # the scales, each 32 times
        second_scaled = self._halves(second_of_table * self._halves(torch.empty_like(second_of_table)))
        weight = torch.empty(self.shape, dtype=self.dtype, device=packed.device)  # the two, stacked
        del first, second, first_of_table, second_of_table, scales, first_scaled, second_scaled
        return weight


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, packed, parts):
        ctx.packed, ctx.parts = packed, parts
        return torch.nn.functional.linear(x, parts.weight(packed).to(x.dtype))

    @staticmethod
    def backward(ctx, grad):
        return grad @ ctx.parts.weight(ctx.packed).to(grad.dtype), None, None


class Linear(torch.nn.Linear):
    """A frozen linear layer in four bits."""

    def __init__(self, like, compute_dtype):
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features, self.compute_dtype = like.in_features, like.out_features, compute_dtype
        shape, n = like.weight.shape, like.weight.numel()
        packed = torch.empty(up(n, 2), dtype=torch.uint8, device=like.weight.device)
        self.weight, self.bias = rounded(torch.nn.Parameter(packed, requires_grad=False), 1, n, 2), like.bias
        self.parts = _Parts(shape, compute_dtype, like.weight.device)
        for name, tensor in self.parts.tensors().items():
            self.register_buffer(name, tensor, persistent=False)

    def forward(self, x):
        out = _Linear.apply(x, self.weight, self.parts)
        return out if self.bias is None else out + self.bias


def quantize(model, skip, compute_dtype):
    """Every linear layer but those named in `skip` becomes one of four bits."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is torch.nn.Linear and name not in skip:
                setattr(parent, name, Linear(child, compute_dtype))
