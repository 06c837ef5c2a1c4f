# SPDX-License-Identifier: Apache-2.0
"""python:yolov5_source:MODEL or MODEL@profile - a network of YOLOv5 (6.0 on) as its train.py or its autobatch runs it, for the recorder.

Network and loss are those of the package. train.py: images come as bytes, the average of the weights is kept beside. autobatch profiles a
copy of the model, whose input wants a gradient, too, and whose loss is the sum of all outputs.
"""

import contextlib
import copy
import os
import sys
from unittest import mock

import torch

from batchfit import stubs
from batchfit.dispatch import Recorder
from batchfit.real_loss import real_loss
from mmyolo_source import EACH, objects

UNUSED = ("pandas", "pkg_resources", "seaborn", "thop", "git")  # imported by it, needed for its tables and plots only


def _import():
    stubs.prepare()
    for name in UNUSED:
        try:
            __import__(name)
        except ImportError:
            sys.modules[name] = mock.MagicMock(parse_version=tuple)
    import yolov5
    from yolov5.models.yolo import Model
    from yolov5.utils.loss import ComputeLoss
    return os.path.dirname(yolov5.__file__), Model, ComputeLoss


class Beside(torch.nn.Module):
    """A network, and the bytes of another copy of it."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        self.register_buffer("copy", torch.empty(sum(t.numel() for t in net.state_dict().values())), persistent=False)


class Profiled(Beside):
    """One pass of autobatch."""

    def forward(self, images):
        return sum(y.sum() for y in self.net(images))


class Trained(Beside):
    """The loss of a batch."""

    def __init__(self, net, loss, side):
        super().__init__(net)
        self._loss, self.side = (loss,), side

    def forward(self, floats, raw):
        targets = objects(EACH, [1, 1], self._loss[0].nc)
        centres = torch.cat([targets[:, :2], (targets[:, 2:4] + targets[:, 4:]) / 2, targets[:, 4:] - targets[:, 2:4]], 1)
        return real_loss(Recorder.running, lambda real: self._loss[0](real, centres)[0].sum(), self.net(floats), loops=True)


def _make(name, img_size):
    folder, Model, ComputeLoss = _import()
    model, _, how = name.partition("@")
    net = Model(os.path.join(folder, "models", model + ".yaml"), ch=3, nc=80)
    net.hyp = dict(cls_pw=1.0, obj_pw=1.0, box=0.05, cls=0.5, obj=1.0, anchor_t=4.0, fl_gamma=0.0, label_smoothing=0.0)  # scratch-low
    if how == "profile":
        def inputs(batch):
            return torch.empty(batch, 3, img_size, img_size, device="meta", requires_grad=True)
        return Profiled(net), None, inputs
    loss = ComputeLoss(copy.deepcopy(net))

    def images(batch):
        raw = torch.empty(batch, 3, img_size, img_size, dtype=torch.uint8, device="meta")
        return {"floats": raw.float() / 255, "raw": raw}
    return Trained(net, loss, img_size), None, images


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def make(img_size):
        with contextlib.redirect_stdout(sys.stderr):  # the recorder's own lines are on stdout
            return _make(name, img_size)
    return make
