# SPDX-License-Identifier: Apache-2.0
"""When something happened. A clock makes marks; the time between two of them may become known only later.

On the host a mark is a number of nanoseconds. On CUDA it is an event in the compute stream, because the host runs ahead of
the GPU: the time between two events is the GPU's. Events come from a pool, are asked whether they have passed and never
waited for, and go back to the pool as soon as their place in time is known."""

import time
from collections import deque


class HostClock:
    """The host's monotonic clock."""

    mark = staticmethod(time.perf_counter_ns)

    @staticmethod
    def passed(mark):
        """Is the mark's place in time known?"""
        return True

    @staticmethod
    def ms(begin, end):
        return (end - begin) / 1e6

    def poll(self):
        """Looks which marks have passed."""


class Mark:
    """An event; its place in time is in ms after the clock's first mark, None while it is not known."""

    __slots__ = ("event", "ms")

    def __init__(self, event):
        self.event, self.ms = event, None


class CudaClock:
    """Marks in the current stream of one device.

    new_event() makes an event with timing, record(event) puts it into the stream; is_capturing() says that a CUDA graph is
    being captured, when neither that nor a question may be asked: a mark is then the one before."""

    def __init__(self, new_event, record, is_capturing):
        self.new_event, self.record, self.is_capturing = new_event, record, is_capturing
        self.pool = []
        self.waiting = deque()  # marks in the order in which they were made
        self.reference = None  # the last mark whose time is known; it keeps its event
        self.last = Mark(self._record_next())
        self.waiting.append(self.last)

    def _record_next(self):
        event = self.pool.pop() if self.pool else self.new_event()
        self.record(event)
        return event

    def mark(self):
        try:
            if self.is_capturing():
                return self.last
            self.last = Mark(self._record_next())
        except RuntimeError:  # the program's own error on the card, which it will hear of from its next call
            return self.last
        self.waiting.append(self.last)
        return self.last

    def passed(self, mark):
        return type(mark) is int or mark.ms is not None

    @staticmethod
    def ms(begin, end):
        if type(begin) is int:  # both of the host's clock, from before the device was known
            return (end - begin) / 1e6
        return end.ms - begin.ms

    def poll(self):
        """In order: the time of a mark is that of the one before and what has passed since. (CUDA gives times as 32-bit
        floats of milliseconds; from a common origin they would be too coarse after an hour.)"""
        if self.is_capturing():
            return
        while self.waiting and self.waiting[0].event.query():
            mark = self.waiting.popleft()
            before, self.reference = self.reference, mark
            if before is None:
                mark.ms = 0.0
                continue
            # Of two streams a later event may have passed a little earlier; no phase takes less than nothing.
            mark.ms = before.ms + max(0.0, before.event.elapsed_time(mark.event))
            self.pool.append(before.event)
            before.event = None


def cuda_clock(device):
    """The clock of a CUDA device; None while a graph is being captured."""
    import torch
    index = torch.cuda.current_device() if device.index is None else device.index
    if torch.cuda.is_current_stream_capturing():
        return None
    return CudaClock(lambda: torch.cuda.Event(enable_timing=True),
                     lambda event: event.record(torch.cuda.current_stream(index)),
                     torch.cuda.is_current_stream_capturing)
