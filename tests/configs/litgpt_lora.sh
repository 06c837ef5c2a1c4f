#!/bin/sh
# LoRA by litgpt's own command: the model stands behind the verb.
litgpt finetune_lora meta-llama/Llama-3.2-1B \
    --data Alpaca2k \
    --train.micro_batch_size 4 \
    --train.global_batch_size 32 \
    --train.max_seq_length 512 \
    --precision bf16-true
