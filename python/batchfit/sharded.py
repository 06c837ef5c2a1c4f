# SPDX-License-Identifier: Apache-2.0
"""One rank of FSDP2 without a GPU: torch's own code, on meta, over a process group of ranks that are not there.

What a GPU would have and meta lacks is put in its place: a device handle that knows which stream is current, so that every
allocation gets its stream; storages that are resized (gathered parameters come and go so, unseen by the dispatcher); and
DTensor's own bookkeeping, whose shadow tensors are no memory, is kept out. The wrapping is accelerate's own
(accelerate/utils/fsdp_utils.py, fsdp2_prepare_model), or torchtune's (training/_distributed.py, shard_model). Rank 0 is recorded:
torch.chunk gives the first ranks the larger parts, so no rank has more. Names of torch that are replaced here are private: one that is missing is an error, never a guess.
"""

import contextlib
import functools
import types

import torch

from .autocast import AUTOCAST
from .cuda_rules import RULES
from .errors import RecordError
from .events import HOST
from .host import Host
from .shard_words import TUNE, TOGETHER, split
from .sources import need

REDUCED = "fsdp.reduce_scatter"


class Stream:
    """What FSDP does with a torch.cuda.Stream; waiting takes no memory."""

    def __init__(self, handle, number):
        self.handle, self.number = handle, number

    def record_event(self, event=None):
        """An event that has happened."""
        return event or Event()

    def wait_event(self, event):
        """Nothing to wait for."""

    wait_stream = wait_event

    def synchronize(self):
        """Nothing runs."""


class Event:
    """torch.cuda.Event."""

    def record(self, stream=None):
        """Nothing runs."""

    wait = synchronize = record

    def query(self):
        """It has happened."""
        return True


class Handle:
    """torch.cuda as FSDP uses it. log: of the recording, told of the current stream."""

    def __init__(self):
        self.log = None
        self._count, self._main = 0, Stream(self, 0)
        self._current = self._main

    def Stream(self, priority=0):  # pylint: disable=invalid-name,unused-argument  - torch's name
        """A new one."""
        self._count += 1
        return Stream(self, self._count)

    def Event(self):  # pylint: disable=invalid-name  - torch's name
        """A new one."""
        return Event()

    def current_stream(self):
        """The one that allocations go to."""
        return self._current

    @staticmethod
    def is_available():
        """There is one."""
        return True

    @staticmethod
    def current_device():
        """Where everything is."""
        return torch.device("meta")

    @contextlib.contextmanager
    def stream(self, stream):
        """Inside, allocations go to it."""
        before = self._current
        self._set(stream)
        try:
            yield
        finally:
            self._set(before)

    def _set(self, stream):
        self._current = stream
        if self.log is not None:
            self.log.stream = stream.number


def _modules():
    from torch.distributed.fsdp import _fully_shard as package  # pylint: disable=import-outside-toplevel
    from torch.distributed.fsdp._fully_shard import (  # pylint: disable=import-outside-toplevel
        _fsdp_collectives, _fsdp_init, _fsdp_param, _fsdp_param_group, _fsdp_state, _fully_shard)
    del package
    return _fsdp_collectives, _fsdp_init, _fsdp_param, _fsdp_param_group, _fsdp_state, _fully_shard


def replace(owner, name, value):
    if not hasattr(owner, name):
        raise RecordError("torch %s has no %s.%s, which recording FSDP replaces; it is known to work with torch 2.13"
                          % (torch.__version__, getattr(owner, "__name__", owner), name))
    original = getattr(owner, name)
    setattr(owner, name, value(original))


class Shape:
    """How the parameters of one buffer are cut: each * ranks? * the sum of ceil(rows / ranks) * rest."""

    def __init__(self, each, times_ranks, parts):
        self.each, self.times_ranks, self.parts = each, times_ranks, tuple(parts)

    def scaled(self, nbytes, of):
        """Of a copy of so many bytes of what has `of`."""
        return Shape(self.each * nbytes // of, self.times_ranks, self.parts)


class Flat:
    """A size made of an FSDP1 unit's parameters, which are one, one behind the other: each * their elements; in_parts:
    each * ceil(elements / ranks); padded: each * ranks * that; if_odd: and nothing where the ranks divide the elements."""

    def __init__(self, each, shapes, in_parts=False, padded=False, if_odd=False):
        self.each, self.shapes = each, tuple(tuple(s) for s in shapes)
        self.in_parts, self.padded, self.if_odd = in_parts, padded, if_odd

    def scaled(self, nbytes, of):
        """Of a copy of so many bytes of what has `of`."""
        return Flat(self.each * nbytes // of, self.shapes, self.in_parts, self.padded, self.if_odd)


def own_name(path):
    """A module's path without the wrappers of FSDP1."""
    return ".".join(word for word in path.split(".") if word != "_fsdp_wrapped_module")


def _part(param):
    size = param._orig_size
    return size[0], size[1:].numel()


def part_of(tensor):
    """(rows, rest) of what ranks share of a parameter: all of it, or this GPU's columns or rows of a layer that is split."""
    size = list(tensor.shape)
    mesh = getattr(tensor, "device_mesh", None)
    for name, placement in zip(mesh.mesh_dim_names or () if mesh is not None else (), getattr(tensor, "placements", ())):
        if name == "tp" and not placement.is_replicate():
            size[placement.dim] = -(-size[placement.dim] // mesh.size(mesh.mesh_dim_names.index(name)))
    rows, rest = size[0], 1
    for n in size[1:]:
        rest *= n
    return rows, rest


def _wrapped(rec, args, _):
    """The real one puts a wrapper around the same tensor, meta's makes another one (2.13). Outside of layers that are split only
    sums of a few bytes pass here; shipped templates of those have meta's."""
    return torch.ops.aten.alias(args[0]) if rec.is_titan else torch.empty_like(args[0])


class Sharding:
    """What the replaced names of torch know of the recording that runs."""

    def __init__(self):
        self.handle, self.rec, self.ranks, self.installed, self.what = None, None, 0, False, None
        self.host = None  # of offload: who knows what is there

    # -- sizes --------------------------------------------------------------------

    @contextlib.contextmanager
    def _new(self, what, describe):
        """Inside, what is allocated is `what`, and each of it is given to `describe` that nobody has described."""
        log = self.rec.log
        first, self.what = len(log.events), what
        try:
            yield
        finally:
            self.what = None
            for event in log.events[first:]:
                if event[0] == "a" and event[1] not in log.shards:
                    describe(event)

    def _total(self, parts):
        return sum(-(-rows // self.ranks) * rest for rows, rest in parts)

    def describe(self, event, parts, total=None):
        """Write down what the event's bytes are made of, if it is these parts; total: their elements on a rank."""
        total = total or self._total(parts)
        each, more = divmod(event[2], total) if total else (0, 1)
        if more:
            return
        for times_ranks in (False, True):
            size, odd = divmod(each, self.ranks if times_ranks else 1)
            if not odd and size in (1, 2, 4, 8):
                self.rec.log.shards[event[1]] = Shape(size, times_ranks, parts)
                return

    def named(self, what, params):
        """Inside, what is allocated is `what` of these parameters: of all, which is how frozen weights are gathered; of those that
        are cast, which is done into a buffer first; with offload of each."""
        of_each = [(_part(p), getattr(p, "param_dtype", None)) for p in params]
        some = [[part for part, _ in of_each], [part for part, is_cast in of_each if is_cast]]
        if self.host is not None:
            some += [[part] for part in dict.fromkeys(part for part, _ in of_each)]
        totals = [(parts, self._total(parts)) for parts in some]

        def describe(event):
            for parts, total in totals if event[4].startswith("fsdp.") or event[3] in HOST else ():
                if event[1] not in self.rec.log.shards:
                    self.describe(event, parts, total)
        return self._new(what, describe)

    def describe_flat(self, event, flat, if_odd=False):
        """The same, if it is made of an FSDP1 unit's parameter."""
        shapes = flat._shapes
        elements = sum(shape.numel() for shape in shapes)
        part = -(-elements // self.ranks)
        for unit, how in ((part, dict(in_parts=True)), (part * self.ranks, dict(in_parts=True, padded=True, if_odd=if_odd)),
                          (elements, {})):
            each, more = divmod(event[2], unit)
            if not more and each in (1, 2, 4, 8):
                self.rec.log.shards[event[1]] = Flat(each, shapes, **how)
                return

    def of_flat(self, what, flat):
        """Inside, what is allocated is `what` of an FSDP1 unit's parameter; gradients are padded where they must be."""
        return self._new(what, lambda event: self.describe_flat(event, flat, if_odd=what == REDUCED))

    def place(self, tensor):
        """"pinned" or "host" where the tensor is the host's."""
        return self.host.kind(tensor) if self.rec is not None and self.host is not None else None

    def weight(self, event, tensor):
        """The event is of a parameter's shard, or of a state that has its shape."""
        if hasattr(tensor, "_shapes"):
            self.describe_flat(event, tensor)
        else:
            self.describe(event, [part_of(tensor)])

    def optimizer_states(self, optimizer):
        """States have the shape of the shard that they belong to."""
        for group in optimizer.param_groups:
            for p in group["params"]:
                for state in optimizer.state.get(p, {}).values():
                    event = self.rec.log.event_of(local(state)) if isinstance(state, torch.Tensor) else None
                    if event is not None and state.dim() and event[1] not in self.rec.log.shards:
                        self.weight(event, p)

    # -- the replaced names -------------------------------------------------------

    def _around(self, what, params_of):
        def replaced(original):
            def call(*args, **kwargs):
                if self.rec is None:
                    return original(*args, **kwargs)
                with self.named(what, params_of(args)):
                    return original(*args, **kwargs)
            return call
        return replaced

    def _quiet(self, original):
        def call(*args, **kwargs):
            if self.rec is None:
                return original(*args, **kwargs)
            with self.rec.silent():
                return original(*args, **kwargs)
        return call

    def _offloaded(self, original):
        """What is on meta is taken for what has data where it goes to the host."""
        as_filled = Host.as_filled(original)

        @functools.wraps(original)
        def call(*args, **kwargs):
            return (original if self.host is None else as_filled)(*args, **kwargs)
        return call

    def _stream(self, original):
        def current_stream(*args, **kwargs):
            return original(*args, **kwargs) if self.rec is None else self.handle.current_stream()
        return current_stream

    def _resize(self, original):
        def resize_(storage, size):
            before = storage.nbytes()
            done = original(storage, size)
            if self.rec is not None and before != storage.nbytes():
                self.rec.resized(storage, self.what or "resize_")
            return done
        return resize_

    def install(self):
        """Once a process."""
        if self.installed:
            return
        import torch.distributed._tools.fake_collectives  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
        from torch.distributed.tensor._sharding_prop import ShardingPropagator  # pylint: disable=import-outside-toplevel
        collectives, init, param, group, state, shard = _modules()
        for module in (collectives, init, group, state):
            replace(module, "_get_device_handle", lambda original: lambda kind: self.handle)
        replace(shard, "_get_device_from_mesh", lambda original: lambda mesh: torch.device("meta"))
        replace(group.FSDPParamGroup, "_validate_no_meta_params", lambda original: lambda self: None)
        replace(group, "foreach_all_gather", self._around("fsdp.all_gather", lambda args: args[0]))
        replace(group, "foreach_reduce", self._around(REDUCED, lambda args: args[0]))
        for name in ("init_all_gather_outputs", "alloc_all_gather_outputs"):
            replace(param.FSDPParam, name, self._around("fsdp.gathered", lambda args: args[:1]))
        for name in ("_propagate_tensor_meta_non_cached", "propagate_op_sharding_non_cached"):
            replace(ShardingPropagator, name, self._quiet)
        for name in ("_init_sharded_param", "reset_sharded_param"):
            replace(param.FSDPParam, name, self._offloaded)
        replace(torch.UntypedStorage, "resize_", self._resize)
        replace(torch.accelerator, "current_stream", self._stream)  # of what was gathered and not used
        wrap = getattr(torch.ops._c10d_functional, "_wrap_tensor_autograd", None)
        if wrap is not None:
            RULES[wrap.default] = _wrapped
        self.installed = True

    # -- a recording --------------------------------------------------------------

    def start(self, ranks, tp=1, offload=False):
        """A group of so many ranks, each of so many GPUs that split the layers; this process is the first. offload: what is
        made of the model from now on is kept on the host."""
        from torch import distributed  # pylint: disable=import-outside-toplevel
        from torch.testing._internal.distributed.fake_pg import FakeStore  # pylint: disable=import-outside-toplevel
        self.install()
        if distributed.is_initialized():
            distributed.destroy_process_group()
        distributed.init_process_group("fake", rank=0, world_size=ranks * tp, store=FakeStore())
        self.handle, self.ranks, self.host = Handle(), ranks, Host() if offload else None

    def answering(self):
        """Inside, torch is told what the host keeps."""
        return self.host.answering() if self.host is not None else contextlib.nullcontext()

    @contextlib.contextmanager
    def recording(self, rec):
        """Inside, rec sees what FSDP does."""
        self.rec, self.handle.log = rec, rec.log
        rec.log.ranks = self.ranks
        if self.host is not None:
            self.host.rec = rec
        try:
            with self.answering():
                yield
        finally:
            self.rec = self.handle.log = None


SHARDING = Sharding()


def _plugin(knobs, accelerate):
    plugin = accelerate.FullyShardedDataParallelPlugin(
        fsdp_version=2, reshard_after_forward=True, cpu_offload=split(knobs.shard)[1], auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False)
    if knobs.autocast_dtype:
        plugin.set_mixed_precision({"bfloat16": "bf16", "float16": "fp16"}[knobs.autocast_dtype])
    return plugin


def _mesh(ranks, tp=None, offload=False):
    from torch.distributed.device_mesh import init_device_mesh  # pylint: disable=import-outside-toplevel
    SHARDING.start(ranks, tp or 1, offload)
    if tp:
        return init_device_mesh("cpu", (ranks, tp), mesh_dim_names=("fsdp", "tp"))
    return init_device_mesh("cpu", (ranks,), mesh_dim_names=("fsdp",))


def apply(job, knobs):
    """The job's model as its script shards it, torchtitan or whoever uses accelerate; (model, library or None)."""
    if knobs.script_defaults == "torchtitan":
        from .sources import titan_models  # pylint: disable=import-outside-toplevel
        mesh = _mesh(knobs.ranks, knobs.tp)
        if knobs.tp:
            titan_models.parallelize(job.model, mesh["tp"])
            titan_models.checkpoint(job.model, knobs)
            mesh = mesh["fsdp"]
        return titan_models.shard(job.model, mesh), None
    if knobs.shard == TUNE:
        return _by_torchtune(job.model, _mesh(knobs.ranks)), None
    return _by_accelerate(job.model, knobs)


def autocast_forward(model, knobs, device="cuda"):
    """Mixed precision as Accelerator.prepare_model puts it into the model's own forward, before it is sharded. A loop of
    one's own (plain) has autocast around the forward, and the outputs as they are."""
    if knobs.autocast_dtype and knobs.script_defaults != "plain":
        from accelerate.utils import convert_outputs_to_fp32  # pylint: disable=import-outside-toplevel
        if device == "cuda":
            AUTOCAST.install()  # on a CPU build torch.autocast switches itself off where it is made
        autocast = torch.autocast(device, getattr(torch, knobs.autocast_dtype))
        model.forward = types.MethodType(convert_outputs_to_fp32(autocast(model.forward.__func__)), model)


def _by_groups(model, is_layer, rest_stays=False, **how):
    """Each layer a group, and what is outside of them one, which may stay gathered from forward to backward. is_layer: of a name and a module."""
    from torch.distributed.fsdp import fully_shard  # pylint: disable=import-outside-toplevel
    how = {"reshard_after_forward": True, **how}
    for name, module in reversed(list(model.named_modules())):
        if is_layer(name, module):
            fully_shard(module, **how)
    return fully_shard(model, **{**how, "reshard_after_forward": not rest_stays and how["reshard_after_forward"]})


def _by_torchtune(model, mesh):
    """Adapters are in their layers' groups."""
    return _by_groups(model, lambda name, module: name.split(".")[-2:-1] == ["layers"], rest_stays=True, mesh=mesh)


def _by_accelerate(model, knobs):
    mesh = _mesh(knobs.ranks, offload=split(knobs.shard)[1])
    with SHARDING.answering():
        return wrap(model, knobs, mesh, torch.device("meta"))


def wrap(model, knobs, mesh, device):
    """The model as accelerate prepares it for FSDP2 on a device; (model, library). An adapter is in its layers' groups: peft's policy
    for what is trained is FSDP1's, transformers.Trainer gives it to that alone (_prepare_for_training)."""
    accelerate = need("accelerate", "accelerate")
    from accelerate.utils.fsdp_utils import fsdp2_prepare_model  # pylint: disable=import-outside-toplevel
    autocast_forward(model, knobs, "cuda" if device.type == "meta" else device.type)
    library, plugin = "accelerate " + accelerate.__version__, _plugin(knobs, accelerate)
    if knobs.shard == TOGETHER:
        return _together(model, plugin, mesh), library
    accelerator = types.SimpleNamespace(
        state=types.SimpleNamespace(fsdp_plugin=plugin), torch_device_mesh=mesh, is_main_process=False,
        parallelism_config=types.SimpleNamespace(fsdp_dim_names=("fsdp",)), device=device,
        mixed_precision="bf16" if knobs.autocast_dtype else "no")
    return fsdp2_prepare_model(accelerator, model), library


def _together(model, plugin, mesh):
    """As accelerate up to 1.13, and Axolotl in its place, prepares it: what is outside of the layers is one group, gathered and let go of
    as theirs are, and shards have the type that the weights were loaded in."""
    from accelerate.utils.fsdp_utils import fsdp2_prepare_auto_wrap_policy  # pylint: disable=import-outside-toplevel
    from torch.distributed.fsdp import MixedPrecisionPolicy  # pylint: disable=import-outside-toplevel
    plugin.set_auto_wrap_policy(model)
    is_layer = fsdp2_prepare_auto_wrap_policy(plugin, model)
    return _by_groups(model, lambda name, module: is_layer(module), mesh=mesh, reshard_after_forward=plugin.reshard_after_forward,
                      mp_policy=plugin.mixed_precision_policy or MixedPrecisionPolicy())


def local(tensor):
    """What of it this rank holds."""
    return getattr(tensor, "_local_tensor", tensor)
