# SPDX-License-Identifier: Apache-2.0
"""One rank of DeepSpeed's ZeRO without a GPU: its own engine, on meta, over a process group of ranks that are not there.

DeepSpeed asks an accelerator for everything that depends on the device. The one here says that the device is meta and knows
which stream is current; collectives are torch's fake ones, and what decides something (whether a gradient is finite) is as in a
training that goes well. The configuration is what transformers fills in for "auto". Rank 0 is recorded. A free that waits for
another stream (record_stream, stage 3) is counted as made at once. Known to work with DeepSpeed 0.19.8.
"""

import contextlib
import logging
import os
import sys

import torch

from . import optimizers
from .errors import RecordError, UsageError
from .events import storage_of
from .script import Script
from .shard_words import MOST_RANKS
from .sharded import Event, Handle
from .sources import need

WHOLE = "zero0"  # the model as the engine casts it, on one GPU: what templates of stages 1 and 2 are made of
TRACE = "zero3:trace"  # and with ":reentrant": the model under the engine of stage 3, its parameters aside, for templates of stage 3
BUCKET = 500000000  # reduce_bucket_size where nobody says it

# Stage 3: the word behind a colon, the key, what it is where nobody says it (0.19.8), and what transformers makes of "auto".
STAGE3 = {
    "prefetch": ("stage3_prefetch_bucket_size", 50000000, lambda hidden: int(0.9 * hidden * hidden)),
    "persist": ("stage3_param_persistence_threshold", 100000, lambda hidden: 10 * hidden),
    "live": ("stage3_max_live_parameters", 1000000000, None),
    "reuse": ("stage3_max_reuse_distance", 1000000000, None),
    "group": ("sub_group_size", 1000000000, None),
}
# What is kept on the host: the word, whose it is in DeepSpeed's file; from which stage on.
OFFLOAD = {"optimizer": ("offload_optimizer", 1), "param": ("offload_param", 3)}
_FLAGS = ("overlap", "paged", "reentrant")  # overlap_comm; pin_memory off; use_reentrant where layers are recomputed


def is_zero(shard):
    """Is it this module's to record?"""
    return bool(shard) and shard.startswith("zero")


def is_trace(shard):
    """Are parameters left out?"""
    return bool(shard) and shard.startswith(TRACE)


def is_reentrant(shard):
    """Are layers recomputed reentrantly?"""
    return is_zero(shard) and "reentrant" in shard.split(":")


def stage(shard):
    """1 to 3; 0: the whole model, or no ZeRO."""
    if is_trace(shard):
        return 3
    return parse(shard)[0] if is_zero(shard) else 0


def parse(shard):
    """'zero2:auto:overlap' -> (2, None, True, {}); None: a bucket of the hidden size's square. Of stage 3 with what else is said."""
    word, *more = shard.split(":")
    bucket = more.pop(0) if more and "=" not in more[0] and more[0] not in _FLAGS else ""
    said = dict(text.partition("=")[::2] for text in more)
    is_known = word[4:] in ("0", "1", "2", "3") and all(_is_known(int(word[4:]), k, v) for k, v in said.items())
    overlap = said.pop("overlap", None) is not None
    if not is_known or not (bucket in ("", "auto") or bucket.isdigit() and int(bucket) > 0):
        raise UsageError("--shard %s: write zero1, zero2 or zero3, zero2:BUCKET or zero2:BUCKET:overlap, perhaps :optimizer=cpu behind, and of "
                         "zero3 :param=cpu, %s" % (shard, ", ".join(":%s=N" % k for k in STAGE3)))
    return int(word[4:]), None if bucket == "auto" else int(bucket or BUCKET), overlap, said


def _is_known(level, word, value):
    if word in OFFLOAD:
        return level >= OFFLOAD[word][1] and value == "cpu"
    if word in _FLAGS:
        return not value
    return level == 3 and word in STAGE3 and bool(value.isdigit() or value == "auto" and STAGE3[word][2])


def offload_config(said):
    """What a DeepSpeed file says of the host."""
    return {key: dict(device="cpu", pin_memory="paged" not in said) for word, (key, _) in OFFLOAD.items() if word in said}


def stage3_config(shard, hidden):
    """What a DeepSpeed file says of stage 3, of a shard that does."""
    _, bucket, _, said = parse(shard)
    config = {}
    for word, (key, usual, auto) in STAGE3.items():
        value = said.get(word, "auto" if bucket is None and auto else usual)
        config[key] = auto(hidden) if value == "auto" else int(value)
    return config


def check(knobs, kind):
    """Raises UsageError for what cannot be recorded."""
    if knobs.shard not in (TRACE, TRACE + ":reentrant"):
        parse(knobs.shard)
    if kind != "hf":
        raise UsageError("--shard %s: models of transformers are recorded (hf:NAME)" % knobs.shard)
    if knobs.shard != WHOLE and not is_trace(knobs.shard) and (not knobs.ranks or not 1 <= knobs.ranks <= MOST_RANKS):
        raise UsageError("--shard %s needs --ranks 1 to %d" % (knobs.shard, MOST_RANKS))
    if knobs.rank is not None and not (stage(knobs.shard) in (1, 2) and 0 <= knobs.rank < knobs.ranks):
        raise UsageError("--rank %d: of --shard zero1 or zero2, from 0 to one below --ranks" % knobs.rank)
    if knobs.mode != "train" or knobs.ema or knobs.precision not in ("amp-bf16", "bf16"):
        raise UsageError("--shard %s: training in bf16, without a model average, is recorded" % knobs.shard)
    if knobs.quant and knobs.quant not in ("nf4", "nf4-dq"):
        raise UsageError("--shard %s: of weights in four bits nf4 and nf4-dq are recorded" % knobs.shard)
    if not (knobs.fused_optimizer and knobs.optimizer in ("sgd", "adam", "adamw")):
        raise UsageError("--shard %s: sgd, adam and adamw with --fused-optimizer are recorded" % knobs.shard)


def apply(job, knobs):
    """The job's model as DeepSpeed's engine casts it before it moves it to the GPU; the library or None."""
    job.model = job.model.bfloat16()
    if knobs.shard == WHOLE:
        return None
    job.is_used_up = True  # the engine changes it
    return "deepspeed " + need("deepspeed", "deepspeed").__version__


def _accelerator(handle, log, host):
    """The accelerator that DeepSpeed is told to use."""
    from deepspeed.accelerator.cpu_accelerator import CPU_Accelerator  # pylint: disable=import-outside-toplevel

    class Meta(CPU_Accelerator):
        """A device that has streams and memory."""

        def device_name(self, device_index=None):
            return "meta"

        current_device_name = device_name
        Stream = property(lambda self: handle.Stream)
        Event = property(lambda self: Event)

        def is_synchronized_device(self):
            return False

        def use_host_timers(self):
            return True

        def stream(self, stream):
            return handle.stream(stream) if stream is not None else contextlib.nullcontext()

        def current_stream(self, device_index=None):
            return handle.current_stream()

        default_stream = current_stream

        def available_memory(self, device_index=None):
            return 1 << 60

        def on_accelerator(self, tensor):
            return tensor.device.type == "meta"

        def pin_memory(self, tensor, make_copy=True, match_shape=True):
            return host.pin(tensor)

        def is_pinned(self, tensor):
            return host.holds(tensor)

        def empty_cache(self):
            log.poll()
            log.events.append(("e",))

        def memory_allocated(self, device_index=None):
            return 0

        max_memory_allocated = memory_cached = max_memory_cached = memory_allocated
    return Meta()


def _finite(owner, name):
    """What it computes is computed, and is well."""
    original = getattr(owner, name, None)
    if original is None:
        raise RecordError("deepspeed has no %s.%s, which recording replaces; it is known to work with 0.19.8"
                          % (getattr(owner, "__name__", owner), name))
    if not hasattr(original, "batchfit"):
        def call(*args, **kwargs):
            original(*args, **kwargs)
            return False
        call.batchfit = True
        setattr(owner, name, call)


def _flatten(cls, rec):
    """Weights are flattened where there is room for a second copy of them, else on the host: the latter is recorded, because
    what a training needs does not depend on the former."""
    original = cls.flatten_dense_tensors_aligned
    original = getattr(original, "batchfit", original)

    def flatten(self, tensors, *args, **kwargs):
        with rec.silent():
            flat = original(self, tensors, *args, **kwargs)
        for p in tensors:
            if isinstance(p, torch.nn.Parameter):
                p.data = torch.empty(0, dtype=p.dtype, device=p.device)
        rec.log.poll()
        rec.log.events.append(("e",))
        rec.log.note(flat, "flatten", "-", "param")
        return flat
    flatten.batchfit = original
    cls.flatten_dense_tensors_aligned = flatten


def _defragment(tensors):
    """deepspeed.runtime.zero.utils.defragment, which brings the parts together on the host: there is nothing to copy here."""
    total, of = sum(t.numel() for t in tensors), tensors[0]
    for t in tensors:
        t.batchfit_numel = t.numel()
        t.data = torch.empty(0, dtype=t.dtype, device=t.device)
    sys.modules["deepspeed.accelerator"].get_accelerator().empty_cache()
    whole, at = torch.empty(total, dtype=of.dtype, device=of.device), 0
    for t in tensors:
        t.data = whole.narrow(0, at, t.batchfit_numel)
        at += t.batchfit_numel
    return whole


@contextlib.contextmanager
def _shadows(rec):
    """Inside, what DeepSpeed itself makes on meta, for the shapes alone, is no memory."""
    original = torch.zeros_like

    def zeros_like(*args, **kwargs):
        before, rec.quiet = rec.quiet, rec.quiet or kwargs.get("device") == "meta"
        try:
            return original(*args, **kwargs)
        finally:
            rec.quiet = before
    torch.zeros_like = zeros_like
    try:
        yield
    finally:
        torch.zeros_like = original


class _Ordered(dict):
    """A set that goes through its members in the order in which they came: those of parameters go by addresses."""

    def __init__(self, items=()):
        super().__init__(dict.fromkeys(items))

    def add(self, item):
        """As of a set."""
        self[item] = None

    def discard(self, item):
        """As of a set."""
        self.pop(item, None)

    def update(self, items):
        """As of a set."""
        super().update(dict.fromkeys(items))


def _convert(cls, script):
    """Stage 3: parameters come to the GPU one after the other, each partitioned before the next one comes."""
    original = cls._zero_init_param
    original = getattr(original, "batchfit", original)

    def convert(self, param):
        if id(param) in script.elsewhere:
            script.log.poll()
            script.log.resized(storage_of(param), "-", script.elsewhere.pop(id(param)))
            script.log.retag(param, "param")
        return original(self, param)
    convert.batchfit = original
    cls._zero_init_param = convert


def _start(rank, ranks, rec, host):
    """(deepspeed, handle): a group of so many ranks, of which this process is one."""
    import torch.distributed._tools.fake_collectives  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    from torch import distributed  # pylint: disable=import-outside-toplevel
    from torch.testing._internal.distributed.fake_pg import FakeStore  # pylint: disable=import-outside-toplevel
    os.environ.update(DS_ACCELERATOR="cpu", RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), LOCAL_SIZE=str(ranks))
    if distributed.is_initialized() and distributed.get_world_size() != ranks:
        raise RecordError("DeepSpeed has one number of ranks a process")  # it remembers its groups
    if not distributed.is_initialized():
        distributed.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    deepspeed = need("deepspeed", "deepspeed")
    from deepspeed.accelerator import set_accelerator  # pylint: disable=import-outside-toplevel
    from deepspeed.runtime.zero import linear, stage3, stage_1_and_2  # pylint: disable=import-outside-toplevel
    deepspeed.utils.logger.setLevel(logging.ERROR)
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # it would compile C++
    for module, name in ((stage_1_and_2, "DeepSpeedZeroOptimizer"), (stage3, "DeepSpeedZeroOptimizer_Stage3")):
        _finite(getattr(module, name), "has_overflow")
        _finite(module, "is_invalid_grad_norm")
    stage3.defragment = _defragment
    for name in ("parameter_offload", "partitioned_param_coordinator"):
        sys.modules["deepspeed.runtime.zero." + name].set = _Ordered
    for name, module in list(sys.modules.items()):
        if name.startswith("deepspeed.runtime.zero.") and hasattr(module, "assert_ints_same_as_other_ranks"):
            module.assert_ints_same_as_other_ranks = lambda numbers: None  # there are no others
    linear._is_autocast_enabled = lambda kind: False
    linear._get_autocast_dtype = lambda kind: torch.bfloat16
    _flatten(stage_1_and_2.DeepSpeedZeroOptimizer, rec)
    handle = Handle()
    set_accelerator(_accelerator(handle, rec.log, host))
    return deepspeed, handle


class ZeroScript(Script):
    """transformers' Trainer with DeepSpeed: the engine runs the model, the backward pass and the update."""

    def _stage(self):
        hidden = self.job.hidden
        level, bucket, overlaps, said = parse(self.knobs.shard)
        zero = dict(stage=level, overlap_comm=overlaps, contiguous_gradients=True, reduce_bucket_size=bucket or hidden * hidden,
                    **offload_config(said))
        return dict(zero, **stage3_config(self.knobs.shard, hidden)) if level == 3 else zero

    def _config(self):
        knobs = self.knobs
        return dict(train_micro_batch_size_per_gpu=self.batch, gradient_accumulation_steps=knobs.accumulation,
                    gradient_clipping=knobs.clip_grad, bf16=dict(enabled=True), zero_optimization=self._stage(),
                    zero_allow_untested_optimizer=True, zero_force_ds_cpu_optimizer=False)

    def _start(self):
        from .zero_host import Host  # pylint: disable=import-outside-toplevel  - not of torch 1.x
        self.host = Host()
        self.deepspeed, handle = _start(self.knobs.rank or 0, self.knobs.ranks or 2, self.rec, self.host)
        self.elsewhere = {}  # parameters that are on the host, and of which module they are
        _convert(sys.modules["deepspeed.runtime.zero.partition_parameters"].Init, self)
        return handle

    def _note(self, tensor, module, tag):
        # Where weights are in four bits, transformers makes no zero.Init around them: all are on the GPU before the first is partitioned.
        if tag != "param" or stage(self.knobs.shard) < 3 or self.knobs.quant:
            return super()._note(tensor, module, tag)
        self.elsewhere[id(tensor)] = module
        return self.log.ignore(tensor)

    def _make_optimizer(self):
        made = optimizers.make(self.knobs, self.model)
        with self.rec, self.host, _shadows(self.rec):
            engine = self.deepspeed.initialize(model=self.model, optimizer=made, config=self._config())[0]
        self.job.model = engine
        for tag, tensors in (("param", getattr(engine.optimizer, "bit16_groups_flat", ())),
                             ("optimizer", getattr(engine.optimizer, "single_partition_of_fp32_groups", ()))):
            for tensor in tensors:
                self.log.retag(tensor, tag)
        return engine

    def run(self):
        """The whole recording."""
        self.model = self.job.model
        handle = self._start()
        handle.log = self.log
        original = torch.Tensor.record_stream
        torch.Tensor.record_stream = lambda tensor, stream: None
        try:
            self._run()
        finally:
            torch.Tensor.record_stream = original
            handle.log = None

    def _step(self, step):
        with self.host:
            super()._step(step)
        self.job.header.update(self.host.memory.facts())

    def _backward(self, step, micro):
        loss, self.loss = self.loss, None
        self._mark("backward", step, micro)
        self.job.model.backward(loss)
        del loss
        if micro + 1 < self.knobs.accumulation:
            self.job.model.step()  # it counts the micro-steps

    def _optimize(self, step):
        self._mark("optimizer", step)
        self.job.model.step()
        for states in self.job.model.optimizer.optimizer.state.values():
            for state in states.values():
                if isinstance(state, torch.Tensor):
                    self.log.retag(state, "optimizer")

    def _zero(self, step):
        self._mark("zero_grad", step)

    def clean(self):
        """The engine's model is of no further use."""
        super().clean()
        self.job.model = self.model
        # Stage 3 puts a linear function of its own in torch's place, for good.
        init = sys.modules["deepspeed.runtime.zero.partition_parameters"].InsertPostInitMethodToModuleSubClasses
        torch.nn.functional.linear = getattr(init, "linear_bk", torch.nn.functional.linear)
