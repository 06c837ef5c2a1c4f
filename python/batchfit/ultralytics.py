# SPDX-License-Identifier: Apache-2.0
"""For Ultralytics: batchfit.ultralytics.watch(YOLO("yolo11n.yaml"), plan, run=True).train(data=...)"""

from typing import Any, Optional

from .api import Plan
from .meter import Meter


def watch(model: Any, plan: Optional[Plan] = None, run: bool = False) -> Any:
    """Adds callbacks to a YOLO model, and returns it: one line at the end compares the training with its plan. run: SIGTERM and SIGUSR1,
    which `batchfit run` passes on, end the training after the epoch, whose checkpoint Ultralytics then has written."""
    state = {}

    def begin(trainer):
        state["meter"] = Meter(plan, run)

    def batch(trainer):
        state["meter"].step(trainer.batch_size)

    def epoch(trainer):
        trainer.stop = trainer.stop or state["meter"].asked

    def end(trainer):
        print(state["meter"], flush=True)

    for event, callback in (("on_train_start", begin), ("on_train_batch_end", batch), ("on_train_epoch_end", epoch), ("on_train_end", end)):
        model.add_callback(event, callback)
    return model
