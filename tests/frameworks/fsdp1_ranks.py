# SPDX-License-Identifier: Apache-2.0
"""A training step of torch's own FSDP1 or FSDP2 on the CPU, one process a rank over gloo: what the first rank gathers, in order
(FSDP1), the elements of its weights and of its gradients, and what it has page-locked, in order, as JSON. There is nothing to
lock here: pin_memory makes a copy, as it does where there is a GPU.

  python fsdp1_ranks.py CONFIG RANKS SHARD [ADAPTER]
"""

import json
import os
import sys
import tempfile
import types

import torch
from torch import distributed, multiprocessing

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "python"))

from batchfit import adapters, fsdp1, shard_words, sharded  # noqa: E402


def _model(config, adapter):
    from transformers import AutoConfig, AutoModelForCausalLM  # pylint: disable=import-outside-toplevel
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config)).bfloat16()
    return adapters.apply(model, types.SimpleNamespace(adapter=adapter, quant=None, loss=None), "causal-lm")[0]


def _pinning(seen):
    """Each request, in order."""
    def pin_memory(tensor):
        seen.append([tensor.numel(), tensor.element_size()])
        tensor = tensor.clone()
        PINNED.append(tensor.untyped_storage())
        return tensor
    torch.Tensor.pin_memory = pin_memory
    torch.cpu.Stream.synchronize = lambda stream: None  # which that of a CPU lacks
    torch.Tensor.is_pinned = lambda tensor: any(tensor.untyped_storage()._cdata == s._cdata for s in PINNED)


PINNED = []


def _wrap(model, knobs, ranks):
    """(model, [elements and bytes of each that FSDP1 gathers], [of each gradient that FSDP2 makes])"""
    gathered, gradients = [], []
    if shard_words.split(knobs.shard)[0] == "fsdp1":
        from torch.distributed.fsdp._flat_param import FlatParamHandle  # pylint: disable=import-outside-toplevel
        original = FlatParamHandle._alloc_padded_unsharded_flat_param

        def alloc(handle):
            padded = original(handle)
            gathered.append([padded.numel(), padded.element_size()])
            return padded
        FlatParamHandle._alloc_padded_unsharded_flat_param = alloc
        return fsdp1.wrap(model, knobs, torch.device("cpu"))[0], gathered, gradients
    from torch.distributed.device_mesh import init_device_mesh  # pylint: disable=import-outside-toplevel
    from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam  # pylint: disable=import-outside-toplevel
    model, _ = sharded.wrap(model, knobs, init_device_mesh("cpu", (ranks,), mesh_dim_names=("fsdp",)), torch.device("cpu"))
    original_dtensor = FSDPParam.to_sharded_dtensor

    def made(param, tensor):
        gradients.append([tensor.numel(), tensor.element_size()])
        return original_dtensor(param, tensor)
    FSDPParam.to_sharded_dtensor = made
    return model, gathered, gradients


def _run(rank, config, ranks, shard, adapter, meeting, out):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=ranks)
    pinned = []
    _pinning(pinned)
    knobs = types.SimpleNamespace(autocast_dtype="bfloat16", adapter=adapter, shard=shard, script_defaults="hf-trainer")
    model, gathered, order = _wrap(_model(config, adapter), knobs, ranks)
    tokens = torch.zeros((2, 8), dtype=torch.int64)
    phases = []
    loss = model(input_ids=tokens, labels=tokens).loss
    phases.append(list(gathered))
    loss.backward()
    phases.append(gathered[len(phases[0]):])
    weights = [[sharded.local(p).numel(), p.element_size()] for p in model.parameters()]
    gradients = order or [[p.grad.numel(), p.grad.element_size()] for p in model.parameters() if p.grad is not None]
    if rank == 0:
        with open(out, "w", encoding="utf-8") as f:
            json.dump(dict(gathered=phases, weights=weights, gradients=gradients, pinned=pinned), f)
    distributed.destroy_process_group()


def main():
    config, ranks, shard, adapter = sys.argv[1], int(sys.argv[2]), sys.argv[3], (sys.argv[4:] or [None])[0]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        multiprocessing.spawn(_run, (config, ranks, shard, adapter, os.path.join(folder, "meet"), out), ranks)
        with open(out, encoding="utf-8") as f:
            print(f.read())


if __name__ == "__main__":
    main()
