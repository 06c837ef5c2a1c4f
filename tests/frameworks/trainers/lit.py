# SPDX-License-Identifier: Apache-2.0
"""Lightning, as its users write it: a module, a Trainer with ModelCheckpoint, and fit(ckpt_path="last")."""
import argparse

import lightning
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--samples", type=int, default=1024)
parser.add_argument("--output", default="out")
parser.add_argument("--ckpt_path")
args = parser.parse_args()


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def training_step(self, batch, number):
        loss = F.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, number):
        self.log("val_loss", F.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


digits = torch.utils.data.TensorDataset(torch.rand(args.samples, 1, 28, 28), torch.arange(args.samples) % 10)
loader = torch.utils.data.DataLoader(digits, batch_size=args.batch_size, shuffle=True)
lightning.Trainer(max_epochs=args.epochs, accelerator="cpu", accumulate_grad_batches=args.accumulate, logger=False,
                  default_root_dir=args.output, enable_model_summary=False,
                  callbacks=[ModelCheckpoint(dirpath=args.output, save_last=True)]).fit(
    Classifier(), loader, torch.utils.data.DataLoader(digits, batch_size=256), ckpt_path=args.ckpt_path, weights_only=False)
