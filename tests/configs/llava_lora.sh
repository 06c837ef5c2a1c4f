#!/bin/bash
deepspeed llava/train/train_mem.py \
    --deepspeed launch_zero2.json \
    --lora_enable True --lora_r 64 \
    --model_name_or_path some/vicuna-7b \
    --per_device_train_batch_size 8 --gradient_accumulation_steps 2 \
    --model_max_length 2048 --gradient_checkpointing True --bf16 True
