# SPDX-License-Identifier: Apache-2.0
"""The knobs of a recording: what they may be, what a script's preset sets, what the torch version decides.

A knob is resolved in this order: what the caller said, then the preset (`script_defaults`), then the torch
version whose rules apply. `Knobs` is plain data; `None` means "not said".
"""

from . import loss_words
from .errors import UsageError

PRECISIONS = ("fp32", "amp-fp16", "amp-bf16", "bf16", "fp16")
OPTIMIZERS = ("sgd", "adam", "adamw", "adafactor", "lion", "adamw8bit", "adamw32bit", "lion32bit", "none")

# name -> (type or tuple of choices, help). bool knobs become --name / --no-name.
KNOBS = {
    "precision": (PRECISIONS, "arithmetic; amp-* is autocast, bf16/fp16 cast the model itself (fp16: inference only)"),
    "optimizer": (OPTIMIZERS, "the optimizer; none for inference"),
    "momentum": (float, "sgd's momentum (0: no momentum buffer)"),
    "nesterov": (bool, "sgd: Nesterov momentum"),
    "weight_decay": (float, "weight decay; only zero or not matters"),
    "foreach": (bool, "multi-tensor optimizer kernels (CUDA's default from torch 2.0)"),
    "fused_optimizer": (bool, "the optimizer's fused kernel: no temporaries"),
    "accumulation": (int, "micro-steps per optimizer step (2 stands for any larger number)"),
    "checkpointing": (bool, "activation checkpointing by the model's own switch"),
    "selective": (("layer", "op"), "torchtitan's selective checkpointing: every second layer, or some operations of each; titan: only"),
    "channels_last": (bool, "NHWC memory format"),
    "ema": (bool, "keep an averaged copy of the model"),
    "grad_scaler": (bool, "GradScaler (default for amp-fp16)"),
    "zero_grad": (("none", "zero"), "gradients set to None or filled with zeros"),
    "img_size": (int, "side of the square image in pixels"),
    "seq_len": (int, "sequence length (of the encoder) in tokens"),
    "target_len": (int, "target length in tokens (seq2seq), or a completion's length (GRPO)"),
    "mode": (("train", "inference"), "training or forward only"),
    "attention": (("fused", "math"), "scaled_dot_product_attention's fused kernels or plain matmul + softmax"),
    "num_classes": (int, "number of classes"),
    "loss": (str, "ce or label-smoothing (classification); of a decoder liger (with its other layers, as transformers' use_liger_kernel has "
             "it; liger:loss without; liger@0.5.2 of that version), chunked or chunked:N (torchtune's, of 0.5), linear or linear:N (its "
             "LinearCrossEntropyLoss, from 0.6 on), cut (Apple's), dpo (trl's: pairs, and "
             "a reference model or the adapter switched off), dpo:precomputed, dpo@1.15 (of that version), dpo:llamafactory; "
             "pairs alone: orpo, cpo, cpo-simpo, simpo, orpo@1.14, orpo:llamafactory; kto, kto@1.15; reward (trl's RewardTrainer); "
             "grpo, grpo:reference, grpo@1.15 (--target-len: tokens of a completion); hf: only"),
    "clip_grad": (float, "clip_grad_norm_ at this norm (0: off)"),
    "cudnn_benchmark": (bool, "torch.backends.cudnn.benchmark: empty_cache() after each trial"),
    "prefetch": (bool, "timm's side-stream loader: three float batches and one of bytes in stream 1"),
    "cublas_workspace": (int, "bytes of each of the two cuBLAS workspaces (0: outside the allocator)"),
    "rules": (str, "torch version whose CUDA rules apply, such as 1.12 (default the one that runs)"),
    "script_defaults": (str, "preset of a known script, see PRESETS"),
    "task": (("auto", "classification", "token-classification", "causal-lm", "masked-lm", "seq2seq-lm"), "head of an hf: model"),
    "adapter": (str, "LoRA over frozen weights: lora:16, lora:16:q_proj,v_proj or lora:16:all-linear:dropout, with :bf16 behind it for one in bf16 "
                "where peft has fp32; or the adapter_config.json of "
                "any of peft's methods; hf: only"),
    "quant": (("nf4", "nf4-dq", "nf4-left", "nf4-dq-left", "nf4-torchao"), "frozen weights in four bits by bitsandbytes' rules; -dq: their scales "
              "quantised, too; -left: with embedding, norms and head left in bf16, as Axolotl has them; -torchao: by torchao's, as torchtune has them"),
    "quant_prepare": (("peft", "trl", "none"), "the rest of a model in four bits: fp32 by peft (default), embedding and head back in "
                      "bf16 by trl, left as loaded"),
    "weights": (("fp32", "bf16"), "what a model under amp is loaded as (default fp32)"),
    "shard": (str, "fsdp2: torch's fully_shard as accelerate applies it, full precision of the weights kept in shards; fsdp1: its "
              "FullyShardedDataParallel, with @4.52 where an adapter's layers are recomputed as from that transformers on; fsdp2@1.13: as accelerate up to 1.13, and Axolotl, apply it, what is outside of the layers together, and shards as the weights were loaded; with :offload what the CPU updates is kept on the host; torchtune: fsdp2 as its recipes apply it; zero1, zero2, "
              "zero3: DeepSpeed in bf16, zero2:BUCKET:overlap with its reduce_bucket_size (auto: the hidden size squared, as transformers "
              "fills it in) and overlap_comm, zero3:BUCKET:overlap:prefetch=N:persist=N:live=N:reuse=N:group=N with its numbers; "
              ":optimizer=cpu and, of zero3, :param=cpu for what stays on the host, :paged where it is not pinned; hf:, and python: where the model has _no_split_modules (fsdp1, fsdp2)"),
    "ranks": (int, "GPUs that share the weights; the first of them is recorded"),
    "rank": (int, "zero1, zero2: another of them, from 0"),
    "tp": (int, "tensor parallelism: so many GPUs split each layer, its sequences and the loss, --ranks times; titan: only"),
    "compile": (("model", "layers", "layers+loss"), "torch.compile by Inductor: the model as one graph, each layer as one, or also the loss "
                "(titan: only)"),
    "targets_per_image": (int, "detection: objects per image"),
    "name": (str, "model name written to the header (default: SOURCE)"),
}

# A preset says how a known training script behaves. Script-only fields (not knobs):
#   zero_first   zero_grad at the start of the step instead of after the optimizer
#   zero_late    zero_grad between forward and backward: the last step's gradients live through the forward
#   resident     the input batch is made once and stays
#   bwd_autocast backward runs inside the autocast region
#   keep_output  the model's output stays alive until the next step rebinds the variable
#   keep_loss    the same for the loss
#   groups       parameter groups: none | timm | hf | ultralytics (no weight decay for biases and norms)
PRESETS = {
    # timm 0.6.6 benchmark.py TrainBenchmarkRunner (commit 5e7d47ca)
    "timm-benchmark": dict(
        precision="amp-fp16", optimizer="sgd", momentum=0.9, nesterov=True, weight_decay=0.0, grad_scaler=False,
        cudnn_benchmark=True, prefetch=False, loss="ce", zero_first=True, resident=True, bwd_autocast=True,
        keep_output=False, keep_loss=False, groups="timm"),
    # timm 1.0.9 train.py
    "timm-train": dict(
        precision="fp32", optimizer="sgd", momentum=0.9, nesterov=True, weight_decay=2e-5, cudnn_benchmark=True,
        prefetch=True, loss="label-smoothing", zero_first=False, resident=False, bwd_autocast=False,
        keep_output=False, keep_loss=True, groups="timm"),
    # transformers Trainer.training_step
    "hf-trainer": dict(
        precision="fp32", optimizer="adamw", weight_decay=0.0, cudnn_benchmark=False, prefetch=False, clip_grad=1.0,
        zero_first=False, resident=False, bwd_autocast=False, keep_output=False, keep_loss=False, groups="hf"),
    # ultralytics 8.3 engine/trainer.py
    "ultralytics": dict(
        precision="amp-fp16", optimizer="adamw", momentum=0.9, weight_decay=5e-4, cudnn_benchmark=False,
        prefetch=False, clip_grad=10.0, ema=True, zero_grad="none", zero_first=False, resident=False,
        bwd_autocast=False, keep_output=False, keep_loss=True, groups="ultralytics"),
    # torchtitan train.py, June 2024 to 2025: sharded weights, so no autocast although the arithmetic is bf16's
    "torchtitan": dict(
        precision="amp-bf16", optimizer="adamw", fused_optimizer=True, weight_decay=0.1, clip_grad=1.0, cudnn_benchmark=False,
        prefetch=False, zero_first=True, resident=False, bwd_autocast=False, keep_output=False, keep_loss=True,
        groups="none"),
    # the loop of PyTorch's own tutorials
    "plain": dict(
        precision="fp32", optimizer="sgd", momentum=0.9, nesterov=False, weight_decay=0.0, cudnn_benchmark=False,
        prefetch=False, loss="ce", zero_first=True, resident=False, bwd_autocast=False, keep_output=True,
        keep_loss=True, groups="none"),
    # that of other tutorials: zero_grad stands before backward
    "zero-before-backward": dict(
        precision="fp32", optimizer="sgd", momentum=0.9, nesterov=False, weight_decay=0.0, cudnn_benchmark=False,
        prefetch=False, loss="ce", zero_first=False, zero_late=True, resident=False, bwd_autocast=False, keep_output=True,
        keep_loss=True, groups="none"),
}
SOURCE_PRESET = {"timm": "timm-train", "torchvision": "plain", "hf": "hf-trainer", "ultralytics": "ultralytics", "titan": "torchtitan",
                 "python": "plain"}
SCRIPT_FIELDS = ("zero_first", "zero_late", "resident", "bwd_autocast", "keep_output", "keep_loss", "groups")

# cuBLAS workspace of one (handle, stream): 2*4096 KiB + 8*16 KiB; c10/cuda + aten/src/ATen/cuda/CublasHandlePool.cpp, 2.0 on
CUBLAS_WORKSPACE_BYTES = 8519680


def version(text):
    """'2.13.0+cpu' -> (2, 13). Raises UsageError."""
    try:
        major, minor = text.split("+")[0].split(".")[:2]
        return int(major), int("".join(c for c in minor if c.isdigit()))
    except ValueError:
        raise UsageError("not a torch version: %r (write it as 1.12 or 2.13)" % (text,))


def _version_rules(rules):
    """Defaults that CUDA users of torch `rules` get without asking."""
    modern = rules >= (2, 0)
    return dict(foreach=modern, zero_grad="none" if modern else "zero", attention="fused" if modern else "math",
                cublas_workspace=CUBLAS_WORKSPACE_BYTES if modern else 0)


GENERAL = dict(precision="fp32", optimizer="sgd", momentum=0.9, nesterov=False, weight_decay=0.0, fused_optimizer=False,
               accumulation=1, checkpointing=False, channels_last=False, ema=False, mode="train", loss="ce",
               clip_grad=0.0, cudnn_benchmark=False, prefetch=False, zero_late=False, task="auto", targets_per_image=40)


class Knobs:
    """Resolved knobs: one attribute per name in KNOBS and SCRIPT_FIELDS, and `rules` as a version tuple."""

    def __init__(self, kind, running_torch, said=None):
        """kind: source prefix ('timm'); running_torch: version text; said: dict of what the caller asked for."""
        said = {k: v for k, v in (said or {}).items() if v is not None}
        unknown = set(said) - set(KNOBS) - {"batches", "classes_derivative"}
        if unknown:
            raise UsageError("unknown knob %s; known: %s" % (", ".join(sorted(unknown)), ", ".join(KNOBS)))
        preset = said.get("script_defaults") or SOURCE_PRESET.get(kind, "plain")
        if preset not in PRESETS:
            raise UsageError("unknown preset %r; known: %s" % (preset, ", ".join(PRESETS)))
        rules = version(said.get("rules") or running_torch)
        values = dict.fromkeys(KNOBS)
        for layer in (GENERAL, _version_rules(rules), PRESETS[preset], said):
            values.update(layer)
        values.update(rules=rules, script_defaults=preset)
        self.__dict__.update(values)
        self._derive(said)

    def _derive(self, said):
        if loss_words.is_tiled(self.loss) and self.quant_prepare is None:
            self.quant_prepare = "none"  # by trl since 0.29; before, and elsewhere, by peft
        if self.mode == "inference":
            self.optimizer, self.grad_scaler, self.ema, self.accumulation, self.prefetch = "none", False, False, 1, False
        if self.grad_scaler is None:
            self.grad_scaler = self.precision == "amp-fp16"
        if self.accumulation > 2:
            self.accumulation = 2
        self._check(said)

    def _check(self, said):
        for name, value in said.items():
            choices = KNOBS.get(name, (None,))[0]
            if isinstance(choices, tuple) and value not in choices:
                raise UsageError("--%s %s: choose from %s" % (name.replace("_", "-"), value, ", ".join(choices)))
        if loss_words.is_fused(self.loss) and self.mode == "inference":
            raise UsageError("--loss %s: an inference has none" % self.loss)
        if self.precision == "fp16" and self.mode == "train":
            raise UsageError("--precision fp16 casts the model itself, which does not train; "
                             "use amp-fp16, or --mode inference")
        if self.zero_late and self.accumulation > 1:
            raise UsageError("--accumulation: a script that drops gradients before each backward has none")
        if self.accumulation < 1:
            raise UsageError("--accumulation must be at least 1")
        for name in ("img_size", "seq_len", "target_len", "num_classes"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UsageError("--%s must be positive" % name.replace("_", "-"))

    @property
    def autocast_dtype(self):
        """'float16', 'bfloat16' or None."""
        return {"amp-fp16": "float16", "amp-bf16": "bfloat16"}.get(self.precision)

    @property
    def model_dtype(self):
        """dtype the model is cast to: 'float16', 'bfloat16' or None."""
        by_precision = {"fp16": "float16", "bf16": "bfloat16"}.get(self.precision)
        return by_precision or ("bfloat16" if self.weights == "bf16" else None)
