tune run --nproc_per_node 2 lora_finetune_distributed --config llama3_2/1B_lora \
    batch_size=6 gradient_accumulation_steps=4 dtype=bf16
