# SPDX-License-Identifier: Apache-2.0
"""hf:NAME or hf:PATH/config.json - a transformers model from its configuration; weights are never loaded."""

import importlib.util
import os

import torch

from .. import adapters, build, grpo, kto, loss_words, losses, odds, preference, rewards, shard_words, stubs, zero
from ..build import to_meta, without_init
from ..errors import RecordError
from . import hf_shapes, need
from .job import Job, TextJob

TASKS = {"seq2seq": "seq2seq-lm", "decoder": "causal-lm", "encoder": "classification", "vision": "image"}
OTHERS = {"mbart": "seq2seq", "pegasus": "seq2seq", "longt5": "seq2seq", "umt5": "seq2seq", "marian": "seq2seq",
          "blenderbot": "seq2seq", "led": "seq2seq", "gpt_neo": "decoder", "bloom": "decoder", "mpt": "decoder",
          "codegen": "decoder", "swin": "vision", "swinv2": "vision", "convnext": "vision", "beit": "vision",
          "resnet": "vision", "mobilevit": "vision", "levit": "vision"}  # families that data/families.tsv has no row of
HEADS = {"classification": "AutoModelForSequenceClassification", "token-classification": "AutoModelForTokenClassification", "causal-lm": "AutoModelForCausalLM",
         "masked-lm": "AutoModelForMaskedLM", "seq2seq-lm": "AutoModelForSeq2SeqLM",
         "image": "AutoModelForImageClassification"}


def _what(kind):
    """decoder, seq2seq, encoder, vision, ...: what data/families.tsv says of a model_type; empty: nobody knows it."""
    return next((f["kind"] for f in hf_shapes.rows("families.tsv") if f["type"] == kind), OTHERS.get(kind, ""))


def _task(kind, config, knobs):
    what = _what(kind)
    if not what and any(name.endswith("ForCausalLM") for name in getattr(config, "architectures", None) or []):
        what = "decoder"
    if knobs.task != "auto":
        return knobs.task
    if what and what not in TASKS:
        raise RecordError("a %s (%s) is not recorded by its configuration alone: write a function that returns the model and "
                          "what it is called with, and record python:MODULE:FUNCTION" % (what, kind))
    return TASKS.get(what, "classification")


def _ours(values):
    """Without what the file says of another run: of the type and quantisation of its weights, of code beside it."""
    others = ("quantization_config", "auto_map", "transformers_version", "torch_dtype", "dtype")
    return {k: _ours(v) if isinstance(v, dict) else v for k, v in values.items() if k not in others}


def _line(why):
    return ("%s: %s" % (type(why).__name__, " ".join(str(why).split())))[:200]


def _config(transformers, name, knobs):
    kind, values, source = hf_shapes.find(name)
    if knobs.num_classes:
        values["num_labels"] = knobs.num_classes
    if _what(kind) == "vision" and knobs.img_size:
        values["image_size"] = knobs.img_size
    try:
        config = transformers.AutoConfig.for_model(kind, **_ours(values))
    except Exception as why:
        raise RecordError("%s: transformers %s cannot make a %s of it: %s"
                          % (source, transformers.__version__, kind, _line(why)))
    if "tie_word_embeddings" in values:  # some configurations drop it
        config.tie_word_embeddings = values["tie_word_embeddings"]
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = 0
    if knobs.mode == "train" and hasattr(config, "use_cache"):
        config.use_cache = not knobs.checkpointing and config.use_cache
    return kind, config, source


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


def _cast(model, dtype):
    """As from_pretrained(dtype=...) does: the parameters; buffers stay."""
    for p in model.parameters():
        p.data = p.data.to(dtype)


class PixelJob(TextJob):
    """Images for a transformers vision model."""

    def __init__(self, model, library, config, knobs):
        side = knobs.img_size or getattr(config, "image_size", 224)
        Job.__init__(self, model, library, image_size=side, classes=config.num_labels)
        self.side = side

    def inputs(self, batch):
        return {"pixel_values": build.new((batch, 3, self.side, self.side)),
                "labels": build.new((batch,), torch.int64)}


PAIRS = {None: preference.PairJob, "grpo": grpo.CompletionJob, "kto": kto.KtoJob, "orpo": odds.OddsJob, "reward": rewards.RewardJob}


def _pairs(model, build_another, library, config, kind, knobs):
    """A preference.PairJob, with a reference where there is one that is no part of the model itself."""
    how, reference = loss_words.Preference(knobs.loss), None
    if how.has_reference and not knobs.adapter:
        reference = build_another().eval()
        if knobs.weights == "bf16":
            _cast(reference, torch.bfloat16)
        preference.apply(reference, knobs)
        reference.config.use_cache = True  # the trainer tells only what it trains
    return PAIRS[how.step](model, reference, library, config, kind, knobs, how)


def load(name, knobs):
    """A TextJob or PixelJob."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if importlib.util.find_spec("torchvision"):  # a broken one; without one transformers knows what to do
        stubs.prepare()
    transformers = need("transformers", "transformers")
    kind, config, source = _config(transformers, name, knobs)
    task, fused, pairs = _task(kind, config, knobs), loss_words.is_fused(knobs.loss), loss_words.is_preference(knobs.loss)
    if (fused or pairs) and task != "causal-lm":
        raise RecordError("--loss %s: of a decoder with its head, not of %s" % (knobs.loss, task))
    if pairs and loss_words.Preference(knobs.loss).is_of_head:
        task, config.num_labels = "classification", 1
    try:
        model = to_meta(_build(transformers, config, task, knobs))
    except Exception as why:  # sizes that make no model: no heads, a hidden size that they do not divide
        other = "it may have another head (--task causal-lm)" if knobs.task == "auto" and task == "classification" else \
            "write a function that returns the model, and record python:MODULE:FUNCTION"
        raise RecordError("%s: transformers %s cannot build the %s that it describes: %s; %s"
                          % (source, transformers.__version__, kind, _line(why), other))
    if knobs.model_dtype and (knobs.weights or knobs.adapter):
        _cast(model, getattr(torch, knobs.model_dtype))
    if knobs.checkpointing:
        words = ({"use_reentrant": True},) if zero.is_reentrant(knobs.shard) else ()  # transformers before 4.35 takes none
        model.gradient_checkpointing_enable(*words)
    is_outside = fused and knobs.shard == shard_words.TUNE
    loss = losses.apply(model, knobs, is_outside) if fused else None
    if pairs:
        preference.apply(model, knobs)
    model, adapter = adapters.apply(model, knobs, task)
    library = ", ".join(filter(None, ("transformers " + transformers.__version__, adapter)))
    if pairs:
        job = _pairs(model, lambda: to_meta(_build(transformers, config, task, knobs)), library, config, kind, knobs)
    else:
        job = PixelJob(model, library, config, knobs) if task == "image" else TextJob(model, library, config, task, kind, knobs)
    job.loss = loss if is_outside else None
    job.hidden = getattr(config.get_text_config(), "hidden_size", None) if hasattr(config, "get_text_config") else None
    if fused:
        job.loss_facts = loss_words.facts(knobs.loss, job.length, config.vocab_size, config.hidden_size)
    job.is_cast = knobs.weights == "bf16" or bool(knobs.adapter)
    job.after_step = adapters.after_step(model) if adapter else None
    return job
