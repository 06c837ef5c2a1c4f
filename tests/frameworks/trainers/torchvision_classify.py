# SPDX-License-Identifier: Apache-2.0
"""Images, as torchvision's references/classification is written: transforms of its own, a loader with a sampler, a log of smoothed values,
model_N.pth and checkpoint.pth after every epoch, and --resume."""
import argparse
import collections
import os
import time

import torch
from torch import nn
from torchvision import datasets, models, transforms


class MetricLogger:
    """Prints every so many batches what it was told, over a window."""

    def __init__(self, window=20):
        self.values = collections.defaultdict(lambda: collections.deque(maxlen=window))

    def update(self, **values):
        for name, value in values.items():
            self.values[name].append(float(value))

    def log_every(self, iterable, frequency, header):
        begin = time.time()
        for number, item in enumerate(iterable):
            yield item
            if number % frequency == 0 or number == len(iterable) - 1:
                told = "  ".join(f"{name}: {sum(v) / len(v):.4f}" for name, v in self.values.items())
                seconds = (time.time() - begin) / (number + 1)
                print(f"{header}  [{number:>3d}/{len(iterable)}]  eta: {seconds * (len(iterable) - number):.0f} s  {told}  time: {seconds:.4f}",
                      flush=True)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("-b", "--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("-j", "--workers", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--print-freq", type=int, default=4)
    parser.add_argument("--output-dir", default=".")
    parser.add_argument("--resume", default="")
    return parser.parse_args()


def load(count, flips, args, sampler):
    steps = [transforms.RandomHorizontalFlip()] * flips + [
        transforms.PILToTensor(), transforms.ConvertImageDtype(torch.float), transforms.Normalize((0.5,) * 3, (0.2,) * 3)]
    data = datasets.FakeData(count, (3, 32, 32), 10, transforms.Compose(steps))
    return torch.utils.data.DataLoader(data, args.batch_size, sampler=sampler(data), num_workers=args.workers)


def train_one_epoch(model, criterion, optimizer, loader, epoch, args):
    model.train()
    logger = MetricLogger()
    for image, target in logger.log_every(loader, args.print_freq, f"Epoch: [{epoch}]"):
        loss = criterion(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        logger.update(loss=loss.item(), lr=optimizer.param_groups[0]["lr"])


def evaluate(model, criterion, loader):
    model.eval()
    logger = MetricLogger()
    with torch.inference_mode():
        for image, target in logger.log_every(loader, 100, "Test: "):
            output = model(image)
            logger.update(loss=criterion(output, target).item(), acc1=(output.argmax(1) == target).float().mean())


def main(args):
    os.makedirs(args.output_dir, exist_ok=True)
    loader = load(384, 1, args, torch.utils.data.RandomSampler)
    test = load(64, 0, args, torch.utils.data.SequentialSampler)
    model = models.get_model(args.model, num_classes=10) if hasattr(models, "get_model") else models.__dict__[args.model](num_classes=10)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    first = 0
    if args.resume:
        checkpoint = torch.load(args.resume, map_location="cpu")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["lr_scheduler"])
        first = checkpoint["epoch"] + 1
    for epoch in range(first, args.epochs):
        train_one_epoch(model, criterion, optimizer, loader, epoch, args)
        scheduler.step()
        evaluate(model, criterion, test)
        checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "lr_scheduler": scheduler.state_dict(), "epoch": epoch}
        for name in (f"model_{epoch}.pth", "checkpoint.pth"):
            torch.save(checkpoint, os.path.join(args.output_dir, name))


if __name__ == "__main__":
    main(parse())
