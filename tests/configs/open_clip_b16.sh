#!/bin/bash
#SBATCH --nodes=4
export OMP_NUM_THREADS=4
srun --cpu-bind=cores python -u -m open_clip_train.main \
    --train-data="/data/pairs/{0000..0512}.tar" \
    --train-num-samples 9000000 \
    --batch-size=128 \
    --accum-freq 4 \
    --model "ViT-B-16" \
    --precision="amp_bf16" \
    --grad-checkpointing \
    --workers=6 --lr 5e-4
