# SPDX-License-Identifier: Apache-2.0
"""Images with torchvision's models, as the imagenet of pytorch/examples is written: an epoch, a test after it, and checkpoint.pth.tar in
the folder in which it was started, which is copied when it is the best. --dummy is made-up data."""
import argparse
import shutil

import torch
from torch import nn
from torchvision import datasets, models, transforms


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="?", default="imagenet")
    parser.add_argument("-a", "--arch", default="resnet18")
    parser.add_argument("-j", "--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("-b", "--batch-size", type=int, default=32)
    parser.add_argument("--lr", "--learning-rate", type=float, default=0.1)
    parser.add_argument("-p", "--print-freq", type=int, default=4)
    parser.add_argument("--resume", default="")
    parser.add_argument("--dummy", action="store_true")
    return parser.parse_args()


def save(state, is_best, name="checkpoint.pth.tar"):
    torch.save(state, name)
    if is_best:
        shutil.copyfile(name, "model_best.pth.tar")


def images(args, kind, count):
    to_tensor = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    if args.dummy:
        return datasets.FakeData(count, (3, 32, 32), 10, to_tensor)
    return datasets.ImageFolder(args.data + "/" + kind, to_tensor)


def train(args, loader, model, criterion, optimizer, epoch):
    model.train()
    for number, (pixels, target) in enumerate(loader):
        loss = criterion(model(pixels), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % args.print_freq == 0:
            print(f"Epoch: [{epoch}][{number + 1:>3d}/{len(loader)}]\tLoss {loss.item():.4e}", flush=True)


def validate(loader, model):
    model.eval()
    with torch.no_grad():
        right = sum((model(pixels).argmax(1) == target).sum().item() for pixels, target in loader)
    accuracy = 100 * right / len(loader.dataset)
    print(f" *   Acc@1 {accuracy:.3f}")
    return accuracy


def main():
    args, best, first = parse(), 0, 0
    model, criterion = models.__dict__[args.arch](num_classes=10), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    if args.resume:
        checkpoint = torch.load(args.resume)
        first, best = checkpoint["epoch"], checkpoint["best_acc1"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
        print(f"=> loaded checkpoint '{args.resume}' (epoch {first})")
    loader = torch.utils.data.DataLoader(images(args, "train", 384), args.batch_size, shuffle=True, num_workers=args.workers)
    test = torch.utils.data.DataLoader(images(args, "val", 64), args.batch_size, num_workers=args.workers)
    for epoch in range(first, args.epochs):
        train(args, loader, model, criterion, optimizer, epoch)
        accuracy = validate(test, model)
        scheduler.step()
        save({"epoch": epoch + 1, "arch": args.arch, "state_dict": model.state_dict(), "best_acc1": max(best, accuracy),
              "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, accuracy > best)
        best = max(best, accuracy)


if __name__ == "__main__":
    main()
