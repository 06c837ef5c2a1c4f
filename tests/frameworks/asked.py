# SPDX-License-Identifier: Apache-2.0
"""A training with batchfit's callback, for slow_callbacks.py: python asked.py trainer|lightning|loop STEPS SECONDS [CHECKPOINT]

Saves only when it is asked to end. After each step the file `steps` has its number; at the end `tracked.json` what a tracker was told."""

import json
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

import batchfit  # noqa: E402

kind, steps, seconds, checkpoint = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), (sys.argv[4:] or [None])[0]
BATCH = 4
torch.manual_seed(0)


class Numbers(Dataset):
    def __len__(self):
        return BATCH * steps

    def __getitem__(self, index):
        return {"x": torch.full((8,), index / 100), "labels": index % 2}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def forward(self, x, labels):
        time.sleep(seconds)
        logits = self.layer(x)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def made(step):
    with open("steps.new", "w", encoding="utf-8") as f:
        f.write(str(step))
    os.replace("steps.new", "steps")


class Tracker:
    """As wandb's runs and trackio."""

    def log(self, found, step=None):
        with open("tracked.json", "w", encoding="utf-8") as f:
            json.dump([found, step], f)


def plan(model):
    sample = Numbers()[0]
    batch = {"x": torch.stack([sample["x"]] * 2), "labels": torch.zeros(2, dtype=torch.long)}
    return batchfit.fit(model, batch, gpu="rtx3060", optimizer="adamw", max_batch_size=BATCH)


def trainer():
    import transformers

    class Told(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            made(state.global_step)

    model = Model()
    arguments = transformers.TrainingArguments(
        output_dir="out", per_device_train_batch_size=BATCH, max_steps=steps, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True)
    ours = batchfit.hf.Callback(plan(model), run=True, tracker=Tracker())
    transformers.Trainer(model=model, args=arguments, train_dataset=Numbers(), callbacks=[ours, Told()]).train(resume_from_checkpoint=checkpoint)


def lightning():
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def training_step(self, batch, number):
            return self.model(**batch)["loss"]

        def on_train_batch_end(self, *rest):
            made(self.global_step)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    class Logger(pl.loggers.CSVLogger):
        def log_metrics(self, metrics, step=None):
            if any(name.startswith("batchfit/") for name in metrics):
                Tracker().log(metrics, step)

    module = Module()
    pl.Trainer(max_steps=steps, accelerator="cpu", logger=Logger("out"), default_root_dir="out", enable_progress_bar=False,
               enable_model_summary=False, enable_checkpointing=False, callbacks=[batchfit.lightning.Callback(plan(module.model), run=True)]
               ).fit(module, DataLoader(Numbers(), batch_size=BATCH), ckpt_path=checkpoint)


def loop():
    import accelerate
    accelerator = accelerate.Accelerator(cpu=True)
    model = Model()
    meter = batchfit.Meter(plan(model), run=True)
    loader = DataLoader(Numbers(), batch_size=BATCH)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), loader)
    first = 0
    if checkpoint:
        accelerator.load_state(checkpoint)
        first = int(checkpoint.rpartition("-")[2])
    for number, batch in enumerate(accelerator.skip_first_batches(loader, first), first + 1):
        accelerator.backward(model(**batch)["loss"])
        optimizer.step()
        optimizer.zero_grad()
        made(number)
        if meter.step(len(batch["labels"])):
            accelerator.save_state("out/state-%d" % number)
            break
    batchfit.log(Tracker(), meter, number)
    print(meter)


{"trainer": trainer, "lightning": lightning, "loop": loop}[kind]()
