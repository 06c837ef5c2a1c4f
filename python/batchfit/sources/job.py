# SPDX-License-Identifier: Apache-2.0
"""What a script trains: a model on meta, its inputs, its loss, and what the header says about it."""

import contextlib

import torch

from .. import build
from ..script import LOSSES


def first(output):
    """The logits: the output, or the first of several."""
    return output[0] if isinstance(output, (tuple, list)) else output


class Job:
    """A model and how a step feeds it.

    model    module on meta
    library  'timm 1.0.31'
    header   dict: image_size, sequence_length, target_length, classes ... as far as they apply
    """

    casts_itself = False  # whether autocast is inside of forward_loss

    def __init__(self, model, library, **header):
        self.model, self.library, self.header = model, library, header
        self.reference = None  # a second model that is not trained, or None
        self.rec = None  # the recorder, while recording
        self.is_used_up = False  # a recording changes the model: another one needs a fresh one
        self.after_step = None  # called with the number of the step after the optimizer, or None
        self.loss_facts = {}  # of a fused loss, for the header
        self.is_cast = False  # the source has given its weights the dtype that the knobs say

    def inputs(self, batch):
        """A batch on the device, however the script holds it."""
        raise NotImplementedError

    def forward(self, inputs):
        """The model's output, for inference."""
        raise NotImplementedError

    def forward_loss(self, inputs):
        """(output, loss)."""
        raise NotImplementedError

    def prefetched(self, batch):
        """The batch as a side-stream loader makes it; default: as `inputs`."""
        return self.inputs(batch)

    def around(self):
        """What the whole script runs inside."""
        return contextlib.nullcontext()


class ImageJob(Job):
    """Classification of images (batch, *shape) into `classes`."""

    def __init__(self, model, library, shape, classes, knobs):
        super().__init__(model, library, image_size=shape[-1], classes=classes)
        self.shape, self.knobs, self.loss = tuple(shape), knobs, LOSSES[knobs.loss]

    def _images(self, batch):
        x = build.new((batch,) + self.shape)
        if self.knobs.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        dtype = self.knobs.model_dtype
        return x.to(getattr(torch, dtype)) if dtype else x

    def _target(self, batch):
        return build.new((batch,), torch.int64)

    def inputs(self, batch):
        x = self._images(batch)
        return x, None if self.knobs.resident or self.knobs.mode == "inference" else self._target(batch)

    def prefetched(self, batch):
        """timm PrefetchLoader (1.0.9 data/loader.py): bytes and target arrive, then floats are made of the bytes."""
        x = build.new((batch,) + self.shape, torch.uint8)
        target = self._target(batch)
        dtype = getattr(torch, self.knobs.model_dtype) if self.knobs.model_dtype else torch.float32
        x = x.to(dtype)
        return x, target

    def forward(self, inputs):
        x = inputs[0]
        if self.knobs.prefetch and self.knobs.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        return self.model(x)

    def forward_loss(self, inputs):
        output = first(self.forward(inputs))
        target = inputs[1] if inputs[1] is not None else self._target(output.shape[0])
        return output, self.loss(output, target)


def _max_length(config):
    for key in ("max_position_embeddings", "n_positions", "n_ctx"):
        if isinstance(getattr(config, key, None), int) and getattr(config, key) > 0:
            return getattr(config, key)
    return 512


class TextJob(Job):
    """Tokens of full length (no padding) with labels."""

    def __init__(self, model, library, config, task, kind, knobs):
        length = knobs.seq_len or min(_max_length(config), 512)
        target = (knobs.target_len or min(length, 128)) if task == "seq2seq-lm" else None
        super().__init__(model, library, sequence_length=length, target_length=target, task=task,
                         classes=config.num_labels if "classification" in task else None)
        self.length, self.target, self.task, self.kind, self.train = length, target, task, kind, knobs.mode == "train"
        self.loss = None  # of hidden states and labels, where it is made outside of the model

    def _tokens(self, batch, length, ones=False):
        return build.new((batch, length), torch.int64, ones)

    def inputs(self, batch):
        made = {"input_ids": self._tokens(batch, self.length), "attention_mask": self._tokens(batch, self.length, True)}
        if self.kind in ("bert", "electra", "albert"):
            made["token_type_ids"] = self._tokens(batch, self.length)
        if self.task == "classification":
            made["labels"] = build.new((batch,), torch.int64)
        else:
            made["labels"] = self._tokens(batch, self.target or self.length)
        return made

    def forward(self, inputs):
        return self.model(**inputs)

    def forward_loss(self, inputs):
        if self.loss:
            hidden = self.model(**{k: v for k, v in inputs.items() if k != "labels"})
            return hidden, self.loss(hidden, inputs["labels"])
        output = self.model(**inputs)
        return output, output["loss"] if isinstance(output, dict) else output[0]
