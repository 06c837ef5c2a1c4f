# SPDX-License-Identifier: Apache-2.0
"""ultralytics:NAME - detection models of ultralytics (yolov8*, yolov9*, yolov10*, yolo11*, ...) with their own loss."""

import os
import re
import tempfile
import types

import torch

from .. import build, stubs
from ..build import to_meta
from ..errors import RecordError
from ..real_loss import real_loss
from . import need
from .job import Job

# gains of ultralytics/cfg/default.yaml; epochs only scales a decay
_GAINS = dict(box=7.5, cls=0.5, dfl=1.5, pose=12.0, kobj=1.0, epochs=100, overlap_mask=True)


class DetectionJob(Job):
    """Images with `targets` boxes each; inputs arrive as bytes (engine/trainer.py preprocess_batch)."""

    def __init__(self, model, loss, library, classes, knobs):
        side = knobs.img_size or 640
        super().__init__(model, library, image_size=side, classes=classes, targets_per_image=knobs.targets_per_image)
        self.loss, self.side, self.knobs, self.classes, self.rec = loss, side, knobs, classes, None

        for part in (loss, getattr(loss, "one2many", None), getattr(loss, "one2one", None)):
            if hasattr(part, "preprocess") and not build.is_real():
                part.preprocess = self._one_block(part.preprocess)

    def _one_block(self, preprocess):
        """Padding the targets, logged as its result: up to 8.3 it loops over images, so its small ops grow in number."""
        def padded(*args, **kwargs):
            self.rec.quiet = True
            try:
                out = preprocess(*args, **kwargs)
            finally:
                self.rec.quiet = False
            self.rec.log.note(out, "preprocess")
            return out
        return padded

    def inputs(self, batch):
        image = build.new((batch, 3, self.side, self.side), torch.uint8)
        image = image.float() / 255
        if self.knobs.channels_last:
            image = image.contiguous(memory_format=torch.channels_last)
        dtype = self.knobs.model_dtype
        return image.to(getattr(torch, dtype)) if dtype else image, self._targets(batch)

    def _targets(self, batch):
        """The same boxes in every image: side 0.2 to 0.5 of the image, anywhere."""
        n = self.knobs.targets_per_image
        generator = torch.Generator().manual_seed(40)
        boxes = torch.rand(n, 4, generator=generator) * 0.3 + 0.2
        kinds = torch.randint(0, self.classes, (n, 1), generator=generator).float()
        return {"batch_idx": torch.arange(batch).repeat_interleave(n).float(), "cls": kinds.repeat(batch, 1),
                "bboxes": boxes.repeat(batch, 1)}

    def forward(self, inputs):
        return self.model(inputs[0])

    def forward_loss(self, inputs):
        targets = inputs[1]
        predictions = self.model(inputs[0])

        def compute(real):
            loss = self.loss(real, dict(targets))[0]
            return loss.sum()
        if build.is_real():
            return None, compute(predictions)
        return None, real_loss(self.rec, compute, predictions)


def _yaml(name):
    if not re.match(r"^[A-Za-z0-9_.-]+$", name):
        raise RecordError("not a model name: %r" % name)
    return re.sub(r"\.(pt|yaml)$", "", name) + ".yaml"


def load(name, knobs):
    """A DetectionJob."""
    os.environ.setdefault("YOLO_CONFIG_DIR", tempfile.gettempdir())
    os.environ.setdefault("YOLO_OFFLINE", "true")
    os.environ.setdefault("YOLO_VERBOSE", "false")
    stubs.prepare()
    need("cv2", "opencv-python-headless")
    ultralytics = need("ultralytics", "ultralytics")
    tasks = need("ultralytics.nn.tasks", "ultralytics")
    if knobs.checkpointing:
        raise RecordError("ultralytics' models have no activation checkpointing")
    classes = knobs.num_classes or 80
    try:
        with torch.no_grad():
            model = tasks.DetectionModel(_yaml(name), ch=3, nc=classes, verbose=False)
    except FileNotFoundError:
        raise RecordError("ultralytics %s has no model %r" % (ultralytics.__version__, name))
    model.args = types.SimpleNamespace(**_GAINS)
    for p in model.parameters():
        p.requires_grad_(True)
    frozen = [p for n, p in model.named_parameters() if ".dfl" in n]  # engine/trainer.py always_freeze_names
    for p in frozen:
        p.requires_grad_(False)
    if build.is_real():
        model.to(build.DEVICE)  # the criterion takes its device from the model
    loss = model.init_criterion()
    return DetectionJob(to_meta(model), loss, "ultralytics " + ultralytics.__version__, classes, knobs)
