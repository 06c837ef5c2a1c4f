set -x
read -r -d '' words <<EOF
openrlhf.cli.train_sft \
   --pretrain Qwen/Qwen2.5-1.5B \
   --max_len 4096 \
   --train_batch_size 64 \
   --micro_train_batch_size 4 \
   --zero_stage 2 \
   --bf16 --gradient_checkpointing
EOF
deepspeed --num_gpus 4 --module $words
