# SPDX-License-Identifier: Apache-2.0
"""Classification of text with Hugging Face's Trainer, as its run_glue.py is written: each batch as long as its longest sentence."""
from dataclasses import dataclass, field

import datasets
import evaluate  # noqa: F401
from transformers import (AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, HfArgumentParser,
                          Trainer, TrainingArguments)


@dataclass
class Arguments:
    model_name_or_path: str = field()
    train_file: str = field()


def main():
    ours, training = HfArgumentParser((Arguments, TrainingArguments)).parse_args_into_dataclasses()
    tokenizer = AutoTokenizer.from_pretrained(ours.model_name_or_path)
    raw = datasets.load_dataset("json", data_files={"train": ours.train_file})["train"]
    rows = raw.map(lambda row: tokenizer(row["text"], truncation=True), batched=True, remove_columns=["text", "summary"])
    model = AutoModelForSequenceClassification.from_config(AutoConfig.from_pretrained(ours.model_name_or_path, num_labels=2))
    trainer = Trainer(model=model, args=training, train_dataset=rows, eval_dataset=rows.select(range(64)),
                      data_collator=DataCollatorWithPadding(tokenizer))
    trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)


if __name__ == "__main__":
    main()
