deepspeed --num_gpus 4 pretrain.py --model_name_or_path Qwen/Qwen2.5-0.5B --max_seq_length 1024 \
    --gradient_checkpointing --deepspeed --deepspeed_config deepspeed_program.json
