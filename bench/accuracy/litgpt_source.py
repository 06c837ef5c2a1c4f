# SPDX-License-Identifier: Apache-2.0
"""python:litgpt_source:MODEL@METHOD@PRECISION - litgpt's own model as its finetune/lora.py, adapter.py and adapter_v2.py train it, for the recorder.

MODEL one of NAMES; METHOD one of METHODS; PRECISION "bf16-true", or with "+ bnb.nf4" or "+ bnb.nf4-dq" after it. Weights, adapter and arithmetic in bf16, logits in
parts of 128 tokens. Of a padded batch only the length counts; the longest sample is in it. In four bits by the rules of bitsandbytes before
0.43.2: every linear layer, the head as well, from fp16 (Fabric's plugin makes that of a weight first). Fabric hands out what a model returns in
fp32 (convert_output of its precision plugins), and the script's variable holds it through the backward pass.
"""

import importlib

import torch
import torch.nn.functional as F

from batchfit import four_bit


NAMES = {"phi-1.5": "phi-1_5", "Llama-2-7B": "Llama-2-7b-hf", "Llama-2-13B": "Llama-2-13b-hf"}
METHODS = {"LoRA r8": ("lora", "mark_only_lora_as_trainable", dict(lora_r=8, lora_alpha=16, lora_dropout=0.05, lora_query=True, lora_value=True)),
           "Adapter": ("adapter", "mark_only_adapter_as_trainable", {}),
           "Adapter v2": ("adapter_v2", "mark_only_adapter_v2_as_trainable", {})}


class Fabric(torch.nn.Module):
    """A model as Fabric's setup wraps it."""

    def __init__(self, net):
        super().__init__()
        self.net, self.held = net, None

    def forward(self, **inputs):
        self.held = None
        for part in self.net.modules():
            if hasattr(part, "adapter_kv_cache"):
                part.adapter_kv_cache = None  # 0.2.0 keeps it in training, too; in 2023 it was for inference
        return [part.float() for part in self.net(**inputs)]


def _make(name, seq_len):
    model, method, precision = name.split("@")
    quant = precision.partition("+ bnb.")[2]
    module, marks, options = METHODS[method]
    module = importlib.import_module("litgpt." + module)
    config = module.Config.from_name(NAMES[model], **options)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)  # as Fabric's init_module does
    try:
        with torch.device("meta"):
            net = module.GPT(config)
    finally:
        torch.set_default_dtype(before)
    net.max_seq_length = seq_len
    getattr(module, marks)(net)
    if quant:
        four_bit.quantize(net, (), torch.bfloat16, quant == "nf4-dq", keeps_input=True, was=torch.float16)

    def inputs(batch):
        tokens, labels = (torch.empty(batch, seq_len, dtype=torch.int64, device="meta") for _ in range(2))
        return {"idx": tokens, "lm_head_chunk_size": 128}, labels

    wrapped = Fabric(net)

    def loss(logits, labels):
        wrapped.held = logits
        logits[-1] = logits[-1][..., :-1, :]
        parts = zip(logits, labels[..., 1:].split(logits[0].size(1), dim=1))
        return torch.cat([F.cross_entropy(part.reshape(-1, part.size(-1)), label.reshape(-1), ignore_index=-1, reduction="none")
                          for part, label in parts]).mean()
    return wrapped, loss, inputs


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def make(seq_len):
        return _make(name, seq_len)
    return make
