# SPDX-License-Identifier: Apache-2.0
"""Adapters over a frozen model: peft's own LoRA on weights as they are or in four bits, and any of its methods by its configuration."""

import inspect
import json

import torch

from . import four_bit, loss_words, torchao_nf4, zero
from .errors import RecordError, UsageError
from .sources import need


DROPOUT = 0.05  # any: what it keeps does not depend on how much it drops
MORE = ([], ["dropout"], ["bf16"], ["dropout", "bf16"])  # what may stand behind the names


def parse(text):
    """'lora:16', 'lora:16:q_proj,v_proj', 'lora:16:all-linear:dropout' or with ':bf16' behind the names -> (rank, targets for peft, dropout,
    is it in bf16)."""
    kind, rank, targets, *more = (text.split(":") + [""] * 2)[:max(3, text.count(":") + 1)]
    if kind != "lora" or not rank.isdigit() or int(rank) < 1 or more not in MORE:
        raise UsageError("--adapter %s: write lora:RANK, lora:RANK:NAME,NAME or lora:RANK:NAMES:dropout, with :bf16 behind it for one in bf16"
                         % text)
    every = targets in ("", "all-linear")
    return int(rank), "all-linear" if every else targets.split(","), DROPOUT if "dropout" in more else 0.0, "bf16" in more


def is_in_bf16(text):
    """Is it our own word for one that is kept in bf16, as torchtune and litgpt build theirs, where peft keeps it in fp32?"""
    return bool(text) and not is_config(text) and parse(text)[3]


def is_config(text):
    """Is it a configuration of peft's, or the file with one, rather than our own word for LoRA?"""
    return text.startswith("{") or text.endswith(".json")


def config(text):
    """What save_pretrained writes as adapter_config.json, as a dict."""
    try:
        if not text.startswith("{"):
            with open(text, encoding="utf-8") as f:
                text = f.read()
        values = json.loads(text)
    except (OSError, ValueError) as why:
        raise UsageError("--adapter: %s" % (why,))
    if not isinstance(values, dict) or not isinstance(values.get("peft_type"), str):
        raise UsageError("--adapter: no peft_type in it; adapter_config.json of peft has one")
    return values


def word(text):
    """For the header: our own word as it is; of a configuration peft's name of its method, which is no word of ours."""
    return config(text)["peft_type"].lower() if text and is_config(text) else text


def _compute_dtype(knobs):
    return getattr(torch, knobs.model_dtype or knobs.autocast_dtype or "float32")


def _quantize(model, knobs, peft):
    """As transformers loads a model with load_in_4bit, and peft or a script's own code prepares it."""
    kept = ("lm_head", "score") + tuple(getattr(model, "_keep_in_fp32_modules", None) or ())  # the last one, T5's wo (transformers, quantizers/base.py)
    is_torchtunes = knobs.quant == "nf4-torchao"
    if is_torchtunes:
        torchao_nf4.quantize(model, kept, _compute_dtype(knobs))
    else:
        is_gathered = knobs.shard and (not zero.is_zero(knobs.shard) or zero.stage(knobs.shard) == 3)  # then they are stored as what they are gathered with
        four_bit.quantize(model, kept, _compute_dtype(knobs), "-dq" in knobs.quant, storage=torch.bfloat16 if is_gathered else torch.uint8,
                          is_sharded=bool(knobs.shard))
    is_own = is_torchtunes or is_in_bf16(knobs.adapter)  # nobody who builds his own adapter prepares
    is_left = knobs.quant_prepare == "none" or knobs.quant.endswith("-left") or knobs.quant_prepare is None and is_own
    if is_left or knobs.shard:  # peft's preparation is not for what is sharded (trl's SFTTrainer)
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


# peft's word for what a model with that head does: it trains the head of classes whole.
TASKS = {"classification": "SEQ_CLS", "token-classification": "TOKEN_CLS"}


def apply(model, knobs, task):
    """The model with the knobs' quantisation and adapter; (model, library or None). task: of --task, the head that it has."""
    if knobs.quant and not knobs.adapter:
        raise UsageError("--quant needs an --adapter: four-bit weights cannot be trained")
    if not knobs.adapter:
        return model, None
    four_bit.install()  # before peft is there: it looks once for bitsandbytes, and remembers
    peft = need("peft", "peft")
    given, how = _given(knobs.adapter, peft, TASKS.get(task, "CAUSAL_LM"))
    if knobs.quant:
        model = _quantize(model, knobs, peft)
    try:
        model = peft.get_peft_model(model, given, **how)
    except RuntimeError:  # "Cannot copy out of meta tensor; no data!"
        raise RecordError("peft's %s begins with the values of the weights, which a recording does not have" % (given.peft_type.value,))
    except (ValueError, ImportError) as why:
        raise RecordError("peft: %s" % (str(why).split(".")[0],))
    if knobs.quant and knobs.quant_prepare == "trl" and not knobs.shard:
        _as_trl(model)
    if knobs.quant and loss_words.is_tiled(knobs.loss):
        for p in model.parameters():  # trl since 0.29: the adapter over four bits is in bf16
            if p.requires_grad:
                p.data = p.data.to(torch.bfloat16)
    return model, "peft " + peft.__version__


def _given(text, peft, task):
    """(configuration, further arguments) for get_peft_model. `autocast_adapter_dtype` may stand among the values: false leaves the adapter in
    the weights' type."""
    if not is_config(text):
        rank, targets, dropout, in_bf16 = parse(text)
        given = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, lora_dropout=dropout, task_type=task)
        return given, {"autocast_adapter_dtype": False} if in_bf16 else {}
    values = config(text)
    try:
        kind = peft.PEFT_TYPE_TO_CONFIG_MAPPING[values["peft_type"]]
    except KeyError:
        raise RecordError("peft %s has no %s" % (peft.__version__, values["peft_type"]))
    known = {k: v for k, v in values.items() if k in inspect.signature(kind).parameters}  # as from_pretrained does
    return kind(**known), {k: v for k, v in values.items() if k == "autocast_adapter_dtype"}


def after_step(model):
    """What a training with this adapter calls after each optimizer step, by its peft documentation: AdaLoRA moves its ranks and keeps
    averages for it. None: nothing."""
    return getattr(getattr(model, "base_model", None), "update_and_allocate", None)
