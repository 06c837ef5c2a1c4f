# SPDX-License-Identifier: Apache-2.0
"""The training loop, written as anybody's: what it does is seen from outside, it reports nothing itself.

With WORLD_SIZE, RANK and LOCAL_RANK in the environment (torchrun) it is one rank of a data-parallel training.
"""

import os
import signal

import torch

from .. import optimizers
from ..errors import MissingLibrary, RecordError
from . import data, estimate

DTYPES = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}


class Stopped(BaseException):
    """SIGTERM came."""


def _version():
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


# ---- the place -----------------------------------------------------------------------------------------------------

class Unavailable(RecordError):
    """This machine or this torch cannot do what was asked for."""

    status = 4


def choose_device(name, local_rank):
    """'auto', 'cpu' or 'cuda' -> torch.device. Raises Unavailable."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        if not torch.cuda.is_available():
            raise Unavailable("--device cuda: this torch %s sees no CUDA device" % torch.__version__)
        torch.cuda.set_device(local_rank)
        return torch.device("cuda", local_rank)
    return torch.device(name)


def check(options, device):
    """Raises Unavailable for what this torch has not got."""
    if options.precision == "amp-fp16" and device.type == "cpu" and _version() < (2, 3):
        raise Unavailable("--precision amp-fp16: torch %s has no half precision on the CPU; use amp-bf16" % torch.__version__)
    if options.precision == "amp-bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise Unavailable("--precision amp-bf16: this GPU does not support bfloat16; use amp-fp16")
    if options.compile and not hasattr(torch, "compile"):
        raise Unavailable("--compile: torch %s has no torch.compile; it came with 2.0" % torch.__version__)


def join_ranks(device):
    """(rank, world); starts the communication when there is more than one."""
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return rank, world


def leave_ranks():
    """Ends the communication."""
    torch.distributed.destroy_process_group()


# ---- optimizers ----------------------------------------------------------------------------------------------------

def _adamw8bit(parameters, lr):
    try:
        import bitsandbytes
    except ImportError as why:
        raise MissingLibrary("cannot import bitsandbytes (%s); install it with: pip install bitsandbytes" % why)
    return bitsandbytes.optim.AdamW8bit(parameters, lr=lr)


def _adafactor(parameters, lr):
    if hasattr(torch.optim, "Adafactor"):  # torch 2.5 on
        return torch.optim.Adafactor(parameters, lr=lr)
    return optimizers.Adafactor([{"params": parameters, "lr": lr}])


OPTIMIZERS = {
    "sgd": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
    "adam": lambda p, lr: torch.optim.Adam(p, lr=lr),
    "adamw": lambda p, lr: torch.optim.AdamW(p, lr=lr),
    "rmsprop": lambda p, lr: torch.optim.RMSprop(p, lr=lr),
    "adafactor": _adafactor,
    "lion": lambda p, lr: optimizers.Lion([{"params": p, "lr": lr, "weight_decay": 0.0}]),
    "adamw8bit": _adamw8bit,
}


def _scaler(options, device):
    enabled = options.precision == "amp-fp16"
    if hasattr(torch.amp, "GradScaler"):  # torch 2.3 on
        return torch.amp.GradScaler(device.type, enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)


# ---- the loop ------------------------------------------------------------------------------------------------------

def _wrap(model, options, device, world):
    if options.compile:
        model = torch.compile(model)
    if world > 1:
        on = [device.index] if device.type == "cuda" else None
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=on)
    return model


def _autocast(options, device):
    dtype = DTYPES.get(options.precision)
    return torch.autocast(device.type, dtype=dtype or torch.bfloat16, enabled=dtype is not None)


def _steps(task, model, options, device, batches):
    """Endless: trains, and gives the last micro-batch's loss after each optimizer step."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise RecordError("the model has no trainable parameters")
    optimizer, scaler = OPTIMIZERS[options.optimizer](parameters, options.lr), _scaler(options, device)
    while True:
        optimizer.zero_grad(set_to_none=True)
        for _ in range(options.accumulation):
            batch = data.to_device(next(batches), device)
            with _autocast(options, device):
                loss = task.loss(model, batch)
            scaler.scale(loss / options.accumulation).backward()
        scaler.step(optimizer)
        scaler.update()
        yield loss.detach()


def _train(task, options, device, rank, world):
    task.model.to(device).train()
    if task.placed:
        task.placed(task.model)
    if device.type == "cpu":
        estimate.check(task, options, lambda: _autocast(options, device), lambda text: print("batchfit.workload: " + text, flush=True))
    model = _wrap(task.model, options, device, world)
    batches = iter(data.loader(task.dataset, options.batch_size, options.num_workers,
                               options.pin_memory and device.type == "cuda", options.seed, rank))
    for done, loss in enumerate(_steps(task, model, options, device, batches), 1):
        if done == options.steps:
            return loss.item()
    return None


def run(task, options, device, rank, world):
    """Trains until options.steps (0: until SIGTERM); returns the last loss, or None when it was stopped.

    What goes wrong in the training itself comes out as it is: that is what a user's script shows.
    """
    owner, stopped = os.getpid(), []

    def stop(number, frame):
        if os.getpid() != owner:
            os._exit(0)  # a data worker that has not got its own handler yet
        if not stopped:
            stopped.append(True)
            signal.signal(signal.SIGCHLD, lambda number, frame: None)  # the workers were told to stop, too
            raise Stopped()
    before = signal.signal(signal.SIGTERM, stop)
    try:
        return _train(task, options, device, rank, world)
    except BaseException:
        if not stopped:
            raise
        return None
    finally:
        if not stopped:
            signal.signal(signal.SIGTERM, before)
