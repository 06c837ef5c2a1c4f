export MODEL="some/diffusion-xl"
accelerate launch --num_processes=2 --mixed_precision="bf16" train_text_to_image_lora.py \
    --pretrained_model_name_or_path="$MODEL" --resolution=768 \
    --train_batch_size=3 --use_8bit_adam --gradient_checkpointing --max_train_steps=100
