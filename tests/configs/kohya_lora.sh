accelerate launch train_network.py --pretrained_model_name_or_path=runwayml/stable-diffusion-v1-5 \
    --network_module=networks.lora --train_batch_size=8 --resolution=512,512 --mixed_precision=fp16
