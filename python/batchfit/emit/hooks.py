# SPDX-License-Identifier: Apache-2.0
"""Where in PyTorch the journal is told. Every hook replaces a callable by one that goes straight on where the journal is busy or
another thread calls, and otherwise tells begin and end around the original. The same for torch 1.13 and 2.x.

torch.compile: its tracer takes is_dynamo_compiling() for a constant, so what it traces through contains nothing of ours; the
frames of this package are marked to be run as they are. Nothing is hooked on instances: copies and pickles stay the same."""

import functools
import inspect
import os
import sys
import types
from threading import get_ident

from . import checkpoints, cuda, snapshot
from .machine import BACKWARD, FORWARD, H2D, IO, OPTIMIZER
from .tracing import is_tracing, never



def wrapped(journal, original, begin, end, phase):
    """original between begin() and end(), unless the journal is busy."""
    tracing = is_tracing()

    @functools.wraps(original)
    def call(*args, **kwargs):
        if tracing() or journal.busy or get_ident() != journal.owner:
            return original(*args, **kwargs)
        begin()
        try:
            return original(*args, **kwargs)
        except Exception as error:
            journal.failed(error, phase)
            raise
        finally:
            end()

    return call


def wrap_module_call(journal, original, is_grad_enabled):
    """The one wrapper through which every module of a model goes: its first lines are what the emitter costs."""
    tracing = is_tracing()

    def outermost(self, args, kwargs):
        journal.forward_begin(self, args, kwargs, is_grad_enabled())
        try:
            return original(self, *args, **kwargs)
        except Exception as error:
            journal.failed(error, FORWARD)
            raise
        finally:
            journal.busy = False

    if tracing is never:
        @functools.wraps(original)
        def call(self, *args, **kwargs):
            if journal.busy or get_ident() != journal.owner:
                return original(self, *args, **kwargs)
            return outermost(self, args, kwargs)
    else:
        @functools.wraps(original)
        def call(self, *args, **kwargs):
            if tracing() or journal.busy or get_ident() != journal.owner:
                return original(self, *args, **kwargs)
            return outermost(self, args, kwargs)
    return call


def hook_modules(journal):
    import torch
    torch.nn.Module.__call__ = wrap_module_call(journal, torch.nn.Module.__call__, torch.is_grad_enabled)


def hook_backward(journal):
    """Tensor.backward and torch.autograd.backward, which it calls. A thread that is the first to train becomes the owner."""
    import torch

    def wrap(original, name):
        tracing = is_tracing()

        @functools.wraps(original)
        def call(*args, **kwargs):
            if tracing() or journal.in_backward:
                return original(*args, **kwargs)
            if get_ident() != journal.owner:
                if journal.seen_backward or journal.owner is None:
                    return original(*args, **kwargs)
                journal.owner = get_ident()
            journal.backward_begin(args[0] if args else kwargs.get(name))
            try:
                return original(*args, **kwargs)
            except Exception as error:
                journal.failed(error, BACKWARD)
                raise
            finally:
                journal.backward_end()
        return call

    def wrap_grad(original):
        tracing = is_tracing()

        @functools.wraps(original)
        def grad(*args, **kwargs):
            if not tracing() and not journal.busy and get_ident() == journal.owner:
                journal.grad_taken()
            return original(*args, **kwargs)
        return grad

    torch.Tensor.backward = wrap(torch.Tensor.backward, "self")
    torch.autograd.backward = wrap(torch.autograd.backward, "tensors")
    torch.autograd.grad = wrap_grad(torch.autograd.grad)


def hook_optimizers(journal):
    """Every subclass's step, wrapped when its first instance is made (as torch does itself for its profiler), and the scaler's,
    which may leave the step out: an attempt is a step of the training too."""
    import torch
    Optimizer = torch.optim.Optimizer
    init, zero_grad = Optimizer.__init__, Optimizer.zero_grad
    tracing = is_tracing()

    def wrap(step):
        @functools.wraps(step)
        def call(*args, **kwargs):
            if tracing() or get_ident() != journal.owner or journal.in_optimizer or journal.in_backward:
                if not tracing() and journal.in_backward:  # whatever the thread: the gradients of a card have their own
                    journal.stepped_in_backward = True
                return step(*args, **kwargs)
            journal.optimizer_begin()
            done = False
            try:
                result = step(*args, **kwargs)
                done = True
                return result
            except Exception as error:
                journal.failed(error, OPTIMIZER)
                raise
            finally:
                journal.optimizer_end(done)
        call._batchfit = True
        return call

    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        journal.has_optimizer = True
        step = getattr(type(self), "step", None)
        if step is not None and not hasattr(step, "_batchfit"):
            type(self).step = wrap(step)

    @functools.wraps(zero_grad)
    def drop(self, *args, **kwargs):
        if not tracing() and get_ident() == journal.owner and not journal.in_backward:
            journal.grads_dropped()
        return zero_grad(self, *args, **kwargs)

    Optimizer.__init__, Optimizer.zero_grad = __init__, drop
    for module in (getattr(torch, "amp", None), torch.cuda.amp):
        scaler = getattr(module, "GradScaler", None)
        if scaler is not None and "step" in vars(scaler):
            scaler.step = wrap(scaler.step)


def hook_loader(journal):
    """A loader's iterators, and their making: that is where workers are started."""
    module = sys.modules["torch.utils.data.dataloader"]
    base, original = module._BaseDataLoaderIter, module._BaseDataLoaderIter.__next__

    @functools.wraps(original)
    def __next__(self):
        if journal.busy or get_ident() != journal.owner:
            return original(self)
        journal.io_begin()
        batch, got = None, "end"
        try:
            batch = original(self)
            got = "batch"
            return batch
        except Exception as error:
            journal.failed(error, IO)
            raise
        finally:
            journal.io_end(self, batch, got)

    base.__next__ = __next__
    module.DataLoader.__iter__ = wrapped(journal, module.DataLoader.__iter__, journal.io_begin,
                                         lambda: journal.io_end(None, None, "loader"), IO)


def hook_order(journal):
    """The first indices that a loader asks for, of each data set once: those of its longest samples."""
    if not os.environ.get("BATCHFIT_LONGEST_FIRST"):
        return
    from . import longest
    base = sys.modules["torch.utils.data.dataloader"]._BaseDataLoaderIter
    original, looked = base._next_index, []

    @functools.wraps(original)
    def _next_index(self):
        indices = original(self)
        dataset = getattr(self, "_dataset", None)
        if any(dataset is known for known in looked):
            return indices
        looked.append(dataset)
        busy, journal.busy = journal.busy, True
        try:
            indices, said = longest.first_batch(self, indices)
        finally:
            journal.busy = busy
        if said is not None:
            journal.lengths_seen(said)
        return indices

    base._next_index = _next_index


def names_other_device(target):
    """Does an argument of Tensor.to name a device that is not the host?"""
    import torch
    if isinstance(target, torch.Tensor):
        target = target.device
    if isinstance(target, torch.device):
        return target.type != "cpu"
    return type(target) is int or isinstance(target, str) and not target.startswith("cpu")


def hook_copies(journal):
    """Tensor.to and Tensor.cuda of a tensor on the host. Hooked only where CUDA is used: on the host there is nothing to see."""
    import torch
    kinds, tracing = (torch.Tensor, torch.nn.Parameter), is_tracing()

    def wrap(original, has_target):
        copy = wrapped(journal, original, journal.h2d_begin, journal.h2d_end, H2D)

        @functools.wraps(original)
        def call(self, *args, **kwargs):
            if tracing() or journal.busy or type(self) not in kinds or self.device.type != "cpu":
                return original(self, *args, **kwargs)
            target = args[0] if args else kwargs.get("device", kwargs.get("other"))
            if has_target and not names_other_device(target):
                return original(self, *args, **kwargs)
            return copy(self, *args, **kwargs)
        return call

    to, cuda_ = torch.Tensor.to, torch.Tensor.cuda
    torch.Tensor.to, torch.Tensor.cuda = wrap(to, True), wrap(cuda_, False)
    # A table of torch's own, made while it was imported, by which modules without a shape yet allow to be moved.
    mixin = getattr(torch.nn.parameter, "UninitializedTensorMixin", None)
    if mixin is not None:
        mixin._allowed_methods = list(mixin._allowed_methods) + [torch.Tensor.to, torch.Tensor.cuda]


def hook_cuda(journal):
    """Called back by torch when CUDA is initialised; nothing here initialises it."""
    import torch

    def begun():
        for work in (lambda: hook_copies(journal), cuda.cap_at_start, snapshot.start):
            try:
                work()
            except Exception:
                pass

    torch.cuda._lazy_call(begun)


def hook_multiprocessing(journal):
    """A forked child of multiprocessing leaves without Python's own end; its finalizers are run."""
    util = sys.modules["multiprocessing.util"]
    util.register_after_fork(journal, lambda journal: util.Finalize(journal, journal.at_exit, exitpriority=0))


def default_of(parser, option):
    """The number that a parser takes for an option without a word of it; None where it has no such option, or no number."""
    for action in parser._actions:
        if option in action.option_strings:
            value = parser.get_default(action.dest)
            if isinstance(value, str) and value.isdigit():
                value = int(value)
            return value if type(value) is int and value > 0 else None
    return None


def hook_parser(journal):
    """What the command would do without the options that a trial gives it: BATCHFIT_DEFAULTS names them, "batch=--batch-size"."""
    options = dict(entry.split("=", 1) for entry in os.environ.get("BATCHFIT_DEFAULTS", "").split() if "=" in entry)
    if not options:
        return
    parser = sys.modules["argparse"].ArgumentParser
    original = parser.parse_known_args

    @functools.wraps(original)
    def parse_known_args(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        for name, option in options.items():
            value = default_of(self, option)
            if value is not None:
                journal.defaults[name] = value
        return result

    parser.parse_known_args = parse_known_args


def hook_buckets(journal):
    """DistributedDataParallel with buckets of BATCHFIT_DDP_BUCKET_CAP_MB, whatever the program gives it."""
    size = os.environ.get("BATCHFIT_DDP_BUCKET_CAP_MB", "")
    if not size.isdigit() or int(size) == 0:
        return
    ddp = sys.modules["torch.nn.parallel.distributed"].DistributedDataParallel
    original = ddp.__init__
    place = list(inspect.signature(original).parameters).index("bucket_cap_mb") - 1  # without self

    @functools.wraps(original)
    def __init__(self, *args, **kwargs):
        if len(args) > place:
            args = (*args[:place], int(size), *args[place + 1:])
        else:
            kwargs["bucket_cap_mb"] = int(size)
        original(self, *args, **kwargs)
        journal.ddp_bucket_mb = int(size)

    ddp.__init__ = __init__


def hook_dynamo(journal):
    """torch.compile's frame evaluation leaves the functions of this package alone (and goes on with what they call)."""
    skip_code = sys.modules["torch._dynamo.eval_frame"].skip_code
    for code in own_code():
        skip_code(code)


def own_code():
    """Every code object of this package."""
    modules = [m for name, m in list(sys.modules.items()) if name.startswith(__package__)]
    files, found = {m.__file__ for m in modules}, []

    def add(thing):
        if isinstance(thing, types.CodeType) and thing.co_filename in files and thing not in found:
            found.append(thing)
            for constant in thing.co_consts:
                add(constant)
        elif isinstance(thing, types.FunctionType):
            add(thing.__code__)
            for cell in thing.__closure__ or ():  # what a decorator has wrapped
                add(cell.cell_contents)
        elif isinstance(thing, (staticmethod, classmethod)):
            add(thing.__func__)

    for module in modules:
        for thing in list(vars(module).values()):
            add(thing)
            for member in list(vars(thing).values()) if isinstance(thing, type) else ():
                add(member)
    return found


HOOKS = (
    ("torch", hook_modules),
    ("torch", hook_backward),
    ("torch", hook_optimizers),
    ("torch", hook_cuda),
    ("torch.utils.data.dataloader", hook_loader),
    ("torch.utils.data.dataloader", hook_order),
    ("multiprocessing.util", hook_multiprocessing),
    ("argparse", hook_parser),
    ("torch.nn.parallel.distributed", hook_buckets),
    ("torch._dynamo.eval_frame", hook_dynamo),
)


def install(journal, when_imported):
    """Each hook as soon as its module is there, which torch is; and once more when the module is loaded again. One that a torch
    without that name makes fail is left out."""
    rows = [(module, hook, journal) for module, hook in HOOKS]
    rows += [(module, hook, journal.saves) for module, hook in checkpoints.HOOKS]
    for module, hook, about in rows:
        def callback(hook=hook, about=about):
            try:
                hook(about)
            except (AttributeError, TypeError):
                pass
        if module == "torch":
            callback()
        else:
            when_imported(module, callback)
