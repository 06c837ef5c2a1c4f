# SPDX-License-Identifier: Apache-2.0
"""What CUDA's kernels allocate where the meta device does otherwise: shape functions, one per ATen op.

A rule is `rule(rec, args, kwargs) -> outputs`. It may call `rec.scratch(bytes, op)` for memory that lives for the call,
`rec.note(tensor)` to fix the order of its outputs, and `rec.trial()` for cudnn.benchmark's empty_cache().
Sources: aten/src/ATen/native/Convolution.cpp, native/cudnn/*.cpp, native/cuda/*.cu of torch 1.13, unless said otherwise.
"""

import math

import torch

from .errors import RecordError
from .layout import CHANNELS_LAST, empty, format_of, nbytes, suggests_channels_last

aten = torch.ops.aten
RULES = {}


def rule(*names):
    """Register a rule for ops ('convolution', 'sum.dim_IntList'); names this torch lacks are skipped."""
    def put(function):
        for name in names:
            packet, _, overload = name.partition(".")
            op = getattr(getattr(aten, packet, None), overload or "default", None)
            if op is not None:
                RULES[op] = function
        return function
    return put


def contiguous(rec, tensor, memory_format, op):
    """x.contiguous(format) inside a kernel: a copy that dies with the call, unless x already is."""
    if not tensor.is_contiguous(memory_format=memory_format):
        rec.scratch(nbytes(tensor), op + ".contiguous")


# ---- convolution ---------------------------------------------------------------------------------------------------

def _at(values, i):
    return values[i] if len(values) > 1 else values[0]


class Conv:
    """Geometry of one convolution call. args as aten::convolution's; `out` is the output's shape."""

    def __init__(self, x, w, stride, padding, dilation, transposed, output_padding, groups):
        self.x, self.w, self.stride, self.groups, self.transposed = x, w, stride, groups, transposed
        self.dilation, self.key = dilation, (tuple(stride), tuple(padding), tuple(dilation), transposed, groups)
        self.out = self._shape(padding, output_padding)
        self.depthwise = self._is_depthwise()
        self.cudnn = not self.depthwise or self._cudnn_depthwise()
        last = self.cudnn and (suggests_channels_last(x) or suggests_channels_last(w))
        self.format = CHANNELS_LAST[x.dim()] if last and x.dim() in CHANNELS_LAST else torch.contiguous_format

    def _shape(self, padding, output_padding):
        x, w = self.x, self.w
        out = [x.shape[0], w.shape[1] * self.groups if self.transposed else w.shape[0]]
        for i in range(x.dim() - 2):
            span, step, pad = _at(self.dilation, i) * (w.shape[2 + i] - 1), _at(self.stride, i), _at(padding, i)
            if self.transposed:
                out.append((x.shape[2 + i] - 1) * step - 2 * pad + span + _at(output_padding, i) + 1)
            else:
                out.append((x.shape[2 + i] + 2 * pad - span - 1) // step + 1)
        return out

    def _is_depthwise(self):
        channels = self.x.shape[1]
        return (not self.transposed and self.x.dim() in (4, 5) and self.groups == channels and channels > 1
                and self.w.shape[0] % channels == 0)

    def _cudnn_depthwise(self):
        """ConvParams::use_cudnn_depthwise (cuDNN >= 8.2)."""
        x, w = self.x, self.w
        if suggests_channels_last(x) or suggests_channels_last(w):
            return True
        if x.dtype != torch.float16 or x.dim() != 4 or any(d != 1 for d in self.dilation) or x.shape[1] < 32:
            return False
        if _at(self.stride, 0) != _at(self.stride, 1) and x.shape[2] != 1:
            return False
        return self._workload_pays()

    def _workload_pays(self):
        """check_cudnn_depthwise_workload_with_filter."""
        x, stride, kernel = self.x, self.stride[0], self.w.shape[3]
        if x.shape[2] == 1 and stride == 1:
            return True
        if self.w.shape[2] != kernel or kernel not in (1, 3, 5) or x.shape[3] < 7:
            return False
        if stride == 1:
            return True
        return stride == 2 and kernel in (3, 5) and (x.shape[1] >= 512 or (x.shape[1] >= 256 and x.shape[3] >= 28))

    def weight_workspace(self):
        """Bytes of cuDNN 7's work space for the gradient of a 3x3 filter in fp32: Winograd's transform by 6x6 values for
        each 4x4 of the output, of images and filters, kept beside each other (its kernels winogradWgradData4x4, -Delta4x4
        and -Output4x4)."""
        x, (_, channels, *kernel) = self.x, self.w.shape
        plain = self.cudnn and not self.transposed and self.groups == 1 and x.dtype == torch.float32
        if not plain or kernel != [3, 3] or any(n != 1 for n in (*self.stride, *self.dilation)):
            return 0
        tiles = math.prod(-(-n // 4) for n in self.out[2:]) * x.shape[0]
        return 36 * 4 * (tiles * (channels + self.out[1]) + channels * self.out[1])

    def first_sight(self, rec, what):
        """True once per configuration: what cudnn.benchmark's cache is keyed by."""
        key = (what, tuple(self.x.shape), tuple(self.w.shape), self.key, self.x.dtype, self.format)
        return self.cudnn and rec.first_sight(key)


@rule("convolution", "_convolution", "convolution_overrideable")
def convolution(rec, args, kwargs):
    x, w = args[0], args[1]
    conv = Conv(x, w, *args[3:9])
    for t in (x, w):
        contiguous(rec, t, conv.format, "convolution")
    out = empty(conv.out, x.dtype, conv.format)
    rec.note(out)
    if conv.first_sight(rec, "f"):
        rec.trial()
    return out


@rule("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(rec, args, kwargs):
    grad, x, w = args[:3]
    conv, mask = Conv(x, w, *args[4:10]), args[10]
    for t in (grad, x, w):
        contiguous(rec, t, conv.format, "convolution_backward")
    grads = [None, None, None]
    for i, (t, what) in enumerate(((x, "d"), (w, "w"))):
        if mask[i]:
            grads[i] = empty(t.shape, t.dtype, conv.format)
            rec.note(grads[i])
            if i == 0 and conv.cudnn and math.prod(w.shape[2:]) > 1:
                rec.workspace(nbytes(x) + nbytes(grad))
            if conv.first_sight(rec, what):
                rec.trial()
    if mask[1] and rec.has_cudnn_7():
        rec.scratch(conv.weight_workspace(), "cudnn_winograd")
    if mask[2]:
        grads[2] = empty([grad.shape[1]], grad.dtype)
    return tuple(grads)


# ---- normalisation -------------------------------------------------------------------------------------------------

@rule("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit.no_stats")
def batch_norm(rec, args, kwargs):
    x, train = args[0], args[5] if isinstance(args[5], bool) else args[3]
    memory_format = format_of(x)
    contiguous(rec, x, memory_format, "native_batch_norm")
    stats = [x.shape[1] if train else 0]
    return empty(x.shape, x.dtype, memory_format), empty(stats, torch.float32), empty(stats, torch.float32)


@rule("native_batch_norm_backward")
def batch_norm_backward(rec, args, kwargs):
    grad, x, weight = args[:3]
    memory_format, mask = format_of(x), args[9]
    for t in (grad, x):
        contiguous(rec, t, memory_format, "native_batch_norm_backward")
    dtype = weight.dtype if weight is not None else torch.float32
    small = [empty([x.shape[1]], dtype) if m else None for m in mask[1:]]
    return (empty(x.shape, x.dtype, memory_format) if mask[0] else None, *small)


def _rows(x, shape):
    return list(x.shape[:x.dim() - len(shape)])


@rule("native_layer_norm")
def layer_norm(rec, args, kwargs):
    x, shape = args[:2]
    contiguous(rec, x, torch.contiguous_format, "native_layer_norm")
    stats = _rows(x, shape) + [1] * len(shape)
    kind = torch.float32 if x.dtype != torch.float64 else x.dtype
    return empty(x.shape, x.dtype), empty(stats, kind), empty(stats, kind)


@rule("native_layer_norm_backward")
def layer_norm_backward(rec, args, kwargs):
    grad, x, shape, _, _, weight, bias, mask = args[:8]
    for t in (grad, x):
        contiguous(rec, t, torch.contiguous_format, "native_layer_norm_backward")
    return (empty(x.shape, x.dtype) if mask[0] else None,
            empty(weight.shape, weight.dtype) if mask[1] and weight is not None else None,
            empty(bias.shape, bias.dtype) if mask[2] and bias is not None else None)


@rule("_fused_rms_norm")
def rms_norm(rec, args, kwargs):
    x, shape = args[:2]
    contiguous(rec, x, torch.contiguous_format, "_fused_rms_norm")
    rows = list(x.shape[:x.dim() - len(shape)]) + [1] * len(shape)
    return empty(x.shape, x.dtype), empty(rows, torch.float32)


@rule("_fused_rms_norm_backward")
def rms_norm_backward(rec, args, kwargs):
    grad, x, _, _, weight, mask = args[:6]
    for t in (grad, x):
        contiguous(rec, t, torch.contiguous_format, "_fused_rms_norm_backward")
    return (empty(x.shape, x.dtype) if mask[0] else None,
            empty(weight.shape, weight.dtype) if mask[1] and weight is not None else None)


@rule("native_group_norm")
def group_norm(rec, args, kwargs):
    x, n, groups = args[0], args[3], args[6]
    contiguous(rec, x, torch.contiguous_format, "native_group_norm")
    return empty(x.shape, x.dtype), empty([n, groups], x.dtype), empty([n, groups], x.dtype)


@rule("native_group_norm_backward")
def group_norm_backward(rec, args, kwargs):
    grad, x, _, _, _, n, channels = args[:7]
    mask = args[9]
    contiguous(rec, grad, torch.contiguous_format, "native_group_norm_backward")
    if mask[1] or mask[2] or mask[0]:
        rec.scratch(2 * 4 * n * channels, "native_group_norm_backward")  # ds and db, fp32 [N, C]
    return (empty(x.shape, x.dtype) if mask[0] else None, empty([channels], x.dtype) if mask[1] else None,
            empty([channels], x.dtype) if mask[2] else None)


# ---- pooling, padding, windows -------------------------------------------------------------------------------------

@rule("max_pool2d_with_indices_backward", "avg_pool2d_backward", "_adaptive_avg_pool2d_backward",
      "adaptive_max_pool2d_backward", "max_pool3d_with_indices_backward", "avg_pool3d_backward")
def pool_backward(rec, args, kwargs):
    grad, x = args[:2]
    contiguous(rec, grad, format_of(x), "pool_backward")
    return empty(x.shape, x.dtype, format_of(x))


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive_pool(rec, args, kwargs):
    x, size = args[:2]
    contiguous(rec, x, format_of(x), "_adaptive_avg_pool2d")
    return empty(list(x.shape[:-len(size)]) + list(size), x.dtype, format_of(x))


@rule("reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward", "replication_pad1d_backward",
      "replication_pad2d_backward", "replication_pad3d_backward")
def pad_backward(rec, args, kwargs):
    return empty(args[1].shape, args[0].dtype)


@rule("reflection_pad2d", "replication_pad2d")
def pad2d(rec, args, kwargs):
    x, (left, right, top, bottom) = args[:2]
    return empty(list(x.shape[:-2]) + [x.shape[-2] + top + bottom, x.shape[-1] + left + right], x.dtype)


@rule("unfold_backward")
def unfold_backward(rec, args, kwargs):
    return empty(args[1], args[0].dtype)


@rule("im2col_backward", "col2im")
def col2im(rec, args, kwargs):
    x, size = args[:2]
    channels = x.shape[-2] // math.prod(args[2])
    return empty(list(x.shape[:-2]) + [channels] + list(size), x.dtype)


# ---- fused attention's own scratch ---------------------------------------------------------------------------------

def _up(n, multiple):
    return -(-n // multiple) * multiple


@rule("_scaled_dot_product_flash_attention_backward")
def flash_backward(rec, args, kwargs):
    """softmax_d and dq_accum, fp32, rows rounded to 128, and where query heads share keys and values their gradients for each
    query head (flash_attn/flash_api.cpp mha_bwd, 2.2 on)."""
    batch, heads, rows, size = args[1].shape
    rec.scratch(4 * batch * heads * _up(rows, 128), "flash.softmax_d")
    rec.scratch(4 * batch * heads * _up(rows, 128) * _up(size, 32), "flash.dq_accum")
    keys = args[2]
    if keys.shape[1] != heads:
        for name in ("flash.dk_expanded", "flash.dv_expanded"):
            rec.scratch(keys.element_size() * batch * heads * keys.shape[2] * size, name)
    return aten._scaled_dot_product_flash_attention_backward.default(*args, **kwargs)


@rule("_scaled_dot_product_efficient_attention_backward")
def efficient_backward(rec, args, kwargs):
    """delta, and for half types the fp32 accumulator of q's gradient (mem_eff_attention/kernel_backward.h)."""
    q = args[1]
    batch, heads, rows, size = q.shape
    rec.scratch(4 * batch * heads * rows, "efficient.delta")
    if q.element_size() == 2:
        rec.scratch(4 * batch * heads * _up(rows, 64) * size, "efficient.gq_accum")
    return aten._scaled_dot_product_efficient_attention_backward.default(*args, **kwargs)


# ---- dropout, scalars, many tensors at once ------------------------------------------------------------------------

@rule("native_dropout")
def native_dropout(rec, args, kwargs):
    x = args[0]
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


@rule("native_dropout_backward")
def native_dropout_backward(rec, args, kwargs):
    return torch.empty_like(args[0])


@rule("_local_scalar_dense")
def local_scalar(rec, args, kwargs):
    """.item(): the value is unknown here; code that only logs it goes on."""
    rec.unknown_value()
    dtype = args[0].dtype
    return 1.0 if dtype.is_floating_point else True if dtype == torch.bool else 1


@rule("equal")
def equal(rec, args, kwargs):
    rec.unknown_value()
    return True


@rule("nonzero")
def nonzero(rec, args, kwargs):
    """Of a vector (labels that count): all of it, which is what full batches give. Of anything else: unknown."""
    x = args[0]
    if x.dim() != 1:
        raise RecordError("nonzero in %s depends on the data" % rec.where())
    rec.unknown_value()
    return empty([x.numel(), 1], torch.int64)


def _is_mask(indices):
    """Are these one mask of true and false? Its places are unknown: all of them count, which is what full batches give, or as many
    as the job says (rec.counted)."""
    return len(indices) == 1 and indices[0] is not None and indices[0].dtype == torch.bool


def _places(rec, mask, op):
    """How many places nonzero finds of it for the call."""
    count = rec.counted.get(tuple(mask.shape), mask.numel())
    rec.unknown_value()
    rec.scratch(8 * mask.dim() * count, op + ".nonzero")
    return count


@rule("index.Tensor")
def index(rec, args, kwargs):
    x, indices = args
    if not _is_mask(indices):
        return aten.index.Tensor(x, indices)
    mask = indices[0]
    return empty([_places(rec, mask, "index")] + list(x.shape[mask.dim():]), x.dtype)


@rule("index_put")
def index_put(rec, args, kwargs):
    """Autograd's of a mask adds in place, but not where a dispatch mode looks on (FunctionsManual.cpp, index_backward)."""
    x, indices = args[:2]
    if rec.log.kind != "backward" or not _is_mask(indices) or not (len(args) > 3 and args[3]):
        return aten.index_put.default(*args, **kwargs)
    count = _places(rec, indices[0], "index_put")  # and adding up sorts them (native/cuda/Indexing.cu, index_put_with_sort_kernel)
    for name in ("linear", "sorted", "original"):
        rec.scratch(8 * count, "index_put." + name)
    return x


@rule("masked_select")
def masked_select(rec, args, kwargs):
    x, mask = args
    return empty([_places(rec, mask, "masked_select")], x.dtype)


@rule("logsumexp")
def logsumexp(rec, args, kwargs):
    """The largest of each row, and what is added up (native/ReduceOps.cpp, logsumexp_out_impl)."""
    x, dims = args[0], args[1]
    out = aten.logsumexp.default(*args, **kwargs)
    if x.is_floating_point() and x.numel() and len(dims):
        rec.scratch(nbytes(out), "logsumexp.max")
        rec.scratch(nbytes(x), "logsumexp.exp")
    return out


@rule("_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_")
def amp_in_place(rec, args, kwargs):
    return args[0] if isinstance(args[0], torch.Tensor) else None


def foreach(name, args):
    """aten::_foreach_*: in-place ones allocate nothing, norms a scalar per tensor, others one like each."""
    tensors = args[0]
    if name.endswith("_"):
        return None
    if "norm" in name or name.endswith("max"):
        return [empty((), t.dtype) for t in tensors]
    return [torch.empty_like(t) for t in tensors]
