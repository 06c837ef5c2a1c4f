# SPDX-License-Identifier: Apache-2.0
"""Where models come from. A source is `KIND:NAME`; each KIND's module has `load(name, knobs) -> Job`. Within a process it may also be a
function, which is called as the FUNCTION of python:MODULE:FUNCTION (user_models.py)."""

import importlib

from ..errors import MissingLibrary, UsageError

KINDS = {"timm": "timm_models", "torchvision": "torchvision_models", "hf": "hf_models",
         "ultralytics": "ultralytics_models", "titan": "titan_models",
         "python": "user_models"}


def split(source):
    """'timm:resnet50' -> ('timm', 'resnet50'); a function -> ('python', function). Raises UsageError."""
    if callable(source):
        return "python", source
    kind, colon, name = source.partition(":")
    if not colon or not name or kind not in KINDS:
        raise UsageError("SOURCE must be one of %s; got %r" % (", ".join(k + ":NAME" for k in KINDS), source))
    return kind, name


def load(source, knobs):
    """A fresh Job."""
    kind, name = split(source)
    return importlib.import_module("." + KINDS[kind], __name__).load(name, knobs)


def need(module, install):
    """Import a model library, or raise MissingLibrary that says which pip install brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as why:
        raise MissingLibrary("cannot import %s (%s); install it with: pip install %s" % (module, why, install))
