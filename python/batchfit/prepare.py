# SPDX-License-Identifier: Apache-2.0
"""What both ways of recording share: the model made ready, and the first line of the tape."""

import torch

from . import __version__, adapters, compiled, fsdp1, loss_words, shard_words, sharded, sources, zero
from .errors import UsageError


def load(source, knobs):
    """The job of a source, its model in the mode, dtype and layout that the knobs say."""
    (zero if zero.is_zero(knobs.shard) else shard_words).check(knobs, sources.split(source)[0])
    if loss_words.is_fused(knobs.loss) and sources.split(source)[0] != "hf":
        raise UsageError("--loss %s: of hf: models; yours may call the library's own function, whose kernels do not run here" % knobs.loss)
    compiled.check(knobs, sources.split(source)[0])
    job = sources.load(source, knobs)
    model = job.model
    model.train(knobs.mode == "train")
    if knobs.model_dtype and not job.is_cast:
        model.to(getattr(torch, knobs.model_dtype))
    if knobs.channels_last:
        model.to(memory_format=torch.channels_last)
    if zero.is_zero(knobs.shard):
        job.library = ", ".join(filter(None, (job.library, zero.apply(job, knobs))))
    elif knobs.shard:
        if sources.split(source)[0] == "python":
            shard_words.check_layers(model, knobs)
        word, is_offloaded = shard_words.split(knobs.shard)
        job.model, library = fsdp1.apply(job.model, knobs) if word == "fsdp1" else sharded.apply(job, knobs)
        job.is_used_up = job.is_used_up or is_offloaded  # what FSDP1 makes in its first step on the host stays
        job.library = ", ".join(filter(None, (job.library, library)))
    if knobs.compile:
        compiled.apply(job, knobs, sources.split(source)[0])
    return job


def header(source, knobs, job, batches, seconds):
    """The tape's first line, as a dict."""
    layout = "nhwc" if knobs.channels_last else "nchw"
    head = {"tape": 1, "model": knobs.name or source, "library": job.library, "torch": torch.__version__.split("+")[0],
            "recorder": __version__, "rules": "%d.%d" % knobs.rules, "mode": knobs.mode}
    head.update({k: v for k, v in job.header.items() if v is not None})
    head.update(precision=knobs.precision, layout=layout, optimizer=knobs.optimizer, accumulation=knobs.accumulation,
                checkpointing=knobs.checkpointing, ema=knobs.ema, grad_scaler=knobs.grad_scaler,
                cudnn_benchmark=knobs.cudnn_benchmark, prefetch=knobs.prefetch, zero_grad=knobs.zero_grad,
                attention=knobs.attention, script=knobs.script_defaults)
    # What changes a training as a whole: absent where all weights are trained as they are.
    head.update({k: v for k in ("adapter", "quant", "weights", "shard", "ranks", "tp", "compile") for v in [getattr(knobs, k)] if v is not None})
    head.update(job.loss_facts)
    if knobs.adapter:
        head["adapter"] = adapters.word(knobs.adapter)
    head.update(parameters=sum(getattr(p, "ds_numel", p.numel()) for p in job.model.parameters()), batches=list(batches), steps=2,
                seconds=round(seconds, 1))
    return head
