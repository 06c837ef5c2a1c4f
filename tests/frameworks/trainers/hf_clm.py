# SPDX-License-Identifier: Apache-2.0
"""A causal language model with Hugging Face's Trainer, as its run_clm.py is written: datasets and evaluate first, grouped blocks of
text, a checkpoint every --save_steps, and `--resume_from_checkpoint` taken from the arguments."""
from dataclasses import dataclass, field

import datasets
import evaluate  # noqa: F401  (its lookup of torch comes before torch itself is imported, as in run_clm.py)
import transformers
from transformers import (AutoConfig, AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, Trainer, TrainingArguments,
                          default_data_collator, set_seed)


@dataclass
class Arguments:
    model_name_or_path: str = field()
    train_file: str = field()
    block_size: int = 32


def main():
    ours, training = HfArgumentParser((Arguments, TrainingArguments)).parse_args_into_dataclasses()
    transformers.utils.logging.set_verbosity_error()
    set_seed(training.seed)
    tokenizer = AutoTokenizer.from_pretrained(ours.model_name_or_path)
    raw = datasets.load_dataset("json", data_files={"train": ours.train_file})["train"]
    tokens = raw.map(lambda rows: tokenizer(rows["text"]), batched=True, remove_columns=raw.column_names)

    def grouped(rows):
        joined = sum(rows["input_ids"], [])
        whole = len(joined) // ours.block_size * ours.block_size
        blocks = [joined[i:i + ours.block_size] for i in range(0, whole, ours.block_size)]
        return {"input_ids": blocks, "attention_mask": [[1] * ours.block_size] * len(blocks), "labels": [list(b) for b in blocks]}

    blocks = tokens.map(grouped, batched=True, remove_columns=tokens.column_names)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(ours.model_name_or_path))
    trainer = Trainer(model=model, args=training, train_dataset=blocks, eval_dataset=blocks.select(range(32)),
                      data_collator=default_data_collator)
    trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)
    trainer.save_model()
    if training.do_eval:
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
