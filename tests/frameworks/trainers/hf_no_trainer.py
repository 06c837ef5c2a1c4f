# SPDX-License-Identifier: Apache-2.0
"""A causal language model with accelerate and a loop of its own, as Hugging Face's run_clm_no_trainer.py is written: the state of
accelerate is saved every --checkpointing_steps, and --resume_from_checkpoint skips what was trained on already."""
import argparse
import os

import datasets
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, default_data_collator, get_scheduler


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_name_or_path", required=True)
    parser.add_argument("--train_file", required=True)
    parser.add_argument("--per_device_train_batch_size", type=int, default=8)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--num_train_epochs", type=int, default=3)
    parser.add_argument("--block_size", type=int, default=32)
    parser.add_argument("--checkpointing_steps", type=int, default=10)
    parser.add_argument("--output_dir", default="out")
    parser.add_argument("--resume_from_checkpoint")
    return parser.parse_args()


def blocks_of(args):
    tokenizer = AutoTokenizer.from_pretrained(args.model_name_or_path)
    raw = datasets.load_dataset("json", data_files={"train": args.train_file})["train"]
    joined = sum((tokenizer(row["text"])["input_ids"] for row in raw), [])
    size = args.block_size
    return [{"input_ids": joined[i:i + size], "labels": joined[i:i + size]} for i in range(0, len(joined) - size, size)]


def main():
    args = parse()
    accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps, cpu=True)
    loader = DataLoader(blocks_of(args), shuffle=True, collate_fn=default_data_collator, batch_size=args.per_device_train_batch_size)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(args.model_name_or_path))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=len(loader) * args.num_train_epochs)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    bar, done = tqdm(range(len(loader) * args.num_train_epochs), disable=not accelerator.is_local_main_process), 0
    if args.resume_from_checkpoint:
        accelerator.load_state(args.resume_from_checkpoint)
        done = int(os.path.basename(os.path.normpath(args.resume_from_checkpoint)).rpartition("_")[2])
        bar.update(done)
    for epoch in range(done // len(loader), args.num_train_epochs):
        model.train()
        rest = accelerator.skip_first_batches(loader, done % len(loader)) if epoch == done // len(loader) else loader
        for batch in rest:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch).loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            bar.update(1)
            done += 1
            if done % args.checkpointing_steps == 0:
                accelerator.save_state(os.path.join(args.output_dir, "step_%d" % done))


if __name__ == "__main__":
    main()
