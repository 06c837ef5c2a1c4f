# SPDX-License-Identifier: Apache-2.0
"""In which phase the training is. The hooks tell what begins and ends; the machine cuts time into segments without gaps, and
segments into steps, so that the phases of a step add up to it.

What a segment was is often known only later: two forwards without gradients may be a teacher's, which belongs to the step, or
the beginning of a validation. So segments wait in a *group*, which reaches from one fetched batch to the next:

    a forward with gradients, or a backward     the group is the step's; forwards without gradients in it are its forward
    the next batch is fetched                   and there were only forwards without gradients: validation
    trained model in eval mode, then trained    validation without a loader of its own

Time after a backward is the optimizer's when an optimizer's step follows before the next forward, else `other`. A step ends with
an optimizer's step after at least one backward; further optimizers right after it belong to it, and one that has had a backward
of its own (a GAN) makes a step of its own. Nothing is reported before the first backward or a failure in training, so that
launchers and data workers stay silent. Only one thread is looked at: the main one, or the one that trains."""

import os
import time
from collections import deque
from threading import get_ident

from . import events
from .clock import cuda_clock
from .cuda import tighten_cap

# Phases; the first six are the fields of a step, in the order of events.TIMES.
IO, H2D, FORWARD, BACKWARD, OPTIMIZER, OTHER, AFTER_BACKWARD, NO_GRAD = range(8)
OOM_NAMES = ("io", "h2d", "forward", "backward", "optimizer", "other", "optimizer", "forward")
UNDECIDED, UNTRAINED, TRAINED = range(3)  # what a group is known to be

SILENT_STEPS = 2  # steps after a fetched batch that may use it again (a GAN's); later ones have their samples elsewhere
WAITING_RECORDS = 256  # kept while their times are not known or nothing may be written yet
EXIT_SECONDS = 0.2  # to wait at the end for what is still in the stream


class Record:
    """Something to write when its segments' times are known."""

    __slots__ = ("event", "parts", "sums", "micro")

    def __init__(self, event):
        self.event, self.parts, self.sums, self.micro = event, deque(), [0.0] * 6, []

    def fold(self, clock):
        """Adds up what is known; True when that is everything."""
        parts, sums = self.parts, self.sums
        while parts:
            phase, begin, end = parts[0]
            if not clock.passed(end):
                return False
            sums[phase if phase < 6 else OTHER] += clock.ms(begin, end)
            parts.popleft()
        return True


class Machine:
    """Reads the journal's notes: each method named like a note takes its mark and what more it says."""

    def __init__(self, journal, transport):
        self.journal, self.transport = journal, transport
        self.started = self.entered = self.seen_backward = self.steps_guessed = False
        self.rank, self.world, self.pid, self.steps = 0, 1, os.getpid(), 0
        self.outbox, self.validation, self.ended = deque(), None, None
        self.loader_silent = SILENT_STEPS + 1
        self.in_optimizer = False
        self.lengths = None  # of the data, to be told
        self.forget_step()

    def forget_step(self):
        """The step that is under way does not count: the next begins with its first event."""
        self.since, self.phase = None, OTHER
        self.group, self.group_is, self.sure_validation, self.after_validation = [], UNDECIDED, False, False
        self.step = Record(None)
        self.graded, self.fresh = False, True  # a backward in this step; the next forward begins a micro-batch
        self.queue, self.fetched_in_group, self.silent_before = deque(), 0, self.loader_silent

    def read(self, notes):
        for what, now, more in notes:
            getattr(self, what)(now, more)

    # Time

    def turn(self, phase, now):
        """The present segment ends and another begins."""
        if self.since is not None:
            self.group.append((self.phase, self.since, now))
        self.phase, self.since = phase, now

    def turn_back(self, phase, now):
        """The same after a call, unless an error in it has ended the step."""
        if self.since is not None:
            self.turn(phase, now)

    def close_group(self, ret_record):
        """What the group holds belongs to a record."""
        self.journal.clock.poll()
        ret_record.parts.extend(self.group)
        ret_record.fold(self.journal.clock)
        self.group, self.group_is, self.sure_validation = [], UNDECIDED, False
        self.fetched_in_group = 0

    def group_was_validation(self):
        if self.validation is None:
            self.validation = Record({"event": "phase", "phase": "validation"})
        for _ in range(min(self.fetched_in_group, len(self.queue))):
            self.queue.pop()
        self.loader_silent = self.silent_before
        if self.silent_before > SILENT_STEPS:
            self.journal.unfetched = SILENT_STEPS
        self.close_group(self.validation)

    def group_is_training(self):
        """Forwards without gradients so far were a teacher's, or of a model trained in eval mode."""
        self.group = [(FORWARD if phase == NO_GRAD else phase, a, b) for phase, a, b in self.group]
        self.group_is = TRAINED
        if self.validation is not None:
            self.send(self.validation)
            self.validation = None

    def end_step(self):
        """The step that ended was not continued by a further optimizer: it can be told."""
        if self.ended is not None:
            self.send(self.ended)
            self.ended = None

    # The journal's notes

    def io_begin(self, now, _):
        self.end_step()
        self.before_io = self.phase
        self.turn(IO, now)
        # Building a model may run it once without a batch, for its strides say: nothing was validated.
        is_used = self.seen_backward or self.fetched_in_group or self.sure_validation
        self.after_validation = self.group_is == UNTRAINED and bool(is_used)
        if self.after_validation:
            self.group_was_validation()
        elif not self.seen_backward:  # building the model and looking at a first batch are no step
            self.close_group(Record(None))
            self.step, self.fresh = Record(None), True
        elif self.group_is == TRAINED:
            self.close_group(self.step)

    def io_end(self, now, more):
        got, number = more
        if got == "batch":
            if not self.fetched_in_group:
                self.silent_before = self.loader_silent
            self.queue.append(number)
            self.fetched_in_group += 1
            self.loader_silent = 0
        elif got == "end" and self.after_validation:  # what follows is the validation's too, up to the next batch
            self.group_is, self.sure_validation = UNTRAINED, True
        self.turn_back(self.before_io if self.before_io in (FORWARD, OPTIMIZER, AFTER_BACKWARD) else OTHER, now)

    def h2d_begin(self, now, _):
        self.before_copy = self.phase
        self.turn_back(H2D, now)  # a step does not begin with a copy: the model's own is no step's

    def h2d_end(self, now, _):
        self.turn_back(self.before_copy, now)

    def forward_begin(self, now, more):
        self.end_step()
        grad_enabled, training, module, number = more
        if grad_enabled and training and (self.group_is == TRAINED or module[1]):
            module[2] = True
            self._training_forward(now, number)
        elif self.group_is == UNTRAINED or self.group_is == UNDECIDED and not (grad_enabled and training):
            self.group_is = UNTRAINED
            if not grad_enabled and not training and module[2]:
                self.sure_validation = True
            if self.phase != NO_GRAD:
                self.turn(NO_GRAD, now)

    def _training_forward(self, now, number):
        self.entered = True
        if self.phase != FORWARD:
            self.turn(FORWARD, now)
        if self.group_is != TRAINED:
            if self.group_is == UNTRAINED and self.sure_validation and not self.fetched_in_group:
                self.group_was_validation()
            self.group_is_training()
        if self.fresh:
            self.micro_batch(number)

    def micro_batch(self, number):
        """A micro-batch begins. Batches are used in the order in which they were fetched, perhaps one late (accelerate).
        number: what the arguments say, or None."""
        self.fresh = False
        if self.queue:
            fetched = self.queue.popleft()
            self.step.micro.append(number if fetched is None else fetched)
        elif self.loader_silent > SILENT_STEPS:
            self.step.micro.append(number)
        # else a further forward of the batch that was counted, as in a GAN

    def backward_begin(self, now, _):
        self.end_step()
        self.turn(BACKWARD, now)
        if self.group_is != TRAINED:
            if self.fresh:  # no module was seen: the model is a function, or all of it is compiled
                self.micro_batch(None)
                self._relabel_last(OTHER, (IO, H2D, BACKWARD), FORWARD)
            self.group_is_training()
        self.entered = self.seen_backward = True

    def backward_end(self, now, figures):
        if self.since is None:
            return
        self.graded = self.fresh = True
        self.turn(OPTIMIZER if self.in_optimizer else AFTER_BACKWARD, now)
        if figures is not None:
            self.close_group(self.step)
            self._finish_step(figures)

    def grad_taken(self, _, __):
        self.graded = True

    def _relabel_last(self, phase, until, new):
        """Segments of a phase since the last one of `until` become another phase's."""
        for i in range(len(self.group) - 1, -1, -1):
            was, begin, end = self.group[i]
            if was in until:
                break
            if was == phase:
                self.group[i] = (new, begin, end)

    def optimizer_begin(self, now, _):
        self.in_optimizer = True
        self.turn(OPTIMIZER, now)
        self._relabel_last(AFTER_BACKWARD, (BACKWARD,), OPTIMIZER)

    def optimizer_end(self, now, figures):
        """figures is None where an exception has ended it."""
        self.in_optimizer = False
        self.turn_back(OTHER, now)
        if figures is not None and self.graded:
            self.steps_guessed = False
            if self.group_is != TRAINED:
                self.group_is_training()
            self.close_group(self.step)
            self._finish_step(figures)
        elif figures is not None and self.ended is not None:  # a further optimizer of the step that just ended
            self.group = [(OPTIMIZER, a, b) for _, a, b in self.group]
            self.close_group(self.ended)
            self.ended.event.update(figures)

    def _finish_step(self, figures):
        self.steps += 1
        self.loader_silent += 1
        micro = self.step.micro
        self.step.event = dict(figures, step=self.steps)
        if None not in micro and (micro or self.loader_silent <= SILENT_STEPS + 1):
            self.step.event.update(samples=sum(micro), micro_batches=micro)
        self.ended, self.step = self.step, Record(None)
        self.graded, self.fresh = False, True
        tighten_cap(self.journal.device, self.steps)

    def grads_dropped(self, now, _):
        """zero_grad after a backward: where no optimizer's step was ever seen (compiled as a whole), it has been one."""
        if self.graded and (not self.steps or self.steps_guessed):
            self.optimizer_begin(now, None)
            self.optimizer_end(now, {"t": time.perf_counter()})
            self.steps_guessed = True

    def checkpoint_begin(self, now):
        self.before_save = self.phase
        self.opened_by_save = self.since is None
        self.turn(OTHER, now)

    def checkpoint_end(self, now, path=None):
        record = Record({"event": "phase", "phase": "checkpoint", "at": time.time(), "path": path})
        begin, self.since = self.since, now
        record.parts.append((OTHER, begin, now))
        self.phase = self.before_save
        if self.opened_by_save:
            self.since = None
        self.send(record)
        self.flush()

    def checkpoint_renamed(self, path):
        self.send(Record({"event": "phase", "phase": "checkpoint", "at": time.time(), "path": path}))
        self.flush()

    def say_checkpoint(self, event):
        """Behind the steps that it holds. Its beginning does not wait for them: they may never be heard of."""
        if event["path"] is None:
            return
        event = dict(event, event="checkpoint", at=time.time())
        if event["state"] != "begin" and get_ident() == self.journal.owner:
            self.send(Record(event))
            self.flush()
        elif self.started:
            self.write(event)

    # What happens outside of steps

    def see_device(self, device):
        """The device on which losses are: which clock to use, and what the start event says."""
        journal = self.journal
        if device is not None and device.type == "cuda":
            clock = cuda_clock(device)
            if clock is not None:
                self.switch_clock(clock)
                journal.device, journal.on_cuda = device, True
        elif device is not None:
            journal.device = device
        self.start(device)

    def switch_clock(self, clock):
        """From here on by another clock. No segment has marks of both."""
        if self.since is not None:
            self.group.append((self.phase, self.since, self.journal.mark()))
            self.since = clock.mark()
        self.journal.use_clock(clock)

    def start(self, device):
        if not self.started:
            self.rank, self.world = events.rank_and_world()
            self.started = True
            event = events.start_event(device, self.world)
            if self.journal.counter.dimension:
                event["batch_dim"] = self.journal.counter.dimension
            if self.journal.defaults:
                event["defaults"] = dict(self.journal.defaults)
            if self.journal.ddp_bucket_mb is not None:
                event["ddp_bucket_cap_mb"] = self.journal.ddp_bucket_mb
            self.write(event)

    def send(self, record):
        """A record is written as soon as its times are known, in order."""
        self.outbox.append(record)

    def flush(self):
        """Writes what is known."""
        if self.lengths is not None and self.started:
            said, self.lengths = self.lengths, None
            self.write(said)
        clock = self.journal.clock
        clock.poll()
        self.step.fold(clock)
        lines = []
        while self.outbox and self.started and self.outbox[0].fold(clock):
            record = self.outbox.popleft()
            event = record.event
            if "event" not in event:  # a step
                if self.transport.dropped:
                    event["dropped"] = self.transport.dropped
                lines.append(self.step_line(event, record.sums))
            else:
                if "phase" in event:
                    event["ms"] = round(sum(record.sums), 4)
                lines.append(self.line_of(event))
        if lines:
            self.transport.write(lines)
        while len(self.outbox) > WAITING_RECORDS:
            self.outbox.popleft()

    def step_line(self, event, sums):
        return events.encode_step(self.rank, self.pid, event, sums)

    def line_of(self, event):
        line = dict(v=1, event=event["event"], rank=self.rank, pid=self.pid)
        line.update(event)
        if self.transport.dropped:
            line["dropped"] = self.transport.dropped
        return events.encode_line(line)

    def write(self, event):
        self.transport.write([self.line_of(event)])

    def failed(self, error, phase, notes):
        """An exception passes out of a hooked call; True when it was told. The notes are read and emptied."""
        if not events.is_out_of_memory(error):
            return False
        self.read(notes)
        notes.clear()
        self.end_step()
        micro, queue = self.step.micro, self.queue
        samples = micro[-1] if micro else queue[0] if queue else None
        self.start(self.journal.device or events.likely_device())
        self.flush()
        event = {"event": "oom", "phase": OOM_NAMES[self.phase if phase is None else phase], "message": events.cut_text(error)}
        self.write(event if samples is None else dict(event, samples=samples))
        self.forget_step()
        return True

    def finish(self, now, error, told):
        """The process ends; by an exception, or None."""
        if error is not None and self.entered and not told:
            self.failed(error, None, [])
        if not self.started and (error is None or not self.entered):
            return
        self.end_step()
        if self.group_is == UNTRAINED:
            self.turn(OTHER, now)
            self.group_was_validation()
        if self.validation is not None:
            self.send(self.validation)
        self.start(self.journal.device or events.likely_device())
        until = time.monotonic() + EXIT_SECONDS
        self.flush()
        while self.outbox and time.monotonic() < until:
            time.sleep(0.002)
            self.flush()
        self.write({"event": "end", "ok": True} if error is None else
                   {"event": "end", "ok": False, "error": events.error_text(error)})
