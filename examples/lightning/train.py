# SPDX-License-Identifier: Apache-2.0
"""Trains a small autoencoder of sounds with Lightning.

    python examples/lightning/train.py --batch-size 64 --accumulate 2 --precision bf16-mixed
"""
import argparse

import lightning
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 4096


class Tones(Dataset):
    """`count` sounds of two tones and noise."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        chance = torch.Generator().manual_seed(index)
        pitch = torch.rand(2, 1, generator=chance) * 0.5
        time = torch.arange(LENGTH)
        return torch.sin(pitch * time).sum(0, keepdim=True) + 0.1 * torch.randn(1, LENGTH, generator=chance)


class Autoencoder(lightning.LightningModule):
    def __init__(self, width=16, lr=1e-3):
        super().__init__()
        self.lr = lr
        self.encoder = nn.Sequential(nn.Conv1d(1, width, 9, padding=4), nn.GELU(), nn.BatchNorm1d(width),
                                     nn.Conv1d(width, 2 * width, 8, stride=4, padding=2), nn.GELU())
        self.decoder = nn.Sequential(nn.ConvTranspose1d(2 * width, width, 8, stride=4, padding=2), nn.GELU(),
                                     nn.BatchNorm1d(width), nn.Conv1d(width, 1, 9, padding=4))

    def forward(self, sound):
        return self.decoder(self.encoder(sound))

    def training_step(self, sound, number):
        loss = F.mse_loss(self(sound), sound)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, sound, number):
        self.log("val_loss", F.mse_loss(self(sound), sound), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--precision", default="32-true", help="32-true, bf16-mixed, 16-mixed (only on a GPU)")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--accelerator", default="auto")
    parser.add_argument("--output", default="runs/tones")
    options = parser.parse_args()
    lightning.seed_everything(0)
    loading = dict(batch_size=options.batch_size, num_workers=options.workers)
    trainer = lightning.Trainer(max_epochs=options.epochs, accumulate_grad_batches=options.accumulate, devices=1,
                                precision=options.precision, accelerator=options.accelerator, logger=False,
                                default_root_dir=options.output, log_every_n_steps=10)
    trainer.fit(Autoencoder(), DataLoader(Tones(options.samples), shuffle=True, **loading),
                DataLoader(Tones(max(1, options.samples // 16)), **loading))


if __name__ == "__main__":
    main()
