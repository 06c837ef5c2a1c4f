# SPDX-License-Identifier: Apache-2.0
"""The dispatch mode that sees every ATen op of a recording: runs it by CUDA's rules and logs what it allocates."""

import bisect
import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import cuda_rules
from .autocast import AUTOCAST
from .errors import RecordError
from .events import Log
from .sharded import SHARDING, own_name

try:
    from torch._decomp import decomposition_table
except ImportError:  # pragma: no cover - every supported torch has it
    decomposition_table = {}

_node = getattr(torch._C, "_current_autograd_node", None)
_peek = getattr(torch._C._autograd, "_get_sequence_nr", None) if _node else None
_OF_RANKS = {"DTensor", "AsyncCollectiveTensor"}
_MATMUL = {"mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot"}


class Modules:
    """Which module runs: a stack in forward, autograd's sequence numbers in backward (torch 2 on)."""

    def __init__(self, model):
        self.names = {id(m): own_name(name) for name, m in reversed(list(model.named_modules()))}
        self.stack, self._at, self._path = [], [], []

    def __enter__(self):
        modules, original = self, torch.nn.Module.__call__
        self._original = original

        def call(module, *args, **kwargs):
            name = modules.names.get(id(module))
            if name is None:
                return original(module, *args, **kwargs)
            modules._push(name)
            try:
                return original(module, *args, **kwargs)
            finally:
                modules._pop()
        torch.nn.Module.__call__ = call
        return self

    def __exit__(self, *exc):
        torch.nn.Module.__call__ = self._original

    def _push(self, name):
        self.stack.append(name or "-")
        self._boundary()

    def _pop(self):
        self.stack.pop()
        self._boundary()

    def _boundary(self):
        if _peek:
            self._at.append(_peek())
            self._path.append(self.stack[-1] if self.stack else "-")

    def forget(self):
        """A new step: its autograd nodes are the only ones that backward will meet."""
        del self._at[:], self._path[:]

    def current(self):
        """Path of the module that runs, or whose forward made the autograd node that runs; '-' if unknown."""
        if self.stack:
            return self.stack[-1]
        node = _node() if _node else None
        if node is None or not self._at:
            return "-"
        try:
            number = node._sequence_nr()
        except AttributeError:
            return "-"
        if number > 1 << 60:
            return "-"
        i = bisect.bisect_right(self._at, number) - 1
        return self._path[i] if i >= 0 else "-"


class Recorder(TorchDispatchMode):
    """Logs storages as they come and go. One per recording (model x batch)."""

    running = None  # the one that records now

    def __init__(self, knobs, model):
        super().__init__()
        self.log = Log()
        self.modules = Modules(model)
        self.unknown_values = 0
        self.work = None
        self.quiet = False
        self.counted = {}  # of masks whose shape stands here, how many places count; of others all
        self.is_titan = knobs.script_defaults == "torchtitan"
        self._knobs = knobs
        self._seen, self._scratch, self._trials = set(), [], 0
        self._names = {}
        self._op = "-"
        self._cublas = set()

    @contextlib.contextmanager
    def silent(self):
        """Inside, nothing is logged."""
        before, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = before

    def __enter__(self):
        Recorder.running = self
        return super().__enter__()

    def __exit__(self, *exc):
        Recorder.running = None
        return super().__exit__(*exc)

    # -- what rules call ------------------------------------------------------

    def note(self, tensor):
        """Log an output now (to fix the order, or before a trial)."""
        self.log.note(tensor, self._op, self._module, "cast" if AUTOCAST.casting else None)

    def scratch(self, nbytes, op):
        """Memory of `nbytes` that lives until the op's outputs exist."""
        self._scratch.append(self.log.block(nbytes, op, self._module))

    def first_sight(self, key):
        """True the first time a convolution configuration is met."""
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def trial(self):
        """cudnn.benchmark timed its algorithms, then emptied the cache."""
        if self._knobs.cudnn_benchmark:
            self.log.events.append(("e",))

    def has_cudnn_7(self):
        """As torch's builds before 1.7."""
        return self._knobs.rules < (1, 7)

    def workspace(self, nbytes):
        """A guess at a kernel's work space: for the pessimistic band only."""
        self.log.events.append(("w", nbytes))

    def where(self):
        """Path of the running module, for messages."""
        return "module " + self._module

    def unknown_value(self):
        """An op asked for a value that does not exist here."""
        self.unknown_values += 1

    def resized(self, storage, op):
        """A storage changed its size, which no operation says."""
        self.log.resized(storage, op, self.modules.current())

    def product(self):
        """A product of matrices that no operation shows."""
        self._cublas_workspace("mm")

    # -- dispatch -------------------------------------------------------------

    def _name(self, func):
        name = self._names.get(func)
        if name is None:
            name = self._names[func] = func._schema.name.split("::")[1]
        return name

    def _run(self, func, name, args, kwargs):
        rule = cuda_rules.RULES.get(func)
        if rule is not None and not self._on_cpu(args):
            return rule(self, args, kwargs)
        if name.startswith("_foreach_") and args[0] and args[0][0].device.type == "meta":
            return cuda_rules.foreach(name, args)
        try:
            return func(*args, **kwargs)
        except (NotImplementedError, RuntimeError) as why:
            return self._fallback(func, name, args, kwargs, why)

    @staticmethod
    def _on_cpu(args):
        first = args[0] if args else None
        if isinstance(first, (list, tuple)) and first:
            first = first[0]
        return isinstance(first, torch.Tensor) and first.device.type == "cpu"

    def _fallback(self, func, name, args, kwargs, why):
        decomposed = decomposition_table.get(func)
        if decomposed is not None and isinstance(why, NotImplementedError):
            return decomposed(*args, **kwargs)
        raise RecordError("%s (module %s) cannot run without data: %s" % (name, self._module,
                                                                          str(why).strip().split("\n")[0][:160]))

    def _cublas_workspace(self, name):
        """One block for forward's thread, one for backward's, from their first product on (CublasHandlePool.cpp)."""
        thread = "backward" if self.log.kind == "backward" else "forward"
        if name in _MATMUL and thread not in self._cublas and self._knobs.cublas_workspace:
            self._cublas.add(thread)
            self.log.block(self._knobs.cublas_workspace, "cublas_workspace", tag="other", fixed=True)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.quiet:
            return func(*args, **kwargs)
        if any(t.__name__ in _OF_RANKS for t in types):
            return NotImplemented  # what it does with its local part comes here
        host = SHARDING.host if SHARDING.rec is self else None
        if host is None:
            return self._observe(func, args, kwargs)
        with host.inside():
            if host.takes(args, kwargs):
                self.log.poll()
                return host.run(func, self._name(func), args, kwargs)
            return self._observe(func, args, kwargs)

    def _observe(self, func, args, kwargs):
        log = self.log
        log.poll()
        name = self._name(func)
        self._op = SHARDING.what or name
        self._module = self.modules.current()
        self._cublas_workspace(name)
        out = self._run(func, name, args, kwargs)
        tag = "cast" if AUTOCAST.casting else SHARDING.what and "temporary"
        for t in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(t, torch.Tensor):
                log.note(t, self._op, self._module, tag)
            elif isinstance(t, (list, tuple)):
                for u in t:
                    if isinstance(u, torch.Tensor):
                        log.note(u, self._op, self._module, tag)
        if self.work is not None:
            self.work.observe(name, func, args, kwargs, out)
        for ident in self._scratch:
            log.free(ident)
        del self._scratch[:]
        return out
