# SPDX-License-Identifier: Apache-2.0
"""torchvision:NAME - a classification model of torchvision.models, no weights."""

from .. import stubs
from ..build import to_meta, without_init
from ..errors import MissingLibrary, RecordError
from . import need
from .job import ImageJob

# side of the square training crop where it is not 224 (torchvision/models/*.py, the models' papers)
SIZES = {"inception_v3": 299}


def _models():
    stubs.prepare()
    models = need("torchvision.models", "torchvision")
    if getattr(models, "__batchfit_stub__", False):
        raise MissingLibrary("torchvision is not installed, or not for this torch; install it with: pip install "
                             "torchvision (the release that matches your torch)")
    return models


def load(name, knobs):
    """An ImageJob of torchvision's model."""
    models = _models()
    make = getattr(models, name, None)
    if not callable(make) or name.startswith("_") or isinstance(make, type):
        raise RecordError("torchvision has no classification model %r" % name)
    if knobs.checkpointing:
        raise RecordError("torchvision's models have no activation checkpointing; wrap yours as python:MODULE:FUNCTION")
    extra = {"num_classes": knobs.num_classes} if knobs.num_classes else {}
    size = knobs.img_size or SIZES.get(name, 224)
    if knobs.img_size and name.startswith("vit_"):
        extra["image_size"] = size
    with without_init():
        model = make(weights=None, **extra)
    import torchvision
    return ImageJob(to_meta(model), "torchvision " + torchvision.__version__, (3, size, size),
                    knobs.num_classes or 1000, knobs)
