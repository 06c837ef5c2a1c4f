# SPDX-License-Identifier: Apache-2.0
"""python:litgpt_source:MODEL@PRECISION - litgpt's own model with LoRA as its finetune/lora.py trains it, for the recorder.

MODEL one of NAMES; PRECISION "bf16-true", or with "+ bnb.nf4" or "+ bnb.nf4-dq" after it. Weights, adapter and arithmetic in bf16, logits in
parts of 128 tokens, rank 8 on query and value. Of a padded batch only the length counts; the longest sample is in it. In four bits by
the rules of bitsandbytes before 0.43.2: every linear layer, the head as well.
"""

import torch
import torch.nn.functional as F

from batchfit import four_bit


NAMES = {"phi-1.5": "phi-1_5", "Llama-2-7B": "Llama-2-7b-hf", "Llama-2-13B": "Llama-2-13b-hf"}


def _make(name, seq_len):
    from litgpt import lora
    model, precision = name.split("@")
    quant = precision.partition("+ bnb.")[2]
    config = lora.Config.from_name(NAMES[model], lora_r=8, lora_alpha=16, lora_dropout=0.05, lora_query=True, lora_key=False,
                                   lora_value=True, lora_projection=False, lora_mlp=False, lora_head=False)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)  # as Fabric's init_module does
    try:
        with torch.device("meta"):
            net = lora.GPT(config)
    finally:
        torch.set_default_dtype(before)
    net.max_seq_length = seq_len
    lora.mark_only_lora_as_trainable(net)
    if quant:
        four_bit.quantize(net, (), torch.bfloat16, quant == "nf4-dq", keeps_input=True)

    def inputs(batch):
        tokens, labels = (torch.empty(batch, seq_len, dtype=torch.int64, device="meta") for _ in range(2))
        return {"idx": tokens, "lm_head_chunk_size": 128}, labels

    def loss(logits, labels):
        logits[-1] = logits[-1][..., :-1, :]
        parts = zip(logits, labels[..., 1:].split(logits[0].size(1), dim=1))
        return torch.cat([F.cross_entropy(part.reshape(-1, part.size(-1)), label.reshape(-1), ignore_index=-1, reduction="none")
                          for part, label in parts]).mean()
    return net, loss, inputs


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def make(seq_len):
        return _make(name, seq_len)
    return make
