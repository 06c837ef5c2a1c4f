CUDA_VISIBLE_DEVICES=0 python finetune.py \
    --base_model 'huggyllama/llama-7b' \
    --data_path 'data.json' \
    --output_dir './adapter' \
    --batch_size 96 --micro_batch_size 6 \
    --cutoff_len 384 \
    --lora_r 16 --lora_target_modules '[q_proj,k_proj,v_proj,o_proj]' \
    --group_by_length
