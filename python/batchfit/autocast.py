# SPDX-License-Identifier: Apache-2.0
"""torch.autocast('cuda') on meta tensors: CUDA's own lists, below Python, above autograd.

The dispatcher's AutocastCUDA key is made part of every dispatch while recording; whether it acts is decided by the
running torch's real autocast state, so user code, checkpointing and nested regions work as on a GPU. Which ops are
listed is asked of the running torch (it has a kernel for that key, also in CPU builds); how they are treated is in the
tables below (aten/src/ATen/autocast_mode.h and .cpp, 1.13 and 2.13). C++'s own kernels do nothing on meta tensors,
so ours replace them.
"""

import ctypes
import re
import weakref

import torch

KEY = "AutocastCUDA"

# ops that run in the low precision; every other listed op is in one of the next tables or runs in fp32
LOWER = set("""_convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
conv_transpose3d.input convolution cudnn_convolution cudnn_convolution_transpose prelu addmm addmv addr matmul einsum mv mm
bmm linalg_vecdot linear addbmm baddbmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell
gru_cell rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention""".split())
# fp32 by the op's own dtype argument: no copy of the input
SET_DTYPE = set("""prod prod.dim_int prod.dim_Dimname softmax.int softmax.Dimname log_softmax.int log_softmax.Dimname cumprod
cumprod.dimname cumsum cumsum.dimname linalg_vector_norm linalg_matrix_norm linalg_matrix_norm.str_ord sum sum.dim_IntList
sum.dim_DimnameList""".split())
# the widest of the arguments' types
PROMOTE = set("addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add".split())
# norm without a dtype argument -> its overload with one
NORM = {"norm.Scalar": "ScalarOpt_dtype", "norm.ScalarOpt_dim": "ScalarOpt_dim_dtype"}
# interpolation runs in fp32 from 2.4 on, before it ran in what it was given (pull request 121324 of April 2024)
UPSAMPLE, UPSAMPLE_FROM = re.compile(r"_?upsample_"), (2, 4)
# ops that autocast lists but that batchfit's own composites must see first
SKIP = {"norm.names_ScalarOpt_dim", "binary_cross_entropy"}


def _listed_ops():
    """Names ('mm', 'softmax.int') of all aten ops with a kernel for AutocastCUDA in the running torch."""
    names = set()
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            names.add(schema.name + ("." + schema.overload_name if schema.overload_name else ""))
    return sorted(n[6:] for n in names if _has_kernel(n))


def _has_kernel(name):
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(name, KEY)
    except RuntimeError:  # TorchScript only, not in the dispatcher
        return False


def _overload(name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _included_setter():
    """A function on(bool) that puts AutocastCUDA into this thread's dispatch set."""
    if hasattr(torch._C, "_dispatch_tls_set_dispatch_key_included"):
        key = getattr(torch._C.DispatchKey, KEY)
        return lambda on: torch._C._dispatch_tls_set_dispatch_key_included(key, on)
    path = next(line.split()[-1] for line in open("/proc/self/maps") if "libc10.so" in line or "libc10." in line)
    library = ctypes.CDLL(path)
    include = library._ZN3c104impl29tls_set_dispatch_key_includedENS_11DispatchKeyEb
    excluded = library._ZN3c104impl28tls_is_dispatch_key_excludedENS_11DispatchKeyE
    include.argtypes, include.restype = [ctypes.c_uint16, ctypes.c_bool], None
    excluded.argtypes, excluded.restype = [ctypes.c_uint16], ctypes.c_bool
    number = _key_number(excluded)
    return lambda on: include(number, on)


def _key_number(excluded):
    """AutocastCUDA's number in this libc10: the key whose exclusion follows set_autocast_enabled."""
    was = torch.is_autocast_enabled()
    seen = []
    for state in (True, False):
        torch.set_autocast_enabled(state)
        seen.append([bool(excluded(k)) for k in range(1, 80)])
    torch.set_autocast_enabled(was)
    found = [k + 1 for k, (a, b) in enumerate(zip(*seen)) if a != b]
    if len(found) != 1:
        raise RuntimeError("cannot find autocast's dispatch key in this torch")
    return found[0]


if hasattr(torch, "get_autocast_dtype"):
    def _enabled(on):
        torch.set_autocast_enabled("cuda", on)

    def _dtype():
        return torch.get_autocast_dtype("cuda")
else:
    def _enabled(on):
        torch.set_autocast_enabled(on)

    def _dtype():
        return torch.get_autocast_gpu_dtype()


class Autocast:
    """The process's autocast emulation; `install` once, `active()` around a recording."""

    def __init__(self):
        self._cache = {}
        self._library = None
        self.casting = False
        self.rules = UPSAMPLE_FROM  # the torch version whose lists apply
        self.cpu_counts = False  # as events.Log.cpu_counts

    def install(self):
        """Put our kernels under AutocastCUDA. Idempotent."""
        if self._library is not None:
            return
        self._include = _included_setter()
        self._library = torch.library.Library("aten", "IMPL")
        for name in _listed_ops():
            if name not in SKIP:
                self._library.impl(name, self._kernel(name), KEY)
        self._patch_availability()

    def _patch_availability(self):
        """autocast('cuda') switches itself off on a CPU build; while we emulate it, it must not."""
        common = torch.cuda.amp.common
        common.amp_definitely_not_available = lambda: False
        module = __import__("torch.amp.autocast_mode", fromlist=["autocast"])
        original, clear = module.autocast.__init__, torch.clear_autocast_cache
        state = self

        def init(self, device_type="cuda", *args, **kwargs):
            original(self, "cuda" if device_type == "meta" else device_type, *args, **kwargs)

        def clear_cache():
            state._cache.clear()
            clear()

        module.autocast.__init__ = init
        torch.clear_autocast_cache = clear_cache
        torch.cuda.is_bf16_supported = lambda *args, **kwargs: True
        checkpoint = __import__("torch.utils.checkpoint", fromlist=["checkpoint"])
        if hasattr(checkpoint, "_infer_device_type"):  # recompute under the same autocast as CUDA tensors would
            checkpoint._infer_device_type = lambda *args: "cuda"

    def __enter__(self):
        self.install()
        self._include(True)
        return self

    def __exit__(self, *exc):
        self._include(False)
        self._cache.clear()

    def _kernel(self, name):
        op = _overload(name)
        if name in SET_DTYPE:
            return self._set_dtype(op)
        if name in NORM:
            return self._norm(getattr(torch.ops.aten.norm, NORM[name]))
        cast = self._lower if name in LOWER else self._promote if name in PROMOTE else self._fp32
        upsample = UPSAMPLE.match(name)

        def kernel(*args, **kwargs):
            _enabled(False)
            try:
                if not (upsample and self.rules < UPSAMPLE_FROM):
                    args, kwargs = cast(args, kwargs)
                return op(*args, **kwargs)
            finally:
                _enabled(True)
        return kernel

    @staticmethod
    def dtype():
        """The low precision; None outside autocast."""
        return _dtype() if torch.is_autocast_enabled() else None

    def lower(self, tensors):
        """The tensors as an op of the low precision would get them; unchanged outside autocast."""
        if not torch.is_autocast_enabled():
            return list(tensors)
        return self._cast((list(tensors),), {}, _dtype(), True)[0][0]

    def _set_dtype(self, op):
        arguments = [a.name for a in op._schema.arguments]
        where = arguments.index("dtype")
        positional = not op._schema.arguments[where].kwarg_only

        def kernel(*args, **kwargs):
            _enabled(False)
            try:
                given = args[where] if positional and len(args) > where else kwargs.get("dtype")
                if given is None and _eligible(args[0]):
                    if positional and len(args) > where:
                        args = args[:where]
                    kwargs = dict(kwargs, dtype=torch.float32)
                return op(*args, **kwargs)
            finally:
                _enabled(True)
        return kernel

    @staticmethod
    def _norm(op):
        def kernel(x, p=2, dim=None, keepdim=False, **kwargs):
            _enabled(False)
            try:
                tail = () if dim is None else (dim, keepdim)
                return op(x, p, *tail, dtype=torch.float32 if _eligible(x) else x.dtype)
            finally:
                _enabled(True)
        return kernel

    def _lower(self, args, kwargs):
        return self._cast(args, kwargs, _dtype(), True)

    def _fp32(self, args, kwargs):
        return self._cast(args, kwargs, torch.float32, False)

    def _promote(self, args, kwargs):
        tensors = [a for a in _flat(args) + _flat(tuple(kwargs.values())) if _eligible(a)]
        wide = any(t.dtype == torch.float32 for t in tensors)
        return self._cast(args, kwargs, torch.float32 if wide else _dtype(), not wide)

    def _cast(self, args, kwargs, dtype, low):
        def one(x):
            if isinstance(x, torch.Tensor):
                return self._cast_tensor(x, dtype, low) if x.dtype != dtype and _eligible(x) else x
            if isinstance(x, (list, tuple)) and x and isinstance(x[0], torch.Tensor):
                return [one(y) for y in x]
            return x
        return tuple(one(a) for a in args), {k: one(v) for k, v in kwargs.items()}

    def _cast_tensor(self, x, dtype, low):
        """cached_cast(): leaves that want gradients are cast once per outermost autocast region."""
        keep = low and x.dtype == torch.float32 and x.requires_grad and x.is_leaf and not x._is_view() \
            and torch.is_autocast_cache_enabled()
        if keep:
            hit = self._cache.get(id(x))
            if hit is not None and hit[0]() is x:
                return hit[1]
        self.casting = True
        try:
            result = x.to(dtype)
        finally:
            self.casting = False
        if keep:
            self._cache[id(x)] = (weakref.ref(x), result)
        return result


def _eligible(x):
    return isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64 \
        and (x.device.type == "meta" or (AUTOCAST.cpu_counts and x.dim() > 0))


def _flat(args):
    out = []
    for a in args:
        out.extend(a if isinstance(a, (list, tuple)) else (a,))
    return out


AUTOCAST = Autocast()
