# SPDX-License-Identifier: Apache-2.0
"""What language.py measures: a model with random weights from its config.json, trained six steps by transformers' Trainer or writing
on once, alone or as the first of several GPUs.

Of several GPUs one is there. torch's own fake group stands for the others: its collectives return at once and move nothing, so what
FSDP and DeepSpeed allocate on that GPU is real, its values and times are not.
"""
import os
import statistics
import tempfile
import time

import torch
import transformers

STEPS = 6
BUCKET = 500_000_000  # elements: reduce_bucket_size and its like as DeepSpeed sets them
OPTIMIZERS = {"adamw8bit": "adamw_bnb_8bit", "adamw": "adamw_torch_fused", "paged-adamw8bit": "paged_adamw_8bit", "adafactor": "adafactor",
              "lion": "lion_32bit", "sgd": "sgd"}


def value_of(options, name, otherwise=None):
    """The word behind an option."""
    return options[options.index(name) + 1] if name in options else otherwise


class Texts:
    """So many samples of one length, the same words each time."""

    def __init__(self, tokens, words, is_classified):
        make = torch.Generator().manual_seed(1)
        ids = torch.randint(5, words - 5, (tokens,), generator=make)
        self.sample = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor(1) if is_classified else ids}

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        return self.sample


def join(ranks):
    """This process is the first of so many; the others are torch's fake ones."""
    from torch.testing._internal.distributed.fake_pg import FakeStore
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.distributed.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())


def quantize(model, words):
    """Its linear layers but the head in four bits, as bitsandbytes keeps them, on the host."""
    import bitsandbytes as bnb
    is_double, storage = value_of(words, "--quant").startswith("nf4-dq"), torch.bfloat16 if "--shard" in words else torch.uint8
    for name, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or name.endswith("lm_head"):
            continue
        made = bnb.nn.Linear4bit(module.in_features, module.out_features, module.bias is not None, compute_dtype=torch.bfloat16,
                                 quant_type="nf4", compress_statistics=is_double, quant_storage=storage, device="meta")
        made.weight = bnb.nn.Params4bit(module.weight.data, requires_grad=False, quant_type="nf4", compress_statistics=is_double,
                                        quant_storage=storage, module=made).to("cuda").to("cpu")
        if module.bias is not None:
            made.bias = torch.nn.Parameter(module.bias.data, requires_grad=False)
        owner, _, last = name.rpartition(".")
        setattr(model.get_submodule(owner), last, made)
        module.weight = None
    model.is_loaded_in_4bit = True
    return model.to("cpu")


def built(config, words, is_inference):
    """The model, with its adapter if there is one, and whether it classifies: on the GPU, or on the host where what shares it takes
    it from there. What is not what trains is not left behind in the allocator."""
    precision, adapter, quant = value_of(words, "--precision", "bf16"), value_of(words, "--lora"), value_of(words, "--quant")
    is_whole = not adapter and (precision in ("fp32", "amp-bf16", "amp-fp16") or value_of(words, "--shard", "").startswith("fsdp"))
    is_classified = "SequenceClassification" in "".join(config.architectures or [])
    kind = transformers.AutoModelForSequenceClassification if is_classified else transformers.AutoModelForCausalLM
    with torch.device("cuda"):
        model = kind.from_config(config, dtype=torch.float32 if is_whole else torch.bfloat16)
    if quant:
        model = quantize(model, words)
    if "--shard" in words:
        model = model.to("cpu")
    torch.cuda.empty_cache()
    if quant and "--shard" not in words:
        model = model.to("cuda")
    if adapter:
        import peft
        rank, _, rest = adapter.partition(":")
        names, _, dropout = rest.partition(":")
        if quant and not quant.endswith("left") and "--shard" not in words:
            model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing="--checkpointing" in words)
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=int(rank), lora_alpha=16, target_modules=names.split(",") if names and names != "all-linear" else "all-linear",
            lora_dropout=0.1 if dropout else 0.0, task_type="CAUSAL_LM"))
        if "--checkpointing" in words:
            model.enable_input_require_grads()
    return model.eval() if is_inference else model, is_classified


def shared(words):
    """What TrainingArguments gets for a sharding."""
    shard = value_of(words, "--shard", "")
    if shard.startswith("fsdp"):
        return {"fsdp": True, "fsdp_config": {
            "version": int(shard[4]), "backward_prefetch": "backward_pre", "reshard_after_forward": True if shard[4] == "2" else "full_shard",
            "use_orig_params": False, "cpu_ram_efficient_loading": False, "sync_module_states": False}}
    if shard.startswith("zero"):
        stage = int(shard[4])
        return {"deepspeed": {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "bf16": {"enabled": True},
                              "gradient_clipping": "auto", "zero_allow_untested_optimizer": True,
                              "zero_optimization": {"stage": stage, "contiguous_gradients": True,
                                                    "reduce_bucket_size": BUCKET, "allgather_bucket_size": BUCKET}}}
    return {}


def train(config, words):
    """Seconds a step."""
    precision = value_of(words, "--precision", "amp-bf16" if "--lora" in words or value_of(words, "--shard", "").startswith("fsdp") else "bf16")
    is_zero = value_of(words, "--shard", "").startswith("zero")
    batch, tokens = int(value_of(words, "--batch")), int(value_of(words, "--seq-len"))

    class Clock(transformers.TrainerCallback):
        """When each step ended."""
        times = []

        def on_train_begin(self, *_, **__):
            """What was allocated to bring the model there is over."""
            torch.cuda.reset_peak_memory_stats()

        def on_step_end(self, *_, **__):
            torch.cuda.synchronize()
            self.times.append(time.monotonic())

    with tempfile.TemporaryDirectory() as folder:
        how = transformers.TrainingArguments(
            folder, per_device_train_batch_size=batch, max_steps=STEPS, bf16=precision == "amp-bf16" or is_zero, fp16=precision == "amp-fp16",
            gradient_checkpointing="--checkpointing" in words, optim=OPTIMIZERS[value_of(words, "--optimizer", "adamw")], report_to=[],
            save_strategy="no", logging_strategy="no", dataloader_num_workers=0,
            use_liger_kernel=value_of(words, "--loss") == "liger", **shared(words))
        model, is_classified = built(config, words, False)
        transformers.Trainer(model, how, train_dataset=Texts(tokens, config.vocab_size, is_classified), callbacks=[Clock()]).train()
    return statistics.median(b - a for a, b in zip(Clock.times, Clock.times[1:]))


def generate(config, words):
    """Writes on once."""
    batch, tokens, new = (int(value_of(words, name)) for name in ("--batch", "--seq-len", "--target-len"))
    model, _ = built(config, words, True)
    ids = torch.randint(5, config.vocab_size - 5, (batch, tokens - new), device="cuda")
    mask = torch.ones_like(ids)
    mask[0, :7] = 0
    how = transformers.GenerationConfig(max_new_tokens=new, min_new_tokens=new, do_sample=True, temperature=0.9, top_k=0, top_p=1.0,
                                        pad_token_id=0, eos_token_id=None, bos_token_id=1)
    with torch.no_grad():
        model.generate(input_ids=ids, attention_mask=mask, generation_config=how)
    return float("nan")


def measure(config_file, words):
    """One row: what torch and the driver say after it."""
    config = transformers.AutoConfig.from_pretrained(os.path.dirname(config_file))
    if "--gpus" in words:
        join(int(value_of(words, "--gpus").partition("x")[0]))
    seconds = (generate if "--target-len" in words else train)(config, words)
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    return {"torch_allocated": stats["allocated_bytes.all.peak"], "torch_reserved": stats["reserved_bytes.all.peak"],
            "nvml_device": total - free, "seconds_per_step": round(seconds, 4) if seconds == seconds and "--gpus" not in words else "",
            "device": torch.cuda.get_device_name(0), "torch": torch.__version__, "transformers": transformers.__version__}
