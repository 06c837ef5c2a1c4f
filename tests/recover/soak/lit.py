# SPDX-License-Identifier: Apache-2.0
"""Lightning's Trainer; it goes on in the middle of an epoch, so its sampler begins where the checkpoint was.
lit.py BATCH ACCUMULATE EPOCHS [CHECKPOINT]"""
import sys

import common
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

batch, accumulate, epochs = map(int, sys.argv[1:4])
steps_wanted = epochs * common.SAMPLES // (batch * accumulate)


class Rest(torch.utils.data.Sampler):
    """All samples of all epochs, from the first that the weights have not seen."""

    def __init__(self, made):
        self.made = made

    def __len__(self):
        return epochs * common.SAMPLES - self.made

    def __iter__(self):
        for i in range(self.made, epochs * common.SAMPLES):
            yield i % common.SAMPLES


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.made = common.Net(), 0

    def on_load_checkpoint(self, checkpoint):
        self.made = int(checkpoint["state_dict"]["net.seen"].sum())

    def train_dataloader(self):
        return torch.utils.data.DataLoader(common.Data(), batch_size=batch, collate_fn=common.collate, sampler=Rest(self.made))

    def training_step(self, rows, number):
        return self.net(**rows)["loss"]

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


module = Module()
checkpoint = sys.argv[4] if len(sys.argv) > 4 else None
weights = torch.load(checkpoint, weights_only=False) if checkpoint else None
if weights:  # the loops' own place counts batches of another size: only weights and optimizer go on
    module.load_state_dict(weights["state_dict"])
    module.made = int(module.net.seen.sum())
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", accumulate_grad_batches=accumulate, logger=False, enable_progress_bar=False,
    enable_model_summary=False, use_distributed_sampler=False,
    callbacks=[ModelCheckpoint("out", filename="{step}-" + str(module.made), every_n_train_steps=3, save_top_k=-1)])
trainer.fit(module)
common.result(module.net, module.made // (batch * accumulate) + trainer.global_step)
