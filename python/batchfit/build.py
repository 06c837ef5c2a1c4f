# SPDX-License-Identifier: Apache-2.0
"""Building a model without filling its weights, and moving it to the meta device with shared weights still shared.

A process that records a real device (cuda_history.py) sets DEVICE first; models are then built as usual, on the CPU."""

import contextlib

import torch

DEVICE = "meta"

# Tensors from this many elements on are left as the allocator gave them while a model is built: their values never
# matter, and pages that are not touched cost no memory. Smaller ones may steer construction (drop path rates).
SKIP_FROM = 4096
_FILL = ("uniform_", "normal_", "erfinv_", "mul_", "add_", "sub_", "div_", "clamp_", "fill_", "zero_", "copy_", "random_",
         "bernoulli_", "exponential_")


def _skipping(original):
    """In-place arithmetic that leaves large tensors alone."""
    def fill(tensor, *args, **kwargs):
        return tensor if tensor.numel() >= SKIP_FROM else original(tensor, *args, **kwargs)
    return fill


def is_real():
    """Does this process record a real device?"""
    return DEVICE != "meta"


@contextlib.contextmanager
def real(device):
    """Inside, models are built as for a recording of `device`."""
    global DEVICE
    before, DEVICE = DEVICE, device
    try:
        yield
    finally:
        DEVICE = before


def new(shape, dtype=None, ones=False):
    """An input tensor on the device. Real ones: random floats, and whole numbers that are valid as token, class and mask."""
    if not is_real():
        return torch.empty(shape, dtype=dtype, device="meta")
    dtype = dtype or torch.get_default_dtype()
    make = torch.rand if dtype.is_floating_point else torch.ones if ones else torch.zeros
    return make(shape, dtype=dtype, device=DEVICE)


@contextlib.contextmanager
def without_init():
    """Inside, torch.nn.init does nothing and large tensors stay uninitialised. On a real device the weights are wanted:
    arithmetic on whatever the memory held gives NaN, and GradScaler leaves out the optimizer's step then."""
    if is_real() or _FILL[0] in vars(torch.Tensor):  # or one is inside another
        yield
        return
    names = [n for n in dir(torch.nn.init) if n.endswith("_") and not n.startswith("_")]
    saved = {n: getattr(torch.nn.init, n) for n in names}
    for n in names:
        setattr(torch.nn.init, n, lambda tensor, *args, **kwargs: tensor)
    for n in _FILL:  # set on the subclass torch.Tensor; deleting them uncovers the originals
        setattr(torch.Tensor, n, _skipping(getattr(torch._C._TensorBase, n)))
    try:
        yield
    finally:
        for n in _FILL:
            delattr(torch.Tensor, n)
        for n, function in saved.items():
            setattr(torch.nn.init, n, function)


def to_meta(model, dtype=None):
    """Replace every parameter and buffer by one on meta, once each. dtype: for floating-point ones, or None.
    Where a real device is recorded, the model stays where it is: cuda_history moves it."""
    if is_real():
        return model.to(dtype) if dtype is not None else model
    done = {}

    def move(tensor):
        if id(tensor) not in done:
            kind = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
            new = torch.empty_like(tensor, dtype=kind, device="meta")
            if isinstance(tensor, torch.nn.Parameter):
                new = torch.nn.Parameter(new, requires_grad=tensor.requires_grad)
            done[id(tensor)] = (new, tensor)
        return done[id(tensor)][0]

    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = move(tensor)
        if isinstance(module, torch.nn.RNNBase):
            module._flat_weights = [getattr(module, name, None) for name in module._flat_weights_names]
    return model
