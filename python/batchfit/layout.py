# SPDX-License-Identifier: Apache-2.0
"""Memory formats: which one CUDA's kernels choose, and what a contiguous copy costs."""

import torch

CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_ORDER = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}


def suggests_channels_last(tensor):
    """TensorImpl's suggest_memory_format() == channels_last (c10/core/MemoryFormat.h, is_channels_last_strides_2d/3d)."""
    order = _ORDER.get(tensor.dim())
    if order is None:
        return False
    sizes, strides, least = tensor.shape, tensor.stride(), 0
    if strides[1] == 0:
        return False
    for d in order:
        if sizes[d] == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * sizes[d] if sizes[d] > 1 else strides[d]
    return True


def format_of(tensor):
    """The memory format an element-wise CUDA kernel keeps for this tensor."""
    return CHANNELS_LAST[tensor.dim()] if suggests_channels_last(tensor) else torch.contiguous_format


def empty(shape, dtype, memory_format=torch.contiguous_format):
    """A new tensor on the device."""
    shape = tuple(shape)
    if memory_format is not torch.contiguous_format and len(shape) not in CHANNELS_LAST:
        memory_format = torch.contiguous_format
    return torch.empty(shape, dtype=dtype, device="meta", memory_format=memory_format)


def nbytes(tensor):
    """Bytes of the tensor's elements (not of its storage)."""
    return tensor.numel() * tensor.element_size()
