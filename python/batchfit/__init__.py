# SPDX-License-Identifier: Apache-2.0
"""batchfit's PyTorch side: records the GPU memory that a training step needs, without a GPU. For programs there are

    fit(model, sample_batch, gpu=...)       a Plan: batch, accumulation, memory (api.py)
    hf, lightning, ultralytics              callbacks for trainers; Meter and log for one's own loop (meter.py)
    next_batch_size, accumulation           what a training may ask `batchfit run` (control.py)

Importing this package loads no PyTorch."""

import importlib

from .control import accumulation, next_batch_size

__all__ = ["Error", "Meter", "Plan", "accumulation", "fit", "hf", "lightning", "log", "next_batch_size", "ultralytics"]
__version__ = "0.1.0"
_PLACES = {"Error": "api", "Plan": "api", "fit": "api", "Meter": "meter", "log": "meter", "hf": None, "lightning": None, "ultralytics": None}


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    module = importlib.import_module("." + (_PLACES[name] or name), __name__)
    return getattr(module, name) if _PLACES[name] else module
