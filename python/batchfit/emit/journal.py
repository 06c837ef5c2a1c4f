# SPDX-License-Identifier: Apache-2.0
"""What the hooks write down: (what, mark, more), appended to a list in the training's own time and read later by the machine,
about ten times a second. A training step runs this code once, with cold caches: here every line counts.

busy: inside a call whose insides are not looked at. owner: the thread that trains; None when the emitter has given up."""

import threading
import weakref
from time import perf_counter_ns

from .byhand import ByHand
from .checkpoints import Saves
from .clock import HostClock
from .cuda import memory_figures
from .events import last_error
from .machine import SILENT_STEPS, Machine
from .samples import SampleCounter, batch_size_of

READ_NS = 100_000_000  # the machine reads at the end of a step when it has not for so long
READ_NOTES = 512  # or when so much is written down
QUIET_NS = 2_000_000_000  # of forwards without a backward, after which they are told
ALIVE_NS = 5_000_000_000  # without a step, after which a forward is told: a long evaluation is no hang


def careful(method):
    """What fails in a hook ends the emitter, never the program."""
    def call(self, *args):
        try:
            return method(self, *args)
        except (MemoryError, RecursionError):
            return None  # the program's trouble, of which it will hear itself
        except Exception as error:
            self.give_up(error)
    return call


class Journal:
    """One process's. The hooks call it; nothing else does."""

    machine_class = Machine

    def __init__(self, transport):
        self.transport = transport
        self.has_optimizer = False  # of torch's: also in a fork
        self.saves = Saves(self)
        self.reset()

    def reset(self):
        self.owner = threading.get_ident()
        self.busy = self.in_optimizer = self.in_backward = self.stepped_in_backward = False
        self.seen_backward = False
        self.notes, self.due, self.read_ns, self.alive_ns = [], False, 0, 0
        self.modules = {}
        self.counter, self.unfetched = SampleCounter(), SILENT_STEPS  # steps since a batch of known size
        self.seen_error = self.device = None
        self.saves.reset()
        self.defaults = {}  # of the program's own parser: batch, accumulate
        self.ddp_bucket_mb = None  # that DistributedDataParallel was given
        self.on_cuda = False
        self.first_forward_ns = 0  # of those before the first backward; None: they were told
        self.by_hand = None  # looks for updates where no optimizer was made
        self.use_clock(HostClock())
        self.machine = self.machine_class(self, self.transport)

    def use_clock(self, clock):
        self.clock, self.mark = clock, clock.mark

    @careful
    def read(self, step_is_over):
        """The machine catches up. step_is_over: what comes next is no further optimizer of the same step."""
        notes, self.notes = self.notes, []
        self.seen_error = None
        self.due, self.read_ns = False, perf_counter_ns()
        self.machine.read(notes)
        if step_is_over:
            self.machine.end_step()
        self.machine.flush()

    # Begins and ends, in the order of a step

    def io_begin(self):
        if self.by_hand is not None:
            self.see_update()
        self.busy = True
        if self.due:
            self.read(True)
        self.notes.append(("io_begin", self.mark(), None))

    @careful
    def io_end(self, iterator, batch, got):
        """got: "batch"; "loader", when the iterator was made; "end", when it had no more."""
        self.busy = False
        number = None
        if got == "batch":
            number = self.counter.count(batch, batch_size_of(iterator))
            self.unfetched = SILENT_STEPS if number is None else 0
        self.notes.append(("io_end", self.mark(), (got, number)))

    def h2d_begin(self):
        self.busy = True
        self.notes.append(("h2d_begin", self.mark(), None))

    def h2d_end(self):
        self.busy = False
        self.notes.append(("h2d_end", self.mark(), None))

    @careful
    def forward_begin(self, module, arguments, named, grad_enabled):
        if self.by_hand is not None:
            self.see_update()
        self.busy = True
        if self.due or len(self.notes) > READ_NOTES:
            self.read(True)
        if not self.seen_backward and self.first_forward_ns is not None:
            self.see_forward(grad_enabled)
        elif self.seen_backward and perf_counter_ns() - self.alive_ns > ALIVE_NS:
            self.say_alive(grad_enabled)
        known = self.modules.get(id(module))
        if known is None or known[0]() is not module:
            known = self.remember(module)
        number = self.counter.count_arguments(arguments, named) if self.unfetched >= SILENT_STEPS else None
        self.notes.append(("forward_begin", self.mark(), (grad_enabled, module.training, known, number)))

    def see_forward(self, grad_enabled):
        """A program that only predicts would never say a word."""
        now = perf_counter_ns()
        self.first_forward_ns = self.first_forward_ns or now
        if now - self.first_forward_ns > QUIET_NS:
            self.first_forward_ns = None
            self.machine.write({"event": "seen", "what": "forward", "gradients": grad_enabled})

    def say_alive(self, grad_enabled):
        self.alive_ns = perf_counter_ns()
        self.machine.write({"event": "seen", "what": "forward", "gradients": grad_enabled})

    def remember(self, module):
        """[reference, has it parameters that want gradients, was it trained]. Looking at the parameters is slow."""
        wants = any(p.requires_grad for p in module.parameters())
        known = self.modules[id(module)] = [weakref.ref(module), wants, False]
        return known

    @careful
    def backward_begin(self, tensors):
        if not self.has_optimizer:
            self.see_update()
            self.by_hand = self.by_hand or ByHand()
            self.by_hand.backward_begin(tensors)
        self.busy = self.in_backward = True
        if self.saves.made:
            self.saves.row_is_over()
        if self.due or self.device is None:
            self.read(True)
        if self.device is None:
            tensors = tensors if isinstance(tensors, (list, tuple)) else [tensors]
            self.machine.see_device(next((t.device for t in tensors if hasattr(t, "device")), None))
        self.seen_backward = True
        self.notes.append(("backward_begin", self.mark(), None))

    def backward_end(self):
        self.busy = self.in_backward = False
        more = None
        if self.stepped_in_backward:  # optimizers called by the gradients' hooks
            self.stepped_in_backward, more = False, self.figures()
        self.notes.append(("backward_end", self.mark(), more))
        if self.by_hand is not None:
            self.see_backward()

    @careful
    def see_backward(self):
        if self.has_optimizer:
            self.by_hand = None
        else:
            self.by_hand.backward_end()

    @careful
    def see_update(self):
        """Without an optimizer of torch's: has the program changed its weights since the last backward?"""
        if self.by_hand is None or not self.by_hand.waits or not self.by_hand.has_stepped():
            return
        self.by_hand.waits = False
        self.optimizer_begin()
        self.optimizer_end(True)

    def grad_taken(self):
        """torch.autograd.grad: gradients that are no phase of their own."""
        self.notes.append(("grad_taken", None, None))

    def optimizer_begin(self):
        self.in_optimizer = True
        self.notes.append(("optimizer_begin", self.mark(), None))

    @careful
    def optimizer_end(self, done):
        self.in_optimizer = self.busy = False
        self.notes.append(("optimizer_end", self.mark(), self.figures() if done else None))

    def figures(self):
        """What is known at the end of a step besides its times."""
        now = self.alive_ns = perf_counter_ns()
        self.unfetched += 1
        self.due = now - self.read_ns > READ_NS
        if self.on_cuda:
            return dict(memory_figures(self.device), t=now / 1e9)
        return {"t": now / 1e9}

    def grads_dropped(self):
        """zero_grad."""
        if not self.in_optimizer and self.by_hand is None:  # else before the first backward with an optimizer
            self.due = self.due or len(self.notes) > READ_NOTES
            self.notes.append(("grads_dropped", self.mark(), None))

    @careful
    def checkpoint_begin(self, event):
        """event: what is said of it, which gets the number of steps that it holds."""
        self.see_update()
        self.busy = True
        self.read(True)
        event["step"] = self.machine.steps
        self.machine.say_checkpoint(dict(event, state="begin"))
        self.machine.checkpoint_begin(self.mark())

    @careful
    def checkpoint_end(self, event):
        self.busy = False
        self.machine.checkpoint_end(self.mark(), event["path"] if event["state"] == "end" else None)
        self.machine.say_checkpoint(event)

    @careful
    def say_checkpoint(self, event):
        self.machine.say_checkpoint(event)

    @careful
    def checkpoint_renamed(self, src, path):
        self.machine.checkpoint_renamed(path)
        self.machine.say_checkpoint({"state": "renamed", "path": path, "from": src})

    @careful
    def lengths_seen(self, said):
        self.machine.lengths = said

    # What does not happen in every step

    @careful
    def failed(self, error, phase=None):
        """An exception passes out of a hooked call. Of a hooked call in another one it comes here twice."""
        if isinstance(error, StopIteration) or self.was_told(error):
            return
        if self.machine.failed(error, phase, self.notes):
            self.seen_error = id(error)  # not itself: its traceback holds the tensors that must be freed

    def was_told(self, error):
        """The same exception, if nothing has begun since; an identity may be another exception's later."""
        return self.seen_error == id(error) and not any(what.endswith("_begin") for what, _, _ in self.notes)

    def give_up(self, error):
        """A fault of ours: one line that says so, and never again anything."""
        self.owner, self.notes = None, []
        try:
            self.machine.write({"event": "fault", "error": "%s: %s" % (type(error).__name__, error)})
        except Exception:
            pass

    def after_fork(self):
        """A forked child has nothing to do with the parent's training; it may train itself."""
        given_up = self.owner is None
        self.transport.after_fork()
        self.reset()
        if given_up:
            self.owner = None

    def at_exit(self):
        if self.owner is not None:
            self.say_end()

    @careful
    def say_end(self):
        error = last_error()
        self.see_update()
        told = error is not None and self.was_told(error)
        self.saves.row_is_over()
        self.machine.read(self.notes)
        self.notes = []
        self.machine.finish(self.mark(), error, told)
