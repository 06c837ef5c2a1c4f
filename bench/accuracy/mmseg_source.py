# SPDX-License-Identifier: Apache-2.0
"""python:mmseg_source:NAME - one of mmsegmentation's models as its config of 0.x trains it on several GPUs, for the recorder.

NAME is the config's of 0.x, fcn_r50-d8_512x1024_40k_cityscapes; the package of 1.x has it as fcn_r50-d8_4xb2-40k_cityscapes-512x1024. The
networks, heads and losses are the package's own. As in 0.x, what is ignored counts in the accuracy, and labels come as one tensor; as under
torch 1.6, the hard swish is mmcv's own.
DDP keeps a copy of the gradients in its buckets: here it is a buffer.
"""

import os
import re
import sys
import types

import torch

from batchfit import stubs

ZOO = {"m-v2-d8": "mobilenet-v2-d8_", "m-v3-d8": "mobilenet-v3-d8_", "m-v3-d8_scratch": "mobilenet-v3-d8-scratch_", "m-v3s-d8": "mobilenet-v3-d8-s_",
       "m-v3s-d8_scratch": "mobilenet-v3-d8-scratch-s_", "s101-d8": "resnest_s101-d8_", "unet_s5-d16": "unet-s5-d16_"}


class _Kernels(types.ModuleType):
    """In the place of mmcv's compiled operations: they are there, and cannot be called."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*_, **__):
            raise NotImplementedError("mmcv's compiled %s has no rule" % name)
        return missing


def _folder():
    import mmseg
    return os.path.join(os.path.dirname(mmseg.__file__), ".mim", "configs")


def config_of(name, paths):
    """The path whose file of 1.x is the config `name` of 0.x."""
    match = re.fullmatch(r"([a-z0-9]+)_(.+)_(\d+x\d+)_(\d+k)_(.+)", name)
    if not match:
        raise ValueError("%s is no config's name" % name)
    head, body, crop, length, data = match.groups()
    data = data.replace("_", "-")
    begin = ZOO[body] + head if body in ZOO else head + "_" + body
    begin, length, data, crop = map(re.escape, (begin, length, data, crop))
    wanted = re.compile(r"%s_\d+xb\d+-%s_%s-?%s\.py" % (begin.replace("unet\\-s5", "unet[-_]s5"), length, data, crop))
    found = [p for p in paths if wanted.fullmatch(os.path.basename(p))]
    if len(found) != 1:
        raise ValueError("%d configs of the package are %s" % (len(found), name))
    return found[0]


class Trained(torch.nn.Module):
    """The loss of a batch, and DDP's buckets."""

    def __init__(self, net):
        super().__init__()
        self.net, self.labels = net, None
        self.register_buffer("buckets", torch.empty(sum(p.numel() for p in net.parameters() if p.requires_grad)), persistent=False)
        for head in net.modules():
            if hasattr(head, "_stack_batch_gt"):
                head._stack_batch_gt = lambda samples: self.labels

    def forward(self, images, labels):
        self.labels = labels
        features = self.net.extract_feat(images)
        samples = [types.SimpleNamespace(metainfo={})] * len(images)
        losses = dict(self.net._decode_head_forward_train(features, samples))
        if self.net.with_auxiliary_head:
            losses.update(self.net._auxiliary_head_forward_train(features, samples))
        self.labels = None
        return sum(v.mean() for k, v in losses.items() if "loss" in k)


def _import():
    stubs.prepare()
    sys.modules.setdefault("mmcv._ext", _Kernels("mmcv._ext"))
    import mmseg.models
    from mmcv.cnn.bricks.hswish import HSwish
    from mmengine.config import Config
    from mmengine.registry import MODELS, init_default_scope
    from mmseg.models.decode_heads import decode_head
    init_default_scope("mmseg")
    MODELS.register_module(name="HSwish", module=HSwish, force=True)  # mmcv's choice for a torch before 1.7
    accuracy = decode_head.accuracy
    decode_head.accuracy = lambda logits, labels, **_: accuracy(logits, labels)
    return Config, mmseg.models.build_segmentor


def _make(name):
    config, build = _import()
    folder = _folder()
    path = config_of(name, [os.path.join(d, f) for d, _, files in os.walk(folder) for f in files])
    made = config.fromfile(path)
    model = dict(made.model, pretrained=None, data_preprocessor=None)
    depth = re.search(r"_r(\d+)", name)
    if depth:  # the package's fpn_r101 for ade20k has lost its own
        model["backbone"] = dict(model["backbone"], depth=int(depth.group(1)))
    net = build(model)
    side = made.crop_size
    side = (side, side) if isinstance(side, int) else tuple(side)

    def inputs(batch):
        return {"images": torch.empty(batch, 3, *side, device="meta"), "labels": torch.empty(batch, 1, *side, dtype=torch.int64, device="meta")}
    return Trained(net), None, inputs


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda: _make(name)
