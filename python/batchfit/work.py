# SPDX-License-Identifier: Apache-2.0
"""The work of each kernel, for predicting time: flops and bytes by class (doc/formats/tape.md, "Work events").

Bytes are what a kernel reads and writes: a broadcast or expanded tensor once; NCHW batch norm and the norms' backward read
their inputs twice; in-place ops read and write; fills only write. Views and allocations cost nothing. Convolution's
backward is two kernels (and a sum for the bias), each with the forward's flops. `kernel=` is kh*kw, `out=` output
positions per sample.
"""

import math

import torch

from .errors import NotAffine
from .events import storage_of
from .layout import suggests_channels_last

DTYPES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64"}

_NORM = """native_layer_norm native_group_norm _softmax _log_softmax native_layer_norm_backward native_group_norm_backward
_softmax_backward_data _log_softmax_backward_data _fused_rms_norm _fused_rms_norm_backward"""
_REDUCE = "sum mean norm var var_mean max min std amax amin prod linalg_vector_norm _foreach_norm argmax nll_loss_forward all any"
_HEAVY = """max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward index index_put im2col col2im
upsample_bicubic2d upsample_nearest2d upsample_bilinear2d roll cat stack _adaptive_avg_pool2d _adaptive_avg_pool2d_backward
slice_backward select_backward constant_pad_nd upsample_nearest2d_backward upsample_bilinear2d_backward unfold gather scatter
index_select embedding embedding_dense_backward index_put_ scatter_add topk sort unfold_backward reflection_pad2d
reflection_pad2d_backward grid_sampler_2d _embedding_bag"""
CLASS = {}
for _name, _text in (("norm", _NORM), ("reduce", _REDUCE), ("heavy", _HEAVY)):
    CLASS.update(dict.fromkeys(_text.split(), _name))
_FREE = set("empty empty_like empty_strided new_empty new_empty_strided detach alias lift_fresh _local_scalar_dense equal".split())
_TWICE = {"native_layer_norm_backward", "native_group_norm_backward"}  # (gradient, input) are read two times
_MATMUL = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}


def _bytes(t):
    return min(t.numel() * t.element_size(), storage_of(t).nbytes())


def _tensors(values):
    found = []
    for v in values:
        if isinstance(v, torch.Tensor):
            found.append(v)
        elif isinstance(v, (list, tuple)):
            found.extend(u for u in v if isinstance(u, torch.Tensor))
    return found


def _keys(dtype, last=False):
    keys = [("dtype", DTYPES[dtype])] if dtype in DTYPES else []
    return keys + ([("layout", "nhwc")] if last else [])


class Work:
    """Kernels of one phase, in order: (class, flops, bytes, fixed keys, sizes that may grow with the batch)."""

    def __init__(self, kind):
        self.kernels, self._update = [], kind in ("optimizer", "zero_grad")

    def _add(self, cls, flops, nbytes, keys, sizes=()):
        self.kernels.append((cls, flops, nbytes, tuple(keys), tuple(sizes)))

    def observe(self, name, func, args, kwargs, out):
        """One op ran; args and out as the dispatcher saw them."""
        special = SPECIAL.get(name)
        if special is not None:
            return special(self, name, args, out)
        if name in _FREE:
            return None
        ins, outs = _tensors(args) + _tensors(kwargs.values()), _tensors(out if isinstance(out, (list, tuple)) else (out,))
        if not any(t.device.type == "meta" for t in (ins + outs)[:2]):
            return None
        return self._elementwise(name, ins, outs)

    def fused(self, tensors):
        """A kernel that a compiler made of many operations: what it is given, once."""
        big = max(tensors, key=torch.Tensor.numel, default=None)
        if big is not None:
            self._add("elem", 0, sum(map(_bytes, tensors)), _keys(big.dtype))

    def _elementwise(self, name, ins, outs):
        known = {storage_of(t)._cdata for t in ins}
        fresh = [t for t in outs if storage_of(t)._cdata not in known]
        in_place = name.endswith("_") and not name.startswith("__")
        if not fresh and not in_place:
            return
        if in_place and not outs:
            outs = ins
        written = outs if in_place else fresh
        read = ins[1:] if name in ("copy_", "fill_", "zero_") else [] if name == "_foreach_zero_" else ins
        if name in _TWICE:
            read = read + read[:2]
        everything = ins + outs
        if not everything:
            return
        cls, keys = self._class(name, ins, everything)
        self._add(cls, 0, sum(map(_bytes, read)) + sum(map(_bytes, written)), keys)

    def _class(self, name, ins, everything):
        big = max(everything, key=torch.Tensor.numel)
        main = [t for t in ins if t.numel() * 8 >= big.numel()]
        last = any(suggests_channels_last(t) for t in main)
        keys = _keys(big.dtype, last)
        if self._update or name.startswith("_foreach"):
            return "opt", keys
        cls = CLASS.get(name)
        if cls is None:
            loose = any(not (t.is_contiguous() or suggests_channels_last(t)) for t in main)
            cls = "noncontig" if loose else "elem"
        return cls, keys

    # -- ops with geometry ----------------------------------------------------

    def _matmul(self, name, args, out):
        a, b = args[_MATMUL[name]:][:2]
        count = a.shape[0] if a.dim() == 3 else 1
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        cls = "bmm" if a.dim() == 3 else "mm"
        sizes = [("m", m), ("n", n), ("k", k)] + ([("count", count)] if cls == "bmm" else [])
        self._add(cls, 2 * count * m * n * k, _bytes(a) + _bytes(b) + _bytes(out), _keys(a.dtype), sizes)

    def _convolution(self, name, args, out):
        self._conv("conv_fwd", args[0], args[1], out, args[3], args[6], args[8])

    def _convolution_backward(self, name, args, out):
        grad, x, w = args[:3]
        for wanted, cls in zip(args[10], ("conv_dgrad", "conv_wgrad")):
            if wanted:
                self._conv(cls, x, w, grad, args[4], args[7], args[9])
        if args[10][2]:
            self._add("reduce", 0, _bytes(grad), _keys(grad.dtype, suggests_channels_last(grad)))

    def _conv(self, cls, x, w, y, stride, transposed, groups):
        positions = math.prod((x if transposed else y).shape[2:])
        last = suggests_channels_last(x) or suggests_channels_last(w)
        keys = _keys(x.dtype, last) + [("groups", groups), ("cin", x.shape[1]), ("cout", y.shape[1]),
                                       ("kernel", math.prod(w.shape[2:])), ("stride", stride[0] if stride else 1),
                                       ("out", math.prod(y.shape[2:]))]
        self._add(cls, 2 * x.shape[0] * positions * w.numel(), _bytes(x) + _bytes(w) + _bytes(y), keys)

    def _batch_norm(self, name, args, out):
        x, last = args[0], suggests_channels_last(args[0])
        self._add("bn_fwd", 0, _bytes(x) * (2 if last else 3), _keys(x.dtype, last))

    def _batch_norm_backward(self, name, args, out):
        x, last = args[1], suggests_channels_last(args[1])
        self._add("bn_bwd", 0, _bytes(x) * (3 if last else 5), _keys(x.dtype, last))

    def _attention(self, name, args, out):
        backward = name.endswith("_backward")
        q, k, v = args[1:4] if backward else args[:3]
        batch, heads, rows, size = q.shape
        flops = (10 if backward else 4) * batch * heads * rows * k.shape[2] * size
        moved = _bytes(q) * 2 + _bytes(k) + _bytes(v)
        self._add("attention", flops, moved * (2 if backward else 1), _keys(q.dtype))


SPECIAL = {"convolution": Work._convolution, "_convolution": Work._convolution,
           "convolution_backward": Work._convolution_backward, "native_batch_norm": Work._batch_norm,
           "native_batch_norm_backward": Work._batch_norm_backward, "_native_batch_norm_legit": Work._batch_norm}
SPECIAL.update(dict.fromkeys(_MATMUL, Work._matmul))
for _kind in ("flash", "efficient"):
    for _tail in ("", "_backward"):
        SPECIAL["_scaled_dot_product_%s_attention%s" % (_kind, _tail)] = Work._attention


def _line(batches, values):
    """(c, k) through the first two batches (work need not be exact)."""
    if len(batches) == 1:
        return values[0], 0
    k = (values[1] - values[0]) // (batches[1] - batches[0])
    return values[0] - k * batches[0], k


def _size(batches, name, values):
    c, k = _line(batches, values)
    return "%s=%d" % (name, c) if not k else "%s=%d+%dB" % (name, c, k)


def merged(batches, kernels):
    """The 'o' lines of one phase. kernels: per batch, the list of Work.kernels."""
    if len({len(k) for k in kernels}) > 1:
        raise NotAffine("the number of kernels changes with the batch")
    counts = {}
    for row in zip(*kernels):
        cls, _, _, keys, sizes = row[0]
        flops, moved = (_line(batches, [r[i] for r in row]) for i in (1, 2))
        words = ["%s=%s" % pair for pair in keys]
        words += [_size(batches, s[0], [r[4][i][1] for r in row]) for i, s in enumerate(sizes)]
        key = (cls, flops + moved, " ".join(words))
        counts[key] = counts.get(key, 0) + 1
    return [("o %s %d %d %d %d %d %s" % ((cls,) + numbers + (n, words))).rstrip()
            for (cls, numbers, words), n in counts.items()]
