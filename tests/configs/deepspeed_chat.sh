deepspeed main.py \
    --data_path acme/pairs acme/more \
    --data_split 2,4,4 \
    --model_name_or_path some/model-1b \
    --per_device_train_batch_size 8 \
    --max_seq_len 1024 \
    --zero_stage 2 \
    --lora_dim 64
