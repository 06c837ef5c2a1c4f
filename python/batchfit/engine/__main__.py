# SPDX-License-Identifier: Apache-2.0
"""python3 -m batchfit.engine [options] - times one engine on batches of one model's inputs, and compares its outputs.

--prepare makes what all engines are given alike in --folder; without it the engine is opened with that, runs one batch
for its outputs, and then --steps batches, each a step of the steps protocol.

Exit status: 0 done, 1 the engine raised an error (shown as Python shows it), 2 usage, 3 the model or a file cannot be used,
4 this machine or this engine lacks what was asked for, 5 a bug in batchfit, 6 the engine is not installed."""

import argparse
import os
import sys
from time import perf_counter

from ..errors import RecordError, UsageError
from .errors import is_out_of_memory
from .onnx_engine import OnnxRuntime, TensorRT
from .prepare import Prepared, prepare
from .report import Report
from .torch_engine import Compiled, Torch
from .trtexec import TrtExec

PROGRAM = "batchfit.engine"
ENGINES = {"torch": Torch, "torch-compile": Compiled, "onnxruntime": OnnxRuntime, "onnxruntime-tensorrt": TensorRT,
           "trtexec": TrtExec}


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(message)


def parser():
    """The command line; batchfit writes it."""
    p = _Parser(prog="python3 -m batchfit.engine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--prepare", action="store_true")
    p.add_argument("--folder", required=True)
    p.add_argument("--engine", choices=sorted(ENGINES), default="torch")
    p.add_argument("--engines", type=lambda text: text.split(","), default=["torch"], help="all engines that will run, for --prepare")
    p.add_argument("--precision", default="fp32")
    p.add_argument("--precisions", type=lambda text: text.split(","), default=["fp32"])
    p.add_argument("--batch-size", type=int, default=1)
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--steps", type=int, default=1)
    p.add_argument("--onnx")
    p.add_argument("--weights")
    p.add_argument("--compile-mode", default="default")
    p.add_argument("--trtexec")
    p.add_argument("--keep", help="folder for what the engines run")
    p.add_argument("--model")
    for name in ("--img-size", "--seq-len", "--num-classes"):
        p.add_argument(name, type=int)
    p.add_argument("--depth", type=int, default=3)
    p.add_argument("--hidden", type=int, default=16)
    p.add_argument("--seed", type=int, default=0)
    return p


def _times(engine, count):
    if hasattr(engine, "times"):
        yield from engine.times(count)
        return
    for _ in range(count):
        began = perf_counter()
        engine.run()
        yield (perf_counter() - began) * 1e3


def _measure(options, report):
    from . import compare
    prepared = Prepared(options.folder)
    engine = ENGINES[options.engine](options, prepared, prepared.arrays(options.batch_size))
    report.start(engine.framework, engine.version, str(engine.device))
    outputs = engine.first()
    if prepared.reference:
        report.outputs(compare.difference(outputs, prepared.wanted()), prepared.reference)
    del outputs
    for ms in _times(engine, options.steps):
        report.step(ms, options.batch_size, engine.memory())
    report.flush()


def _prepare(options, report):
    report.start("batchfit", None, "cpu")
    began = perf_counter()
    prepare(options)
    report.step((perf_counter() - began) * 1e3, 1, {})
    report.flush()


def main(argv=None):
    """Entry point; returns the exit status."""
    report = Report()
    options = None
    try:
        options = parser().parse_args(argv)
        (_prepare if options.prepare else _measure)(options, report)
    except RecordError as why:
        print("%s: %s" % (PROGRAM, why), file=sys.stderr)
        report.end(why)
        return why.status
    except Exception as why:
        if is_out_of_memory(why):
            report.out_of_memory(why, options.batch_size)
        report.end(why)
        raise
    report.end()
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status) if status == 0 else sys.exit(status)  # some engines wait long for their threads at the end
