# SPDX-License-Identifier: Apache-2.0
"""python:mmyolo_source:NAME - one of mmyolo's detectors as its config trains it, for the recorder.

NAME is the config's. Networks, heads, losses and assigners are the package's own; a loss runs on real tensors of one image, whose objects are
as many as the mean image's where a loss takes all objects of a batch, and the fullest image's where it pads each image to that. Where a config
draws the images' size again for each batch, the largest is taken. Images come as bytes. What one of several GPUs keeps beside the model, DDP's
buckets, and the average that EMAHook keeps are buffers here.
"""

import contextlib
import copy
import importlib
import os
import re
import sys

import torch

from batchfit import stubs
from batchfit.dispatch import Recorder
from batchfit.real_loss import real_loss
from mmseg_source import _Kernels

# Assumed of COCO, with its 7.3 objects an image: a mosaic shows some two fifths of four images' objects, 12, in the fullest of the fifty batches
# between two readings 15; the fullest single image of such a stretch has about 30.
EACH, FULLEST = 15, 30


def _import():
    stubs.prepare()
    sys.modules.setdefault("mmcv._ext", _Kernels("mmcv._ext"))
    importlib.import_module("mmyolo.models")  # which fills the registry
    from mmengine.config import Config
    from mmengine.logging import MessageHub
    from mmyolo.registry import MODELS
    from mmyolo.utils import register_all_modules
    register_all_modules()
    MessageHub.get_current_instance().update_info("epoch", 10 ** 6)  # past the first epochs' simpler assigners
    return Config, MODELS


def _config(name, Config):
    import mmyolo
    folder = os.path.join(os.path.dirname(mmyolo.__file__), ".mim", "configs")
    found = [os.path.join(d, f) for d, _, files in os.walk(folder) for f in files if f == name + ".py"]
    if len(found) != 1:
        raise ValueError("%d configs of the package are %s" % (len(found), name))
    return Config.fromfile(found[0])


def largest_side(config):
    """Of the images that reach the network, in pixels."""
    sides = list(config.img_scale)
    for change in config.model["data_preprocessor"].get("batch_augments") or []:
        if "random_size_range" in change:
            step = change["size_divisor"]
            return [change["random_size_range"][1] // step * step] * 2
    return sides[::-1]


def objects(count, sides, classes):
    """(image, class, corners) of the objects of one image, of sides from a thirtieth of the image's to its half."""
    generator = torch.Generator().manual_seed(40)
    corner, size = (torch.rand(count, 2, generator=generator) for _ in range(2))
    boxes = torch.cat([corner / 2, corner / 2 + 15 ** size / 30], 1) * torch.tensor([sides[1], sides[0]] * 2)
    kinds = torch.randint(0, classes, (count, 1), generator=generator)
    return torch.cat([torch.zeros(count, 1), kinds.float(), boxes], 1)


def masks_of(count, sides, overlap):
    """As the loader's Polygon2Mask makes them, a quarter of the image's size."""
    side = [s // 4 for s in sides]
    if not overlap:
        return torch.ones(count, *side, dtype=torch.uint8)
    return torch.arange(side[0] * side[1], dtype=torch.uint8).remainder(count + 1).reshape(1, *side)


class Trained(torch.nn.Module):
    """The loss of a batch, and what lies beside the model."""

    def __init__(self, net, head, sides, several):
        super().__init__()
        self.net, self.sides, self._head = net, sides, (head,)
        for name, there, tensors in (("buckets", several, [p for p in net.parameters() if p.requires_grad]),
                                     ("average", True, list(net.state_dict().values()))):
            self.register_buffer(name, torch.empty(sum(t.numel() for t in tensors) if there else 0), persistent=False)

    def forward(self, images):
        outputs = self.net.bbox_head(self.net.extract_feat(images["floats"]))
        head, = self._head
        count = EACH if type(head).__name__ in ("YOLOv5Head", "YOLOv5InsHead", "YOLOv7Head") else FULLEST
        targets = [objects(count, self.sides, head.num_classes)]
        if hasattr(head, "mask_overlap"):
            targets.append(masks_of(count, self.sides, head.mask_overlap))

        def compute(real):
            losses = head.loss_by_feat(*real, *[t.clone() for t in targets], [{"batch_input_shape": tuple(self.sides)}])
            return sum(v.sum() for k, v in losses.items() if "loss" in k)
        return real_loss(Recorder.running, compute, tuple(outputs), loops=True)


def _make(name):
    Config, models = _import()
    config = _config(name, Config)
    net = models.build(dict(config.model, data_preprocessor=None))
    head = copy.deepcopy(net.bbox_head)
    sides = largest_side(config)

    def inputs(batch):
        raw = torch.empty(batch, 3, *sides, dtype=torch.uint8, device="meta")
        floats = raw[:, [2, 1, 0]] - torch.empty(3, 1, 1, device="meta")
        return {"images": {"floats": floats / torch.empty(3, 1, 1, device="meta"), "raw": raw}}
    return Trained(net, head, sides, not re.search(r"_1xb\d", name)), None, inputs


def offers(make):
    """A module's __getattr__: every name is that of a function which makes it."""
    def offered(name):
        if name.startswith("__"):
            raise AttributeError(name)

        def made():
            with contextlib.redirect_stdout(sys.stderr):  # the recorder's own lines are on stdout
                return make(name)
        return made
    return offered


__getattr__ = offers(_make)
