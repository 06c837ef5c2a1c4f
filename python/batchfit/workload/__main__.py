# SPDX-License-Identifier: Apache-2.0
"""python3 -m batchfit.workload [options] - a training without data and code of one's own, to measure a machine with.

Without --model it trains a small network of --depth residual blocks of --hidden channels: on images of 64 x 64 that are made
up (--img-size), on signals (--seq-len), or on the samples of an HDF5 file (--data-path), in random order. --model takes a name
of a library, as `batchfit record` does: timm:NAME, torchvision:NAME, hf:NAME, ultralytics:NAME, python:MODULE:FUNCTION. It
begins with random weights; nothing is downloaded.

It trains until --steps, or without it until SIGTERM, which ends it quietly with status 0. There is no validation, no
checkpoint and no end of an epoch. Under torchrun it is data-parallel.

In the HDF5 file the first axis of a dataset is the samples. Inputs are the dataset x, data, images, inputs, ..., else the
largest; targets are y, labels, targets, ... with as many samples: integers are classes, other numbers are what the network
learns to predict. Without targets it learns to give back its input. --data-key INPUTS[,TARGETS] names them.

Exit status: 0 done, 1 the training raised an error (shown as Python shows it), 2 usage, 3 the model or the data cannot be
used, 4 this machine or this torch lacks what was asked for: a library, a GPU, a precision; 5 a bug of ours.
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
            raise argparse.ArgumentTypeError("%r is no whole number from %d on" % (text, least))
        return value
    return read


def parser():
    """The command line."""
    p = _Parser(prog="python3 -m batchfit.workload", description=__doc__.split("\n", maxsplit=1)[0], epilog=__doc__,
                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--batch-size", type=_number(1), default=32, metavar="N", help="samples of a micro-batch (32)")
    p.add_argument("--num-workers", type=_number(0), default=0, metavar="W", help="processes of the data loader (0)")
    p.add_argument("--precision", choices=("fp32", "amp-fp16", "amp-bf16"), default="fp32")
    p.add_argument("--pin-memory", action="store_true", help="page-locked batches, for a GPU")
    p.add_argument("--compile", action="store_true", help="torch.compile the model")
    p.add_argument("--accumulation", type=_number(1), default=1, metavar="N", help="micro-batches of an optimizer step (1)")
    p.add_argument("--model", metavar="SOURCE", help="timm:NAME, hf:NAME, ...; without: the small network")
    p.add_argument("--img-size", type=_number(1), metavar="N", help="side of the square images, pixels")
    p.add_argument("--seq-len", type=_number(1), metavar="N", help="tokens, or values of a signal")
    p.add_argument("--num-classes", type=_number(1), metavar="N", help="outputs of the classifier")
    p.add_argument("--depth", type=_number(0), default=3, metavar="N", help="blocks of the small network (3)")
    p.add_argument("--hidden", type=_number(1), default=16, metavar="N", help="its channels (16)")
    p.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
    p.add_argument("--lr", type=float, default=1e-3, help="learning rate (0.001)")
    p.add_argument("--data-path", metavar="FILE", help="an HDF5 file with samples")
    p.add_argument("--data-key", metavar="NAME[,NAME]", help="its dataset of inputs, and of targets")
    p.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    p.add_argument("--steps", type=_number(0), default=0, metavar="N", help="optimizer steps; 0: without end")
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
        raise UsageError("--data-key names a dataset of --data-path, which is not given")
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
