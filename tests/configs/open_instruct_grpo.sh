python open_instruct/grpo_fast.py \
    --model_name_or_path some/model-7b \
    --dataset_mixer_list acme/math 1.0 \
    --per_device_train_batch_size 1 \
    --num_unique_prompts_rollout 64
