# SPDX-License-Identifier: Apache-2.0
"""python:fms_source:MODEL@METHOD@PRECISION[@SHARD] - what fms-acceleration's benchmark trained (scripts/benchmarks, refs at 876e2ed), for the recorder.

METHOD and PRECISION are the table's words: "LoRA r=16 ... targets=q,k,v,o; kernels=foak-fast-kernels; ...", "bfloat16 weights + bnb-nf4 base
(autocast bf16)". The model is transformers' own; the plugin's fused losses, layers and LoRA operations are its own Python (package
fms-acceleration-foak), of which only Triton's and bitsandbytes' kernels are left out. GPTQ's layers are a rule: packed weights, scales and
zeros of 4 bits by groups of 128, made again in fp16 for each product (fms_acceleration_peft, gptqmodel/nn_modules/triton_utils/dequant.py).
"""

import importlib
import importlib.util
import os
import re
import sys
import types

import torch

from batchfit import four_bit
from batchfit.knobs import Knobs
from batchfit.sources import hf_models

HERE = os.path.dirname(os.path.abspath(__file__))
# The model that a quantised one was made of, and one whose config.json stands beside this file.
MODELS = {"TheBloke/Mistral-7B-v0.1-GPTQ": "mistralai/Mistral-7B-v0.1",
          "bigcode/gpt_bigcode-santacoder": os.path.join(HERE, "gpt_bigcode-santacoder.json")}
TARGETS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj", "c_attn": "c_attn"}
GROUP = 128


class _Kernel:
    """A Triton kernel that does nothing, and every name of its module."""

    def __init__(self, *_, **__):
        pass

    def __getitem__(self, grid):
        return lambda *args, **kwargs: None

    def __call__(self, *args, **kwargs):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Kernel()


class _Stub(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Kernel()


class _Torch:
    """torch, whose new tensors on the GPU are the recorder's."""

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def empty(*shape, device=None, **kwargs):
        return torch.empty(*shape, device="meta", **kwargs)


def _stub_triton():
    triton = _Stub("triton")
    triton.cdiv, triton.next_power_of_2 = (lambda a, b: -(-a // b)), (lambda n: 1 << (n - 1).bit_length())
    triton.jit = triton.autotune = triton.heuristics = lambda *args, **kwargs: _Kernel()
    sys.modules["triton"] = triton
    for name in ("language", "language.extra", "language.extra.libdevice"):
        sys.modules["triton." + name] = _Stub("triton." + name)


def _foak(name):
    """A module of the package, without the package's own start, which wants the whole framework."""
    root = "fms_acceleration_foak"
    if root not in sys.modules:
        _stub_triton()
        package = types.ModuleType(root)
        package.__path__ = list(importlib.util.find_spec(root).submodule_search_locations)
        sys.modules[root] = package
    module = importlib.import_module(root + "." + name)
    module.torch = _Torch()
    return module


# ---- the plugin's losses and layers ----------------------------------------------------------------------------------

def _calls(model, kind, forward):
    for module in model.modules():
        if type(module).__name__.endswith(kind):
            module.forward = types.MethodType(forward, module)


_REPLACED = []  # (module, name, what it was): the next row's model must not find what this one's put there


def _replace(module, name, value):
    _REPLACED.append((module, name, getattr(module, name)))
    setattr(module, name, value)


def _put_back():
    while _REPLACED:
        setattr(*_REPLACED.pop())


def _fast_loss(base, modeling):
    fast = _foak("kernels.unsloth.cross_entropy_loss")
    if hasattr(modeling, "CrossEntropyLoss"):
        _replace(modeling, "CrossEntropyLoss", fast.FastCrossEntropyLoss)
    if hasattr(base, "loss_function"):  # transformers from 4.46 on
        _replace(type(base), "loss_function", property(lambda self: fast.FastForCausalLMLoss))


def _use_foak(base, kernels, quant):
    """framework_plugin_fast_kernels.py and models/mistral.py; of GPTBigCode the loss alone."""
    modeling = sys.modules[type(base).__module__]
    if "liger" in kernels and base.config.model_type != "gpt_bigcode":
        fused = _foak("fused_ops.liger_ce.fused_linear_cross_entropy_loss")
        base.forward = types.MethodType(fused.lce_forward, base)
    else:
        _fast_loss(base, modeling)
    if base.config.model_type == "gpt_bigcode":
        return
    _calls(base, "RMSNorm", _foak("kernels.unsloth.rms_layernorm").fast_rms_layernorm)
    _replace(modeling, "apply_rotary_pos_emb", _foak("kernels.unsloth.rope_embedding").fast_rope_embedding)
    if quant:
        _fuse_lora(base, quant)


def _fuse_lora(base, quant):
    """Query, key and value in one operation, the output in another: fused_lora, for frozen weights in four bits only."""
    _foak("fused_ops.unsloth_lora.swiglu")
    if quant == "bnb":
        utils = _foak("fused_ops.unsloth_lora.utils")
        fast = _foak("fused_ops.unsloth_lora.bnb.fast_lora")
        utils.fast_dequantize = fast.fast_dequantize = _dequantize_bnb
    else:
        _foak("fused_ops.unsloth_lora.gptq.triton.kernels")
        fast = _foak("fused_ops.unsloth_lora.gptq.fast_lora")
        fast.dequant248 = lambda qweight, scales, qzeros, g_idx, bits: _dequantize_gptq(g_idx.shape[0], scales.shape[1])
        fast.extract_gptq_state = lambda layer: layer
        fast.unpack_gptqstate = lambda s: (s.qweight, s.scales, s.qzeros, s.g_idx, 4)
    for attention in base.modules():
        if type(attention).__name__.endswith("Attention") or hasattr(attention, "o_proj"):
            _fuse_attention(attention, fast)


def _fuse_attention(attention, fast):
    parts, made = ("q_proj", "k_proj", "v_proj"), {}

    def take(name):
        def forward(self, x):
            if not made:
                made.update(zip(parts, fast.apply_lora_qkv(attention, x)))
            return made.pop(name)
        return forward
    if not hasattr(getattr(attention, "q_proj", None), "lora_A"):
        return
    for name in parts:
        module = getattr(attention, name)
        module.forward = types.MethodType(take(name), module)
    attention.o_proj.forward = types.MethodType(fast.apply_lora_o_v2, attention.o_proj)


def _dequantize_bnb(weight, state=None, out=None):
    if state is None:
        return weight
    full = torch.empty(state.shape, dtype=state.dtype, device="meta")
    scales = torch.empty(state.absmax.numel(), dtype=torch.float32, device="meta")
    del scales
    return full.t() if weight.shape[0] == 1 else full


# ---- GPTQ ------------------------------------------------------------------------------------------------------------

def _dequantize_gptq(rows, columns):
    return torch.empty(rows, columns, dtype=torch.float16, device="meta")


class _GptqProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer = layer
        return x @ _dequantize_gptq(layer.in_features, layer.out_features)

    @staticmethod
    def backward(ctx, grad):
        if not ctx.needs_input_grad[0]:
            return None, None
        return grad @ _dequantize_gptq(ctx.layer.in_features, ctx.layer.out_features).t(), None


class GptqLinear(torch.nn.Module):
    """qlinear_tritonv2.QuantLinear."""

    def __init__(self, like):
        super().__init__()
        self.in_features, self.out_features = self.infeatures, self.outfeatures = like.in_features, like.out_features
        groups = -(-like.in_features // GROUP)
        for name, shape, kind in (("qweight", (like.in_features // 8, like.out_features), torch.int32),
                                  ("qzeros", (groups, like.out_features // 8), torch.int32),
                                  ("scales", (groups, like.out_features), torch.float16), ("g_idx", (like.in_features,), torch.int32)):
            self.register_buffer(name, torch.empty(shape, dtype=kind, device="meta"))
        self.bias, self.bits = None, 4

    def forward(self, x):
        return _GptqProduct.apply(x.reshape(-1, x.shape[-1]), self).half().reshape(x.shape[:-1] + (self.out_features,))


def _quantize_gptq(base):
    for parent in list(base.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is torch.nn.Linear and name != "lm_head":
                setattr(parent, name, GptqLinear(child))
    for p in base.parameters():
        p.requires_grad = False
    base.gradient_checkpointing_enable()
    base.enable_input_require_grads()


# ---- the row ---------------------------------------------------------------------------------------------------------

def _adapter(method):
    rank, targets = re.search(r"LoRA r=(\d+)", method), re.search(r"targets=([\w,]+)", method)
    if not rank:
        return None
    return "lora:%s:%s:dropout" % (rank.group(1), ",".join(TARGETS[t] for t in targets.group(1).split(",")))


def _load(name, seq_len):
    """(hf's job, kernels, how the frozen weights are quantised)"""
    model, method, precision, *shard = name.split("@")
    kernels = re.search(r"kernels=([^;]+)", method).group(1)
    quant = "bnb" if "bnb" in precision else "gptq" if "gptq" in precision else ""
    # where the plugin's own preparation stands, peft's casts are left out
    said = dict(seq_len=seq_len, checkpointing=True, weights="bf16", precision="bf16", task="causal-lm")
    if quant == "bnb":
        said.update(quant="nf4-dq", quant_prepare="trl" if kernels.startswith("baseline") else "none")
    if shard:
        said.update(shard=shard[0], ranks=2)  # as many as may be: four bits are stored for any
    if quant != "gptq":
        said["adapter"] = _adapter(method)
    job = hf_models.load(MODELS.get(model, model), Knobs("hf", torch.__version__, said))
    if precision.startswith("float16"):
        for p in job.model.parameters():
            p.data = p.data.to(torch.float16) if p.dtype == torch.bfloat16 else p.data
    if quant == "gptq":
        job.model = _with_gptq(job.model, _adapter(method))
    return job, kernels, quant


def _with_gptq(base, adapter):
    import peft
    from peft.tuners.lora import gptq
    from batchfit import adapters
    _quantize_gptq(base)
    gptq.get_auto_gptq_quant_linear = lambda *_: GptqLinear
    rank, targets, dropout, _ = adapters.parse(adapter)
    return peft.get_peft_model(base, peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=targets, lora_dropout=dropout,
                                                     task_type="CAUSAL_LM"))


def _make(name, seq_len):
    _put_back()
    job, kernels, quant = _load(name, seq_len)
    base = job.model.get_base_model() if hasattr(job.model, "get_base_model") else job.model
    for module in base.modules():
        if isinstance(module, four_bit.Linear4bit):
            module.state.dtype = torch.bfloat16
            module.quant_state = module.state
    if "foak" in kernels:
        _use_foak(base, kernels, quant)
    return job.model, lambda output: output["loss"], job.inputs


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def make(seq_len):
        return _make(name, seq_len)
    return make
