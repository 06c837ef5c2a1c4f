# SPDX-License-Identifier: Apache-2.0
"""Images with timm's own parts, as its train.py is written: create_model, create_loader with its workers, create_optimizer_v2,
CheckpointSaver and resume_checkpoint."""
import argparse
import os

import torch
from timm.data import create_loader
from timm.models import create_model, resume_checkpoint
from timm.optim import create_optimizer_v2
from timm.utils import AverageMeter, CheckpointSaver


class Noise(torch.utils.data.Dataset):
    transform = None  # create_loader sets it

    def __init__(self, count, size):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        pixels = torch.randint(0, 256, (self.size, self.size, 3), generator=torch.Generator().manual_seed(index), dtype=torch.uint8)
        from PIL import Image
        return self.transform(Image.fromarray(pixels.numpy())), index % 10


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("-b", "--batch-size", type=int, default=16)
    parser.add_argument("--grad-accum-steps", type=int, default=1)
    parser.add_argument("--img-size", type=int, default=32)
    parser.add_argument("-j", "--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--output", default="out")
    parser.add_argument("--resume", default="")
    return parser.parse_args()


def main():
    args = parse()
    model = create_model(args.model, num_classes=10)
    loader = create_loader(Noise(args.samples, args.img_size), (3, args.img_size, args.img_size), args.batch_size, is_training=True,
                           use_prefetcher=False, num_workers=args.workers, device=torch.device("cpu"), no_aug=True)
    optimizer = create_optimizer_v2(model, opt="sgd", lr=0.05, momentum=0.9)
    first = resume_checkpoint(model, args.resume, optimizer) if args.resume else 0
    os.makedirs(args.output, exist_ok=True)
    saver = CheckpointSaver(model, optimizer, args=args, checkpoint_dir=args.output, recovery_dir=args.output, max_history=2)
    criterion = torch.nn.CrossEntropyLoss()
    for epoch in range(first or 0, args.epochs):
        model.train()
        losses = AverageMeter()
        for number, (images, labels) in enumerate(loader):
            loss = criterion(model(images), labels) / args.grad_accum_steps
            loss.backward()
            if (number + 1) % args.grad_accum_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
            losses.update(loss.item() * args.grad_accum_steps, images.size(0))
            if number % 4 == 0:
                print(f"Train: {epoch} [{number:>4d}/{len(loader)}]  Loss: {losses.val:#.3g} ({losses.avg:#.3g})", flush=True)
        saver.save_checkpoint(epoch, metric=-losses.avg)


if __name__ == "__main__":
    main()
