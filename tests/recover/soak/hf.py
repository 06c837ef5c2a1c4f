# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer: hf.py BATCH ACCUMULATE EPOCHS [CHECKPOINT]"""
import sys

import common
from transformers import Trainer, TrainingArguments

batch, accumulate, epochs = map(int, sys.argv[1:4])
net = common.Net()
trainer = Trainer(model=net, train_dataset=common.Data(), data_collator=common.collate, args=TrainingArguments(
    "out", per_device_train_batch_size=batch, gradient_accumulation_steps=accumulate, num_train_epochs=epochs, save_steps=3,
    save_total_limit=2, report_to=[], use_cpu=True, disable_tqdm=True, remove_unused_columns=False, logging_steps=1000))
trainer.train(resume_from_checkpoint=sys.argv[4] if len(sys.argv) > 4 else None)
common.result(net, trainer.state.global_step)
