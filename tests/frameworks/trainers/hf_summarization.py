# SPDX-License-Identifier: Apache-2.0
"""Text to text with Hugging Face's Seq2SeqTrainer, as its run_summarization.py is written."""
from dataclasses import dataclass, field

import datasets
import evaluate  # noqa: F401
from transformers import (AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq, HfArgumentParser,
                          Seq2SeqTrainer, Seq2SeqTrainingArguments)


@dataclass
class Arguments:
    model_name_or_path: str = field()
    train_file: str = field()


def main():
    ours, training = HfArgumentParser((Arguments, Seq2SeqTrainingArguments)).parse_args_into_dataclasses()
    tokenizer = AutoTokenizer.from_pretrained(ours.model_name_or_path)
    raw = datasets.load_dataset("json", data_files={"train": ours.train_file})["train"]
    rows = raw.map(lambda row: {**tokenizer(row["text"], truncation=True), "labels": tokenizer(row["summary"])["input_ids"]},
                   batched=True, remove_columns=raw.column_names)
    model = AutoModelForSeq2SeqLM.from_config(AutoConfig.from_pretrained(ours.model_name_or_path))
    trainer = Seq2SeqTrainer(model=model, args=training, train_dataset=rows, eval_dataset=rows.select(range(64)),
                             data_collator=DataCollatorForSeq2Seq(tokenizer, model=model))
    trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)


if __name__ == "__main__":
    main()
