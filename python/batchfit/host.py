# SPDX-License-Identifier: Apache-2.0
"""The host's side of FSDP with offload: torch's own code, which keeps a rank's part of the weights and gradients there.

All is on meta, the device's memory and the host's, because a parameter of FSDP1 goes back and forth between the two and one of
meta cannot become one of the CPU. Which storages are the host's is known here, and told to those who ask for a tensor's device
or move it; what is computed of them is the host's, too. Two kinds of memory, as tags of the tape: what is page-locked (pinned)
and what is not (host). A copy from the device that does not block is page-locked (native/TensorConversions.cpp, _to_copy, 2.13).
"""

import contextlib

import torch

from .events import BYTES, HOST, ID, TAG, WATCHER, storage_of

CPU, DEVICE = torch.device("cpu"), torch.device("meta")
_BASE = torch._C._TensorBase


def _local(tensor):
    return getattr(tensor, "_local_tensor", tensor) if type(tensor).__name__ == "DTensor" else tensor


def _tensors(args):
    for x in args:
        if isinstance(x, torch.Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from _tensors(x)


class Memory:
    """Bytes of a rank on the host: those that are not page-locked as long as they live, those that are as torch's own allocator of
    pinned memory has them, which rounds to a power of two and gives nothing back (ATen/core/CachingHostAllocator.h, torch 2.13)."""

    def __init__(self):
        self.paged = self.pinned = self.most = 0
        self._free = {}  # of pinned blocks: how many of a size

    def take(self, nbytes, is_pinned):
        """There are some more."""
        size = 1 << (nbytes - 1).bit_length()
        if not is_pinned:
            self.paged += nbytes
        elif self._free.get(size):
            self._free[size] -= 1
        else:
            self.pinned += size
        self.most = max(self.most, self.paged + self.pinned)

    def give(self, nbytes, is_pinned):
        """They are not needed any more."""
        size = 1 << (nbytes - 1).bit_length()
        if is_pinned:
            self._free[size] = self._free.get(size, 0) + 1
        else:
            self.paged -= nbytes

    def facts(self):
        """Of the tape's first line."""
        return dict(host_bytes=self.most, host_pinned_bytes=self.pinned) if self.most else {}


def counted(events):
    """The Memory of a recording's events."""
    memory, live = Memory(), {}
    for event in events:
        if event[0] == "a" and event[TAG] in HOST:
            live[event[ID]] = event[BYTES], event[TAG] == "pinned"
            memory.take(*live[event[ID]])
        elif event[0] == "f" and event[ID] in live:
            memory.give(*live.pop(event[ID]))
    return memory


class Host:
    """Which storages are the host's. rec: the recorder while it records, told of each."""

    def __init__(self):
        self.rec = None
        self._kinds, self._depth, self._over = {}, 0, False
        self._watcher = WATCHER(self)

    def died(self, key):
        """A watched storage has died."""
        self._kinds.pop(key, None)

    def kind(self, tensor):
        """"pinned", "host", or None: the tensor is on the device."""
        found = self._kinds.get(storage_of(_local(tensor))._cdata)
        return found and found[0]

    def put(self, tensor, kind, op="-", like=None):
        """The tensor's storage is the host's. like: the tensor that it is a copy of."""
        storage = storage_of(tensor)
        is_known = storage._cdata in self._kinds or self.rec is not None and storage._cdata in self.rec.log.live
        if storage.nbytes() and not is_known:
            self._kinds[storage._cdata] = (kind, self._watcher.watch(storage, storage._cdata))
            if self.rec is not None and tensor.dim():
                self.rec.log.note(tensor, op, self.rec.modules.current(), kind)
            elif self.rec is not None:
                self.rec.log.ignore(tensor)  # a number: no memory that anybody misses
        return self._copied(tensor, like)

    def _copied(self, tensor, like):
        """Copies are made of the same parameters."""
        log = self.rec.log if self.rec is not None else None
        event, source = (log.event_of(tensor), log.event_of(like)) if log is not None and like is not None else (None, None)
        if event and source and event is not source and source[1] in log.shards:
            log.shards[event[1]] = log.shards[source[1]].scaled(event[2], source[2])
        return tensor

    # -- what torch asks ----------------------------------------------------------

    def _device(self, tensor):
        return CPU if not self._depth and self.kind(tensor) else _BASE.device.__get__(tensor)

    def _move(self, tensor, kind, dtype=None):
        with torch.no_grad(), self.inside():
            before, self._over = self._over, True
            try:
                if kind is None:
                    return self._copied(torch.ops.aten._to_copy(tensor.detach(), dtype=dtype or tensor.dtype), tensor)
                with self.rec.silent() if self.rec is not None else contextlib.nullcontext():
                    copy = torch.empty(tensor.shape, dtype=dtype or tensor.dtype, device=DEVICE)
                return self.put(copy, kind, "_to_copy", tensor)
            finally:
                self._over = before

    def _to(self, tensor, *args, **kwargs):
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **{k: v for k, v in kwargs.items() if k != "copy"})
        is_host = self.kind(tensor) is not None
        if type(tensor).__name__ == "DTensor" or device is None or (device.type == "cpu") == is_host or _BASE.device.__get__(tensor) != DEVICE:
            return self._copied(_BASE.to(tensor, *(a for a in args if not _is_device(a) or not is_host),
                                         **{k: v for k, v in kwargs.items() if k != "device" or not is_host}), tensor)
        return self._move(tensor, None if is_host else "pinned" if non_blocking else "host", dtype)

    @contextlib.contextmanager
    def inside(self):
        """Inside, a tensor's device is what torch says."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextlib.contextmanager
    def answering(self):
        """Inside, torch is told what is the host's."""
        names = dict(device=property(self._device), to=lambda t, *args, **kwargs: self._to(t, *args, **kwargs), cpu=lambda t: self._to(t, "cpu"),
                     pin_memory=lambda t: t if self.kind(t) == "pinned" else self._move(t, "pinned"),
                     is_pinned=lambda t: self.kind(t) == "pinned")
        for name, value in names.items():
            setattr(torch.Tensor, name, value)
        try:
            yield
        finally:
            for name in names:
                delattr(torch.Tensor, name)  # what it hid is there again

    @staticmethod
    def as_filled(original):
        """The replaced function takes what is on meta for what has data."""
        def call(*args, **kwargs):
            torch.Tensor.is_meta = property(lambda tensor: False)
            try:
                return original(*args, **kwargs)
            finally:
                del torch.Tensor.is_meta
        return call

    # -- operations ---------------------------------------------------------------

    def takes(self, args, kwargs):
        """Does the host compute it?"""
        device = kwargs.get("device")
        if self._over or device is not None and torch.device(device).type != "cpu":
            return False
        tensors = list(_tensors(args))
        return any(self.kind(t) for t in tensors) or device is not None and any(t.is_meta for t in tensors)

    def run(self, func, name, args, kwargs):
        """Compute it."""
        if "device" in kwargs:
            kwargs = dict(kwargs, device=DEVICE)
        out = func(*args, **kwargs)
        for t in _tensors(out if isinstance(out, (list, tuple)) else (out,)):
            self.put(t, "host", name)
        return out


def _is_device(value):
    return isinstance(value, (str, torch.device))
