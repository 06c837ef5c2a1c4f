# SPDX-License-Identifier: Apache-2.0
"""Steps of a program that only predicts (BATCHFIT_MODE=inference): it has no backward and no optimizer, so a step is a batch that
went through the model.

    with a loader     from one fetched batch to the next; all forwards in between, the views of test-time augmentation for one,
                      belong to it
    without one       from one call of the model to the next. The model is the first module with parameters that was called;
                      others (a second stage, a softmax) belong to its step

Forward time reaches to the next fetched batch, so what is done with the outputs is in it. A call before the first fetched batch
(a dummy image, to build the model) is no step."""

import weakref

from . import events
from .cuda import tighten_cap
from .journal import Journal, careful
from .machine import FORWARD, IO, OTHER, Machine, Record


class InferenceMachine(Machine):
    """Reads the notes of an InferenceJournal. What a training would note besides is other time."""

    def io_begin(self, now, figures):
        if figures is not None:
            self.step_over(now, figures)
        elif not self.steps:  # building the model is no step
            self.turn(OTHER, now)
            self.close_group(Record(None))
            self.step, self.fresh = Record(None), True
        self.turn(IO, now)
        self.before_io = OTHER

    def forward_begin(self, now, more):
        number, is_model, figures = more
        if figures is not None:
            self.step_over(now, figures)
        self.entered = True
        if self.phase != FORWARD or self.since is None:
            self.turn(FORWARD, now)
        if self.fresh and (is_model or self.queue):
            self.micro_batch(number)

    def step_over(self, now, figures):
        """What was since the last step is one."""
        self.turn(self.phase, now)
        self.close_group(self.step)
        micro, self.steps = self.step.micro, self.steps + 1
        self.step.event = dict(figures, step=self.steps)
        if micro and None not in micro:
            self.step.event.update(samples=sum(micro), micro_batches=micro)
        self.send(self.step)
        self.step, self.fresh = Record(None), True
        tighten_cap(self.journal.device, self.steps)

    def backward_begin(self, now, _):
        pass

    backward_end = optimizer_begin = optimizer_end = grads_dropped = grad_taken = backward_begin

    def step_line(self, event, sums):
        """Without the times of what there is none."""
        io, h2d, forward, _, __, other = sums
        times = {"io_ms": io, "h2d_ms": h2d, "forward_ms": forward, "other_ms": other, "total_ms": sum(sums)}
        line = dict(v=1, event="step", rank=self.rank, pid=self.pid, **{name: round(ms, 4) for name, ms in times.items()})
        line.update(event)
        return events.encode_line(line)


class InferenceJournal(Journal):
    """forwards: the model has been called since the last step."""

    machine_class = InferenceMachine

    def reset(self):
        super().reset()
        self.forwards = self.uses_loader = False
        self.model = None

    def io_begin(self):
        self.busy = True
        if self.due:
            self.read(True)
        figures = self.figures() if self.forwards and self.uses_loader else None
        self.forwards, self.uses_loader = False, True
        self.notes.append(("io_begin", self.mark(), figures))

    @careful
    def forward_begin(self, module, arguments, named, grad_enabled):
        self.busy = True
        if self.due:
            self.read(True)
        if self.model is None or self.model() is None:
            self.choose(module)
        is_model = self.model is not None and self.model() is module
        figures = self.figures() if is_model and self.forwards and not self.uses_loader else None
        if self.model is not None:
            number = self.counter.count_arguments(arguments, named) if is_model else None
            self.forwards = True
            self.notes.append(("forward_begin", self.mark(), (number, is_model, figures)))

    def choose(self, module):
        """The first module with parameters is the model; it is on the device."""
        first = next(module.parameters(), None)
        if first is None:
            return
        self.model = weakref.ref(module)
        self.read(True)
        self.machine.see_device(first.device)

    def failed(self, error, phase=None):
        self.forwards = False
        Journal.failed(self, error, phase)

    @careful
    def say_end(self):
        if self.forwards:
            self.notes.append(("step_over", self.mark(), self.figures()))
            self.forwards = False
        Journal.say_end(self)
