#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Language models and encoders by their shape on a real GPU: what `fit` and `infer` predict from config.json alone, and what torch holds.

    tests/gpu/language.py --batchfit PROGRAM --out FILE.csv [--only TEXT]
    tests/gpu/language.py --batchfit PROGRAM --measured FILE.csv          (without a GPU: that file's rows are predicted again)

For each line of language.tsv: a model with random weights from that config, trained six steps by transformers' Trainer (with peft
where there is an adapter), or generating once, in a process of its own; then the program's prediction for the same GPU, batch and
lengths. Nothing is downloaded. The CSV is written again after every line. Ends with 'N passed, N failed, N skipped': a row passes
when the predicted peak of allocated bytes is within 5 % of torch's. Exit status: 0, 1 when a row failed, 77 without a GPU.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

from compare import error_of

HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = 0.05
SKIP = 77
COLUMNS = ("name", "config", "options", "predicted_allocated", "torch_allocated", "predicted_reserved", "torch_reserved", "nvml_device",
           "predicted_overhead", "seconds_per_step", "device", "driver", "torch", "transformers", "error")


def rows_of(path, only):
    """[(name, config, options)] of language.tsv; options are words of the program."""
    with open(path, encoding="utf-8") as f:
        lines = [line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#")]
    return [(name, config, options.split()) for name, config, options in lines if only in "%s %s" % (name, options)]


def value_of(options, name, otherwise=None):
    return options[options.index(name) + 1] if name in options else otherwise


# --- In the process that measures ----------------------------------------------------------------

class Texts:
    """So many samples of one length, the same words each time."""

    def __init__(self, tokens, words, is_classified):
        import torch
        make = torch.Generator().manual_seed(1)
        ids = torch.randint(5, words - 5, (tokens,), generator=make)
        self.sample = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor(1) if is_classified else ids}

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        return self.sample


def built(config, options, is_inference):
    import torch
    import transformers
    precision = value_of(options, "--precision", "bf16")
    adapter = value_of(options, "--lora")
    dtype = torch.float32 if precision in ("fp32", "amp-bf16", "amp-fp16") and not adapter else torch.bfloat16
    is_classified = "SequenceClassification" in "".join(config.architectures or [])
    kind = transformers.AutoModelForSequenceClassification if is_classified else transformers.AutoModelForCausalLM
    with torch.device("cuda"):
        model = kind.from_config(config, dtype=dtype)
    if adapter:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=int(adapter), lora_alpha=16, target_modules="all-linear",
                                                           lora_dropout=0.0, task_type="CAUSAL_LM"))
        if "--checkpointing" in options:
            model.enable_input_require_grads()
    return model.eval() if is_inference else model, is_classified


def train(config, options):
    import torch
    import transformers
    precision = value_of(options, "--precision", "amp-bf16" if "--lora" in options else "bf16")
    batch, tokens = int(value_of(options, "--batch")), int(value_of(options, "--seq-len"))
    model, is_classified = built(config, options, False)

    class Clock(transformers.TrainerCallback):
        times = []

        def on_step_end(self, *_, **__):
            import time
            torch.cuda.synchronize()
            self.times.append(time.monotonic())

    with tempfile.TemporaryDirectory() as folder:
        how = transformers.TrainingArguments(
            folder, per_device_train_batch_size=batch, max_steps=6, bf16=precision == "amp-bf16", fp16=precision == "amp-fp16",
            gradient_checkpointing="--checkpointing" in options, optim="adamw_torch_fused", report_to=[], save_strategy="no",
            logging_strategy="no", dataloader_num_workers=0)
        transformers.Trainer(model, how, train_dataset=Texts(tokens, config.vocab_size, is_classified), callbacks=[Clock()]).train()
    return statistics.median(b - a for a, b in zip(Clock.times, Clock.times[1:]))


def generate(config, options):
    import torch
    import transformers
    batch, tokens, new = (int(value_of(options, name)) for name in ("--batch", "--seq-len", "--target-len"))
    model, _ = built(config, options, True)
    ids = torch.randint(5, config.vocab_size - 5, (batch, tokens - new), device="cuda")
    mask = torch.ones_like(ids)
    mask[0, :7] = 0
    how = transformers.GenerationConfig(max_new_tokens=new, min_new_tokens=new, do_sample=True, temperature=0.9, top_k=0, top_p=1.0,
                                        pad_token_id=0, eos_token_id=None, bos_token_id=1)
    with torch.no_grad():
        model.generate(input_ids=ids, attention_mask=mask, generation_config=how)
    return float("nan")


def measure(config_file, options):
    import torch
    import transformers
    config = transformers.AutoConfig.from_pretrained(os.path.dirname(config_file))
    total = torch.cuda.mem_get_info()[1]
    seconds = (generate if "--target-len" in options else train)(config, options)
    stats = torch.cuda.memory_stats()
    free = torch.cuda.mem_get_info()[0]
    return {"torch_allocated": stats["allocated_bytes.all.peak"], "torch_reserved": stats["reserved_bytes.all.peak"],
            "nvml_device": total - free, "seconds_per_step": round(seconds, 4) if seconds == seconds else "",
            "device": torch.cuda.get_device_name(0), "torch": torch.__version__, "transformers": transformers.__version__}


# --- In the one that compares --------------------------------------------------------------------

def asked(program, config_file, options):
    """What the program predicts: bytes."""
    verb = "infer" if "--target-len" in options else "fit"
    batch, at = value_of(options, "--batch"), options.index("--batch")
    words = options[:at] + options[at + 2:]
    more = ["--precision", "bf16"] if "--precision" not in options and "--lora" not in options else []
    done = subprocess.run([program, verb, "--model", config_file, *words, *more, "--gpu", "h100", "--min-batch-size", batch,
                           "--max-batch-size", batch, "--no-history", "--json"], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr.strip().replace("\n", " "))
    peak = json.loads(done.stdout)["results"][0]["peak"]
    return {"predicted_allocated": peak["allocated_bytes"], "predicted_reserved": peak["reserved_bytes"],
            "predicted_overhead": peak["overhead_bytes"]}


def again(program, said):
    """A row of an earlier file with what the program predicts now."""
    measured = {name: int(said[name]) for name in ("torch_allocated", "torch_reserved")}
    with tempfile.TemporaryDirectory() as folder:
        config_file = os.path.join(folder, "config.json")
        with open(config_file, "w", encoding="utf-8") as f:
            f.write(said["config"])
        return {**said, **measured, **asked(program, config_file, said["options"].split())}


def compare(program, row):
    name, config, options = row
    with tempfile.TemporaryDirectory() as folder:
        config_file = os.path.join(folder, "config.json")
        with open(config_file, "w", encoding="utf-8") as f:
            f.write(config)
        said = {"name": name, "config": config, "options": " ".join(options)}
        try:
            said.update(asked(program, config_file, options))
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--measure", config_file, *options], capture_output=True,
                                  text=True, timeout=240, check=False)
            if done.returncode:
                raise RuntimeError(" ".join(done.stderr.strip().split("\n")[-3:]))
            said.update(json.loads(done.stdout.strip().split("\n")[-1]))
        except (RuntimeError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            said["error"] = str(error)[:600]
        return said


def judge(said):
    """Prints the row's errors. Whether its peak of allocated bytes was predicted."""
    errors = {figure: error_of(said, figure) for figure in ("allocated", "reserved")}
    is_good = errors["allocated"] is not None and abs(errors["allocated"]) <= TOLERANCE
    print("%s %s %s: allocated %s, reserved %s %s" % ("ok" if is_good else "not ok", said["name"], said["options"], *(
        "%+.2f %%" % (100 * error) if error is not None else "-" for error in errors.values()), said.get("error", "")), flush=True)
    return is_good


def tell(good):
    print("%d passed, %d failed, 0 skipped" % (sum(good), len(good) - sum(good)))
    return 0 if all(good) else 1


def main():
    if sys.argv[1:2] == ["--measure"]:
        print("\n" + json.dumps(measure(sys.argv[2], sys.argv[3:])))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--batchfit", required=True)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", metavar="FILE")
    where.add_argument("--measured", metavar="FILE")
    parser.add_argument("--only", default="")
    o = parser.parse_args()
    if o.measured:
        with open(o.measured, encoding="utf-8", newline="") as f:
            return tell([judge(again(o.batchfit, said)) for said in csv.DictReader(f) if not said["error"]])
    try:
        import torch
        has_gpu = torch.cuda.is_available()
    except ImportError:
        has_gpu = False
    if not has_gpu:
        print("SKIP: no GPU: nothing was measured\n0 passed, 0 failed, 1 skipped")
        return SKIP
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True,
                            check=False).stdout.strip()
    done, good = [], []
    for row in rows_of(os.path.join(HERE, "language.tsv"), o.only):
        done.append({**compare(o.batchfit, row), "driver": driver})
        with open(o.out, "w", encoding="utf-8", newline="") as f:
            table = csv.DictWriter(f, COLUMNS, restval="", lineterminator="\n")
            table.writeheader()
            table.writerows(done)
        good.append(judge(done[-1]))
    return tell(good)


if __name__ == "__main__":
    sys.exit(main())
