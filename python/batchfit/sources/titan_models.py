# SPDX-License-Identifier: Apache-2.0
"""titan:NAME - a Llama as torchtitan trains it: its own model, loss and activation checkpointing, FSDP2 around each layer.

The model is ours, after torchtitan's description of its Llama (rotary embedding by complex numbers, keys and values repeated,
RMSNorm): what its operations allocate is alike, its code is not here. Before June 2024 its logits were fp32 and lived through the
backward pass (commit e29b6b4d4): that is not modelled.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .. import build
from ..build import to_meta, without_init
from ..errors import RecordError
from . import hf_shapes
from .job import Job


EARLY = (2, 8)  # torchtitan of the days of an older torch: its own norm (to April 2025) and other groups (to July)


class Shape:
    """What of a Llama's config.json the model needs."""

    def __init__(self, values, length, rules):
        self.hidden, self.layers, self.ffn = (values[k] for k in ("hidden_size", "num_hidden_layers", "intermediate_size"))
        self.heads, self.vocabulary, self.length = values["num_attention_heads"], values["vocab_size"], length
        self.kv_heads = values.get("num_key_value_heads") or self.heads
        self.head = values.get("head_dim") or self.hidden // self.heads
        self.is_early = rules < EARLY

    def norm(self):
        """One more of its norms."""
        return (Norm if self.is_early else nn.RMSNorm)(self.hidden, 1e-5)


def _rotate(x, turns):
    """Pairs of numbers turned as complex ones."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


def _repeat(x, times):
    """Each head so many times."""
    batch, length, heads, size = x.shape
    return x if times == 1 else x[:, :, :, None, :].expand(batch, length, heads, times, size).reshape(batch, length, -1, size)


class Attention(nn.Module):
    """Causal, with shared keys and values."""

    def __init__(self, s):
        super().__init__()
        self.size, self.times = s.head, s.heads // s.kv_heads
        self.wq = nn.Linear(s.hidden, s.heads * s.head, bias=False)
        self.wk = nn.Linear(s.hidden, s.kv_heads * s.head, bias=False)
        self.wv = nn.Linear(s.hidden, s.kv_heads * s.head, bias=False)
        self.wo = nn.Linear(s.heads * s.head, s.hidden, bias=False)

    def forward(self, x, turns):
        """(batch, length, hidden) -> the same."""
        batch, length, _ = x.shape
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        q, k, v = (t.view(batch, length, -1, self.size) for t in (q, k, v))
        turns = turns[None, :length, None, :]
        q, k = _rotate(q, turns), _rotate(k, turns)
        keys, values = _repeat(k, self.times), _repeat(v, self.times)
        out = F.scaled_dot_product_attention(q.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), is_causal=True)
        return self.wo(out.transpose(1, 2).contiguous().view(batch, length, -1))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, s):
        super().__init__()
        self.w1, self.w2, self.w3 = (nn.Linear(*p, bias=False) for p in ((s.hidden, s.ffn), (s.ffn, s.hidden), (s.hidden, s.ffn)))

    def forward(self, x):
        """(…, hidden) -> the same."""
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Norm(nn.Module):
    """torchtitan's own RMSNorm, in single operations; from April 2025 on (5078e92e4) it has torch's."""

    def __init__(self, size, eps):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(size))

    def forward(self, x):
        """(…, size) -> the same."""
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


class Block(nn.Module):
    """One layer."""

    def __init__(self, s):
        super().__init__()
        self.attention, self.feed_forward = Attention(s), FeedForward(s)
        self.attention_norm, self.ffn_norm = s.norm(), s.norm()

    def forward(self, x, turns):
        """(batch, length, hidden) -> the same."""
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """Tokens -> logits."""

    def __init__(self, s):
        super().__init__()
        self.is_early = s.is_early
        self.tok_embeddings = nn.Embedding(s.vocabulary, s.hidden)
        self.layers = nn.ModuleList(Block(s) for _ in range(s.layers))
        self.norm = s.norm()
        self.output = nn.Linear(s.hidden, s.vocabulary, bias=False)
        self.register_buffer("turns", torch.zeros(s.length, s.head // 2, dtype=torch.complex64), persistent=False)

    def forward(self, tokens):
        """Logits."""
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, self.turns)
        return self.output(self.norm(x))


def _loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))


class TitanJob(Job):
    """Full sequences of tokens and their labels."""

    def __init__(self, model, length, is_split):
        super().__init__(model, "torchtitan's Llama", sequence_length=length, task="causal-lm")
        self.length, self.is_split, self.loss = length, is_split, _loss

    def inputs(self, batch):
        return [build.new((batch, self.length), torch.int64) for _ in "xy"]

    def forward(self, inputs):
        return self.model(inputs[0])

    def forward_loss(self, inputs):
        logits = self.model(inputs[0])
        return logits, self.loss(logits, inputs[1])

    def around(self):
        """What a step stands in: each rank has the logits of its part of the vocabulary."""
        if not self.is_split:
            return super().around()
        from torch.distributed.tensor.parallel import loss_parallel  # pylint: disable=import-outside-toplevel
        return loss_parallel()


def _keep():
    """The policy of "selective per op": products and attention are kept, but every second product."""
    from torch.utils import checkpoint  # pylint: disable=import-outside-toplevel
    aten, count = torch.ops.aten, {False: 0, True: 0}
    kept = {aten.mm.default, aten._scaled_dot_product_flash_attention.default, aten._scaled_dot_product_efficient_attention.default}

    def policy(context, op, *_, **__):
        if op is aten.mm.default:
            count[context.is_recompute] += 1
        again = op is aten.mm.default and count[context.is_recompute] % 2 == 0
        return checkpoint.CheckpointPolicy.MUST_SAVE if op in kept and not again else checkpoint.CheckpointPolicy.PREFER_RECOMPUTE
    return checkpoint.create_selective_checkpoint_contexts(policy)


def checkpoint(model, knobs):
    """torchtitan's activation checkpointing: every layer, every second one (the last among them), or some operations of each."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper  # pylint: disable=import-outside-toplevel
    if not knobs.checkpointing:
        return
    extra = {"context_fn": _keep} if knobs.selective == "op" else {}
    for i, layer in enumerate(list(model.layers)):
        if knobs.selective != "layer" or i % 2 == 1:
            model.layers[i] = checkpoint_wrapper(layer, preserve_rng_state=False, **extra)


def _check_split(s, tp):
    """Raises RecordError where a model cannot be split among so many GPUs."""
    if tp > s.kv_heads:
        raise RecordError("--tp %d: the model has %d heads of keys and values, and each GPU needs one" % (tp, s.kv_heads))
    for what, size in (("heads", s.heads), ("heads of keys and values", s.kv_heads), ("tokens of a sequence", s.length),
                       ("rows of the feed-forward part", s.ffn), ("words of the vocabulary", s.vocabulary)):
        if size % tp:
            raise RecordError("--tp %d: %d %s cannot be divided among %d GPUs" % (tp, size, what, tp))


def load(name, knobs):
    """A TitanJob."""
    kind, values, source = hf_shapes.find(name)
    if kind != "llama":
        raise RecordError("%s is a %s: titan:NAME is a Llama" % (source, kind))
    length = knobs.seq_len or 2048
    shape = Shape(values, length, knobs.rules)
    _check_split(shape, knobs.tp or 1)
    with without_init():
        model = to_meta(Llama(shape))
    if not knobs.tp:  # else after the layers are split, as torchtitan does
        checkpoint(model, knobs)
    return TitanJob(model, length, bool(knobs.tp))


def parallelize(model, mesh):
    """torchtitan's apply_non_moe_tp with loss parallel: columns, then rows, of each pair of linear layers; sequences are split outside."""
    from torch.distributed.tensor import Replicate, Shard  # pylint: disable=import-outside-toplevel
    from torch.distributed.tensor.parallel import (  # pylint: disable=import-outside-toplevel
        ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module)
    split, whole = Shard(1), Replicate()
    parallelize_module(model, mesh, {
        "tok_embeddings": RowwiseParallel(input_layouts=whole, output_layouts=split), "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=split, output_layouts=Shard(-1), use_local_output=False)})
    for layer in model.layers:
        rows = RowwiseParallel(output_layouts=split)
        parallelize_module(layer, mesh, {
            "attention_norm": SequenceParallel(), "ffn_norm": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=(split, None), desired_input_layouts=(whole, None)),
            "attention.wq": ColwiseParallel(), "attention.wk": ColwiseParallel(), "attention.wv": ColwiseParallel(), "attention.wo": rows,
            "feed_forward": PrepareModuleInput(input_layouts=(split,), desired_input_layouts=(whole,)),
            "feed_forward.w1": ColwiseParallel(), "feed_forward.w3": ColwiseParallel(), "feed_forward.w2": rows})


def shard(model, mesh):
    """torchtitan's apply_fsdp: bf16 when gathered, fp32 when reduced. From July 2025 on (83e694105) embedding and head are groups of their own
    and the head stays gathered for its backward pass; before, the last layer did, and both in the group of the rest: torch before 2.8
    kept what was the root's gathered, also where it was told otherwise."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # pylint: disable=import-outside-toplevel
    policy = dict(mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    if model.is_early:
        for layer in model.layers:
            fully_shard(layer, reshard_after_forward=layer is not model.layers[-1], **policy)
        return fully_shard(model, reshard_after_forward=False, **policy)
    for layer in (model.tok_embeddings, *model.layers):
        fully_shard(layer, reshard_after_forward=True, **policy)
    fully_shard([model.norm, model.output], reshard_after_forward=False, **policy)
    return fully_shard(model, **policy)
