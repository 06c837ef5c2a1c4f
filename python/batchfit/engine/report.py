# SPDX-License-Identifier: Apache-2.0
"""What an engine's process tells, in the steps protocol: each batch is a step without a backward and an optimizer."""

import os
import sys
import time

from ..emit.events import cut_text, encode_line
from ..emit.transport import Transport

WAIT_S = 0.1  # lines are written together: a batch may take less than a system call


class Report:
    """The events of one process."""

    def __init__(self):
        self.transport, self.lines, self.written, self.steps = Transport(), [], 0.0, 0

    def _add(self, event):
        self.lines.append(encode_line({"v": 1, "rank": 0, "pid": os.getpid(), **event}))

    def flush(self):
        """Writes what waits."""
        if self.lines:
            self.transport.write(self.lines)
        self.lines, self.written = [], time.monotonic()

    def _at_once(self, event):
        self._add(event)
        self.flush()

    def start(self, framework, version, device):
        """Once, before the first batch."""
        self._at_once({"event": "start", "framework": framework, "framework_version": version, "device": device, "world": 1,
                       "program": "batchfit.engine"})

    def outputs(self, event, reference):
        """event: of compare.difference."""
        self._at_once({"event": "outputs", "reference": reference, **event})

    def step(self, ms, samples, more):
        """A batch that took `ms`."""
        self.steps += 1
        self._add({"event": "step", "step": self.steps, "samples": samples, "micro_batches": [samples], "forward_ms": ms,
                   "total_ms": ms, "t": round(time.monotonic(), 4), **more})
        if time.monotonic() - self.written > WAIT_S:
            self.flush()

    def out_of_memory(self, error, samples):
        """The engine said so."""
        self._at_once({"event": "oom", "phase": "forward", "message": cut_text(error), "samples": samples})

    def end(self, error=None):
        """The process ends by itself."""
        event = {"event": "end", "ok": error is None}
        if error is not None:
            event["error"] = cut_text("%s: %s" % (type(error).__name__, error))
        self._at_once(event)
        if self.transport.dropped:
            print("batchfit.engine: cannot write %d lines" % self.transport.dropped, file=sys.stderr)
