#!/bin/bash
# Two GPUs: --batch-size counts both of them.
torchrun --nproc_per_node 2 train.py --data parts.yaml --epochs 80 \
    --weights "" --cfg yolov5m.yaml \
    --batch-size 48 --img 512 --device 0,1 --workers 6
