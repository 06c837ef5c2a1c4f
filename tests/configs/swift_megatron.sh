#!/bin/sh
# In the style of ms-swift's scripts for Megatron.
NPROC_PER_NODE=8 \
megatron sft \
    --model some/model-8b \
    --dataset own/questions \
    --tensor_model_parallel_size 2 \
    --micro_batch_size 2 \
    --global_batch_size 32 \
    --torch_dtype bfloat16 \
    --recompute_granularity full \
    --lr 1e-5 \
    --max_length 4096
