# SPDX-License-Identifier: Apache-2.0
"""python3 -m batchfit.workload [options] - a training that needs no data or code, to measure a machine.

Without --model it trains a small network of --depth residual blocks of --hidden channels: on made-up images of 64 x 64
(--img-size), on signals (--seq-len), or on the samples of an HDF5 file (--data-path), in random order. --model takes a library's
name, as `batchfit record` does: timm:NAME, torchvision:NAME, hf:NAME, ultralytics:NAME, python:MODULE:FUNCTION. It
starts with random weights; nothing is downloaded.

It trains for --steps, or else until SIGTERM, which ends it quietly with status 0. It has no validation, no
checkpoints and no epochs. Under torchrun it is data-parallel.

In the HDF5 file the first axis of a dataset is the samples. Inputs are the dataset x, data, images, inputs, ..., else the
largest; targets are y, labels, targets, ... with as many samples: integers are classes, other numbers are values to
predict. Without targets it learns to reproduce its input. --data-key INPUTS[,TARGETS] names them.

Exit status: 0 done, 1 the training raised an error (shown as Python shows it), 2 usage, 3 the model or the data cannot be
used, 4 this machine or this torch lacks a requested library, GPU or precision; 5 a bug in batchfit.
"""

import argparse
import os
import sys

from ..errors import MissingLibrary, RecordError, UsageError

PROGRAM = "batchfit.workload"
OPTIMIZERS = ("sgd", "adam", "adamw", "rmsprop", "adafactor", "lion", "adamw8bit")


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(message)


def _number(least):
    def read(text):
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or value < least:
            raise argparse.ArgumentTypeError("%r is not a whole number of at least %d" % (text, least))
        return value
    return read


def parser():
    """The command line."""
    p = _Parser(prog="python3 -m batchfit.workload", description=__doc__.split("\n", maxsplit=1)[0], epilog=__doc__,
                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--batch-size", type=_number(1), default=32, metavar="N", help="samples per micro-batch (default 32)")
    p.add_argument("--num-workers", type=_number(0), default=0, metavar="W", help="data loader workers (default 0)")
    p.add_argument("--precision", choices=("fp32", "amp-fp16", "amp-bf16"), default="fp32")
    p.add_argument("--pin-memory", action="store_true", help="pin batches in memory, for a GPU")
    p.add_argument("--compile", action="store_true", help="torch.compile the model")
    p.add_argument("--accumulation", type=_number(1), default=1, metavar="N", help="micro-batches per optimizer step (default 1)")
    p.add_argument("--model", metavar="SOURCE", help="timm:NAME, hf:NAME, ... (default the small network)")
    p.add_argument("--img-size", type=_number(1), metavar="N", help="side of the square images in pixels")
    p.add_argument("--seq-len", type=_number(1), metavar="N", help="tokens, or values per signal")
    p.add_argument("--num-classes", type=_number(1), metavar="N", help="number of classes")
    p.add_argument("--depth", type=_number(0), default=3, metavar="N", help="blocks of the small network (default 3)")
    p.add_argument("--hidden", type=_number(1), default=16, metavar="N", help="channels of the small network (default 16)")
    p.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
    p.add_argument("--lr", type=float, default=1e-3, help="learning rate (default 0.001)")
    p.add_argument("--data-path", metavar="FILE", help="HDF5 file with samples")
    p.add_argument("--data-key", metavar="NAME[,NAME]", help="datasets of inputs and targets in it")
    p.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    p.add_argument("--steps", type=_number(0), default=0, metavar="N", help="optimizer steps; 0: no limit")
    p.add_argument("--seed", type=int, default=0)
    return p


def _torch():
    try:
        import torch  # noqa: F401
    except Exception as why:  # a broken installation raises OSError, RuntimeError, ...
        raise MissingLibrary("cannot import torch (%s); install it with: pip install torch" % why)


def _prepare(options):
    """(task, device, rank, world)"""
    _torch()
    from . import hdf5, models, train
    if options.data_key and not options.data_path:
        raise UsageError("--data-key needs --data-path")
    device = train.choose_device(options.device, int(os.environ.get("LOCAL_RANK", 0)))
    train.check(options, device)
    file = hdf5.File(options.data_path, options.data_key) if options.data_path else None
    task = models.load(options, file)
    return (task, device) + train.join_ranks(device)


def _explain(why):
    """(status, one line) of what went wrong before the training."""
    if os.environ.get("BATCHFIT_DEBUG"):
        raise why
    if isinstance(why, RecordError):
        return why.status, str(why)
    line = (str(why).strip().split("\n") or [""])[0][:200]
    return 5, "%s: %s (set BATCHFIT_DEBUG=1 for the traceback)" % (type(why).__name__, line)


def main(argv=None):
    """Entry point; returns the exit status."""
    try:
        options = parser().parse_args(argv)
        prepared = _prepare(options)
    except Exception as why:
        status, text = _explain(why)
        print("%s: %s" % (PROGRAM, text), file=sys.stderr)
        return status
    from . import train
    task, device, rank, world = prepared
    try:
        loss = train.run(task, options, device, rank, world)
    except RecordError as why:
        print("%s: %s" % (PROGRAM, why), file=sys.stderr)
        return why.status
    if loss is not None and world > 1:
        train.leave_ranks()
    if loss is not None and rank == 0:
        print("%s: %d steps of %d samples on %s, last loss %.4g" % (
            PROGRAM, options.steps, options.batch_size * options.accumulation * world, device, loss))
    return 0


if __name__ == "__main__":
    sys.exit(main())
