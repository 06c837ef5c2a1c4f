#!/bin/bash
python run_mlm.py --model_name_or_path bert-base-uncased --max_seq_length 128 \
    --per_device_train_batch_size 24 --gradient_accumulation_steps 2 --fp16 "$@"
