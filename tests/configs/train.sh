python train.py --batch-size 32 --amp
