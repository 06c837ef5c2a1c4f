# SPDX-License-Identifier: Apache-2.0
"""The fused losses of --loss in words and numbers, and those of preferences; what they allocate is in losses.py and preference.py."""

from .errors import UsageError

CHUNKS = 8  # CEWithChunkedOutputLoss's default, and LinearCrossEntropyLoss's
FAMILIES = "llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi3".split()
NEWEST, OLDEST = (0, 8, 5), (0, 5, 2)
OF_LOGITS, BY_TILES = (1, 14, 0), (1, 15, 0)  # trl's first versions whose kernels score tokens, of all logits and by tiles of them


class _Known:
    """What is known of a loss of preferences: trl's first version that trains so, how that scores tokens, from when on how else; what may
    stand behind a colon; whose step is recorded, where another one's allocates the same; is there a reference, and a cross-entropy
    of the preferred answers beside?"""

    def __init__(self, since, ways, new=BY_TILES, parts=(), step=None, has_reference=True, has_cross_entropy=False):
        self.since, self.ways, self.new, self.parts, self.step = since, ways, new, ("",) + parts, step
        self.has_reference, self.has_cross_entropy = has_reference, has_cross_entropy


_ALONE = dict(since=(0, 15, 0), ways=("whole", "fused"), new=OF_LOGITS, step="orpo", has_reference=False)
PREFERENCES = {
    "dpo": _Known((0, 12, 0), ("whole", "tiled"), parts=("precomputed", "llamafactory")),
    "orpo": _Known(parts=("llamafactory",), has_cross_entropy=True, **_ALONE),
    "cpo": _Known(has_cross_entropy=True, **_ALONE),
    "cpo-simpo": _Known(has_cross_entropy=True, **_ALONE),
    "simpo": _Known(parts=("llamafactory",), **_ALONE),
    "kto": _Known((1, 0, 0), ("whole", "tiled"), step="kto"),
    "grpo": _Known((0, 16, 0), ("whole", "tiled"), parts=("reference",), step="grpo", has_reference=False),
    "reward": _Known((0, 24, 0), ("whole", "whole"), step="reward", has_reference=False),
}


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
        good["linear"] = good["chunked"]
        if not good.get(self.name, False):
            raise UsageError("--loss %s: choose from ce, label-smoothing, liger, liger:loss (without its other layers), liger@0.5.2 "
                             "(any version from there on), chunked, chunked:N, linear, linear:N (torchtune's), cut, %s (trl's)" % (text, ", ".join(PREFERENCES)))
        self.chunks = int(part) if self.name in ("chunked", "linear") and part else CHUNKS


def _version(text):
    parts = text.split(".")
    if not 2 <= len(parts) <= 3 or not all(p.isdigit() for p in parts):
        return None
    return tuple(int(p) for p in (parts + ["0"])[:3])


class Preference:
    """A loss of preferences as --loss says it: dpo, dpo:precomputed (the reference's scores come with the data), dpo@1.15 (of a version of
    trl), dpo:llamafactory (of another trainer). Without a version it is one of those with all logits, which need more."""

    def __init__(self, text):
        self.text = text
        word, at, of = text.partition("@")
        self.name, _, part = word.partition(":")
        known = PREFERENCES[self.name]
        self.is_precomputed = part == "precomputed"
        version = _version(of) if at else known.since
        if part not in known.parts or version is None or version < known.since or at and part == "llamafactory":
            raise UsageError("--loss %s: choose from %s (trl's, any version from %d.%d on)" % (
                text, ", ".join(filter(None, [self.name, self.name + "@%d.%d" % known.new[:2]] + [self.name + ":" + p for p in known.parts[1:]])), *known.since[:2]))
        self.way = part if part == "llamafactory" else known.ways[version >= known.new]
        self.has_reference = (known.has_reference or part == "reference") and not self.is_precomputed
        self.has_cross_entropy = known.has_cross_entropy and part != "llamafactory"
        self.step = known.step if part != "llamafactory" else None
        self.is_of_head = self.step == "reward"  # one that gives a number in place of words


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
