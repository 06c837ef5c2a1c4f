# SPDX-License-Identifier: Apache-2.0
"""python:MODULE:FUNCTION - your own model.

FUNCTION is called with those of these keyword arguments that it declares (or all, if it takes **kwargs):
    batch (the first batch recorded), img_size, seq_len, target_len, num_classes, precision, mode   - None if not given
and returns one of
    model
    (model, loss_fn)                 loss_fn(output, target) or loss_fn(output) -> scalar tensor
    (model, loss_fn, inputs_fn)      inputs_fn(batch) -> (x, target), or x, or a dict of keyword arguments of the model

Tensors from inputs_fn may be real or meta; they are moved to the device. Without inputs_fn the input is
(batch, 3, img_size or 224, img_size or 224) floats. Without loss_fn: the output's `.loss` (or the output itself, if it is a
scalar), else cross entropy of (batch, classes) against int64 targets. MODULE is searched for in the current folder first.
"""

import importlib
import inspect
import os
import sys

import torch

from .. import build
from ..build import to_meta, without_init
from ..errors import RecordError, UsageError
from ..script import LOSSES
from .job import Job, first

OFFERED = ("img_size", "seq_len", "target_len", "num_classes", "precision", "mode")


def on_device(value):
    """Tensors in nested containers, on the device with the same shape, strides and type: meta ones, or the values."""
    if isinstance(value, torch.Tensor):
        if build.is_real() and value.device.type != "meta":
            return value.to(build.DEVICE)
        made = torch.empty_like(value, device=build.DEVICE)
        return made.zero_() if build.is_real() else made
    if isinstance(value, dict):
        return {k: on_device(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(on_device(v) for v in value)
    return value


class UserJob(Job):
    """What FUNCTION returned."""

    def __init__(self, model, loss_fn, inputs_fn, knobs):
        super().__init__(model, "python", image_size=knobs.img_size, sequence_length=knobs.seq_len,
                         target_length=knobs.target_len, classes=knobs.num_classes)
        self.loss_fn, self.inputs_fn, self.knobs = loss_fn, inputs_fn, knobs

    def inputs(self, batch):
        if self.inputs_fn is None:
            side = self.knobs.img_size or 224
            x, target = build.new((batch, 3, side, side)), None
        else:
            made = on_device(self._loaded(batch))
            pair = isinstance(made, (list, tuple)) and len(made) == 2
            x, target = made if pair else (made, None)
        if self.knobs.channels_last and isinstance(x, torch.Tensor) and x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        dtype = self.knobs.model_dtype
        if dtype and isinstance(x, torch.Tensor) and x.is_floating_point():
            x = x.to(getattr(torch, dtype))
        return x, target

    def _loaded(self, batch):
        """What inputs_fn gives: a batch of the host's, until it is moved."""
        if self.rec is None:
            return self.inputs_fn(batch)
        with self.rec.silent():
            return self.inputs_fn(batch)

    def forward(self, inputs):
        x = inputs[0]
        return self.model(**x) if isinstance(x, dict) else self.model(*x) if isinstance(x, tuple) else self.model(x)

    def forward_loss(self, inputs):
        output = self.forward(inputs)
        return output, self._loss(output, inputs[1])

    def _loss(self, output, target):
        if self.loss_fn is not None:
            wants = len(inspect.signature(self.loss_fn).parameters) if not isinstance(self.loss_fn, torch.nn.Module) else 2
            if target is None and wants > 1:
                target = build.new((first(output).shape[0],), torch.int64)
            return self.loss_fn(output, target) if wants > 1 else self.loss_fn(output)
        loss = getattr(output, "loss", None)
        if loss is None and isinstance(output, dict):
            loss = output.get("loss")
        if loss is None and isinstance(output, torch.Tensor) and output.dim() == 0:
            loss = output
        if loss is not None:
            return loss
        logits = first(output)
        if not isinstance(logits, torch.Tensor) or logits.dim() != 2:
            raise RecordError("the model returns no loss and no (batch, classes) logits; return (model, loss_fn) instead")
        if target is None:
            target = build.new((logits.shape[0],), torch.int64)
        return LOSSES[self.knobs.loss](logits, target)


def _function(name):
    module, colon, function = name.partition(":")
    if not colon:
        raise UsageError("write it as python:MODULE:FUNCTION")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ImportError as why:
        raise RecordError("cannot import %s: %s" % (module, why))
    if not callable(getattr(found, function, None)):
        raise RecordError("%s has no function %s" % (module, function))
    return getattr(found, function)


def _call(function, knobs):
    offered = dict({k: getattr(knobs, k) for k in OFFERED}, batch=2)
    parameters = inspect.signature(function).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        names = {p.name for p in parameters}
        offered = {k: v for k, v in offered.items() if k in names}
    # what has a default keeps it when nothing was asked for
    return function(**{k: v for k, v in offered.items() if v is not None})


def load(name, knobs):
    """A UserJob of what FUNCTION, or a function itself, returns."""
    function = name if callable(name) else _function(name)
    name = getattr(function, "__name__", name)
    try:
        with without_init():
            made = _call(function, knobs)
    except Exception as why:
        raise RecordError("%s raised %s: %s" % (name, type(why).__name__, str(why).split("\n")[0]))
    made = made if isinstance(made, tuple) else (made,)
    if not 1 <= len(made) <= 3 or not isinstance(made[0], torch.nn.Module):
        raise RecordError("%s must return a torch.nn.Module, (model, loss_fn) or (model, loss_fn, inputs_fn)" % name)
    model = to_meta(made[0])
    if knobs.checkpointing:
        _checkpoint(model)
    return UserJob(model, *(list(made[1:]) + [None, None])[:2], knobs)


def _checkpoint(model):
    for switch, argument in (("gradient_checkpointing_enable", ()), ("set_grad_checkpointing", (True,))):
        if hasattr(model, switch):
            getattr(model, switch)(*argument)
            return
    raise RecordError("the model has neither gradient_checkpointing_enable() nor set_grad_checkpointing(); "
                      "switch checkpointing on in your function")
