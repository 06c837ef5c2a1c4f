# SPDX-License-Identifier: Apache-2.0
"""timm:NAME - any name of timm.list_models() of the installed timm (0.6 to 1.0)."""

import sys

from .. import stubs
from ..build import to_meta, without_init
from ..errors import RecordError
from . import need
from .job import ImageJob


def _import():
    stubs.prepare()
    return need("timm", "timm")


def _attention(timm, fused):
    layers = sys.modules.get("timm.layers")
    if layers is not None and hasattr(layers, "set_fused_attn"):
        layers.set_fused_attn(fused)


def _config(model):
    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None) or {}
    return config if isinstance(config, dict) else config.to_dict()


def _create(timm, name, knobs):
    """The model; asks for the image size at construction only where the model needs to know it."""
    extra = {"num_classes": knobs.num_classes} if knobs.num_classes is not None else {}
    try:
        model = timm.create_model(name, **extra)
    except Exception as why:
        if "Unknown model" in str(why):
            raise RecordError("timm %s has no model %r" % (timm.__version__, name))
        raise
    size = _config(model).get("input_size", (3, 224, 224))
    if knobs.img_size and knobs.img_size != size[-1]:
        try:
            model = timm.create_model(name, img_size=knobs.img_size, **extra)
        except TypeError:
            pass  # a convolutional net: any size will do
        size = (size[0], knobs.img_size, knobs.img_size)
    return model, size


def load(name, knobs):
    """An ImageJob of timm's model."""
    timm = _import()
    _attention(timm, knobs.attention == "fused")
    with without_init():
        model, size = _create(timm, name, knobs)
    model = to_meta(model)
    if knobs.checkpointing:
        if not hasattr(model, "set_grad_checkpointing"):
            raise RecordError("timm's %s has no activation checkpointing" % name)
        model.set_grad_checkpointing(True)
    classes = getattr(model, "num_classes", None)
    return ImageJob(model, "timm " + timm.__version__, size, classes, knobs)
