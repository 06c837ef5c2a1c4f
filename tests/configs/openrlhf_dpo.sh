#!/bin/sh
# In the style of OpenRLHF's scripts since its options have a dot.
read -r -d '' words <<EOF
openrlhf.cli.train_dpo \
   --train.batch_size 64 \
   --train.micro_batch_size 2 \
   --model.model_name_or_path some/chat-model \
   --ds.param_dtype bf16 \
   --ds.zero_stage 3 \
   --data.max_len 4096 \
   --data.chosen_key better \
   --data.rejected_key worse \
   --adam.lr 5e-7 \
   --model.beta 0.1 \
   --model.gradient_checkpointing_enable
EOF
deepspeed --module $words
