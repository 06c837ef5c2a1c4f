# SPDX-License-Identifier: Apache-2.0
"""For transformers' Trainer: Trainer(..., callbacks=[batchfit.hf.Callback(plan, run=True)])"""

from typing import Any, Optional

from transformers import TrainerCallback

from .api import Plan
from .meter import Meter, log


class Callback(TrainerCallback):
    """Compares the training with its plan, in one line at its end. run: SIGTERM and SIGUSR1, which `batchfit run` passes on, make the
    Trainer save a checkpoint after the step and stop. tracker: is told at the end what batchfit.log tells."""

    def __init__(self, plan: Optional[Plan] = None, run: bool = False, tracker: Any = None) -> None:
        self.plan, self.run, self.tracker, self.meter = plan, run, tracker, None

    def on_train_begin(self, args, state, control, **kwargs):
        self.meter = Meter(self.plan, self.run)

    def on_substep_end(self, args, state, control, **kwargs):
        self.meter.step(args.train_batch_size)

    def on_step_end(self, args, state, control, **kwargs):
        if self.meter.step(args.train_batch_size):
            control.should_save = control.should_training_stop = True
        return control

    def on_train_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            print(self.meter, flush=True)
        if self.tracker is not None:
            log(self.tracker, self.meter, state.global_step)
