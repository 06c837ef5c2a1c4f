#!/bin/bash
# fine-tunes on four GPUs
MODEL=Qwen/Qwen2.5-1.5B
BATCH=${BATCH:-4}
ACCUM=$((32 / BATCH))
ARGS="--bf16 True --gradient_checkpointing"

if [ ! -d data ]; then
  python make_data.py --out data
fi

accelerate launch --num_processes 4 --mixed_precision bf16 run_sft.py \
  --model_name_or_path "$MODEL" \
  --per_device_train_batch_size $BATCH \
  --gradient_accumulation_steps=8 \
  --learning_rate 2e-5 $ARGS \
  --max_seq_length 2048 2>&1 | tee log.txt
