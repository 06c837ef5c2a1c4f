python qlora.py \
    --model_name_or_path some/model-7b \
    --bf16 \
    --bits 4 \
    --lora_r 16 \
    --source_max_len 16 \
    --target_max_len 1008 \
    --per_device_train_batch_size 4 \
    --gradient_accumulation_steps 2
