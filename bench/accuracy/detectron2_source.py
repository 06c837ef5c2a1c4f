# SPDX-License-Identifier: Apache-2.0
"""python:detectron2_source:NAME - one of detectron2's zoo as its config trains it on several GPUs, for the recorder.

NAME is a config's of configs/COCO-*. Networks, heads and losses are those of v0.1, of the months of the table. Images come as bytes, all at
the largest size of the configs and of one shape, as aspect-ratio grouping has them. What depends on the data, matching and losses, runs on
real tensors. Regions are as many as a config samples, and a quarter of them objects; which they are is made up: each level of a pyramid has
half as many as the one below. DDP's buckets are a buffer.
"""

import contextlib
import copy
import os
import sys
import types
from unittest import mock

import torch
from PIL import Image

from batchfit import stubs
from batchfit.dispatch import Recorder
from batchfit.real_loss import real_loss
from mmseg_source import _Kernels
from mmyolo_source import objects, offers

SIDES = (800, 1333)  # height and width: the largest of INPUT.MIN_SIZE_TRAIN, and MAX_SIZE_TRAIN
# The peak is a whole training's, in which the fullest of COCO's images, of 93 objects, come by; another image has 7.3 at the mean.
FULLEST, MEAN = 90, 7


class _Align(_Kernels):
    """detectron2._C: regions have features, which are not computed."""

    @staticmethod
    def roi_align_forward(features, regions, scale, height, width, ratio, aligned):
        return features.new_empty(len(regions), features.shape[1], height, width)

    @staticmethod
    def roi_align_backward(grad, regions, scale, height, width, batch, channels, rows, columns, ratio, aligned):
        return grad.new_empty(batch, channels, rows, columns)


def _import():
    stubs.prepare()
    Image.LINEAR = Image.BILINEAR  # its name until Pillow 10
    sys.modules.setdefault("detectron2._C", _Align("detectron2._C"))
    import detectron2
    from detectron2.config import get_cfg
    from detectron2.modeling import build_model, poolers
    from detectron2.modeling.meta_arch import retinanet
    from detectron2.modeling.proposal_generator import rpn
    from detectron2.modeling.roi_heads import fast_rcnn, roi_heads
    from detectron2.structures import Boxes, Instances, Keypoints
    from detectron2.utils.events import EventStorage
    from fvcore.nn import sigmoid_focal_loss
    return types.SimpleNamespace(**locals())


def _levels(count, levels):
    """How many of the regions each level of a pyramid has."""
    shares = [2 ** (levels - 1 - i) for i in range(levels)]
    counts = [count * share // sum(shares) for share in shares]
    return [count - sum(counts[1:])] + counts[1:]


def _pool(pooler, maps, boxes):
    """ROIPooler.forward, of regions of which nobody asks where they are."""
    regions = sum(len(b) for b in boxes)
    if len(maps) == 1:
        return pooler.level_poolers[0](maps[0], maps[0].new_empty(regions, 5))
    side = pooler.output_size[0]
    output = maps[0].new_zeros(regions, maps[0].shape[1], side, side)
    for features, level, count in zip(maps, pooler.level_poolers, _levels(regions, len(maps))):
        at = torch.empty(count, dtype=torch.int64, device=output.device)
        output[at] = level(features, features.new_empty(count, 5))
    return output


class _Masks:
    """gt_masks of one image: polygons, which stay on the CPU."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def crop_and_resize(self, boxes, side):
        return torch.ones(len(boxes), side, side, dtype=torch.bool)


class Trained(torch.nn.Module):
    """The loss of a batch, and DDP's buckets."""

    def __init__(self, d, net, config):
        super().__init__()
        self.net, self._d, self._config = net, (d,), config
        net.device = torch.device("meta")
        net.normalizer = lambda image: (image - torch.empty(3, 1, 1, device="meta")) / torch.empty(3, 1, 1, device="meta")
        if hasattr(net, "roi_heads"):
            net.roi_heads.label_and_sample_proposals = lambda regions, _: [self._sampled().to("meta") for _ in regions]
        owner = getattr(net, "proposal_generator", None) or net
        self._anchors = (copy.deepcopy(getattr(owner, "anchor_generator", None)),)  # real ones
        self.register_buffer("buckets", torch.empty(sum(p.numel() for p in net.parameters() if p.requires_grad)), persistent=False)

    def _objects(self, count):
        """gt_boxes and gt_classes of one image."""
        d, = self._d
        rows = objects(count, SIDES, self._config.MODEL.ROI_HEADS.NUM_CLASSES)
        return d.Instances(SIDES, gt_boxes=d.Boxes(rows[:, 2:].clone()), gt_classes=rows[:, 1].long())

    def _sampled(self, only_objects=False):
        """The regions of one image that the heads are trained on."""
        heads = self._config.MODEL.ROI_HEADS
        those = int(heads.BATCH_SIZE_PER_IMAGE * heads.POSITIVE_FRACTION)
        made = self._objects(those if only_objects else heads.BATCH_SIZE_PER_IMAGE)
        made.gt_classes[those:] = heads.NUM_CLASSES
        made.proposal_boxes = self._d[0].Boxes(made.gt_boxes.tensor.clone())
        return made

    def _proposals(self, images, count):
        d, = self._d
        boxes = [torch.empty(count, 4, device="meta") for _ in range(images)]
        return [d.Instances(SIDES, proposal_boxes=d.Boxes(b), objectness_logits=b.new_empty(count)) for b in boxes]

    def _rpn_losses(self, real_of):
        def losses(outputs):
            anchors = self._anchors[0](outputs.pred_objectness_logits)

            def compute(real):
                made = copy.copy(outputs)
                made.pred_objectness_logits, made.pred_anchor_deltas, made.anchors = *real, anchors
                made.gt_boxes = [gt.gt_boxes for gt in self.gts]
                return sum(real_of(made).values())
            return {"loss_rpn": real_loss(Recorder.running, compute, (outputs.pred_objectness_logits, outputs.pred_anchor_deltas))}
        return losses

    def _box_losses(self, real_of):
        def losses(outputs):
            d, = self._d
            regions = [self._sampled() for _ in self.gts]

            def compute(real):
                return sum(real_of(d.fast_rcnn.FastRCNNOutputs(outputs.box2box_transform, *real, regions, outputs.smooth_l1_beta)).values())
            return {"loss_box": real_loss(Recorder.running, compute, (outputs.pred_class_logits, outputs.pred_proposal_deltas))}
        return losses

    def _object_loss(self, real_of):
        """Of keypoints or masks."""
        def loss(logits, _, **how):
            d, = self._d
            regions = [self._sampled(only_objects=True) for _ in self.gts]
            for some in regions:
                count = len(some)
                some.gt_masks = _Masks(count)
                centres = some.gt_boxes.get_centers()[:, None].expand(count, 17, 2)
                some.gt_keypoints = d.Keypoints(torch.cat([centres, torch.full((count, 17, 1), 2.0)], 2))
            return real_loss(Recorder.running, lambda real: real_of(real, regions, **how), logits)
        return loss

    def _retinanet_losses(self, truth_of, real_of):
        def losses(_, __, classes, deltas):
            anchors = self._anchors[0](deltas)

            def compute(real):
                return sum(real_of(*truth_of(anchors, self.gts), *real).values())
            return {"loss": real_loss(Recorder.running, compute, (classes, deltas))}
        return losses

    def _patches(self):
        """(where, name, what stands there meanwhile): what looks at data."""
        d, net = self._d[0], self.net
        heads = d.roi_heads
        if isinstance(net, d.retinanet.RetinaNet):
            return [(net, "get_ground_truth", lambda *_: (None, None)), (d.retinanet, "sigmoid_focal_loss_jit", d.sigmoid_focal_loss),
                    (net, "losses", self._retinanet_losses(net.get_ground_truth, net.losses))]
        after = self._config.MODEL.RPN.POST_NMS_TOPK_TRAIN
        return [(d.rpn.RPNOutputs, "losses", self._rpn_losses(d.rpn.RPNOutputs.losses)),
                (d.rpn, "find_top_rpn_proposals", lambda *_: self._proposals(len(self.gts), after)),
                (d.poolers.ROIPooler, "forward", _pool),
                (d.fast_rcnn.FastRCNNOutputs, "losses", self._box_losses(d.fast_rcnn.FastRCNNOutputs.losses)),
                (heads, "select_foreground_proposals", self._foreground),
                (heads, "select_proposals_with_visible_keypoints", lambda regions: regions),
                (heads, "keypoint_rcnn_loss", self._object_loss(heads.keypoint_rcnn_loss)),
                (heads, "mask_rcnn_loss", self._object_loss(heads.mask_rcnn_loss))]

    def _foreground(self, regions, _):
        those = [self._sampled(only_objects=True).to("meta") for _ in regions]
        return those, [torch.empty(len(some), dtype=torch.int64, device="meta") for some in those]

    def forward(self, images):
        self.gts = [self._objects(MEAN if i else FULLEST) for i in range(len(images))]
        batch = [{"image": image, "instances": gt} for image, gt in zip(images, self.gts)]
        if self._config.MODEL.LOAD_PROPOSALS:
            for one, proposals in zip(batch, self._proposals(len(batch), self._config.DATASETS.PRECOMPUTED_PROPOSAL_TOPK_TRAIN)):
                one["proposals"] = proposals
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._d[0].EventStorage())
            for where, name, value in self._patches():
                stack.enter_context(mock.patch.object(where, name, value))
            return sum(self.net(batch).values())


def _config(d, name):
    folder = os.path.join(os.path.dirname(os.path.dirname(d.detectron2.__file__)), "configs")
    found = [os.path.join(f, name + ".yaml") for f, _, files in os.walk(folder) if name + ".yaml" in files and "COCO" in f]
    if len(found) != 1:
        raise ValueError("%d configs of detectron2 are %s" % (len(found), name))
    config = d.get_cfg()
    config.merge_from_file(found[0])
    config.MODEL.DEVICE = "cpu"
    return config


def _make(name):
    d = _import()
    config = _config(d, name)
    net = Trained(d, d.build_model(config), config)

    def inputs(batch):
        return {"images": [torch.empty(3, *SIDES, dtype=torch.uint8, device="meta") for _ in range(batch)]}
    return net, None, inputs


__getattr__ = offers(_make)
