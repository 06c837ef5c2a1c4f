# SPDX-License-Identifier: Apache-2.0
"""What the real fused losses and layers allocate, for test_losses.py: their own Python on the meta device, with Triton's kernels left out.

    pip install --no-deps --target DIR liger-kernel==0.8.0 cut-cross-entropy==25.1.1
    build/venv2/bin/python tests/torch/real_kernels.py DIR NAME...      # prints rows of kernels.tsv

A row is the sequence of a forward and a backward pass: +BYTES and -BYTES, blanks between. Those of the names in kernels.tsv
are run in the same way by test_losses.py with our rules.
"""

import sys
import types

import helper  # noqa: F401 - the path of our package
import torch

from batchfit import composites
from batchfit.autocast import AUTOCAST
from batchfit.dispatch import Recorder
from batchfit.knobs import Knobs

# tokens, hidden, vocabulary: two chunks of liger's; and four, of which ours has the first two
SHAPES = {"two": (1280, 64, 128), "four": (1024, 64, 256)}


class _Kernel:
    """A Triton kernel that does nothing."""

    def __init__(self, *_, **__):
        pass

    def __getitem__(self, grid):
        return lambda *args, **kwargs: None

    def __call__(self, *args, **kwargs):
        return self


    def __or__(self, other):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Kernel()


class _Constant:
    """tl.constexpr"""

    def __init__(self, value):
        self.value = value


class _Anything(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Kernel()


def without_triton():
    """Lets the libraries be imported."""
    triton = _Anything("triton")
    triton.cdiv, triton.next_power_of_2 = (lambda a, b: -(-a // b)), (lambda n: 1 << (n - 1).bit_length())
    triton.jit = triton.autotune = triton.heuristics = lambda *args, **kwargs: _Kernel()
    triton.__version__, triton.__path__, triton.Config = "3.0.0", [], _Kernel
    sys.modules["triton"] = triton
    for name in ("language", "language.extra", "language.extra.libdevice", "runtime", "runtime.driver", "testing", "compiler"):
        sys.modules["triton." + name] = module = _Anything("triton." + name)
        module.__path__ = []
    sys.modules["cut_cross_entropy.tl_autotune"] = _Anything("tl_autotune")
    triton.language = sys.modules["triton.language"]
    triton.language.constexpr = _Constant
    torch.compile = lambda *args, **kwargs: args[0] if args and callable(args[0]) else lambda f: f


def sequence(run, *tensors, autocast=False):
    """'+4096 -4096 ...' of run(*tensors) and its backward pass; the tensors are there before."""
    composites.install()
    knobs = Knobs("python", torch.__version__, {"cublas_workspace": 0, "precision": "amp-bf16" if autocast else "fp32"})
    rec = Recorder(knobs, torch.nn.Module())
    composites.configure(knobs, rec)
    for t in tensors:
        rec.log.ignore(t)
    with AUTOCAST, rec:
        rec.log.mark("forward")
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            out = run(*tensors)
        rec.log.mark("backward")
        torch.autograd.backward(out, [torch.empty_like(o) for o in out] if isinstance(out, tuple) else None if out.dim() == 0
                                else torch.empty_like(out))
        del out
    rec.log.close()
    sizes = {e[1]: e[2] for e in rec.log.events if e[0] == "a"}
    return " ".join(("+%d" if e[0] == "a" else "-%d") % sizes[e[1]] for e in rec.log.events if e[0] in "af")


def peak(text):
    """The most that was there at a time."""
    now = most = 0
    for n in map(int, text.split()):
        now += n
        most = max(most, now)
    return most


def tensors(shape, weight_dtype=torch.bfloat16, x_dtype=torch.bfloat16, trained=True):
    """Hidden states, a head's weight and labels."""
    tokens, hidden, vocabulary = SHAPES[shape]
    return (torch.empty(tokens, hidden, dtype=x_dtype, device="meta", requires_grad=True),
            torch.empty(vocabulary, hidden, dtype=weight_dtype, device="meta", requires_grad=trained),
            torch.empty(tokens, dtype=torch.int64, device="meta"))


def layer_tensors(kind):
    """What a layer is called with: batch 2, 96 tokens, 4 heads of 16."""
    def new(*shape, dtype=torch.bfloat16):
        return torch.empty(*shape, dtype=dtype, device="meta", requires_grad=True)
    if kind == "norm":
        return new(2, 96, 64), new(64, dtype=torch.float32)
    if kind == "gated":
        return new(2, 96, 128), new(2, 96, 128)
    q, k = new(2, 96, 64), new(2, 96, 32)
    turns = [torch.empty(1, 96, 16, dtype=torch.bfloat16, device="meta") for _ in range(2)]
    return (q, k, *turns)


def _heads(rotate):
    def run(q, k, cos, sin):
        q, k = (t.view(2, 96, -1, 16).transpose(1, 2) for t in (q, k))
        return rotate(q, k, cos, sin)
    return run


def real(name):
    """(function, tensors, autocast) of the library's own."""
    what, shape, *more = name.split("-")
    if what == "liger":
        from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction
        def run(x, w, t):
            out = LigerFusedLinearCrossEntropyFunction.apply(x, w, t)
            return out[0] if isinstance(out, tuple) else out
        return run, _loss_tensors(shape, more), "amp" in more
    if what == "cut":
        from cut_cross_entropy.cce import CCEParams, LinearCrossEntropyFunction
        def run(x, w, t):
            valid = torch.empty(t.shape[0] - 1, dtype=torch.int64, device="meta")
            return LinearCrossEntropyFunction.apply(x, w, CCEParams(t, valid, None, "mean", 0.1, True, t.shape))
        return run, _loss_tensors(shape, more), False
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.rope import LigerRopeFunction
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction
    run = {"norm": lambda x, w: LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", "beside" not in more),
           "gated": LigerSiLUMulFunction.apply, "rotary": _heads(LigerRopeFunction.apply)}[shape]
    return run, layer_tensors(shape), False


def ours(name):
    """The same of our rules."""
    from batchfit import liger, losses
    what, shape, *more = name.split("-")
    if what == "liger":
        version = next((tuple(map(int, m.split("."))) for m in more if m[0].isdigit()), (0, 8, 0))
        return lambda x, w, t: losses._Liger.apply(x, w, t, version), _loss_tensors(shape, more), "amp" in more
    if what == "cut":
        def run(x, w, t):
            return losses._Cut.apply(x, w, torch.empty(t.shape[0] - 1, dtype=torch.int64, device="meta"), False)
        return run, _loss_tensors(shape, more), False
    run = {"norm": lambda x, w: liger._RmsNorm.apply(x, w, "beside" not in more), "gated": liger._GatedUnit.apply,
           "rotary": _heads(liger._Rotary.apply)}[shape]
    return run, layer_tensors(shape), False


def _loss_tensors(shape, more):
    weights = torch.float32 if "amp" in more else torch.bfloat16
    return tensors(shape, weights, torch.float32 if "amp" in more else torch.bfloat16, "frozen" not in more)


def main():
    sys.path.insert(0, sys.argv[1])
    without_triton()
    for name in sys.argv[2:]:
        run, given, autocast = real(name)
        print("%s\t%s" % (name, sequence(run, *given, autocast=autocast)))


if __name__ == "__main__":
    main()
