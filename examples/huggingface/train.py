# SPDX-License-Identifier: Apache-2.0
"""Trains a small T5 with Hugging Face's Seq2SeqTrainer to write a sequence of numbers backwards.

    python examples/huggingface/train.py --per_device_train_batch_size 16 --gradient_accumulation_steps 2 --output_dir runs/t5

Every option of Seq2SeqTrainingArguments may be given. The model is made from a configuration: nothing is downloaded.
"""
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
from torch.utils.data import Dataset  # noqa: E402
from transformers import (HfArgumentParser, Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config,  # noqa: E402
                          T5ForConditionalGeneration)

WORDS, LENGTH = 128, 48


class Backwards(Dataset):
    """`count` pairs: random numbers, and the same from the end."""

    def __init__(self, count, seed):
        self.numbers = torch.randint(2, WORDS, (count, LENGTH), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        numbers = self.numbers[index]
        return {"input_ids": numbers, "attention_mask": torch.ones_like(numbers), "labels": numbers.flip(0)}


def make_model():
    config = T5Config(vocab_size=WORDS, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                      decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    return T5ForConditionalGeneration(config)


def main():
    defaults = dict(output_dir="runs/t5", report_to=[], logging_steps=10, save_total_limit=1, learning_rate=1e-3)
    parser = HfArgumentParser(Seq2SeqTrainingArguments)
    parser.set_defaults(**defaults)
    parser.add_argument("--samples", type=int, default=4096)
    arguments, options = parser.parse_args_into_dataclasses()
    torch.manual_seed(arguments.seed)
    trainer = Seq2SeqTrainer(model=make_model(), args=arguments, train_dataset=Backwards(options.samples, 1),
                             eval_dataset=Backwards(max(1, options.samples // 16), 2))
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
