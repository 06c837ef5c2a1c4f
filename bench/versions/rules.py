# SPDX-License-Identifier: Apache-2.0
"""Why two torch versions ask for different memory for the same model: a table of rules (doc/torch-versions.md says more).

The first rule whose `when(difference, pair)` holds takes the difference. A rule looks at everything it can: which side is
the older, what the headers say, what stands around the allocation. A difference that no rule takes stays unexplained.
`since`: the version from which the newer behaviour is known; "2.x" was found by comparing 1.13 with 2.13, not bisected.
`by`: what must have passed that version, the `rules` that the recorder followed or the `torch` that ran.
"""

from collections import Counter, namedtuple

Rule = namedtuple("Rule", "id since by what source when")

LOOP_OPS = set("add div mul neg sqrt sub".split())
ATTENTION_OPS = set("""_softmax _softmax_backward_data _to_copy add baddbmm bmm clone div mul native_dropout
native_dropout_backward""".split())
FUSED = ("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention", "flash.", "efficient.")
QKV_OPS = ("addmm", "mm", "clone", "_to_copy")


class Pair:
    """Both tapes, which one is older, and what is left over of them."""

    def __init__(self, a, b, left, right):
        self.tapes = {"a": a, "b": b}
        self.old = "a" if self._age(a) <= self._age(b) else "b"
        self.new = "b" if self.old == "a" else "a"
        self.places = Counter(self._place(e.side, e, e.op) for e in left + right)
        self.parameters = {e.c for t in (a, b) for e in t.allocations if e.tag == "param"}
        self.attention = self._attention_modules(left + right)
        self.attention_sizes = {(e.c, e.k) for e in left + right
                                if e.phase[0] == "forward" and e.module in self.attention}

    @staticmethod
    def _age(tape):
        return tape.version, number(tape.header.get("rules"))

    @staticmethod
    def _attention_modules(events):
        """Modules that ran a fused kernel in one of the tapes."""
        return {e.module for e in events if e.op.startswith(FUSED) and e.phase[0] == "forward"}

    def crosses(self, rule):
        """Does the older tape lack what the newer one has?"""
        since = (1, 14) if rule.since == "2.x" else number(rule.since)
        ages = [self.tapes[s].version if rule.by == "torch" else number(self.tapes[s].header.get("rules"))
                for s in (self.old, self.new)]
        return ages[0] < since <= ages[1]

    def is_old(self, e):
        """On the older tape?"""
        return e.side == self.old

    def says(self, key):
        """(older header's value, newer header's value)"""
        return tuple(self.tapes[s].header.get(key) for s in (self.old, self.new))

    @staticmethod
    def _place(side, e, op):
        return side, e.phase, e.module if e.phase[0] == "forward" else "-", op, e.c, e.k

    def balance(self, e, older, newer):
        """Are as many left over of each of these ops, on their tapes, in e's place and of e's size?"""
        counts = {self.places[self._place(self.old, e, op)] for op in older}
        counts |= {self.places[self._place(self.new, e, op)] for op in newer}
        return len(counts) == 1 and 0 not in counts

    def within(self, e, op):
        """Was `op` allocated on e's tape while e was alive, in e's phase?"""
        events = self.tapes[e.side].allocations
        return any(o.op == op and o.phase == e.phase and e.born < o.born < (e.died or o.born + 1) for o in events)


def number(text):
    """'2.13' -> (2, 13)"""
    return tuple(int(v) for v in str(text or "0.0").split(".")[:2])


def _workspace(e, pair):
    return e.op == "cublas_workspace" and not pair.is_old(e) and e.k == 0


def _zero_grad(e, pair):
    if pair.says("zero_grad") != ("zero", "none") or e.phase[0] != "backward":
        return False
    if e.partner is None:  # a copy in the parameter's layout, where there is no old gradient to add to (accumulate_grad.h)
        return (e.tag == "gradient" and e.fate == "zero_grad+0" and not pair.is_old(e) and e.phase[1] > 0
                and e.k == 0 and e.c in pair.parameters)
    kept, dropped = (e, e.partner) if pair.is_old(e) else (e.partner, e)
    return dropped.tag == "gradient" and dropped.fate == "zero_grad+0" and kept.fate in ("end", "here")


def _foreach(e, pair):
    if e.phase[0] != "optimizer" or e.k or e.c not in pair.parameters or e.fate != "here":
        return False
    return e.op in LOOP_OPS if pair.is_old(e) else e.op.startswith("_foreach_")


def _attention(e, pair):
    if pair.says("attention") != ("math", "fused") or not pair.attention:
        return False
    if e.op.startswith(FUSED):
        return not pair.is_old(e)
    if e.phase[0] == "forward":
        if e.module in pair.attention:
            return e.op in ATTENTION_OPS
        # the projection's result itself is kept, where copies of its parts were
        return e.op in QKV_OPS and e.partner is not None and e.module.rpartition(".")[0] in pair.attention
    return e.phase[0] == "backward" and e.op in ATTENTION_OPS and (e.c, e.k) in _gradient_sizes(pair)


def _gradient_sizes(pair):
    """Sizes that a gradient of attention's tensors may have: theirs, and those of the other float width."""
    sizes = pair.attention_sizes
    return sizes | {(c * 2, k * 2) for c, k in sizes} | {(c // 2, k // 2) for c, k in sizes}


def _mean(e, pair):
    if e.partner is None or e.phase[0] != "forward":
        return False
    kept, dropped = (e, e.partner) if pair.is_old(e) else (e.partner, e)
    return kept.fate == "backward+0" and dropped.fate == "here" and pair.within(dropped, "mean")


def _slice(e, pair):
    return e.op == "slice_backward" and pair.is_old(e) and e.phase[0] == "backward" and e.fate == "here"


def _linear(e, pair):
    older, newer = ("mm", "add"), ("addmm",)
    return (e.phase[0] == "forward" and e.op in (older if pair.is_old(e) else newer)
            and pair.balance(e, older, newer))


def _renamed(older, newer, phase):
    def when(e, pair):
        return (e.phase[0] == phase and e.op == (older if pair.is_old(e) else newer)
                and pair.balance(e, (older,), (newer,)))
    return when


RULES = (
    Rule("cublas-workspace", "2.0", "rules", "cuBLAS's work spaces come from the caching allocator, one for forward's thread "
         "and one for backward's, and stay; before, they lay outside of it",
         "aten/src/ATen/cuda/CublasHandlePool.cpp", _workspace),
    Rule("zero-grad-none", "2.0", "rules", "zero_grad() drops the gradients instead of filling them with zeros: each backward "
         "allocates them again instead of adding a temporary to those that stayed",
         "torch/optim/optimizer.py, set_to_none", _zero_grad),
    Rule("optimizer-foreach", "2.0", "rules", "optimizers update all parameters in one call: one temporary for every "
         "parameter at the same time, instead of one or two after the other",
         "torch/optim/optimizer.py, _default_to_fused_or_foreach; adam.py, sgd.py", _foreach),
    Rule("fused-attention", "2.0", "rules", "scaled_dot_product_attention exists and runs fused: q, k, v, the result and a row "
         "sum are kept; scores and softmax in fp32 and fp16, and contiguous copies of q, k, v were",
         "aten/src/ATen/native/transformers/cuda/sdp_utils.cpp; the model's code asks for it where it can", _attention),
    Rule("mean-input", "2.x", "torch", "mean(dim) keeps its input for backward no more, only the number of its elements",
         "measured: _saved_self of MeanBackward1 in 1.13, _saved_self_sym_numel in 2.13", _mean),
    Rule("slice-whole", "2.x", "torch", "indexing with a slice of the whole axis (x[:, 0]) is no operation and has no "
         "backward; in 1.13 it was cut out and its gradient copied into zeros, unless the end was written as a number",
         "ATen/TensorIndexing.h, applySlice: stop == length in 1.13, length <= stop in 2.13", _slice),
    Rule("linear-bias", "2.x", "torch", "linear of a contiguous input of four and more axes is one addmm; in 1.13 only of two "
         "or three, else a product and then the bias's addition",
         "measured: AddBackward0 of UnsafeViewBackward0 in 1.13, AddmmBackward0 in 2.13 (native/Linear.cpp)", _linear),
    Rule("norm-name", "2.x", "torch", "clip_grad_norm_ asks for linalg.vector_norm instead of norm: the same scalars",
         "torch/nn/utils/clip_grad.py", _renamed("norm", "linalg_vector_norm", "optimizer")),
    Rule("strided-zeros", "2.x", "torch", "the backward of as_strided (after adaptive_avg_pool2d to 1x1 in channels_last) "
         "takes its zeros from new_zeros instead of new_empty and zero_: the same bytes",
         "measured (torch/csrc/autograd/FunctionsManual.cpp, as_strided_backward)",
         _renamed("new_empty", "new_zeros", "backward")),
)


def explain(pair, events):
    """Give each difference its rule's id; None stays where no rule holds."""
    rules = [r for r in RULES if pair.crosses(r)]
    for e in events:
        e.rule = next((r.id for r in rules if r.when(e, pair)), None)
