# SPDX-License-Identifier: Apache-2.0
"""What a training may ask `batchfit run`: the batch of its next epoch. Optional, and without effect elsewhere: a
program that asks runs the same without batchfit run. Imports no PyTorch.

run names a small JSON file in BATCHFIT_CONTROL, {"v":1,"batch":32,"accumulation":4}, which it replaces as a whole. What the
program takes from it is reported by the event `batch` of the steps protocol (doc/formats/steps.md)."""

import json
import operator
import os
import sys

VARIABLE = "BATCHFIT_CONTROL"
FILE_BYTES = 4096  # a longer file is none of ours


class Control:
    """One process's: what it took, and where it tells of it."""

    def __init__(self):
        self.pid = os.getpid()
        self.taken = None  # (batch, accumulation)
        self.told = None
        self.transport = None

    def take(self, current):
        """The batch for the next epoch."""
        if self.taken is None or world() == 1:  # ranks ask at different moments, and must not differ
            found = read_file(os.environ.get(VARIABLE))
            if found is not None:
                self.taken = found
                self.tell()
            elif self.taken is not None and self.taken[0] != current:
                self.taken = None
        return self.taken[0] if self.taken else current

    def tell(self):
        if self.taken == self.told:
            return
        from .emit.events import encode_line
        from .emit.transport import Transport
        if self.transport is None:
            self.transport = Transport()
        event = {"v": 1, "event": "batch", "rank": rank(), "pid": os.getpid(), "batch": self.taken[0],
                 "accumulation": self.taken[1]}
        self.transport.write([encode_line(event)])
        self.told = self.taken


def read_file(path):
    """(batch, accumulation) of the control file; None where there is none, or not a whole one."""
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as f:
            said = json.loads(f.read(FILE_BYTES))
    except (OSError, ValueError):
        return None
    if not isinstance(said, dict) or said.get("v") != 1:
        return None
    numbers = said.get("batch"), said.get("accumulation")
    if any(type(number) is not int or number < 1 for number in numbers):
        return None
    return numbers


def of_launcher(name, distributed_name, otherwise):
    """A rank's figure: of torch.distributed where the program uses it, else of its launcher's variable."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return getattr(distributed, distributed_name)()
    try:
        return int(os.environ.get(name, otherwise))
    except ValueError:
        return otherwise


def rank():
    return of_launcher("RANK", "get_rank", 0)


def world():
    return of_launcher("WORLD_SIZE", "get_world_size", 1)


def whole(value, what):
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError("%s must be a whole number, not %r" % (what, value)) from None
    if number < 1:
        raise ValueError("%s must be at least 1, not %d" % (what, number))
    return number


_control = Control()


def _here():
    """After a fork the child's own."""
    global _control
    if _control.pid != os.getpid():
        _control = Control()
    return _control


def next_batch_size(current):
    """The number of samples that each micro-batch of the next epoch should have, per rank.

    current: the present number. Under `batchfit run` the answer may be smaller (memory was almost full) or larger (with
    --adaptive); everywhere else, and if run's answer cannot be read, it is `current`. Call it before each epoch, create the data
    loader with it, and accumulate gradients over accumulation() micro-batches: the effective batch stays the same. With several
    ranks the answer does not change during the process; run restarts all of them instead.

    Raises TypeError or ValueError if `current` is not a whole number of at least 1, under run and elsewhere."""
    return _here().take(whole(current, "the batch size"))


def accumulation(current=1):
    """The number of micro-batches over which to accumulate gradients before an optimizer step, with the batch size that
    next_batch_size() returned last.

    current: the present number, which is the answer whenever next_batch_size() returned its argument. Raises
    TypeError or ValueError if `current` is not a whole number of at least 1."""
    number = whole(current, "the accumulation")
    taken = _here().taken
    return taken[1] if taken else number
