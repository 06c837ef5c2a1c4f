# SPDX-License-Identifier: Apache-2.0
"""What a template of ZeRO stage 3 is made of: DeepSpeed's engine runs, and what becomes of parameters is left out.

Which parameters are gathered when depends on sizes and on DeepSpeed's settings; where its engine asks for a module's parameters
and where it gives them back does not. Those places are written down as blocks of one byte that come and go (zero.fetch and
zero.release, of the forward pass and of one that is computed again; zero.refetch and zero.rerelease of the backward pass; of module
"root", the whole; zero.external behind a fetch: the parameters of that module, too), and a gradient ends where the engine takes it.
A weight in four bits that was gathered is there as zero.kept for as long as something holds it: its product's backward pass does.
src/predict/tape/zero3.c does the rest.
"""

import itertools
import sys

from . import four_bit, optimizers
from .events import ID, OP
from .errors import RecordError
from .zero import ZeroScript, _shadows

_SMALL = dict(stage=3, overlap_comm=False, contiguous_gradients=False, reduce_bucket_size=1 << 40, stage3_prefetch_bucket_size=0,
              stage3_param_persistence_threshold=0, stage3_max_reuse_distance=0, sub_group_size=1 << 40)


def _replace(owner, name, around):
    """The method, once a recording."""
    original = getattr(owner, name, None)
    if original is None:
        raise RecordError("deepspeed has no %s.%s, which recording replaces; it is known to work with 0.19.8" % (owner.__name__, name))
    original = getattr(original, "batchfit_traced", original)

    def call(*args, **kwargs):
        return around(original, *args, **kwargs)
    call.batchfit_traced = original
    setattr(owner, name, call)
    return lambda: setattr(owner, name, original)


def _put_in_order(events):
    """Frees of zero.kept that follow one another, in the order of what they free: a graph lets go of its nodes in one of its own."""
    kept = {e[ID] for e in events if e[0] == "a" and e[OP] == "zero.kept"}
    ordered = []
    for is_kept, run in itertools.groupby(events, lambda e: e[0] == "f" and e[ID] in kept):
        ordered += sorted(run) if is_kept else run
    events[:] = ordered


class TraceScript(ZeroScript):
    """The engine of stage 3 without its parameters, gradients' parts and update."""

    def _stage(self):
        return _SMALL

    def _note(self, tensor, module, tag):
        if tag == "param":
            self.places[id(tensor)] = module
        return self.log.note(tensor, "-", module, tag)

    def _quietly(self, original, *args, **kwargs):
        with self.rec.silent():
            return original(*args, **kwargs)

    def _place(self, what, module):
        self.log.poll()
        # The head that has no weights but the embedding's is that.
        own = [self.places.get(id(p)) for p in module.parameters(recurse=False)]
        name = own[0] if own else self.rec.modules.names.get(id(module))
        self.log.free(self.log.block(1, "zero." + what, name or "root", fixed=True))

    def _unseen(self, params):
        for param in params:
            if not param.numel() or self.log.event_of(param) is not None:
                continue
            if isinstance(param, four_bit.Params4bit):
                self.log.shadow(param, "zero.kept", self.places[id(param)])
            else:
                self.log.ignore(param)

    def _fetch(self, original, coordinator, module, forward):
        self._place("fetch" if forward else "refetch", module)
        others = [param for _, param in module.ds_external_parameters()]
        for param in others:  # its children's, which it looks at itself
            self.log.free(self.log.block(1, "zero.external", self.places[id(param)], fixed=True))
        self._quietly(original, coordinator, module, forward)
        self._unseen(list(module.parameters(recurse=False)) + others)

    def _gather(self, original, init, params, *args, **kwargs):
        self._quietly(original, init, params, *args, **kwargs)
        self._unseen(params)

    def _release(self, original, coordinator, module, forward=False):
        self._place("release" if forward else "rerelease", module)
        self._quietly(original, coordinator, module, forward)

    def _reduce(self, original, optimizer, param):
        del original, optimizer
        self.log.poll()
        self.log.retag(param.grad, "gradient")
        param.grad = None
        self.log.poll()

    def _step_of(self, original, optimizer, closure=None):
        del original, closure
        optimizer._pre_step()
        optimizer._partition_all_parameters()

    def _start(self):
        handle = super()._start()
        self.places = {}  # of each parameter, its module
        coordinator = sys.modules["deepspeed.runtime.zero.partitioned_param_coordinator"].PartitionedParameterCoordinator
        optimizer = sys.modules["deepspeed.runtime.zero.stage3"].DeepSpeedZeroOptimizer_Stage3
        init = sys.modules["deepspeed.runtime.zero.partition_parameters"].Init
        self.undo = [_replace(init, "_all_gather", self._gather),
                     _replace(coordinator, "fetch_sub_module", self._fetch),
                     _replace(coordinator, "release_sub_module", self._release),
                     _replace(coordinator, "reset_step", self._quietly),
                     _replace(coordinator, "release_backward_leftovers", self._quietly),
                     _replace(optimizer, "step", self._step_of),
                     _replace(optimizer, "reduce_ready_partitions_and_remove_grads", self._reduce)]
        return handle

    def clean(self):
        """DeepSpeed is as it was."""
        super().clean()
        _put_in_order(self.log.events)
        for put_back in self.undo:
            put_back()

    def _make_optimizer(self):
        made = optimizers.make(self.knobs, self.model)
        with self.rec, _shadows(self.rec):
            engine = self._quietly(self.deepspeed.initialize, model=self.model, optimizer=made, config=self._config())[0]
        self.job.model = engine
        return engine

    def _optimize(self, step):
        self._mark("optimizer", step)
        self._quietly(self.job.model.step)

