# SPDX-License-Identifier: Apache-2.0
"""Adapters over a frozen model: peft's own LoRA, on weights as they are or in four bits."""

import torch

from . import four_bit
from .errors import RecordError, UsageError
from .sources import need


DROPOUT = 0.05  # any: what it keeps does not depend on how much it drops


def parse(text):
    """'lora:16', 'lora:16:q_proj,v_proj' or 'lora:16:all-linear:dropout' -> (rank, targets for peft, dropout)."""
    kind, rank, targets, dropout = (text.split(":") + [""] * 4)[:4]
    if kind != "lora" or not rank.isdigit() or int(rank) < 1 or dropout not in ("", "dropout") or text.count(":") > 3:
        raise UsageError("--adapter %s: write lora:RANK, lora:RANK:NAME,NAME or lora:RANK:NAMES:dropout" % text)
    every = targets in ("", "all-linear")
    return int(rank), "all-linear" if every else targets.split(","), DROPOUT if dropout else 0.0


def _compute_dtype(knobs):
    return getattr(torch, knobs.model_dtype or knobs.autocast_dtype or "float32")


def _quantize(model, knobs, peft):
    """As transformers loads a model with load_in_4bit, and peft or a script's own code prepares it."""
    four_bit.quantize(model, ("lm_head",), _compute_dtype(knobs), knobs.quant == "nf4-dq")
    if knobs.quant_prepare == "none":
        for p in model.parameters():
            p.requires_grad = False
        if knobs.checkpointing:
            model.enable_input_require_grads()
        return model
    return peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=knobs.checkpointing)


def _as_trl(model):
    """trl's SFTTrainer with bf16: norms in fp32, embedding and head back in bf16 (peft_module_casting_to_bf16, trl 0.13)."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.LayerNorm) or "norm" in name:
            module.float()
        elif any(word in name for word in ("lm_head", "embed_tokens", "wte", "wpe")) and hasattr(module, "weight"):
            module.to(torch.bfloat16)


def apply(model, knobs):
    """The model with the knobs' quantisation and adapter; (model, library or None)."""
    if knobs.quant and not knobs.adapter:
        raise UsageError("--quant needs an --adapter: four-bit weights cannot be trained")
    if not knobs.adapter:
        return model, None
    four_bit.install()  # before peft is there: it looks once for bitsandbytes, and remembers
    peft = need("peft", "peft")
    rank, targets, dropout = parse(knobs.adapter)
    if knobs.quant:
        model = _quantize(model, knobs, peft)
    config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, lora_dropout=dropout, task_type="CAUSAL_LM")
    try:
        model = peft.get_peft_model(model, config)
    except ValueError as why:
        raise RecordError("peft: %s" % (str(why).split(".")[0],))
    if knobs.quant and knobs.quant_prepare == "trl":
        _as_trl(model)
    return model, "peft " + peft.__version__
