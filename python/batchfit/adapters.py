# SPDX-License-Identifier: Apache-2.0
"""Adapters over a frozen model: peft's own LoRA, on weights as they are or in four bits."""

import torch

from . import four_bit
from .errors import RecordError, UsageError
from .sources import need


def parse(text):
    """'lora:16' or 'lora:16:q_proj,v_proj' -> (rank, targets for peft)."""
    kind, _, rest = text.partition(":")
    rank, _, targets = rest.partition(":")
    if kind != "lora" or not rank.isdigit() or int(rank) < 1:
        raise UsageError("--adapter %s: write lora:RANK or lora:RANK:NAME,NAME" % text)
    return int(rank), targets.split(",") if targets else "all-linear"


def _compute_dtype(knobs):
    return getattr(torch, knobs.model_dtype or knobs.autocast_dtype or "float32")


def _quantize(model, knobs, peft):
    """As transformers loads a model with load_in_4bit, and peft prepares it."""
    four_bit.quantize(model, ("lm_head",), _compute_dtype(knobs), knobs.quant == "nf4-dq")
    return peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=knobs.checkpointing)


def apply(model, knobs):
    """The model with the knobs' quantisation and adapter; (model, library or None)."""
    if knobs.quant and not knobs.adapter:
        raise UsageError("--quant needs an --adapter: four-bit weights cannot be trained")
    if not knobs.adapter:
        return model, None
    four_bit.install()  # before peft is there: it looks once for bitsandbytes, and remembers
    peft = need("peft", "peft")
    rank, targets = parse(knobs.adapter)
    if knobs.quant:
        model = _quantize(model, knobs, peft)
    config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, lora_dropout=0.0, task_type="CAUSAL_LM")
    try:
        model = peft.get_peft_model(model, config)
    except ValueError as why:
        raise RecordError("peft: %s" % (str(why).split(".")[0],))
    return model, "peft " + peft.__version__
