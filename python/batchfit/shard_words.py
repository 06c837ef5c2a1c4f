# SPDX-License-Identifier: Apache-2.0
"""The words of --shard for torch's FSDP, and what is recorded of each; how is in sharded.py and fsdp1.py. DeepSpeed's are in zero.py."""

from .errors import UsageError

MOST_RANKS = 65536
INSIDE = "fsdp1@4.52"  # transformers from 4.52 on
TOGETHER = "fsdp2@1.13"  # accelerate up to 1.13
VERSIONS = (INSIDE, TOGETHER)
TUNE = "torchtune"


def split(shard):
    """("fsdp1", True) of "fsdp1:offload"; (None, False): it is none of these."""
    word, _, more = (shard or "").partition(":")
    if shard in VERSIONS:
        return word.partition("@")[0], False
    is_known = shard == TUNE or word in ("fsdp1", "fsdp2") and more in ("", "offload")
    return (word, more == "offload") if is_known else (None, False)


def check(knobs, kind):
    """Raises UsageError for what cannot be recorded of a kind of source ("hf")."""
    if not knobs.shard:
        if kind == "titan":
            raise UsageError("titan:NAME is sharded: --shard fsdp2 --ranks N")
        if knobs.ranks or knobs.tp or knobs.rank is not None:
            raise UsageError("--%s needs --shard fsdp2" % ("ranks" if knobs.ranks else "tp" if knobs.tp else "rank"))
        return
    word, is_offloaded = split(knobs.shard)
    if word is None:
        raise UsageError("--shard %s: fsdp1, fsdp2, both perhaps with :offload, %s, torchtune, zero1, zero2 or zero3" % (knobs.shard, ", ".join(VERSIONS)))
    if knobs.rank is not None:
        raise UsageError("--rank %d: of zero1 and zero2; no GPU has more than the first under --shard %s" % (knobs.rank, knobs.shard))
    is_second = word != "fsdp1"
    if knobs.shard == INSIDE and not (knobs.checkpointing and knobs.adapter):
        raise UsageError("--shard %s: with --checkpointing and --adapter; without, fsdp1 is the same" % knobs.shard)
    if word == TUNE and (kind != "hf" or knobs.autocast_dtype or knobs.compile):
        raise UsageError("--shard %s: hf: models without autocast are recorded (--precision bf16 or fp32), and without --compile" % TUNE)
    if is_offloaded and not knobs.fused_optimizer:
        raise UsageError("--shard %s: --fused-optimizer is recorded, which the CPU has, too" % knobs.shard)
    if is_offloaded and (kind == "titan" or knobs.compile):
        raise UsageError("--shard %s: offload is recorded of hf: models without --compile" % knobs.shard)
    if kind == "titan" and knobs.shard != "fsdp2":
        raise UsageError("--shard %s: titan:NAME is sharded by fsdp2" % knobs.shard)
    if kind not in ("hf", "titan") and not (kind == "python" and word in ("fsdp1", "fsdp2")):
        raise UsageError("--shard %s: models of transformers are recorded (hf:NAME), which say what a layer is" % knobs.shard)
    if not knobs.ranks or not 2 <= knobs.ranks <= MOST_RANKS:
        raise UsageError("--shard %s needs --ranks 2 to %d" % (knobs.shard, MOST_RANKS))
    if knobs.tp is not None and (kind != "titan" or not 2 <= knobs.tp <= MOST_RANKS):
        raise UsageError("--tp %d: 2 or more, of titan:NAME, whose layers this program knows how to split" % knobs.tp)
    if knobs.mode != "train" or knobs.grad_scaler or knobs.ema:
        raise UsageError("--shard %s: training without a gradient scaler and a model average is recorded" % knobs.shard)
    if knobs.optimizer not in ("sgd", "adam", "adamw") or is_second and not knobs.fused_optimizer:
        raise UsageError("--shard %s: sgd, adam and adamw%s are recorded" % (knobs.shard, " with --fused-optimizer" if is_second else ""))
    if knobs.quant == "nf4-torchao" or knobs.quant and is_second and (word == TUNE or is_offloaded):
        raise UsageError("--shard %s --quant %s: not recorded" % (knobs.shard, knobs.quant))
    if knobs.quant and knobs.weights != "bf16":
        raise UsageError("--shard %s --quant: --weights bf16, as all that is sharded together has one type" % knobs.shard)


def check_layers(model, knobs):
    """Raises UsageError for a model of the user's own that does not say what is a layer."""
    if not getattr(model, "_no_split_modules", None):
        raise UsageError("--shard %s: give your model _no_split_modules, a list of the names of the classes that are a unit each, as "
                         "models of transformers have it" % knobs.shard)
