# SPDX-License-Identifier: Apache-2.0
"""The events of one recording at one batch, and who is alive.

Ids are `slot * 1000000 + counter`, slot = (phase kind, step, micro-step): a phase that two variants of a model have
in common gets the same text, whatever the other phases do.
"""

import weakref

import torch

try:
    import numpy
except ImportError:
    numpy = None

HOST = ("host", "pinned")  # tags of what is in the host's memory, page-locked or not
KINDS = ("init", "input", "forward", "backward", "optimizer", "zero_grad")
SLOT = 1000000
is_meta = torch._C._TensorBase.is_meta.__get__  # whatever the host's side tells of a tensor
ID, BYTES, TAG, OP, MODULE, STREAM = 1, 2, 3, 4, 5, 6  # fields of an 'a' event
ROWS = 7  # where it is of a chunk of rows: bytes of a row of the first chunk and of the second

# what survives its phase, by the kind of that phase; what does not is temporary
SURVIVOR = ("other", "input", "activation", "other", "optimizer", "other")

if hasattr(torch.Tensor, "untyped_storage"):
    def storage_of(tensor):
        """The tensor's untyped storage."""
        return tensor.untyped_storage()
else:
    def storage_of(tensor):
        """The tensor's untyped storage (torch 1.x names)."""
        storage = tensor.storage()
        return getattr(storage, "_storage", storage)


class _Entry:
    """One live allocation: its event, and the handle by which its death is seen."""

    __slots__ = ("event", "watch", "slot")

    def __init__(self, event, slot):
        self.event, self.slot, self.watch = event, slot, None


class _Ref(weakref.ref):
    __slots__ = ("key",)


class _Callbacks:
    """Deaths by weak reference: storages keep their Python object (torch 2.1 on), so the free is seen at once."""

    def __init__(self, log):
        def died(ref):
            log.died(ref.key)
        self._died = died

    def watch(self, storage, key):
        ref = _Ref(storage, self._died)
        ref.key = key
        return ref

    def poll(self, live):
        pass


class _Polling:
    """Deaths by asking every live storage before each operation (torch 1.x)."""

    def __init__(self, log):
        self._log = log
        cls = getattr(torch, "UntypedStorage", None) or torch._UntypedStorage
        self._expired, self._free = cls._expired, cls._free_weak_ref

    def watch(self, storage, key):
        return storage._weak_ref()

    def poll(self, live):
        for key in self.dead(live):
            self._free(live[key].watch)
            self._log.died(key)

    def dead(self, live):
        """Keys of the storages that died, oldest first."""
        expired = self._expired
        return [k for k, entry in live.items() if expired(entry.watch)]


class _Memory:
    """All memory as numpy sees it, from address 8 on: element i is the word at 8*i + 8. Nothing is touched until read."""

    __array_interface__ = {"data": (8, True), "shape": (1 << 44,), "typestr": "<i8", "version": 3}


class _Counting(_Polling):
    """Polling by one numpy gather of the storages' reference counts, 20 times faster on deep nets.

    A weak reference keeps the StorageImpl's memory, and c10::intrusive_ptr_target keeps the count in its second word
    (c10/util/intrusive_ptr.h, 1.13); `_counts_work` tests that before this class is used.
    """

    def __init__(self, log):
        super().__init__(log)
        self._words = numpy.asarray(_Memory())
        self._index, self._keys, self._n = numpy.zeros(1024, numpy.int64), [], 0

    def watch(self, storage, key):
        if self._n == len(self._index):
            self._index = numpy.concatenate([self._index, self._index])
        self._index[self._n] = key >> 3
        self._keys.append(key)
        self._n += 1
        return storage._weak_ref()

    def dead(self, live):
        gone = (self._words[self._index[:self._n]] == 0).nonzero()[0].tolist()
        keys = [self._keys[i] for i in gone]
        if gone:
            kept = numpy.delete(self._index[:self._n], gone)
            self._n = len(kept)
            self._index[:self._n] = kept
            for i in reversed(gone):
                del self._keys[i]
        return [k for k in keys if k in live]


def _callbacks_work():
    """Does a weak reference to a storage live exactly as long as the storage does?"""
    try:
        tensor = torch.empty(4, device="meta", requires_grad=True).exp()
        seen = []
        ref = weakref.ref(storage_of(tensor), seen.append)
        kept = tensor * tensor
        del tensor
        alive = ref() is not None and not seen
        del kept
        return alive and len(seen) == 1
    except (TypeError, RuntimeError, AttributeError):
        return False


def _counts_work():
    """Is the reference count where `_Counting` reads it?"""
    if numpy is None or not hasattr(torch, "_UntypedStorage") and not hasattr(torch, "UntypedStorage"):
        return False
    try:
        words, tensor = numpy.asarray(_Memory()), torch.empty(4, device="meta")
        storage = storage_of(tensor)
        key, weak = storage._cdata, storage._weak_ref()
        seen = [int(words[key >> 3])]
        del storage
        seen.append(int(words[key >> 3]))
        del tensor
        seen.append(int(words[key >> 3]))
        type(storage_of(torch.empty(1)))._free_weak_ref(weak)
        return 0 < seen[1] <= seen[0] < 8 and seen[2] == 0
    except (TypeError, ValueError, AttributeError, RuntimeError, MemoryError):
        return False


WATCHER = _Callbacks if _callbacks_work() else _Counting if _counts_work() else _Polling


class Log:
    """Events in order, and the live storages. Sizes in bytes."""

    def __init__(self):
        self.events, self.live = [], {}
        self.slot = self.counter = 0
        self.counters = {}
        self.kind, self.step = "init", 0
        self.stream, self.tag, self.on = 0, None, True
        self.cpu_counts = 0  # inside a data-dependent loss, real tensors stand for the device's: so many times each
        self._watcher = WATCHER(self)
        self._pinned = {}
        self.shards, self.ranks = {}, 1  # id -> sharded.Shape, of a rank's part of parameters
        self.rounded = {}  # id -> (each, n, by): the block has each * ceil(n / by) bytes; or of two factors (each, n, by, m, by)

    def mark(self, kind, step=0, micro=0):
        """The phase `kind` begins."""
        self.poll()
        self.counters[self.slot] = self.counter
        self.kind, self.step = kind, step
        self.slot = KINDS.index(kind) * 64 + step * 8 + micro
        self.counter = self.counters.get(self.slot, 0)
        self.events.append(("m", kind, step))

    def poll(self):
        """Log the frees of all storages that died since the last call."""
        self._watcher.poll(self.live)

    def died(self, key):
        """Called when a watched storage dies."""
        entry = self.live.pop(key, None)
        if entry is None or entry.event is None or not self.on:
            return
        if entry.event[TAG] is None and entry.slot == self.slot:
            entry.event[TAG] = "temporary"
        self.events.append(("f", entry.event[ID]))

    def _new(self, nbytes, tag, op, module):
        self.counter += 1
        stream = 0 if tag in HOST else self.stream
        event = ["a", self.slot * SLOT + self.counter, nbytes, tag or self.tag, op, module, stream]
        self.events.append(event)
        return event

    def note(self, tensor, op="-", module="-", tag=None):
        """Log the tensor's storage if it is new and on the device. Empty storages do not reach the allocator."""
        if not is_meta(tensor) and not (self.cpu_counts and tensor.dim()):
            return None
        storage = storage_of(tensor)
        key = storage._cdata
        if key in self.live:
            return None
        nbytes = storage.nbytes() * (1 if is_meta(tensor) else self.cpu_counts)
        if not nbytes:
            return None
        entry = _Entry(self._new(nbytes, tag, op, module), self.slot)
        if hasattr(tensor, "batchfit_rounded"):
            self.rounded[entry.event[ID]] = tensor.batchfit_rounded
        entry.watch = self._watcher.watch(storage, key)
        self.live[key] = entry
        return entry.event

    def resized(self, storage, op, module="-"):
        """The storage has another size than before: its block is freed, and there is a new one."""
        entry = self.live.get(storage._cdata)
        if entry is None:
            return
        if entry.event is not None:
            self.events.append(("f", entry.event[ID]))
        entry.event, entry.slot = None, self.slot
        if storage.nbytes():
            entry.event = self._new(storage.nbytes(), "temporary", op, module)

    def of_chunk(self, tensor, which, rows):
        """The tensor's size is so many rows' of the first (0) or second (1) chunk of a loss: another number of them at another batch."""
        event = self.event_of(tensor)
        if event:
            each = event[BYTES] // rows
            event.append((each, 0) if which == 0 else (0, each))

    def ignore(self, tensor):
        """The tensor's storage stands for memory that is logged elsewhere."""
        storage = storage_of(tensor)
        entry = _Entry(None, self.slot)
        entry.watch = self._watcher.watch(storage, storage._cdata)
        self.live[storage._cdata] = entry
        return entry

    def shadow(self, tensor, op, module):
        """The same, and a block of one byte shows how long the storage is there."""
        entry = self.ignore(tensor)
        entry.event = self._new(1, "temporary", op, module)
        self.rounded[entry.event[ID]] = (1, 1, 1)

    def block(self, nbytes, op, module="-", tag="temporary", fixed=False):
        """An allocation that no tensor stands for; returns its id for `free`. fixed: no dimension of the model is in it."""
        if not nbytes:
            return None
        ident = self._new(nbytes, tag, op, module)[ID]
        if fixed:
            self.rounded[ident] = (nbytes, 1, 1)
        return ident

    def free(self, ident):
        """Free a `block`."""
        if ident is not None:
            self.events.append(("f", ident))

    def event_of(self, tensor):
        """The live 'a' event of the tensor's storage, or None."""
        entry = self.live.get(storage_of(tensor)._cdata)
        return entry.event if entry else None

    def retag(self, tensor, tag):
        """Name what the tensor's storage is for."""
        event = self.event_of(tensor)
        if event is not None and event[TAG] not in HOST:
            event[TAG] = tag

    def close(self):
        """The recording ends: decide the tags that were left open."""
        self.poll()
        self.on = False
        for event in self.events:
            if event[0] == "a" and event[TAG] is None:
                event[TAG] = SURVIVOR[event[ID] // SLOT // 64]
        self.live.clear()
