# SPDX-License-Identifier: Apache-2.0
"""Optimizers by name: torch's own where torch's own is what runs on CUDA, else the same allocations by hand."""

import torch

from .errors import RecordError


def _is_norm_or_bias(name, p):
    return p.dim() <= 1 or name.endswith(".bias")


def _named(model):
    return [(n, p) for n, p in model.named_parameters() if p.requires_grad]


def _groups_none(model, decay):
    return [{"params": [p for _, p in _named(model)], "weight_decay": decay}]


def _groups_timm(model, decay):
    """timm.optim.param_groups_weight_decay: undecayed first; one group without decay."""
    if not decay:
        return _groups_none(model, 0.0)
    skip = model.no_weight_decay() if hasattr(model, "no_weight_decay") else ()
    plain = [p for n, p in _named(model) if _is_norm_or_bias(n, p) or n in skip]
    rest = [p for n, p in _named(model) if not (_is_norm_or_bias(n, p) or n in skip)]
    return [g for g in ({"params": plain, "weight_decay": 0.0}, {"params": rest, "weight_decay": decay}) if g["params"]]


def _groups_hf(model, decay):
    """transformers.Trainer.create_optimizer: decayed first."""
    rest = [p for n, p in _named(model) if not _is_norm_or_bias(n, p)]
    plain = [p for n, p in _named(model) if _is_norm_or_bias(n, p)]
    return [g for g in ({"params": rest, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}) if g["params"]]


def _groups_ultralytics(model, decay):
    """ultralytics' build_optimizer: biases, then weights, then norms."""
    norms = {id(m.weight) for m in model.modules() if "Norm" in type(m).__name__ and getattr(m, "weight", None) is not None}
    named = _named(model)
    bias = [p for n, p in named if n.endswith("bias")]
    norm = [p for n, p in named if id(p) in norms]
    rest = [p for n, p in named if not n.endswith("bias") and id(p) not in norms]
    groups = ((bias, 0.0), (rest, decay), (norm, 0.0))
    return [{"params": g, "weight_decay": d} for g, d in groups if g]


GROUPS = {"none": _groups_none, "timm": _groups_timm, "hf": _groups_hf, "ultralytics": _groups_ultralytics}


class _OwnOptimizer(torch.optim.Optimizer):
    """Base of the optimizers written here: `update(group, p, state)` per parameter, without autograd."""

    def __init__(self, groups, **defaults):
        super().__init__(groups, dict({"lr": 1e-3}, **defaults))

    def step(self, closure=None):
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self.update(group, p, self.state[p])


class Fused(_OwnOptimizer):
    """fused=True of SGD, Adam and AdamW: state, a step counter per parameter, no temporaries."""

    def __init__(self, groups, states):
        super().__init__(groups)
        self.states = states

    def update(self, group, p, state):
        for i in range(self.states):
            if i not in state:
                state[i] = torch.zeros_like(p, memory_format=torch.preserve_format)
        if self.states == 2 and "step" not in state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=p.device)
        p.add_(p.grad)


class EarlyForeachAdam(torch.optim.Optimizer):
    """foreach=True of Adam and AdamW before torch 2.1: sqrt(v) and sqrt(v) + eps stand beside each other, each of the size of the weights
    (pull requests 104898 and 104910 made it one). The steps are counted on the CPU."""

    def __init__(self, groups, decoupled):
        super().__init__(groups, {"lr": 1e-3})
        self.decoupled = decoupled

    def step(self, closure=None):
        with torch.no_grad():
            for group in self.param_groups:
                by_type = {}
                for p in group["params"]:
                    if p.grad is not None:
                        by_type.setdefault(p.dtype, []).append(p)
                for params in by_type.values():
                    self._update(params, group["weight_decay"])

    def _update(self, params, decay):
        for p in params:
            for name in ("exp_avg", "exp_avg_sq"):
                if name not in self.state[p]:
                    self.state[p][name] = torch.zeros_like(p, memory_format=torch.preserve_format)
        grads = [p.grad for p in params]
        averages, squares = ([self.state[p][name] for p in params] for name in ("exp_avg", "exp_avg_sq"))
        if decay and self.decoupled:
            torch._foreach_mul_(params, 1 - 1e-3 * decay)
        elif decay:
            grads = torch._foreach_add(grads, params, alpha=decay)
        torch._foreach_mul_(averages, 0.9)
        torch._foreach_add_(averages, grads, alpha=0.1)
        torch._foreach_mul_(squares, 0.999)
        torch._foreach_addcmul_(squares, grads, grads, 0.001)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_div_(roots, 0.5)
        below = torch._foreach_add(roots, 1e-8)
        torch._foreach_addcdiv_(params, averages, below, -1e-3)


class Lion(_OwnOptimizer):
    """Lion (one momentum), the common for-loop implementation."""

    def update(self, group, p, state):
        if "exp_avg" not in state:
            state["exp_avg"] = torch.zeros_like(p)
        if group["weight_decay"]:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        m = state["exp_avg"]
        update = m.clone().mul_(0.9).add_(p.grad, alpha=0.1).sign_()
        p.add_(update, alpha=-group["lr"])
        m.mul_(0.99).add_(p.grad, alpha=0.01)


class AdamW8bit(_OwnOptimizer):
    """bitsandbytes' block-wise 8-bit AdamW: two byte states and fp32 absmax per 256 values from 4096 values on;
    smaller tensors keep fp32 states (bitsandbytes/optim/optimizer.py, min_8bit_size)."""

    def update(self, group, p, state):
        if not state:
            small = p.numel() < 4096
            for name in ("state1", "state2"):
                state[name] = torch.zeros_like(p, dtype=torch.float32 if small else torch.uint8)
                if not small:
                    state["absmax_" + name] = torch.zeros((p.numel() + 255) // 256, device=p.device)
        p.add_(p.grad)


class States32bit(_OwnOptimizer):
    """bitsandbytes' AdamW and Lion with 32 bits: so many states, fp32 whatever the weights are in (bitsandbytes/optim/optimizer.py, init_state)."""

    def __init__(self, groups, states):
        super().__init__(groups)
        self.states = states

    def update(self, group, p, state):
        for i in range(0 if state else self.states):
            state["state%d" % (i + 1)] = torch.zeros_like(p, dtype=torch.float32)
        p.add_(p.grad)


class Adafactor(_OwnOptimizer):
    """transformers.optimization.Adafactor: factored second moment, no first moment, relative step."""

    def update(self, group, p, state):
        grad = p.grad.float() if p.grad.dtype != torch.float32 else p.grad
        factored = grad.dim() >= 2
        if not state:
            if factored:
                state["row"] = torch.zeros(grad.shape[:-1], device=grad.device)
                state["col"] = torch.zeros(grad.shape[:-2] + grad.shape[-1:], device=grad.device)
            else:
                state["sq"] = torch.zeros_like(grad)
        update = (grad ** 2) + 1e-30
        if factored:
            state["row"].mul_(0.9).add_(update.mean(dim=-1), alpha=0.1)
            state["col"].mul_(0.9).add_(update.mean(dim=-2), alpha=0.1)
            r = (state["row"] / state["row"].mean(dim=-1, keepdim=True)).rsqrt_().unsqueeze(-1)
            update = torch.mul(r, state["col"].unsqueeze(-2).rsqrt())
            update.mul_(grad)
        else:
            state["sq"].mul_(0.9).add_(update, alpha=0.1)
            update = state["sq"].rsqrt().mul_(grad)
        update.div_((update.norm(2) / update.numel() ** 0.5).clamp_(min=1.0))
        update.mul_(group["lr"])
        p.add_(-update)


def _torch_optimizer(cls, groups, knobs, **extra):
    return cls(groups, lr=1e-3, foreach=knobs.foreach, **extra)


def _sgd(groups, knobs):
    if knobs.fused_optimizer:
        return Fused(groups, 1 if knobs.momentum else 0)
    return _torch_optimizer(torch.optim.SGD, groups, knobs, momentum=knobs.momentum, nesterov=bool(knobs.nesterov and
                                                                                                 knobs.momentum))


def _adam(cls):
    def make_adam(groups, knobs):
        if knobs.fused_optimizer:
            return Fused(groups, 2)
        if knobs.foreach and knobs.rules < (2, 1):
            return EarlyForeachAdam(groups, cls is torch.optim.AdamW)
        return _torch_optimizer(cls, groups, knobs)
    return make_adam


TABLE = {
    "sgd": _sgd, "adam": _adam(torch.optim.Adam), "adamw": _adam(torch.optim.AdamW),
    "lion": lambda groups, knobs: Lion(groups), "adafactor": lambda groups, knobs: Adafactor(groups),
    "adamw8bit": lambda groups, knobs: AdamW8bit(groups),
    "adamw32bit": lambda groups, knobs: States32bit(groups, 2), "lion32bit": lambda groups, knobs: States32bit(groups, 1),
}


def make(knobs, model):
    """The optimizer the knobs ask for, over the model's trainable parameters."""
    groups = GROUPS[knobs.groups](model, knobs.weight_decay)
    if not groups or not groups[0]["params"]:
        raise RecordError("the model has no trainable parameters; use --mode inference")
    return TABLE[knobs.optimizer](groups, knobs)


class Scaler:
    """torch.cuda.amp.GradScaler's tensors: scale and growth tracker live on, found_inf per step."""

    def __init__(self, log):
        self._scale = torch.empty((), device="meta")
        self._growth = torch.empty((), dtype=torch.int32, device="meta")
        log.note(self._scale, "grad_scaler", "-", "other")
        log.note(self._growth, "grad_scaler", "-", "other")

    def scale(self, loss):
        """loss * scale"""
        return loss * self._scale

    def unscale(self, model):
        """In place over all gradients; 1/scale and found_inf are scalars."""
        inverse = self._scale.double().reciprocal().float()
        found = torch.zeros((), device="meta")
        by_type = {}
        for p in model.parameters():
            if p.grad is not None:
                by_type.setdefault(p.grad.dtype, []).append(p.grad)
        for grads in by_type.values():
            torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
