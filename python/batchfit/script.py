# SPDX-License-Identifier: Apache-2.0
"""The training scripts: what runs in which order, and which variables stay alive. One `Script` per recording."""

import contextlib
import copy

import torch
import torch.nn.functional as F

from . import optimizers
from .shard_words import split
from .sharded import SHARDING, local, own_name
from .work import Work

STEPS = 2


def label_smoothing(logits, target):
    """timm.loss.LabelSmoothingCrossEntropy (1.0.9), smoothing 0.1."""
    logprobs = F.log_softmax(logits, dim=-1)
    nll_loss = -logprobs.gather(dim=-1, index=target.unsqueeze(1))
    nll_loss = nll_loss.squeeze(1)
    smooth_loss = -logprobs.mean(dim=-1)
    loss = 0.9 * nll_loss + 0.1 * smooth_loss
    return loss.mean()


LOSSES = {"ce": F.cross_entropy, "label-smoothing": label_smoothing}


def _weights(model):
    """(module's name, tag, tensor) of each, once."""
    seen = set()
    for module_name, module in model.named_modules():
        for tag, named in (("param", module._parameters), ("buffer", {**module._buffers, **getattr(module, "hidden", {})})):
            for tensor in named.values():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield module_name, tag, tensor


class Script:
    """Runs STEPS optimizer steps of `job` at one batch under the recorder `rec`.

    job: see sources/__init__.py. All phases are marked here; the order of statements is the preset's.
    """

    def __init__(self, knobs, job, batch, rec):
        self.knobs, self.job, self.batch, self.rec, self.log = knobs, job, batch, rec, rec.log
        self.output = self.loss = self.inputs = None
        self.loader = []
        self.scaler = None
        self.fsdp = split(knobs.shard)[0]

    # -- phases ---------------------------------------------------------------

    def run(self):
        """The whole recording."""
        with SHARDING.recording(self.rec) if self.fsdp else contextlib.nullcontext(), self.job.around():
            self._run()

    def _run(self):
        self._init()
        with self.rec, self.rec.modules:
            if self.knobs.resident or self.knobs.prefetch:
                self._mark("input")
                self._first_input()
            for step in range(STEPS):
                self._step(step)
            self._finish_work()
        self.log.poll()

    def _mark(self, kind, step=0, micro=0):
        self._finish_work()
        self.log.mark(kind, step, micro)
        self._start_work(step)

    def _start_work(self, step):
        """Work is recorded in the last step only."""
        self.rec.work = Work(self.log.kind) if step == STEPS - 1 else None

    def _finish_work(self):
        work, self.rec.work = self.rec.work, None
        if work is not None and work.kernels:
            self.log.poll()
            self.log.events.append(("o", work.kernels))

    def _init(self):
        self.log.mark("init")
        model = self.job.model
        for module_name, tag, tensor in _weights(model):
            event = self._note(local(tensor), own_name(module_name) or "-", SHARDING.place(tensor) or tag)
            if self.fsdp and tag == "param" and event:
                SHARDING.weight(event, tensor)
        if self.job.reference is not None:
            for module_name, _, tensor in _weights(self.job.reference):
                self._note(tensor, "reference." + module_name, "reference")
        if self.knobs.optimizer != "none":
            self.optimizer = self._make_optimizer()
        if self.knobs.ema:
            self.ema = copy.deepcopy(model).requires_grad_(False)
            for tensor in list(self.ema.parameters()) + list(self.ema.buffers()):
                self.log.note(tensor, "ema", "-", "other")
        if self.knobs.grad_scaler:
            self.scaler = self._make_scaler()

    def _note(self, tensor, module, tag):
        return self.log.note(tensor, "-", module, tag)

    def _make_optimizer(self):
        return optimizers.make(self.knobs, self.job.model)

    def _make_scaler(self):
        return optimizers.Scaler(self.log)

    def _first_input(self):
        if self.knobs.resident:
            self.inputs = self.job.inputs(self.batch)
        else:
            self.loader = [self._prefetched()]

    def _prefetched(self):
        """timm's PrefetchLoader: bytes, then floats, in the side stream."""
        self.log.stream = 1
        try:
            return self.job.prefetched(self.batch)
        finally:
            self.log.stream = 0

    def _next_input(self, step, micro):
        if self.knobs.resident:
            return
        self._mark("input", step, micro)
        if self.knobs.prefetch:
            self.loader.append(self._prefetched())
            self.inputs = self.loader.pop(0)
        else:
            self.inputs = self.job.inputs(self.batch)

    def _step(self, step):
        if self.knobs.mode == "inference":
            return self._inference(step)
        if self.knobs.zero_first:
            self._zero(step)
        for micro in range(self.knobs.accumulation):
            self._next_input(step, micro)
            self._micro_step(step, micro)
        self._optimize(step)
        if not (self.knobs.zero_first or self.knobs.zero_late):
            self._zero(step)

    def _inference(self, step):
        self._next_input(step, 0)
        self._mark("forward", step)
        with torch.no_grad(), self._autocast():
            self.output = self.job.forward(self.inputs)
        if not self.knobs.keep_output:
            self.output = None

    def _autocast(self):
        is_inside = self.knobs.shard and self.knobs.script_defaults != "plain"  # sharded.autocast_forward, torchtitan
        is_inside = is_inside or self.job.casts_itself
        dtype = None if is_inside else self.knobs.autocast_dtype
        return torch.autocast("cuda", getattr(torch, dtype)) if dtype else contextlib.nullcontext()

    def _micro_step(self, step, micro):
        self._mark("forward", step, micro)
        self.rec.modules.forget()
        with self._reduced(micro):
            with self._autocast():
                self._forward()
                if self.knobs.bwd_autocast:
                    self._backward(step, micro)
            if not self.knobs.bwd_autocast:
                self._backward(step, micro)

    def _reduced(self, micro):
        """Before the last micro-step of several, ranks keep their gradients whole, as in Accelerator.no_sync (1.15); torchtitan and
        plain loops reduce them in each."""
        is_last = micro == self.knobs.accumulation - 1
        if self.knobs.script_defaults in ("torchtitan", "plain"):
            return contextlib.nullcontext()
        if self.fsdp == "fsdp2":
            self.job.model.set_requires_gradient_sync(is_last)
        return self.job.model.no_sync() if self.fsdp == "fsdp1" and not is_last else contextlib.nullcontext()

    def _forward(self):
        output, loss = self.job.forward_loss(self.inputs)
        self.output = self.loss = None
        if self.knobs.keep_output:
            self.output = output
        del output
        self.loss = loss

    def _backward(self, step, micro):
        if self.knobs.zero_late:
            self._zero(step)
        loss = self.loss
        if not self.knobs.keep_loss:
            self.loss = None
        if self.knobs.accumulation > 1:
            loss = loss / self.knobs.accumulation
        if self.scaler:
            loss = self.scaler.scale(loss)
        self._mark("backward", step, micro)
        loss.backward()
        del loss
        for p in self.job.model.parameters():
            if p.grad is not None:
                self.log.retag(local(p.grad), "gradient")

    def _optimize(self, step):
        self._mark("optimizer", step)
        model = self.job.model
        with torch.no_grad():
            if self.scaler:
                self.scaler.unscale(model)
            if self.knobs.clip_grad and self.fsdp == "fsdp1":  # Accelerator.clip_grad_norm_
                model.clip_grad_norm_(self.knobs.clip_grad)
            elif self.knobs.clip_grad:
                torch.nn.utils.clip_grad_norm_(list(model.parameters()), self.knobs.clip_grad)
        self._update()
        if self.job.after_step:
            self.job.after_step(step + 1)
        if self.knobs.ema:
            self._average()

    def _update(self):
        self.optimizer.step()
        if self.fsdp:
            SHARDING.optimizer_states(self.optimizer)

    def _average(self):
        with torch.no_grad():
            source = self.job.model.state_dict()
            for name, value in self.ema.state_dict().items():
                if value.is_floating_point():
                    value.mul_(0.9999)
                    value.add_(source[name].detach() * 0.0001)

    def _zero(self, step):
        self._mark("zero_grad", step)
        self.optimizer.zero_grad(set_to_none=self.knobs.zero_grad == "none")

    def clean(self):
        """Leave the model as it was: no gradients, no references."""
        for p in self.job.model.parameters():
            p.grad = None
        self.output = self.loss = self.inputs = self.optimizer = self.ema = None
        self.loader = []
