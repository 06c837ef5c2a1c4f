python -m torch.distributed.launch --nproc_per_node=4 main_dino.py \
    --arch vit_small --batch_size_per_gpu 48 --use_fp16 true --optimizer adamw --lr 0.0004
