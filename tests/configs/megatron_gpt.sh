#!/bin/bash
LAYERS="
    --num-layers 16 \
    --hidden-size 1536 \
    --num-attention-heads 12 \
    --bf16
"
torchrun --nproc_per_node=4 --nnodes=$NODES pretrain_gpt.py $LAYERS \
    --seq-length 2048 --micro-batch-size 4 --global-batch-size 128 \
    --tensor-model-parallel-size 2 --recompute-granularity full
