# SPDX-License-Identifier: Apache-2.0
"""What templates are made of: families of models as transformers builds them, and ways to train them."""

import json
import os

from . import dims

# model_type, what its configuration has besides the dimensions, and which shapes there are of it: query heads that share keys
# and values (grouped) or not (mha), one matrix for embedding and head (tied) or two. Windows are longer than any sequence here:
# what a mask of them needs, sdpa's alone, an answer names as not counted.
_T5 = {"decoder_start_token_id": 0}
FAMILIES = {
    "llama": ("llama", {}, "grouped mha tied untied"),
    "mistral": ("mistral", {"sliding_window": None}, "grouped untied"),
    "qwen2": ("qwen2", {"use_sliding_window": False}, "grouped mha tied untied"),
    "qwen3": ("qwen3", {"use_sliding_window": False}, "grouped tied untied"),
    "gemma": ("gemma", {"hidden_activation": "gelu_pytorch_tanh"}, "grouped mha tied"),
    "gemma2": ("gemma2", {"sliding_window": 1 << 20}, "grouped tied"),
    "gemma3_text": ("gemma3_text", {"sliding_window": 1 << 20}, "grouped tied"),
    "gemma3": ("gemma3", {}, "grouped tied"),
    "phi3": ("phi3", {"sliding_window": None, "pad_token_id": 0}, "grouped mha untied"),
    "gpt2": ("gpt2", {}, "mha tied"),
    "gpt_neox": ("gpt_neox", {}, "mha untied"),
    "mixtral": ("mixtral", {"sliding_window": None}, "grouped untied"),
    "qwen2_moe": ("qwen2_moe", {}, "mha untied"),
    "qwen3_moe": ("qwen3_moe", {"norm_topk_prob": True}, "grouped untied"),
    "olmo2": ("olmo2", {}, "mha untied"),
    "granite": ("granite", {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0}, "grouped tied"),
    "starcoder2": ("starcoder2", {"sliding_window": None, "embedding_dropout": 0.1, "residual_dropout": 0.1,
                                  "attention_dropout": 0.1}, "grouped tied"),
    "phi": ("phi", {"pad_token_id": 0}, "mha untied"),
    "olmo": ("olmo", {"pad_token_id": 0}, "mha untied"),
    "olmo3": ("olmo3", {"sliding_window": 1 << 20, "pad_token_id": 0}, "grouped mha untied"),
    "gpt_oss": ("gpt_oss", {"sliding_window": 1 << 20}, "grouped untied"),
    "olmoe": ("olmoe", {"pad_token_id": 0}, "mha untied"),
    "glm4": ("glm4", {"pad_token_id": 0}, "grouped untied"),
    "seed_oss": ("seed_oss", {"pad_token_id": 0}, "grouped untied"),
    "smollm3": ("smollm3", {"use_sliding_window": False, "pad_token_id": 0}, "grouped tied"),
    "opt": ("opt", {"pad_token_id": 0}, "mha tied"),
    "t5": ("t5", _T5, "mha tied"),
    "t5-gated": ("t5", dict(_T5, feed_forward_proj="gated-gelu"), "mha untied"),
}
_ENCODERS = {"bert": {"type_vocab_size": 2}, "roberta": {"type_vocab_size": 1, "pad_token_id": 1}, "distilbert": {}}
# Encoders, each with the heads that it is trained with: the recorder's word for each.
TASKS = {"": "classification"}
ENCODERS = {kind + ending: task for kind in _ENCODERS for ending, task in TASKS.items()}
FAMILIES.update({kind + ending: (kind, more, "mha tied") for kind, more in _ENCODERS.items() for ending in TASKS})

# The recorder's knobs, and what stands behind an adapter's rank; None: there is no adapter. Those with dropout are what most
# examples of Axolotl, TRL and transformers have. An adapter that is none of these is counted by one that has its layers and more.
_COMMON = dict(optimizer="adamw", fused_optimizer=True, weights="bf16", script_defaults="hf-trainer")
_AMP = dict(_COMMON, precision="amp-bf16")
# What DeepSpeed's engine makes of a model, on one GPU: ZeRO's buckets and partitions are added to it (src/predict/tape/zero.c).
_ZERO = dict(_COMMON, precision="bf16", shard="zero0")
# Under the engine of stage 3, its parameters aside: src/predict/tape/zero3.c puts them in.
_ZERO3 = dict(_ZERO, shard="zero3:trace")
_QKVO = ":q_proj,k_proj,v_proj,o_proj"
# A Llama of the recorder's own as torchtitan trains it; tp: layers, sequences and loss split among GPUs.
_TITAN = dict(optimizer="adamw", fused_optimizer=True, weights="fp32", precision="amp-bf16", shard="fsdp2", script_defaults="torchtitan")
KINDS = {
    "full": (dict(_COMMON, precision="bf16"), None),
    "full-foreach": (dict(_COMMON, precision="bf16", fused_optimizer=False), None),
    "full-amp": (dict(_AMP, weights="fp32"), None),
    "full-amp-foreach": (dict(_AMP, weights="fp32", fused_optimizer=False), None),
    "lora": (_AMP, ""),
    "qlora": (dict(_AMP, quant="nf4"), ""),
    "qlora-dq": (dict(_AMP, quant="nf4-dq"), ""),
    "fsdp2": (dict(_AMP, weights="fp32", shard="fsdp2"), None),
    "fsdp2-accumulating": (dict(_AMP, weights="fp32", shard="fsdp2", accumulation=2), None),
    "fsdp2-lora": (dict(_AMP, shard="fsdp2"), ""),
    "fsdp2-lora-accumulating": (dict(_AMP, shard="fsdp2", accumulation=2), ""),
    "fsdp2-lora-dropout": (dict(_AMP, shard="fsdp2"), ":all-linear:dropout"),
    "fsdp2-lora-dropout-accumulating": (dict(_AMP, shard="fsdp2", accumulation=2), ":all-linear:dropout"),
    "fsdp1": (dict(_AMP, weights="fp32", shard="fsdp1"), None),
    "fsdp1-accumulating": (dict(_AMP, weights="fp32", shard="fsdp1", accumulation=2), None),
    "fsdp1-lora": (dict(_AMP, shard="fsdp1"), ""),
    "fsdp1-lora-accumulating": (dict(_AMP, shard="fsdp1", accumulation=2), ""),
    "fsdp1-lora-dropout": (dict(_AMP, shard="fsdp1"), ":all-linear:dropout"),
    "fsdp1-lora-dropout-accumulating": (dict(_AMP, shard="fsdp1", accumulation=2), ":all-linear:dropout"),
    "fsdp1-qlora-dropout": (dict(_AMP, shard="fsdp1", quant="nf4"), ":all-linear:dropout"),
    "fsdp1-qlora-dropout-accumulating": (dict(_AMP, shard="fsdp1", quant="nf4", accumulation=2), ":all-linear:dropout"),
    "fsdp1-qlora": (dict(_AMP, shard="fsdp1", quant="nf4"), ""),
    "fsdp1-qlora-accumulating": (dict(_AMP, shard="fsdp1", quant="nf4", accumulation=2), ""),
    "fsdp1-qlora-dq": (dict(_AMP, shard="fsdp1", quant="nf4-dq"), ""),
    "fsdp1-qlora-dq-accumulating": (dict(_AMP, shard="fsdp1", quant="nf4-dq", accumulation=2), ""),
    "fsdp2-offload": (dict(_AMP, weights="fp32", shard="fsdp2:offload"), None),
    "fsdp2-offload-accumulating": (dict(_AMP, weights="fp32", shard="fsdp2:offload", accumulation=2), None),
    "fsdp2-lora-dropout-offload": (dict(_AMP, shard="fsdp2:offload"), ":all-linear:dropout"),
    "fsdp2-lora-dropout-offload-accumulating": (dict(_AMP, shard="fsdp2:offload", accumulation=2), ":all-linear:dropout"),
    "fsdp1-offload": (dict(_AMP, weights="fp32", shard="fsdp1:offload"), None),
    "fsdp1-offload-accumulating": (dict(_AMP, weights="fp32", shard="fsdp1:offload", accumulation=2), None),
    "fsdp1-lora-dropout-offload": (dict(_AMP, shard="fsdp1:offload"), ":all-linear:dropout"),
    "fsdp1-lora-dropout-offload-accumulating": (dict(_AMP, shard="fsdp1:offload", accumulation=2), ":all-linear:dropout"),
    "fsdp1-qlora-dropout-offload": (dict(_AMP, shard="fsdp1:offload", quant="nf4"), ":all-linear:dropout"),
    "fsdp1-qlora-dropout-offload-accumulating": (dict(_AMP, shard="fsdp1:offload", quant="nf4", accumulation=2), ":all-linear:dropout"),
    "zero": (_ZERO, None),
    "zero-lora": (_ZERO, ""),
    "zero-lora-dropout": (_ZERO, ":all-linear:dropout"),
    "zero-qlora-dropout": (dict(_ZERO, quant="nf4"), ":all-linear:dropout"),
    "zero-qlora-dq-dropout": (dict(_ZERO, quant="nf4-dq"), ":all-linear:dropout"),
    "zero3-qlora-dropout": (dict(_ZERO3, quant="nf4"), ":all-linear:dropout"),
    "zero3-qlora-dq-dropout": (dict(_ZERO3, quant="nf4-dq"), ":all-linear:dropout"),
    "zero3-qlora-dropout-reentrant": (dict(_ZERO3, shard="zero3:trace:reentrant", quant="nf4"), ":all-linear:dropout"),
    "zero3-qlora-dq-dropout-reentrant": (dict(_ZERO3, shard="zero3:trace:reentrant", quant="nf4-dq"), ":all-linear:dropout"),
    "zero3": (_ZERO3, None),
    "zero3-lora": (_ZERO3, ""),
    "zero3-lora-dropout": (_ZERO3, ":all-linear:dropout"),
    "fsdp2-lora-qkvo-dropout": (dict(_AMP, shard="fsdp2"), _QKVO + ":dropout"),
    "fsdp2-lora-qkvo-dropout-accumulating": (dict(_AMP, shard="fsdp2", accumulation=2), _QKVO + ":dropout"),
    "zero-lora-qkvo-dropout": (_ZERO, _QKVO + ":dropout"),
    "zero3-lora-qkvo-dropout": (_ZERO3, _QKVO + ":dropout"),
    "fsdp1-lora-qkvo-dropout": (dict(_AMP, shard="fsdp1"), _QKVO + ":dropout"),
    "fsdp1-lora-qkvo-dropout-accumulating": (dict(_AMP, shard="fsdp1", accumulation=2), _QKVO + ":dropout"),
    "titan": (_TITAN, None),
    "titan-op": (dict(_TITAN, selective="op"), None),
    "titan-tp": (dict(_TITAN, tp=True), None),
    "titan-tp-op": (dict(_TITAN, tp=True, selective="op"), None),
    "titan-tp-single": (dict(_TITAN, tp=True), None),
    "titan-tp-single-op": (dict(_TITAN, tp=True, selective="op"), None),
    "lora-qv": (_AMP, ":q_proj,v_proj"),
    "lora-qv-dropout": (_AMP, ":q_proj,v_proj:dropout"),
    "qlora-qv": (dict(_AMP, quant="nf4"), ":q_proj,v_proj"),
    "lora-qkvo": (_AMP, _QKVO),
    "qlora-qkvo": (dict(_AMP, quant="nf4"), _QKVO),
    "lora-qkvo-dropout": (_AMP, _QKVO + ":dropout"),
    "full-fp32": (dict(_COMMON, precision="fp32", weights="fp32"), None),
    "full-fp32-foreach": (dict(_COMMON, precision="fp32", weights="fp32", fused_optimizer=False), None),
    "lora-t5": (_AMP, ":q,v"),
    "lora-t5-dropout": (_AMP, ":q,v:dropout"),
    "qlora-t5-dropout": (dict(_AMP, quant="nf4"), ":q,v:dropout"),
    "lora-dropout": (_AMP, ":all-linear:dropout"),
    "qlora-dropout": (dict(_AMP, quant="nf4"), ":all-linear:dropout"),
    "qlora-dq-dropout": (dict(_AMP, quant="nf4-dq"), ":all-linear:dropout"),
}
# FSDP2 as accelerate up to 1.13 and Axolotl apply it: weights in shards of fp32 or, as they were loaded, of bf16; an adapter over them, or
# over four bits, whose scales are quantised, too (Axolotl's).
_AXOLOTL = {"fsdp2-together": (dict(_AMP, weights="fp32", shard="fsdp2@1.13"), None), "fsdp2-together-bf16": (dict(_AMP, shard="fsdp2@1.13"), None),
             "fsdp2-lora-together-dropout": (dict(_AMP, shard="fsdp2@1.13"), ":all-linear:dropout"),
             "fsdp2-qlora-dq-together-dropout": (dict(_AMP, shard="fsdp2@1.13", quant="nf4-dq"), ":all-linear:dropout"),
             "fsdp2-qlora-dropout": (dict(_AMP, shard="fsdp2", quant="nf4"), ":all-linear:dropout"),
             "fsdp2-qlora-dq-dropout": (dict(_AMP, shard="fsdp2", quant="nf4-dq"), ":all-linear:dropout")}
_AXOLOTL.update({kind + "-accumulating": (dict(knobs, accumulation=2), adapter) for kind, (knobs, adapter) in list(_AXOLOTL.items())})
KINDS.update(_AXOLOTL)
# FSDP1's adapters of transformers from 4.52 on; the plain words are those before, which keep the inputs' gradients where layers are recomputed.
KINDS.update({kind.replace("-accumulating", "") + "-inside" + "-accumulating" * ("accumulation" in knobs): (dict(knobs, shard="fsdp1@4.52"), adapter)
              for kind, (knobs, adapter) in list(KINDS.items()) if kind.startswith("fsdp1-") and adapter is not None and "-offload" not in kind})
# Without autocast: an adapter in bf16 as the weights are, as torchtune and litgpt build theirs; or in fp32 over them, as peft makes it where
# nobody says otherwise, whose layers cast what goes into them.
_BF16 = dict(_COMMON, precision="bf16")
KINDS.update({"lora-bf16": (_BF16, ":all-linear:bf16"), "lora-bf16-dropout": (_BF16, ":all-linear:dropout:bf16"),
              "lora-bf16-qv-dropout": (_BF16, ":q_proj,v_proj:dropout:bf16"),
              "qlora-bf16": (dict(_BF16, quant="nf4"), ":all-linear:bf16"),
              "qlora-bf16-dropout": (dict(_BF16, quant="nf4"), ":all-linear:dropout:bf16"),
              "qlora-bf16-qv-dropout": (dict(_BF16, quant="nf4"), ":q_proj,v_proj:dropout:bf16"),
              "qlora-torchao": (dict(_BF16, quant="nf4-torchao"), ":all-linear:bf16"),  # torchtune's
              "lora-fp32": (_BF16, ""), "lora-fp32-dropout": (_BF16, ":all-linear:dropout"),
              "lora-fp32-qkvo-dropout": (_BF16, _QKVO + ":dropout"),
              "qlora-fp32": (dict(_BF16, quant="nf4"), ""),
              "qlora-fp32-dropout": (dict(_BF16, quant="nf4"), ":all-linear:dropout"),
              "qlora-dq-fp32-dropout": (dict(_BF16, quant="nf4-dq"), ":all-linear:dropout")})
# Over weights in fp32 that autocast casts again at each use, since they want no gradients: what trl (from 0.27 on) and scripts that load a
# model without a type have.
_W32 = dict(_AMP, weights="fp32")
WIDE = {"lora-w32": (_W32, ""), "lora-w32-dropout": (_W32, ":all-linear:dropout"), "lora-w32-qv-dropout": (_W32, ":q_proj,v_proj:dropout")}
KINDS.update(WIDE)
# Over four bits with embedding, norms and head left in bf16, under autocast: Axolotl casts back what peft prepares (loaders/model.py, should_convert).
LEFT = {"qlora-dq-left-dropout": (dict(_AMP, quant="nf4-dq-left"), ":all-linear:dropout"),
        "qlora-left-dropout": (dict(_AMP, quant="nf4-left"), ":all-linear:dropout")}
KINDS.update(LEFT)
# With liger's loss and layers; checkpointing is what goes with them.
LIGER = {"liger-" + kind: (dict(KINDS[kind][0], loss="liger"), KINDS[kind][1])
         for kind in "full full-amp lora lora-dropout qlora qlora-dq qlora-dropout qlora-dq-dropout".split()}
KINDS.update(LIGER)
# With cut cross-entropy over weights in bf16, as its kernels need: what four bits leave is not prepared by peft then (Axolotl's loaders/model.py).
_BITS = dict(_AMP, quant="nf4", quant_prepare="none")
CUT = {"cut-" + kind: (dict(knobs, loss="cut"), adapter)
       for kind, knobs, adapter in (("full-amp", _AMP, None), ("lora-dropout", _AMP, ":all-linear:dropout"), ("qlora-dropout", _BITS, ":all-linear:dropout"))}
KINDS.update(CUT)
# With torchtune's loss of chunks of tokens; checkpointing is what most of its recipes have.
LINEAR = {"linear-" + kind: (dict(KINDS[kind][0], loss="linear"), KINDS[kind][1]) for kind in "full lora-bf16 qlora-torchao".split()}
KINDS.update(LINEAR)
# Sharded by its distributed recipes, which have that loss.
TUNE = {"tune-" + kind: (dict(KINDS[kind][0], loss="linear", shard="torchtune"), KINDS[kind][1]) for kind in "full lora-bf16".split()}
KINDS.update(TUNE)
# Of preferences: pairs, and beside what is trained a reference, or its scores with the data. trl leaves no dropout in them.
PAIRS = {"%s-%s" % (word, kind): (dict(KINDS[kind][0], loss=loss), KINDS[kind][1])
         for loss, word, kinds in (("dpo", "dpo", "full full-amp lora qlora"), ("dpo:precomputed", "dpo-precomputed", "full full-amp"),
                                   ("dpo:llamafactory", "dpo-llamafactory", "full full-amp lora qlora"),
                                   ("dpo@1.15", "dpo-tiled", "full full-amp lora qlora"),
                                   ("dpo:precomputed@1.15", "dpo-precomputed-tiled", "full full-amp"),
                                   ("orpo", "orpo", "full lora qlora"),
                                   ("orpo:llamafactory", "orpo-llamafactory", "full full-amp lora qlora"), ("kto", "kto", "lora qlora"),
                                   ("reward", "reward", "full lora qlora"))
         for kind in kinds.split()}
KINDS.update(PAIRS)
# Of completions behind prompts, one a sample; what a reference needs is added to them (src/predict/tape/generate.c).
COMPLETIONS = {"%s-%s" % (word, kind): (dict(KINDS[kind][0], loss=loss), KINDS[kind][1])
               for loss, word in (("grpo", "grpo"), ("grpo@1.15", "grpo-tiled")) for kind in "full full-amp lora qlora".split()}
KINDS.update(COMPLETIONS)
# Kinds that are made of some shapes only: (family, grouped, tied)
_GROUPED = {(family, True, tied) for family in FAMILIES for tied in (False, True)}
# Families whose models have one head of keys and values, where a copy vanishes that several need.
SINGLE = ("gemma", "gemma3_text")
FUSED = ("phi3",)  # query, key and value are one matrix
# Families whose heads are as wide as the model together: it has no width of its own.
NARROW = ("gpt2", "gpt_neox", "phi", "olmo", "olmo3", "olmoe", "smollm3", "opt", *ENCODERS)
LEARNED = ("gpt2", "opt", *ENCODERS)  # positions are a table, whose rows are a dimension
PARTS = ("gpt_neox", "phi", "glm4")  # of a head's size a part is rotated, or turned by itself
# Families whose layers differ and come again in turn: so many of the model's are one of the template's, as data/families.tsv says.
CYCLES = {"smollm3": 4}
# Of experts: the dimensions that a layer of them has besides.
EXPERTS = {"mixtral": "XA", "olmoe": "XA", "gpt_oss": "XA", "qwen2_moe": "XAW", "qwen3_moe": "XAW"}
EIGHTH = 8  # the grouped product of experts takes rows of whole 16 bytes only, and four bits are packed in whole words
SINKS = ("gpt_oss",)  # whose heads have a number each, beside the scores
NO_FFN = ("qwen3_moe",)  # all of it is experts
SEQ2SEQ = ("t5", "t5-gated")
# What accelerate has where nobody says a version; "-inside" is of transformers from 4.52 on.
_LORA1 = "fsdp1-lora-dropout fsdp1-lora-dropout-accumulating fsdp1-lora-dropout-inside fsdp1-lora-dropout-inside-accumulating"
_BITS1 = _LORA1.replace("-lora", "-qlora")
_ATTENTION1 = _LORA1.replace("-dropout", "-qkvo-dropout")
_FSDP1_FULL = " fsdp1 fsdp1-accumulating "
# What has a part of a sum, rounded: of the rows of that matrix where heads are shared.
NOT = {(family, True): ("liger-qlora", "fsdp2", "fsdp2-accumulating", "fsdp2-lora-dropout", "fsdp2-lora-dropout-accumulating", *(kind for kind in KINDS if kind.startswith(("fsdp1", "fsdp2-qlora")))) for family in FUSED}
# Whose layers free one view twice, in a recording.
NOT.update({(family, False): ("zero3-qlora-dropout",) for family in ("gpt_neox", "phi")})
# Families whose layers are not all of one kind: the least that have all of them, and the first count to compare.
LEAST_LAYERS = {"gpt_oss": 4, "gemma2": 8, "gemma3_text": 12, "gemma3": 12, "olmo3": 4, "t5": 4, "t5-gated": 4}
FIRST_LAYERS = {"gemma2": 8, "gemma3_text": 12, "gemma3": 12, "olmo3": 4, "gpt_neox": 5, "phi": 5, "olmo2": 5, "opt": 5, "t5": 6, "t5-gated": 6}
# Families of which some kinds are shipped: the most used ones of what is large.
_SHARDED = "fsdp2 fsdp2-accumulating zero zero3"
_ZERO_LORA = " zero-lora-dropout zero3-lora-dropout "
_BITS_TOO = " zero-qlora-dropout zero3-qlora-dropout zero3-qlora-dropout-reentrant "
_SHARDED_LORA = "fsdp2-lora-dropout fsdp2-lora-dropout-accumulating" + _ZERO_LORA
_SHARDED_ATTENTION = _SHARDED_LORA.replace("-dropout", "-qkvo-dropout")  # of experts
_SHARDED_EXPERTS = _SHARDED_LORA.replace("-dropout", "")  # and of all, which have none
_WITH_FSDP1 = _FSDP1_FULL + _LORA1
_BITS2 = "fsdp2-qlora-dropout fsdp2-qlora-dropout-accumulating"
_BOTH = " %s %s %s " % (_SHARDED, _SHARDED_LORA, _BITS_TOO)
_IN_BF16 = "lora-bf16 lora-bf16-dropout qlora-bf16 qlora-bf16-dropout"
_WIDE = " lora-w32-dropout lora-w32-qv-dropout"
_FP32 = " lora-fp32-dropout qlora-fp32-dropout"
_CUT = " cut-full-amp cut-lora-dropout cut-qlora-dropout "
_OF_GPT = "full full-amp full-fp32 lora lora-dropout lora-w32-dropout qlora qlora-dropout" + _FP32 + " "
# Each made at one commit, with what the families before them have.
_NEWER = "olmo olmo3 glm4 seed_oss smollm3 opt"
FEW = {"gemma": ("full lora qlora liger-full liger-lora liger-qlora qlora-torchao " + _IN_BF16 + _BOTH + _WIDE + _FP32).split(),
       "gemma2": ("full full-amp lora lora-dropout qlora qlora-dropout liger-full liger-qlora cut-full-amp cut-lora-dropout " + _BOTH + " lora-bf16 lora-bf16-dropout qlora-torchao" + _WIDE + _FP32).split(),  # of liger-lora the first layer differs, of cut-qlora the last
       "gemma3_text": ("full full-amp lora qlora liger-full liger-lora liger-qlora" + _CUT + _BOTH + _WIDE + _FP32).split(),
       "gemma3": ("full full-amp lora lora-dropout lora-w32-dropout qlora qlora-dropout zero zero3 " + _ZERO_LORA + _BITS_TOO + _FP32).split(),  # accelerate finds no layers to wrap for FSDP2
       "phi3": ("full full-amp lora lora-dropout qlora qlora-dropout liger-full liger-lora liger-qlora lora-w32-dropout " + _BOTH + _IN_BF16 + _CUT + _FP32).split(),
       "gpt2": (_OF_GPT + _BOTH).split(), "gpt_neox": (_OF_GPT + _BOTH).split(),
       **dict.fromkeys(("olmo2 granite starcoder2 phi " + _NEWER).split(), ("full full-amp lora lora-dropout lora-w32-dropout qlora qlora-dropout" + _BOTH + _FP32).split()),
       **dict.fromkeys("t5 t5-gated".split(), "full-foreach full-amp-foreach full-fp32-foreach lora lora-t5 lora-t5-dropout qlora qlora-t5-dropout zero zero3".split()),  # its shared embedding is refused by FSDP2
       **dict.fromkeys(("olmoe", "gpt_oss"), ("full lora-qkvo lora-qkvo-dropout lora-fp32-qkvo-dropout %s %s" % (_SHARDED, _SHARDED_ATTENTION)).split()),
       **dict.fromkeys(ENCODERS, "full-amp full-amp-foreach full-fp32-foreach".split()), "bert": "full-foreach full-amp full-amp-foreach full-fp32-foreach".split(),
       **dict.fromkeys("mixtral qwen2_moe qwen3_moe".split(),
                       ("full lora lora-qkvo lora-qkvo-dropout lora-fp32-qkvo-dropout %s %s %s" %
                        (_SHARDED, _SHARDED_ATTENTION, _SHARDED_EXPERTS)).split())}
for _family in "gemma gemma2 gemma3_text phi3 gpt2 gpt_neox olmo2 granite starcoder2".split():
    FEW[_family] = FEW[_family] + _WITH_FSDP1.split()
for _family in "mixtral qwen2_moe qwen3_moe gpt_oss".split():
    FEW[_family] = FEW[_family] + _FSDP1_FULL.split() + _ATTENTION1.split()
for _family in ("gemma", "phi3"):
    FEW[_family] = FEW[_family] + _BITS1.split() + _BITS2.split()
# Kinds of which one for batch 1 says nothing that the one for more does not.
_OFFLOAD = tuple(kind for kind in KINDS if "-offload" in kind)
_FSDP1 = tuple(kind for kind in KINDS if kind.startswith("fsdp1"))
_ZERO_QLORA = tuple(kind for kind in KINDS if kind.startswith(("zero-qlora", "zero3-qlora")))
_NO_AUTOCAST = tuple(kind for kind in KINDS if kind.startswith(("lora-bf16", "qlora-bf16", "qlora-torchao", "lora-fp32", "qlora-fp32", "qlora-dq-fp32")))
ANY_BATCH = (*_NO_AUTOCAST, *WIDE, *LEFT, "full-fp32", "zero3", "zero3-lora", "zero3-lora-dropout", "fsdp2-lora-dropout", "fsdp2-lora-dropout-accumulating", *_FSDP1, *_AXOLOTL, *_OFFLOAD, *_ZERO_QLORA, *PAIRS, *COMPLETIONS, *LINEAR, *TUNE, *CUT) + tuple(LIGER)
# Kinds of one family, and those whose layers are computed again always.
OF_FAMILY = {kind: "llama" for kind in KINDS if kind.startswith("titan")}
ALWAYS_AGAIN = ("titan-op", "titan-tp-op", "titan-tp-single-op") + tuple(LIGER) + tuple(LINEAR) + tuple(CUT) + _OFFLOAD + tuple(kind for kind in KINDS if "-inside" in kind or "-reentrant" in kind or kind.startswith("fsdp2-qlora"))  # who offloads recomputes
# Where layers are computed again, one with dropout serves these.
NEVER_AGAIN = tuple(kind for kind in _FSDP1 if "lora" in kind and "-dropout" not in kind and kind not in ALWAYS_AGAIN)
# What is let go of in an order of its own in each layer that is computed again.
NOT_AGAIN = {*((family, "zero-qlora-dropout") for family in ("gemma2", "gemma3_text", "gemma3", "smollm3", "olmo", "olmo3", "opt")),
             *((family, "zero3-qlora-dropout-reentrant") for family in ("gemma2", "gemma3_text", "gemma3", "smollm3"))}
# Kinds in which one head of keys and values is left to each GPU.
SINGLE_KINDS = ("titan-tp-single", "titan-tp-single-op")
SOME = {kind: _GROUPED for kind in KINDS if kind in SINGLE_KINDS or "-qv" in kind or "-qkvo" in kind}
SOME.update({kind: _GROUPED | {("llama", False, False)} for kind in KINDS if kind in _FSDP1 or kind in _AXOLOTL or kind.startswith("fsdp2-lora")})  # Llama 2
_OF_OFFLOAD = "llama mistral qwen2 qwen3".split()
SOME.update(dict.fromkeys(_NO_AUTOCAST, _GROUPED | {("llama", False, False), ("phi3", False, False), ("gemma", False, True)}))
SOME.update({kind: SOME[kind] | {(family, False, tied) for family in FEW for tied in (False, True)} for kind in _FP32.split()})
SOME["qlora-torchao"] = {pair for pair in SOME["qlora-torchao"] if pair[0] != "qwen3"}  # which torchtune 0.6 does not build
_OF_LLAMA = {("llama", True, False), ("llama", True, True), ("llama", False, False), ("mistral", True, False)}
SOME.update({kind: _OF_LLAMA for kind in _NO_AUTOCAST if "-qv" in kind})  # the layers that litgpt takes
SOME.update({"qlora-dq-left-dropout": _GROUPED | {("llama", False, False)},
             "qlora-left-dropout": {("llama", True, False), ("llama", True, True), ("llama", False, False)}})
SOME.update({kind: SOME[kind] | {(family, False, tied) for family in FEW for tied in (False, True)}
             for kind in (*_SHARDED_LORA.split(), *_WITH_FSDP1.split(), *_BITS1.split(), *_BITS2.split()) if kind in SOME})
SOME.update(dict.fromkeys(_ZERO_QLORA, _GROUPED | {("llama", False, False), *((family, False, tied) for family in FEW for tied in (False, True))}))
SOME.update(dict.fromkeys(WIDE, _GROUPED | {("llama", False, False), *((family, False, tied) for family in FEW for tied in (False, True))}))
SOME.update(dict.fromkeys(_OFFLOAD, {(family, True, False) for family in _OF_OFFLOAD} | {("llama", False, False)}))
SOME.update({kind: _GROUPED | {("llama", False, False), ("phi3", False, False)} for kind in (*LIGER, *CUT)})
_OF_PAIRS = {(family, True, tied) for family in "llama mistral qwen2 qwen3".split() for tied in (False, True)}
SOME.update({kind: _OF_PAIRS | ({("llama", False, False)} if kind.startswith(("dpo", "orpo")) else set()) for kind in PAIRS})
SOME.update(dict.fromkeys(COMPLETIONS, _OF_PAIRS))
# What a Trainer makes where nobody says a precision, of the models that are small enough.
SOME["full-fp32"] = _OF_PAIRS | {("llama", False, False), ("gpt2", False, True), ("gpt_neox", False, False)}
SOME.update(dict.fromkeys(LINEAR, _OF_PAIRS | {("llama", False, False)}))
SOME.update(dict.fromkeys(TUNE, {shape for shape in SOME["linear-full"] if shape[0] != "qwen3"}))
SOME["linear-qlora-torchao"] = SOME["linear-full"] & SOME["qlora-torchao"]
SOME.update({kind: {pair for pair in _OF_PAIRS if not pair[2]} for kind in PAIRS if kind.startswith("reward")})  # whose head is another
# Families of experts: peft 0.21 has no dropout beside the experts themselves, and LoRA is mostly on the attention.
_OF_EXPERTS = {(family, grouped, False) for family in EXPERTS for grouped in (False, True)}
# Of families of which fewer are shipped: those of an adapter, and all of T5.
ANY_BATCH_OF = {(family, kind) for family in (*EXPERTS, "olmo2", "granite", "starcoder2", "phi", "gemma3", *_NEWER.split(), *SEQ2SEQ)
                for kind in FEW[family] if KINDS[kind][1] is not None or family in SEQ2SEQ}
ANY_BATCH_OF |= {(family, kind) for family in ENCODERS for kind in FEW[family]}
ANY_BATCH_OF |= {(family, kind) for family in FEW for kind in (*_SHARDED.split(), *_SHARDED_LORA.split(), *_SHARDED_ATTENTION.split(), *_SHARDED_EXPERTS.split())}
ANY_BATCH_OF |= {(family, "full-amp") for family in FEW if family not in ("phi3", "gemma3")}
_T5S = {("t5", False, True), ("t5-gated", False, False)}
SOME.update(dict.fromkeys(("lora-t5", "lora-t5-dropout", "qlora-t5-dropout"), _T5S), **{"full-fp32-foreach": _T5S | {(family, False, True) for family in ENCODERS}})
SOME.update({"lora-qkvo": _GROUPED | _OF_EXPERTS, "lora-qkvo-dropout": _OF_EXPERTS, "lora-fp32-qkvo-dropout": _OF_EXPERTS,
             **dict.fromkeys((*_SHARDED_ATTENTION.split(), *_ATTENTION1.split()), _OF_EXPERTS)})
SOME.update({kind: SOME[kind] | _OF_EXPERTS for kind in (*_SHARDED_EXPERTS.split(), *_FSDP1_FULL.split()) if kind in SOME})
BOUNDS = {"B": [2, 65536], "S": [2, 1048576], "D": [2, 131072], "F": [2, 1048576], "V": [2, 4194304], "E": [8, 256, 8],
          "K": [2, 1024], "G": [2, 1024], "R": [2, 4096], "L": [2, 1024], "N": [2, 65536], "X": [2, 16384], "A": [2, 16384],
          "W": [2, 1048576], "Y": [2, 1048576], "P": [2, 1048576], "T": [2, 1024]}


def _experts(usual, value):
    return dict(usual, num_local_experts=value["X"], num_experts_per_tok=value["A"])


def _qwen_moe(usual, value):
    return dict(usual, num_experts=value["X"], num_experts_per_tok=value["A"], moe_intermediate_size=value["W"],
                shared_expert_intermediate_size=value["F"])


def _gpt2(usual, value):
    return dict(n_embd=usual["hidden_size"], n_layer=value["L"], n_head=value["K"], n_inner=value["F"], vocab_size=value["V"],
                n_positions=value["P"])


def _distilbert(usual, value):
    return dict(dim=usual["hidden_size"], n_layers=value["L"], n_heads=value["K"], hidden_dim=value["F"], vocab_size=value["V"],
                max_position_embeddings=value["P"])


def _without(usual, *keys):
    return {k: v for k, v in usual.items() if k not in keys}


def _encoder(usual, value):
    return dict(_without(usual, "num_key_value_heads", "head_dim"), max_position_embeddings=value["P"])


def _headless(usual, _):
    return _without(usual, "head_dim")


def _olmoe(usual, value):
    return dict(_without(usual, "head_dim"), num_experts=value["X"], num_experts_per_tok=value["A"])


def _opt(usual, value):
    # Its table has two rows more than positions.
    return dict(_without(usual, "num_key_value_heads", "head_dim", "intermediate_size"), ffn_dim=value["F"], max_position_embeddings=value["P"] - 2,
                word_embed_proj_dim=usual["hidden_size"])


def _t5(_, value):
    return dict(d_model=value["D"], d_ff=value["F"], d_kv=value["E"], num_layers=value["L"], num_heads=value["K"], vocab_size=value["V"])


# The tower that sees of Gemma 3 from 4B on, which are one: what the three config.json say of it.
_TOWER = dict(hidden_size=1152, image_size=896, intermediate_size=4304, num_attention_heads=16, num_hidden_layers=27, patch_size=14,
              vision_use_head=False)


def _gemma3(usual, _):
    # An image's token is one of the vocabulary, as in the models, so none is replaced.
    return dict(text_config=dict(usual, sliding_window=1 << 20, use_cache=False), vision_config=_TOWER, image_token_index=0)


# What a config.json calls its sizes, where that is not as in a Llama's.
OWN_KEYS = {"mixtral": _experts, "qwen2_moe": _qwen_moe, "qwen3_moe": _qwen_moe, "gpt2": _gpt2, "t5": _t5, "gemma3": _gemma3, "bert": _encoder,
            "roberta": _encoder, "distilbert": _distilbert, "gpt_oss": _experts, "olmoe": _olmoe, "opt": _opt,
            **dict.fromkeys("olmo olmo3 smollm3".split(), _headless)}


class Variant:
    """One template: a family, a way to train it, and what of its shape changes the sequence of events."""

    def __init__(self, family, kind, checkpointing=False, grouped=True, tied=False, one=False):
        self.family, self.kind, self.checkpointing = family, kind, checkpointing
        self.grouped, self.tied, self.one = grouped, tied, one

    @property
    def name(self):
        """llama-lora-checkpointing-mha-tied-b1"""
        words = [self.family, self.kind, "checkpointing" * self.checkpointing, "mha" * (not self.grouped),
                 "tied" * self.tied, "b1" * self.one]
        return "-".join(filter(None, words))

    @property
    def sharded(self):
        """Are its weights spread over ranks?"""
        return (KINDS[self.kind][0].get("shard") or "").startswith(("fsdp", "torchtune"))

    @property
    def is_titan(self):
        """Is it torchtitan's own model?"""
        return self.kind in OF_FAMILY

    @property
    def is_split(self):
        """Are its layers split among GPUs?"""
        return "tp" in KINDS[self.kind][0]

    @property
    def is_single_headed(self):
        """Have all its heads the same keys and values?"""
        return (self.family in SINGLE or self.kind in SINGLE_KINDS) and self.grouped

    @property
    def is_chunked(self):
        """Is its loss made in chunks of tokens? Then there are two where the vocabulary is larger than the hidden size."""
        return self.kind in LIGER

    @property
    def is_of_completions(self):
        """Is a part of each sequence scored alone?"""
        return self.kind in COMPLETIONS

    @property
    def is_of_classes(self):
        """Has its head an output for each class?"""
        return "classification" in ENCODERS.get(self.family, "")

    @property
    def attends_in_fp32(self):
        """Is what goes into attention in fp32? peft casts what four bits leave, and without autocast nothing casts it back."""
        return self.kind.startswith(("full-fp32", "qlora-fp32", "qlora-dq-fp32"))

    @property
    def is_of_eighths(self):
        """Are its widths multiples of 8?"""
        is_fused = self.family in FUSED and self.grouped and "qlora" in self.kind  # a part of a sum is rounded nowhere then
        return is_fused or self.family in EXPERTS or self.kind.startswith(("fsdp1-qlora", "fsdp2-qlora"))

    def dims(self, which):
        """dims.first or dims.second of it."""
        return which(self.letters + "C" * self.is_of_classes, fused=self.family in FUSED, single=self.is_single_headed, wide=self.is_chunked, parts=self.family in PARTS,
                     by=EIGHTH if self.is_of_eighths else 1, beside=-1 if self.kind in PAIRS or self.kind in CUT or self.is_of_completions else 1,
                     completion=self.is_of_completions, eighths=self.kind in LINEAR or self.kind in TUNE, unhalved=self.attends_in_fp32 and not self.grouped,
                     alone="K" * (self.family in SEQ2SEQ) + "KG" * (self.family in SINKS) + "R" * (self.family in EXPERTS) + "B" * (self.kind in PAIRS or self.is_of_completions or self.family in ENCODERS))

    @property
    def facts(self):
        """What the header says of it besides the recorder's words."""
        knobs, adapter = KINDS[self.kind]
        facts = dict(adapter=None if adapter is None else "lora:R" + adapter, quant=knobs.get("quant"), weights=knobs["weights"],
                     fused=knobs["fused_optimizer"], grouped=self.grouped, tied=self.tied, single=self.one)
        if self.is_titan:
            single = "single" * (self.kind in SINGLE_KINDS)
            facts["shard"] = ":".join(filter(None, ("titan", "tp" * self.is_split, single, knobs.get("selective"))))
        return {k: v for k, v in facts.items() if v is not None}

    @property
    def letters(self):
        """The dimensions that the template has."""
        own = "D" * (self.family not in NARROW) + "F" * (self.family not in NO_FFN) + EXPERTS.get(self.family, "") + "Y" * (self.family in SEQ2SEQ or self.is_of_completions)
        own += "P" * (self.family in LEARNED)
        return "SVEKL" + own + "B" * (not self.one) + "G" * self.grouped + "R" * (KINDS[self.kind][1] is not None) + "N" * self.sharded + "T" * self.is_split

    def knobs(self, value):
        """The recorder's, at these values of the dimensions."""
        knobs, adapter = KINDS[self.kind]
        knobs = dict(knobs, seq_len=value["S"], checkpointing=self.checkpointing)
        if self.family in ENCODERS:
            knobs["task"] = ENCODERS[self.family]
        if self.is_of_classes:
            knobs["num_classes"] = value.get("C", dims.CLASSES)
        if self.family in SEQ2SEQ or self.is_of_completions:
            knobs["target_len"] = value["Y"]
        if self.sharded:
            knobs["ranks"] = value["N"]
        if self.is_split:  # sequence, ffn, heads and vocabulary are those of one GPU
            knobs.update(tp=value["T"], seq_len=value["S"] * value["T"])
        return knobs if adapter is None else dict(knobs, adapter="lora:%d%s" % (value["R"], adapter))

    @property
    def layers(self):
        """The first layer counts to compare: the first and last ones of what is sharded are gathered otherwise than those between."""
        if self.family in CYCLES:
            return (4, 5, 6) if self.sharded else (3, 4, 5)
        if self.family in FIRST_LAYERS:
            return tuple(FIRST_LAYERS[self.family] + i for i in range(3))
        if not self.sharded:
            return (3, 4, 5)
        return (7, 8, 9) if self.tied else (5, 6, 7)  # a tied Qwen3 of 6 has as many parameters as 34 tiles of a head have bytes

    @property
    def checked_layers(self):
        """Other layer counts that the template is checked at."""
        least = LEAST_LAYERS.get(self.family, 2)
        return least, least + (2 if self.family in CYCLES else 4 if least == 2 else 5)

    @property
    def bounds(self):
        """Of its dimensions."""
        heads = {"K": [1, 1]} if self.is_single_headed else {}
        if self.kind in PAIRS or self.is_of_completions:  # of two sequences; so no copy vanishes but of ORPO's half, and of KTO's samples and
            # of completions below the peak
            heads["B"] = [1, BOUNDS["B"][1]]
        widths = {k: [8, BOUNDS[k][1], 8] for k in "DFW"} if self.is_of_eighths else {}
        if self.family in SEQ2SEQ:
            widths = {k: [dims.BIASED_BY, BOUNDS[k][1], dims.BIASED_BY] for k in "SY"}
        return dict(BOUNDS, **dict(heads, **widths), L=[LEAST_LAYERS.get(self.family, BOUNDS["L"][0]), BOUNDS["L"][1]])

    def config(self, value):
        """A config.json with these values."""
        model_type, more, _ = FAMILIES[self.family]
        if self.is_split:
            value = dict(value, **{k: value[k] * value["T"] for k in "SFKV"})
        hidden = value["K"] * value["G"] * value["E"] if self.family in NARROW else value["D"]
        usual = dict(hidden_size=hidden, intermediate_size=value["F"], num_hidden_layers=value["L"] * CYCLES.get(self.family, 1),
                     num_attention_heads=value["K"] * value["G"], num_key_value_heads=value["K"], head_dim=value["E"], vocab_size=value["V"],
                     max_position_embeddings=max(value["S"], 4096))
        return dict(OWN_KEYS.get(model_type, lambda usual, value: usual)(usual, value), model_type=model_type,
                    tie_word_embeddings=self.tied, use_cache=False, **more)

    def write_config(self, folder, value):
        """Its path."""
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(self.config(value), f)
        return path


def variants():
    """All that are shipped."""
    out = []
    for family, (_, _, shapes) in FAMILIES.items():
        for tied in [word == "tied" for word in ("untied", "tied") if word in shapes.split()]:
            for grouped in [word == "grouped" for word in ("grouped", "mha") if word in shapes.split()]:
                out += [Variant(family, kind, checkpointing, grouped, tied, one)
                        for kind in FEW.get(family, KINDS) if (family, grouped, tied) in SOME.get(kind, {(family, grouped, tied)})
                        if kind not in NOT.get((family, grouped), ()) and OF_FAMILY.get(kind, family) == family
                        and not (kind in OF_FAMILY and tied)
                        for checkpointing in (False, True) if kind not in (NEVER_AGAIN if checkpointing else ALWAYS_AGAIN) for one in (False, True)
                        if not (one and (kind in ANY_BATCH or (family, kind) in ANY_BATCH_OF)) and not (checkpointing and (family, kind) in NOT_AGAIN)]
    return out
