# SPDX-License-Identifier: Apache-2.0
"""The host's side of ZeRO with offload: what DeepSpeed keeps there, without its data.

A tensor on the host is a real one that is never written, so that it takes addresses and no memory; copies to and from the device
are made by CUDA's rules. Counted are its bytes.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from .events import WATCHER, storage_of
from .host import Memory

SMALL = 16  # elements: numbers, which are computed
_FACTORIES = {"empty": 0, "zeros": 0, "full": 0, "ones": 0}
_LIKE = {"empty_like", "zeros_like", "full_like", "clone", "_to_copy", "new_empty", "new_zeros"}


class _Block:
    """Some bytes on the host."""

    __slots__ = ("nbytes", "is_pinned", "watch")

    def __init__(self, nbytes, is_pinned):
        self.nbytes, self.is_pinned, self.watch = nbytes, is_pinned, None


def _is_host(device):
    return device is None or torch.device(device).type == "cpu"


class Host(TorchDispatchMode):
    """Inside, tensors on the host are only counted."""

    def __init__(self):
        super().__init__()
        self.live, self.memory = {}, Memory()
        self._watcher = WATCHER(self)

    # -- counting -----------------------------------------------------------------

    def _add(self, tensor, is_pinned=False):
        storage = storage_of(tensor)
        nbytes = storage.nbytes()
        if not nbytes or storage._cdata in self.live:
            return tensor
        block = self.live[storage._cdata] = _Block(nbytes, is_pinned)
        block.watch = self._watcher.watch(storage, storage._cdata)
        self.memory.take(nbytes, is_pinned)
        return tensor

    def died(self, key):
        """A watched storage has died."""
        block = self.live.pop(key, None)
        if block is not None:
            self.memory.give(block.nbytes, block.is_pinned)

    def pin(self, tensor):
        """A page-locked copy."""
        with torch.utils._python_dispatch._disable_current_modes():
            return self._add(torch.empty_like(tensor, device="cpu"), True)

    def holds(self, tensor):
        """Is its memory the host's?"""
        return storage_of(tensor)._cdata in self.live

    # -- dispatch -----------------------------------------------------------------

    def _empty(self, size, dtype):
        with torch.utils._python_dispatch._disable_current_modes():
            return self._add(torch.empty(size, dtype=dtype, device="cpu"))

    def _to(self, tensor, dtype, device):
        dtype = dtype or tensor.dtype
        if not _is_host(device):
            return torch.empty(tensor.shape, dtype=dtype, device=device)
        if tensor.numel() <= SMALL:
            return torch.ones(tensor.shape, dtype=dtype)
        self._cast(tensor, dtype, "cpu")
        return self._empty(tensor.shape, dtype)

    def _cast(self, source, dtype, device):
        """A copy to the other side that also casts does so where its source is (ATen/native/cuda/Copy.cu, copy_kernel_cuda)."""
        if source.dtype == dtype or source.device.type == device:
            return
        if source.device.type == "cpu":
            self._empty(source.shape, dtype)
        else:
            torch.empty(source.shape, dtype=dtype, device=source.device)

    def _copy(self, into, source):
        self._cast(source, into.dtype, into.device.type)
        return into

    def _compute(self, func, args, kwargs):
        """The shapes that come of it."""
        def there(x):
            return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") if isinstance(x, torch.Tensor) else x
        with torch.utils._python_dispatch._disable_current_modes():
            out = func(*tree_map(there, args), **dict(tree_map(there, kwargs), **({"device": "meta"} if "device" in kwargs else {})))
        if out.numel() <= SMALL:
            with torch.utils._python_dispatch._disable_current_modes():
                return torch.ones(out.shape, dtype=out.dtype)
        return self._empty(out.shape, out.dtype)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[1]
        if name in _FACTORIES and _is_host(kwargs.get("device")):
            size = args[0]
            return self._empty(size, kwargs.get("dtype") or torch.float32) if torch.Size(size).numel() > SMALL else func(*args, **kwargs)
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        ours = any(self.holds(x) for x in tensors)
        if name == "_to_copy" and kwargs.get("device") is not None and args[0].device != torch.device(kwargs["device"]):
            return self._to(args[0], kwargs.get("dtype"), kwargs["device"])
        if not ours:
            return func(*args, **kwargs)
        if name == "copy_":
            return self._copy(*args[:2])
        if func._schema.is_mutable:
            return args[0]
        if name in _LIKE or not any(r.alias_info for r in func._schema.returns):
            return self._compute(func, args, kwargs)
        return func(*args, **kwargs)
