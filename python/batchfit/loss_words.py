# SPDX-License-Identifier: Apache-2.0
"""The fused losses of --loss in words and numbers, and those of preferences; what they allocate is in losses.py and preference.py."""

from .errors import UsageError

CHUNKS = 8  # CEWithChunkedOutputLoss's default
FAMILIES = "llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi3".split()
NEWEST, OLDEST = (0, 8, 5), (0, 5, 2)
PREFERENCES = ("dpo",)
WHOLE, TILED = (0, 12, 0), (1, 14, 0)  # trl's first versions that are known here, and that score tokens by tiles of logits


class Loss:
    """A fused loss as --loss says it."""

    def __init__(self, text):
        self.text = text
        word, at, of = text.partition("@")
        self.name, _, part = word.partition(":")
        self.is_alone = part == "loss"
        self.version = _version(of) if at else NEWEST
        good = {"liger": part in ("", "loss") and self.version is not None and self.version >= OLDEST,
                "chunked": not at and (not part or part.isdigit() and int(part) > 0), "cut": text == "cut"}
        if not good.get(self.name, False):
            raise UsageError("--loss %s: choose from ce, label-smoothing, liger, liger:loss (without its other layers), liger@0.5.2 "
                             "(any version from there on), chunked, chunked:N (torchtune's), cut, dpo, dpo:precomputed, dpo@1.14 (trl's)" % text)
        self.chunks = int(part) if self.name == "chunked" and part else CHUNKS


def _version(text):
    parts = text.split(".")
    if not 2 <= len(parts) <= 3 or not all(p.isdigit() for p in parts):
        return None
    return tuple(int(p) for p in (parts + ["0"])[:3])


class Preference:
    """A loss of preferences as --loss says it: dpo, dpo:precomputed (the reference's scores come with the data), dpo@1.14 (of a version of
    trl), dpo:llamafactory (of another trainer). Without a version it is one of those with all logits, which need more."""

    def __init__(self, text):
        self.text = text
        word, at, of = text.partition("@")
        self.name, _, part = word.partition(":")
        self.is_precomputed = part == "precomputed"
        version = _version(of) if at else WHOLE
        if part not in ("", "precomputed", "llamafactory") or version is None or version < WHOLE or at and part == "llamafactory":
            raise UsageError("--loss %s: choose from dpo, dpo:precomputed, dpo@1.14 (trl's, any version from 0.12 on), dpo:llamafactory" % text)
        self.way = part if part == "llamafactory" else "tiled" if version >= TILED else "whole"


def is_preference(text):
    """Is it a loss of preferences?"""
    return (text or "").partition("@")[0].partition(":")[0] in PREFERENCES and bool(Preference(text))


def is_tiled(text):
    """And is it of a trl that scores tokens by tiles?"""
    return is_preference(text) and Preference(text).way == "tiled"


def is_fused(text):
    """Is it a fused one? Raises UsageError where it is no loss at all."""
    return text not in (None, "ce", "label-smoothing") and not is_preference(text) and bool(Loss(text))


def facts(text, tokens, vocabulary, hidden):
    """What a tape's header says of it: of liger's also the tokens of a sample and the parts that the chunks are made of."""
    if not is_fused(text):
        return {}
    parts = {"loss_tokens": tokens, "loss_parts": -(-vocabulary // hidden)} if text.startswith("liger") else {}
    return dict(loss=text, **parts)


def chunk_rows(tokens, parts):
    """Rows of the first chunk and of the second; 0: there is no second one."""
    part = -(-tokens // parts)
    rows = min(1 << (part - 1).bit_length(), tokens)
    return rows, min(rows, tokens - rows)
