# SPDX-License-Identifier: Apache-2.0
"""hf:NAME or hf:PATH/config.json - a transformers model from its configuration; weights are never loaded."""

import json
import os

import torch

from .. import build, stubs
from ..build import to_meta, without_init
from ..errors import RecordError
from . import hf_configs, need
from .job import Job

SEQ2SEQ = {"t5", "mt5", "bart", "mbart", "pegasus", "longt5", "umt5", "marian", "blenderbot", "led"}
DECODERS = {"gpt2", "llama", "qwen2", "qwen3", "opt", "gpt_neox", "gpt_neo", "gptj", "mistral", "gemma", "gemma2", "phi", "phi3",
            "bloom", "falcon", "mpt", "codegen", "starcoder2", "olmo", "mixtral"}
VISION = {"vit", "deit", "swin", "swinv2", "convnext", "beit", "resnet", "dinov2", "mobilevit", "levit"}
HEADS = {"classification": "AutoModelForSequenceClassification", "causal-lm": "AutoModelForCausalLM",
         "masked-lm": "AutoModelForMaskedLM", "seq2seq-lm": "AutoModelForSeq2SeqLM",
         "image": "AutoModelForImageClassification"}


def _task(kind, knobs):
    if knobs.task != "auto":
        return knobs.task
    for names, task in ((SEQ2SEQ, "seq2seq-lm"), (DECODERS, "causal-lm"), (VISION, "image")):
        if kind in names:
            return task
    return "classification"


def _values(name):
    """(model_type, values) of a known name or of a config.json."""
    path = os.path.join(name, "config.json") if os.path.isdir(name) else name
    if path.endswith(".json"):
        try:
            with open(path, encoding="utf-8") as f:
                values = json.load(f)
            return values.pop("model_type"), values
        except KeyError:
            raise RecordError("%s has no model_type" % path)
        except ValueError as why:
            raise RecordError("%s is not JSON: %s" % (path, why))
    known = hf_configs.find(name)
    if known is None:
        raise RecordError("no configuration known for %r (nothing is downloaded); give the path of its config.json, or one "
                          "of: %s" % (name, ", ".join(hf_configs.names())))
    return known


def _config(transformers, name, knobs):
    kind, values = _values(name)
    values = dict(values)
    if knobs.num_classes:
        values["num_labels"] = knobs.num_classes
    if kind in VISION and knobs.img_size:
        values["image_size"] = knobs.img_size
    config = transformers.AutoConfig.for_model(kind, **values)
    if "tie_word_embeddings" in values:  # some configurations drop it
        config.tie_word_embeddings = values["tie_word_embeddings"]
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = 0
    if knobs.mode == "train" and hasattr(config, "use_cache"):
        config.use_cache = not knobs.checkpointing and config.use_cache
    return kind, config


def _build(transformers, config, task, knobs):
    """The model with the wanted attention, or with eager attention where it has no other."""
    auto = getattr(transformers, HEADS[task])
    ways = ["sdpa", "eager"] if knobs.attention == "fused" else ["eager"]
    with without_init():
        for how in ways:
            try:
                return _share(auto.from_config(config, attn_implementation=how))
            except (TypeError, ValueError, ImportError):
                continue
        return _share(auto.from_config(config))  # a transformers that does not know attn_implementation


def _share(model):
    """Encoder and decoder embed with one table, also where the head has its own (mt5)."""
    if hasattr(model, "shared"):
        for part in (getattr(model, "encoder", None), getattr(model, "decoder", None)):
            if getattr(getattr(part, "embed_tokens", None), "weight", None) is not None:
                part.embed_tokens.weight = model.shared.weight
    return model


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
                         classes=config.num_labels if task == "classification" else None)
        self.length, self.target, self.task, self.kind, self.train = length, target, task, kind, knobs.mode == "train"

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
        output = self.model(**inputs)
        return output, output["loss"] if isinstance(output, dict) else output[0]


class PixelJob(TextJob):
    """Images for a transformers vision model."""

    def __init__(self, model, library, config, knobs):
        side = knobs.img_size or getattr(config, "image_size", 224)
        Job.__init__(self, model, library, image_size=side, classes=config.num_labels)
        self.side = side

    def inputs(self, batch):
        return {"pixel_values": build.new((batch, 3, self.side, self.side)),
                "labels": build.new((batch,), torch.int64)}


def load(name, knobs):
    """A TextJob or PixelJob."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    stubs.prepare()
    transformers = need("transformers", "transformers")
    kind, config = _config(transformers, name, knobs)
    task = _task(kind, knobs)
    model = to_meta(_build(transformers, config, task, knobs))
    if knobs.checkpointing:
        model.gradient_checkpointing_enable()
    library = "transformers " + transformers.__version__
    return PixelJob(model, library, config, knobs) if task == "image" else TextJob(model, library, config, task, kind, knobs)
