"""Building a model without filling its weights, and moving it to the meta device with shared weights still shared."""

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Tensors from this many elements on are left as the allocator gave them while a model is built: their values never
# matter, and pages that are not touched cost no memory. Smaller ones may steer construction (drop path rates).
SKIP_FROM = 4096
_FILL = {"uniform_", "normal_", "erfinv_", "mul_", "add_", "sub_", "div_", "clamp_", "fill_", "zero_", "copy_",
         "random_", "bernoulli_", "exponential_", "trunc_normal_", "exp_", "log_", "sqrt_"}


class _NoFill(TorchDispatchMode):
    """Skips in-place arithmetic on large tensors."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name[6:]
        if name in _FILL and isinstance(args[0], torch.Tensor) and args[0].numel() >= SKIP_FROM:
            return args[0]
        if name in ("ones", "zeros", "full", "randn", "rand", "normal") and self._large(args):
            return torch.empty(args[0], dtype=(kwargs or {}).get("dtype"), device=(kwargs or {}).get("device"))
        return func(*args, **(kwargs or {}))

    @staticmethod
    def _large(args):
        size = args[0]
        if not isinstance(size, (list, tuple)) or not all(isinstance(s, int) for s in size):
            return False
        total = 1
        for s in size:
            total *= s
        return total >= SKIP_FROM


@contextlib.contextmanager
def without_init():
    """Inside, torch.nn.init does nothing and large tensors stay uninitialised."""
    names = [n for n in dir(torch.nn.init) if n.endswith("_") and not n.startswith("_")]
    saved = {n: getattr(torch.nn.init, n) for n in names}
    for n in names:
        setattr(torch.nn.init, n, lambda tensor, *args, **kwargs: tensor)
    try:
        with _NoFill():
            yield
    finally:
        for n, function in saved.items():
            setattr(torch.nn.init, n, function)


def to_meta(model, dtype=None):
    """Replace every parameter and buffer by one on meta, once each. dtype: for floating-point ones, or None."""
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
    return model
