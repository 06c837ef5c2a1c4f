# SPDX-License-Identifier: Apache-2.0
"""Trains a small classifier of images with nothing but PyTorch (and PyYAML for its settings).

    python examples/plain/train.py --batch-size 64 --accumulate 2 --amp

The settings come from a YAML file; options win over it. The images are made up: each class has its own colour and stripes.
"""
import argparse
import os

import torch
import torch.nn.functional as F
import yaml
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class Thumbnails(Dataset):
    """`count` square images; the same index gives the same image in every run."""

    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        noise = torch.Generator().manual_seed(index)
        label = index % self.classes
        stripes = torch.sin(torch.arange(self.size) * (label + 1) * 0.2)
        image = torch.randn(3, self.size, self.size, generator=noise) * 0.5 + stripes
        image[label % 3] += 1
        return image, label


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.mix = nn.Conv2d(width, width, 1)

    def forward(self, x):
        return x + F.relu(self.mix(self.norm(self.depthwise(x))))


class Classifier(nn.Module):
    def __init__(self, classes, width=16, depth=4):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean(dim=(2, 3)))


def make_optimizer(settings, model):
    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    return kinds[settings["optimizer"]](model.parameters(), lr=float(settings["lr"]))


def make_scaler(enabled):
    if hasattr(torch.amp, "GradScaler"):  # torch 2.3 on
        return torch.amp.GradScaler("cuda", enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)


def train_epoch(model, loader, optimizer, scaler, settings, device):
    model.train()
    accumulate, amp = settings["gradient_accumulation_steps"], settings["mixed_precision"]
    dtype = torch.float16 if device.type == "cuda" else torch.bfloat16
    optimizer.zero_grad()
    for number, (images, labels) in enumerate(loader, 1):
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=dtype, enabled=amp):
            loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss / accumulate).backward()
        if number % accumulate == 0 or number == len(loader):
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        if number % settings["log_every"] == 0:
            print(f"  batch {number}/{len(loader)}  loss {loss.item():.4f}", flush=True)


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    right = total = 0
    for images, labels in loader:
        right += (model(images.to(device)).argmax(1).cpu() == labels).sum().item()
        total += len(labels)
    return right / total


def read_settings():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--config", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.yaml"))
    parser.add_argument("--batch-size", "--bs", type=int, dest="batch_size")
    parser.add_argument("--accumulate", type=int, dest="gradient_accumulation_steps")
    parser.add_argument("--amp", action="store_const", const=True, dest="mixed_precision")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--img-size", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--samples", type=int)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", help="folder for checkpoints")
    options = parser.parse_args()
    with open(options.config, encoding="utf-8") as f:
        settings = yaml.safe_load(f)
    places = {"num_workers": ("data", options.workers), "samples": ("data", options.samples), "dir": ("output", options.output)}
    for name in ("batch_size", "gradient_accumulation_steps", "mixed_precision", "epochs", "img_size"):
        places[name] = ("train", getattr(options, name))
    for name, (section, value) in places.items():
        if value is not None:
            settings[section][name] = value
    return settings, torch.device(options.device)


def main():
    settings, device = read_settings()
    training, data, folder = settings["train"], settings["data"], settings["output"]["dir"]
    torch.manual_seed(0)
    classes = settings["model"]["num_classes"]
    images = Thumbnails(data["samples"], training["img_size"], classes)
    held_out = max(1, len(images) // 10)
    train_set, val_set = random_split(images, [len(images) - held_out, held_out])
    options = dict(batch_size=training["batch_size"], num_workers=data["num_workers"], pin_memory=device.type == "cuda")
    train_loader, val_loader = DataLoader(train_set, shuffle=True, **options), DataLoader(val_set, **options)
    model = Classifier(classes).to(device)
    optimizer = make_optimizer(training, model)
    scaler = make_scaler(training["mixed_precision"] and device.type == "cuda")
    os.makedirs(folder, exist_ok=True)
    for epoch in range(1, training["epochs"] + 1):
        train_epoch(model, train_loader, optimizer, scaler, training, device)
        accuracy = validate(model, val_loader, device)
        torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
                   os.path.join(folder, "last.pt"))
        print(f"epoch {epoch}: accuracy {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
