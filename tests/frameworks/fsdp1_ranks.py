# SPDX-License-Identifier: Apache-2.0
"""A training step of torch's own FSDP1 on the CPU, one process a rank over gloo: what the first rank gathers, in order, and the
elements of its weights and of its gradients, as JSON.

  python fsdp1_ranks.py CONFIG RANKS [ADAPTER]
"""

import json
import os
import sys
import tempfile
import types

import torch
from torch import distributed, multiprocessing

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "python"))

from batchfit import adapters, fsdp1  # noqa: E402


def _model(config, adapter):
    from transformers import AutoConfig, AutoModelForCausalLM  # pylint: disable=import-outside-toplevel
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config)).bfloat16()
    return adapters.apply(model, types.SimpleNamespace(adapter=adapter, quant=None))[0]


def _run(rank, config, ranks, adapter, meeting, out):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=ranks)
    model, _ = fsdp1.wrap(_model(config, adapter), types.SimpleNamespace(autocast_dtype="bfloat16", adapter=adapter), torch.device("cpu"))
    from torch.distributed.fsdp._flat_param import FlatParamHandle  # pylint: disable=import-outside-toplevel
    gathered, original = [], FlatParamHandle._alloc_padded_unsharded_flat_param

    def alloc(handle):
        padded = original(handle)
        gathered.append([padded.numel(), padded.element_size()])
        return padded
    FlatParamHandle._alloc_padded_unsharded_flat_param = alloc
    tokens = torch.zeros((2, 8), dtype=torch.int64)
    phases = []
    loss = model(input_ids=tokens, labels=tokens).loss
    phases.append(list(gathered))
    loss.backward()
    phases.append(gathered[len(phases[0]):])
    weights = [[p.numel(), p.element_size()] for p in model.parameters()]
    gradients = [[p.grad.numel(), p.grad.element_size()] for p in model.parameters() if p.grad is not None]
    if rank == 0:
        with open(out, "w", encoding="utf-8") as f:
            json.dump(dict(gathered=phases, weights=weights, gradients=gradients), f)
    distributed.destroy_process_group()


def main():
    config, ranks, adapter = sys.argv[1], int(sys.argv[2]), (sys.argv[3:] or [None])[0]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        multiprocessing.spawn(_run, (config, ranks, adapter, os.path.join(folder, "meet"), out), ranks)
        with open(out, encoding="utf-8") as f:
            print(f.read())


if __name__ == "__main__":
    main()
