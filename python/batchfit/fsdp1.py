# SPDX-License-Identifier: Apache-2.0
"""One rank of torch's FullyShardedDataParallel (FSDP1) without a GPU: its own code, on meta, as accelerate applies it.

What sharded.py puts in place for FSDP2 serves here, too: the group of ranks that are not there, the device handle, storages
that are resized. FSDP1 gives blocks back that another stream still uses (record_stream). They are freed here where it lets
go of them: so torch counts what is allocated, and so the allocator has them when it is short, as it then waits for all streams
(CUDACachingAllocator.cpp, free and release_cached_blocks). What it holds while it is not short may be more, by the two units
that limit_all_gathers lets the host be ahead.
"""

import functools

import torch

from .shard_words import split
from .sharded import REDUCED, SHARDING, autocast_forward, replace
from .sources import need


def _described(what, handle_of):
    """The replaced function's allocations are `what`, and made of the parameters of a handle."""
    def replaced(original):
        @functools.wraps(original)
        def call(*args):
            if SHARDING.rec is None:
                return original(*args)
            with SHARDING.of_flat(what, handle_of(args).flat_param):
                return original(*args)
        return call
    return replaced


class _Gradients:
    """Between one unit's backward and the next: its gradients are put one behind the other outside of FSDP's own code."""

    def __init__(self):
        self.log, self.seen = None, 0

    def after_backward(self, original):
        """Replaces _post_backward_hook."""
        def hook(state, handle, *args):
            if SHARDING.rec is not None:
                log = SHARDING.rec.log
                for event in log.events[self.seen if log is self.log else 0:]:
                    if event[0] == "a" and event[4] == "cat":
                        SHARDING.weight(event, handle.flat_param)
                self.log, self.seen = log, len(log.events)
            return original(state, handle, *args)
        return hook


def _keep(original):
    def record_stream(tensor, stream):
        if SHARDING.rec is None:
            original(tensor, stream)
    return record_stream


INSTALLED = []


def _install():
    """Once a process; RecordError: this torch has other private names."""
    if INSTALLED:
        return
    SHARDING.install()
    from torch.distributed.fsdp import _common_utils, _flat_param, _init_utils, _runtime_utils  # pylint: disable=import-outside-toplevel
    replace(_common_utils._FSDPDeviceHandle, "from_device",
            lambda original: lambda device: SHARDING.handle if device.type == "meta" else original(device))
    replace(_init_utils, "_need_to_materialize_module", lambda original: lambda *args: (False, False))
    for module in (_runtime_utils, _flat_param):
        replace(module, "_no_dispatch_record_stream", _keep)
    replace(_runtime_utils, "_post_backward_hook", _Gradients().after_backward)
    replace(_runtime_utils, "_reduce_grad", _described(REDUCED, lambda args: args[1]))
    for name, what in (("init_flat_param_attributes", "fsdp.first"), ("_use_low_precision_shard", "fsdp.cast"),
                       ("_alloc_padded_unsharded_flat_param", "fsdp.gathered")):
        replace(_flat_param.FlatParamHandle, name, _described(what, lambda args: args[0]))
    INSTALLED.append(True)


def _policy(model, knobs):
    """What is a unit of its own: by the model's own word its layers; with an adapter, also one that a source's own program put on, the
    adapter's matrices, too (transformers.Trainer, _fsdp_qlora_plugin_updates)."""
    if knobs.adapter or hasattr(model, "peft_config"):
        from peft.utils.other import fsdp_auto_wrap_policy  # pylint: disable=import-outside-toplevel
        return fsdp_auto_wrap_policy(model)
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy  # pylint: disable=import-outside-toplevel
    names = model._no_split_modules or ()
    return functools.partial(transformer_auto_wrap_policy,
                             transformer_layer_cls={type(m) for m in model.modules() if type(m).__name__ in names})


def _recompute_units(model):
    """Each layer is recomputed with its unit around it, reentrantly, as transformers did it to 4.51 unless it was told otherwise; from
    4.52 on a layer does so itself, inside of its unit. FSDP1 keeps a hook for each unit that is not trained until backward is over
    (torch, _register_post_backward_reshard_only_hook), and with it the input that a unit was recomputed from, and its gradient."""
    from torch.distributed.fsdp import FullyShardedDataParallel  # pylint: disable=import-outside-toplevel
    for unit in model.modules():
        inner = getattr(unit, "_fsdp_wrapped_module", None)
        if isinstance(unit, FullyShardedDataParallel) and getattr(inner, "gradient_checkpointing", False) and hasattr(inner, "_gradient_checkpointing_func"):
            inner.gradient_checkpointing = False
            unit.forward = functools.partial(_recomputed, unit.forward)


def _recomputed(forward, *args, **kwargs):
    from torch.utils.checkpoint import checkpoint  # pylint: disable=import-outside-toplevel
    return checkpoint(functools.partial(forward, **kwargs), *args, use_reentrant=True)


def wrap(model, knobs, device):
    """The model as accelerate prepares it for FSDP1 on a device (Accelerator.prepare_model; FullyShardedDataParallelPlugin says
    no to use_orig_params unless it is told), which is as a loop of one's own has it by FSDP1's defaults; (model, library or None)."""
    library = None if knobs.script_defaults == "plain" else "accelerate " + need("accelerate", "accelerate").__version__
    from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy  # pylint: disable=import-outside-toplevel
    autocast_forward(model, knobs, "cuda" if device.type == "meta" else device.type)
    mixed = None
    if knobs.autocast_dtype:
        dtype = getattr(torch, knobs.autocast_dtype)
        mixed = MixedPrecision(param_dtype=dtype, reduce_dtype=dtype, buffer_dtype=dtype)
        for param in model.parameters():  # what is trained is kept in full precision, whatever it was loaded as
            if param.requires_grad:
                param.data = param.data.float()
    model = FullyShardedDataParallel(
        model, sharding_strategy=ShardingStrategy.FULL_SHARD, auto_wrap_policy=_policy(model, knobs), mixed_precision=mixed,
        cpu_offload=CPUOffload(offload_params=split(knobs.shard)[1]), backward_prefetch=BackwardPrefetch.BACKWARD_PRE, limit_all_gathers=True, device_id=device)
    return model, library


def apply(model, knobs):
    """The model as the first of so many ranks has it; (model, library)."""
    _install()
    SHARDING.start(knobs.ranks, offload=split(knobs.shard)[1])
    with SHARDING.answering():
        model, library = wrap(model, knobs, torch.device("meta"))
    if knobs.checkpointing and knobs.adapter and knobs.shard == "fsdp1":
        _recompute_units(model)
    return model, library
