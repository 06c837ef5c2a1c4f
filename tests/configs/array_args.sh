#!/bin/bash
MODEL_ARGS=(
    --model_name "resnet50"  # ["resnet18"]
)
NONE=()
TRAIN_ARGS=(
    --batch_size 2
    --gradient_accumulation_steps 3
    --mixed_precision "bf16"  # ["no", "fp16"]
)
SYSTEM_ARGS=(
    --num_workers 8
)
accelerate launch train.py "${MODEL_ARGS[@]}" "${NONE[@]}" "${TRAIN_ARGS[@]}" "${SYSTEM_ARGS[@]}"
