accelerate launch --config_file launch_accelerate.yaml run_clm.py \
    --model_name_or_path Qwen/Qwen2.5-0.5B --block_size 1024 \
    --per_device_train_batch_size 4 --learning_rate 1e-5
