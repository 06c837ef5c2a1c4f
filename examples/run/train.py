# SPDX-License-Identifier: Apache-2.0
"""Trains a small classifier of images, writes a checkpoint now and then, and goes on from one when told to.

    python examples/run/train.py --batch-size 48 --output out
    python examples/run/train.py --batch-size 12 --accumulate 4 --output out --resume out/ckpt-00000384.pt

What it learns depends on batch x accumulation (x ranks) only: the samples of a step are the same, in the same order, however
they are cut into micro-batches, and nothing looks across a batch (no batch norm). With --ask it asks batchfit before each epoch
which micro-batch to use. torchrun starts it on several ranks; rank 0 writes the checkpoints.
"""
import argparse
import contextlib
import glob
import os
import signal

import torch
import torch.nn.functional as F
from torch import distributed, nn
from torch.utils.data import DataLoader, Dataset

KEPT = 3  # checkpoints


class Thumbnails(Dataset):
    """`count` square images; the same index gives the same image in every run."""

    def __init__(self, count, size, classes=5):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        noise = torch.Generator().manual_seed(index)
        label = index % self.classes
        stripes = torch.sin(torch.arange(self.size) * (label + 1) * 0.2)
        return torch.randn(3, self.size, self.size, generator=noise) * 0.5 + stripes, label


def make_model(width, classes):
    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU(),
                         nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def steps_of_epoch(count, epoch, skip, effective):
    """The samples of each optimizer step of an epoch, without the `skip` samples that were trained on already."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch)).tolist()
    return [order[i:i + effective] for i in range(skip, count, effective)]


def micro_batches(steps, batch, rank, world):
    """This rank's part of each step, cut into micro-batches."""
    parts = [step[rank::world] for step in steps]
    return [part[i:i + batch] for part in parts for i in range(0, len(part), batch)]


def save(path, state):
    """The whole file or none: who is killed in between leaves the old one."""
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def save_checkpoint(folder, training, samples):
    os.makedirs(folder, exist_ok=True)
    state = {"samples": samples, "model": training["net"].state_dict(), "optimizer": training["optimizer"].state_dict()}
    save(os.path.join(folder, "ckpt-%08d.pt" % samples), state)
    for old in sorted(glob.glob(os.path.join(folder, "ckpt-*.pt")))[:-KEPT]:
        os.remove(old)


def train_step(training, batches, size, world):
    """One optimizer step over the micro-batches of `size` samples; returns their mean loss on this rank."""
    model, total = training["model"], 0.0
    training["optimizer"].zero_grad()
    for number, (images, labels) in enumerate(batches, 1):
        images, labels = images.to(training["device"]), labels.to(training["device"])
        waits = number < len(batches) and hasattr(model, "no_sync")  # ranks exchange gradients once a step
        with model.no_sync() if waits else contextlib.nullcontext():
            loss = F.cross_entropy(model(images), labels, reduction="sum") * world / size
            loss.backward()
        total += loss.item()
    training["optimizer"].step()
    return total


def take(loader, count):
    """The next `count` micro-batches, as the loader brings them."""
    for _ in range(count):
        yield next(loader)


class Micro:
    """A step's micro-batches, loaded one at a time, with a length."""

    def __init__(self, loader, count):
        self.loader, self.count = loader, count

    def __len__(self):
        return self.count

    def __iter__(self):
        return take(self.loader, self.count)


def train(training, settings, samples, rank, world, stopping):
    """From so many samples to the end; returns how many it came to."""
    data = Thumbnails(settings.samples, settings.image_size)
    batch, accumulate, done = settings.batch_size, settings.accumulate, 0
    effective = batch * accumulate * world
    for epoch in range(samples // len(data), settings.epochs):
        if settings.ask:
            import batchfit
            batch, accumulate = batchfit.next_batch_size(batch), batchfit.accumulation(accumulate)
        steps = steps_of_epoch(len(data), epoch, samples - epoch * len(data), effective)
        loader = iter(DataLoader(data, batch_sampler=micro_batches(steps, batch, rank, world)))
        for step in steps:
            loss = train_step(training, Micro(loader, -(-len(step) // (batch * world))), len(step), world)
            samples, done = samples + len(step), done + 1
            if rank == 0 and (done % settings.checkpoint_every == 0 or stopping):
                save_checkpoint(settings.output, training, samples)
            if stopping:
                raise SystemExit(128 + stopping[0])
        print("epoch %d: %d samples, batch %d x %d, loss %.4f" % (epoch + 1, samples, batch, accumulate, loss), flush=True)
    return samples


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--samples", type=int, default=480, help="of the data; a multiple of the ranks")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--checkpoint-every", type=int, default=4, help="steps")
    parser.add_argument("--output", default="out")
    parser.add_argument("--resume", help="a checkpoint")
    parser.add_argument("--ask", action="store_true", help="ask batchfit for the batch of each epoch")
    return parser.parse_args()


def main():
    settings, stopping = parse(), []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))  # this step, its checkpoint, and out
    world = int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = distributed.get_rank() if world > 1 else 0
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    net = make_model(settings.width, 5).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=settings.lr, momentum=0.9)
    samples = 0
    if settings.resume:
        state = torch.load(settings.resume, map_location=device)
        samples = state["samples"]
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    model = nn.parallel.DistributedDataParallel(net) if world > 1 else net
    training = {"net": net, "model": model, "optimizer": optimizer, "device": device}
    samples = train(training, settings, samples, rank, world, stopping)
    if rank == 0:
        os.makedirs(settings.output, exist_ok=True)
        save(os.path.join(settings.output, "final.pt"), {"samples": samples, "model": net.state_dict()})
    if world > 1:  # threads of gloo that are left running at the end abort the process now and then
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
