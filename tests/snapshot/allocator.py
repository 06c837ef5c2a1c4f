# SPDX-License-Identifier: Apache-2.0
"""SYNTHETIC: the bookkeeping of PyTorch's CUDA caching allocator without a GPU, so that memory snapshots can be made where
there is none. Its rules are those of doc/house.md's simulator in a few lines (one pool each for small and large requests, best
fit, splits, merges, the cache given back when the device is full); what it writes down has the keys and the order of keys of
torch.cuda.memory._snapshot() (torch/cuda/memory.py and torch/csrc/cuda/Module.cpp, torch 2.13). Real snapshots are made by
tests/gpu/snapshots.py where there is a GPU."""

MIB = 1 << 20
BASE = 0x7F2A00000000


class OutOfMemory(RuntimeError):
    """As torch.OutOfMemoryError."""


class Block:
    """A piece of a segment."""

    def __init__(self, segment, address, size):
        self.segment, self.address, self.size = segment, address, size
        self.requested, self.frames = 0, None  # frames None: inactive


class Segment:
    """What cudaMalloc gave."""

    def __init__(self, address, size, small, frames):
        self.address, self.size, self.small, self.frames = address, size, small, frames
        self.blocks = [Block(self, address, size)]


class Allocator:
    """capacity: what the allocator may take from the device, in bytes."""

    def __init__(self, capacity, max_entries=None, started=1_700_000_000_000_000):
        self.capacity, self.reserved = capacity, 0
        self.segments, self.live, self.trace = [], {}, []
        self.next_address, self.time, self.max_entries = BASE, started, max_entries
        self.conf = ""

    def _note(self, action, address, size, frames):
        self.time += 7
        key = "device_free" if action == "oom" else "addr"
        self.trace.append({"action": action, key: address, "size": size, "stream": 0, "time_us": self.time,
                           "compile_context": "N/A", "user_metadata": "", "frames": frames})
        if self.max_entries and len(self.trace) > self.max_entries:
            del self.trace[:len(self.trace) - self.max_entries]  # a ring: it loses its beginning

    def _best(self, size, small):
        fits = [b for s in self.segments if s.small == small for b in s.blocks if b.frames is None and b.size >= size]
        return min(fits, key=lambda b: (b.size, b.address), default=None)

    def _grow(self, size, small, frames):
        wanted = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        for again in (False, True):
            if self.reserved + wanted <= self.capacity:
                segment = Segment(self.next_address, wanted, small, frames)
                self.next_address += wanted + 2 * MIB
                self.segments.append(segment)
                self.reserved += wanted
                self._note("segment_alloc", segment.address, wanted, frames)
                return segment.blocks[0]
            if not again:
                self.empty_cache(frames)
        self._note("oom", self.capacity - self.reserved, size, frames)
        raise OutOfMemory("Tried to allocate %d bytes" % wanted)

    def malloc(self, requested, frames):
        """The address of so many bytes."""
        size = max(512, -(-requested // 512) * 512)
        small = size <= MIB
        block = self._best(size, small) or self._grow(size, small, frames)
        rest = block.size - size
        if rest >= 512 if small else rest > MIB:
            blocks = block.segment.blocks
            blocks.insert(blocks.index(block) + 1, Block(block.segment, block.address + size, rest))
            block.size = size
        block.requested, block.frames = requested, frames
        self.live[block.address] = block
        self._note("alloc", block.address, requested, frames)
        return block.address

    def free(self, address, frames):
        """Gives a block back; neighbours that are free become one with it."""
        block = self.live.pop(address)
        for action in ("free_requested", "free_completed"):
            self._note(action, address, block.requested, frames)
        block.frames, block.requested = None, 0
        blocks = block.segment.blocks
        at = blocks.index(block)
        for left in (at, at - 1):
            if 0 <= left < len(blocks) - 1 and blocks[left].frames is None and blocks[left + 1].frames is None:
                blocks[left].size += blocks[left + 1].size
                del blocks[left + 1]

    def empty_cache(self, frames):
        """Segments in which nothing lives go back to the device."""
        for segment in [s for s in self.segments if len(s.blocks) == 1 and s.blocks[0].frames is None]:
            self.segments.remove(segment)
            self.reserved -= segment.size
            self._note("segment_free", segment.address, segment.size, frames)

    def snapshot_segments(self, device):
        """As the snapshot has them."""
        return [{"device": device, "address": s.address, "total_size": s.size,
                 "allocated_size": sum(b.size for b in s.blocks if b.frames is not None),
                 "active_size": sum(b.size for b in s.blocks if b.frames is not None),
                 "requested_size": sum(b.requested for b in s.blocks), "stream": 0,
                 "segment_type": "small" if s.small else "large", "segment_pool_id": (0, 0), "is_expandable": False,
                 "frames": s.frames,
                 "blocks": [{"address": b.address, "size": b.size, "requested_size": b.requested,
                             "state": "inactive" if b.frames is None else "active_allocated", "frames": b.frames or []}
                            for b in s.blocks]} for s in self.segments]


def snapshot(allocators):
    """The dictionary of torch.cuda.memory._snapshot(); one allocator a GPU."""
    return {"segments": [s for i, a in enumerate(allocators) for s in a.snapshot_segments(i)],
            "device_traces": [list(a.trace) for a in allocators],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": allocators[0].conf, "max_split_size": -1,
                                   "garbage_collection_threshold": 0.0, "expandable_segments": False,
                                   "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False,
                                   "pinned_use_cuda_host_register": False, "graph_capture_record_stream_reuse": False,
                                   "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}},
            "external_annotations": []}
