# SPDX-License-Identifier: Apache-2.0
"""The example of Hugging Face with faults: python faults.py MARKS [OPTION]...

At the end of step 5 memory really runs out, and while the optimizer of step 6 is saved the process is killed; each once: a file in
the folder MARKS says that it was."""

import os
import signal
import sys

MARKS = sys.argv.pop(1)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "huggingface"))

import torch  # noqa: E402
import train  # noqa: E402
from transformers import TrainerCallback  # noqa: E402


def first(name):
    try:
        open(os.path.join(MARKS, name), "x").close()
    except FileExistsError:
        return False
    return True


class Faults(TrainerCallback):
    def on_step_end(self, arguments, state, control, **others):
        if state.global_step == 5 and first("memory"):
            held = []
            while True:
                held.append(torch.ones(8 << 20))


class Trainer(train.Seq2SeqTrainer):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, callbacks=[Faults()], **named)


save = torch.save


def torn(what, place, *arguments, **named):
    if str(place).endswith("checkpoint-6/optimizer.pt") and first("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    return save(what, place, *arguments, **named)


torch.save = torn
train.Seq2SeqTrainer = Trainer
train.main()
