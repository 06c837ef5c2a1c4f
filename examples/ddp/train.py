# SPDX-License-Identifier: Apache-2.0
"""Trains a small text classifier with several processes, each on its part of the data (DistributedDataParallel).

    torchrun --nproc_per_node 2 examples/ddp/train.py --batch-size 32

--batch-size is one process's. On GPUs the processes talk by NCCL, without by gloo. Started without torchrun, it is one process.
"""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WORDS, LENGTH, CLASSES = 1000, 128, 4


class Notes(Dataset):
    """`count` texts; those of class k use words of their own more often."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        chance = torch.Generator().manual_seed(index)
        label = index % CLASSES
        own = torch.randint(label * 20, label * 20 + 20, (LENGTH // 4,), generator=chance)
        words = torch.randint(0, WORDS, (LENGTH - len(own),), generator=chance)
        return torch.cat([own, words]), label


class Classifier(nn.Module):
    def __init__(self, width=64, depth=2):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, words):
        return self.head(self.body(self.embed(words)).mean(1))


def train(options, rank, world, device):
    torch.manual_seed(0)
    notes = Notes(options.samples)
    sampler = DistributedSampler(notes, num_replicas=world, rank=rank)
    loader = DataLoader(notes, batch_size=options.batch_size, sampler=sampler, num_workers=options.workers)
    model = Classifier().to(device)
    if world > 1:
        model = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for number, (words, labels) in enumerate(loader, 1):
            loss = F.cross_entropy(model(words.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0 and number % 10 == 0:
                print(f"epoch {epoch + 1} batch {number}/{len(loader)}  loss {loss.item():.4f}", flush=True)
    if rank == 0 and options.output:
        os.makedirs(options.output, exist_ok=True)
        torch.save(model.state_dict(), os.path.join(options.output, "last.pt"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--output", help="folder for the model")
    options = parser.parse_args()
    world, rank, local = (int(os.environ.get(name, default)) for name, default in
                          (("WORLD_SIZE", 1), ("RANK", 0), ("LOCAL_RANK", 0)))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    if world > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    train(options, rank, world, device)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
