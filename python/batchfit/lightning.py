# SPDX-License-Identifier: Apache-2.0
"""For Lightning: Trainer(callbacks=[batchfit.lightning.Callback(plan, run=True)])"""

import os
import signal
from typing import Optional

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl

from .api import Plan
from .meter import Meter, log


class Callback(pl.Callback):
    """Compares the training with its plan: in one line at its end, and in the Trainer's loggers. run: SIGTERM and SIGUSR1, which
    `batchfit run` passes on, make the Trainer write batchfit-asked.ckpt beside its checkpoints after the step, and stop."""

    def __init__(self, plan: Optional[Plan] = None, run: bool = False) -> None:
        self.plan, self.run, self.meter = plan, run, None

    def on_train_start(self, trainer, module):
        self.meter = Meter(self.plan, self.run)
        if self.run:
            self.meter.listen(signal.SIGTERM)  # Lightning's own handler ends the training without a checkpoint

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx, *rest):
        if self.meter.step(getattr(trainer.train_dataloader, "batch_size", None)) and not trainer.should_stop:
            folder = getattr(trainer.checkpoint_callback, "dirpath", None) or trainer.default_root_dir
            trainer.save_checkpoint(os.path.join(folder, "batchfit-asked.ckpt"))
            trainer.should_stop = True

    def on_train_end(self, trainer, module):
        if trainer.is_global_zero:
            print(self.meter, flush=True)
        for logger in trainer.loggers:
            log(logger, self.meter, trainer.global_step)
