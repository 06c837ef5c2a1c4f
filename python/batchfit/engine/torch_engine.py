# SPDX-License-Identifier: Apache-2.0
"""PyTorch itself, as it is and through torch.compile."""

import contextlib
import warnings

from ..errors import MissingLibrary, RecordError, UsageError
from .errors import NotInstalled, Unavailable

CAST = {"fp16": "float16", "bf16": "bfloat16"}
AUTOCAST = {"amp-fp16": "float16", "amp-bf16": "bfloat16"}


def import_torch():
    """torch, or NotInstalled."""
    try:
        import torch
    except Exception as why:  # a broken installation raises OSError, RuntimeError, ...
        raise NotInstalled("torch is not installed (%s): pip install torch" % why)
    return torch


def model_and_samples(options, count):
    """(module that takes tensors and gives one, names of its inputs, list of tensors of `count` samples), on the CPU."""
    torch = import_torch()
    from ..workload import models
    options.precision, precision = "fp32", options.precision
    try:
        task = models.load(options, None)
    finally:
        options.precision = precision
    samples = torch.utils.data.default_collate([task.dataset[i] for i in range(count)]) if hasattr(
        torch.utils.data, "default_collate") else torch.utils.data.dataloader.default_collate(
            [task.dataset[i] for i in range(count)])
    names, tensors = _inputs(samples, options.model or "")
    return _plain(torch, task.model.eval(), names if isinstance(samples, dict) else None), names, tensors


def _inputs(samples, source):
    """Targets are left out: a pair is input and target, but for detection, whose image is of bytes."""
    if isinstance(samples, dict):
        kept = {name: value for name, value in samples.items() if name != "labels"}
        return list(kept), list(kept.values())
    if isinstance(samples, (list, tuple)):
        samples = samples[0]
    if isinstance(samples, dict):
        return _inputs(samples, source)
    tensors = list(samples) if isinstance(samples, (list, tuple)) else [samples]
    if source.startswith("ultralytics:"):
        tensors = [tensors[0].float() / 255]
    return ["input%d" % i if i else "input" for i in range(len(tensors))], tensors


def _plain(torch, model, names):
    class Plain(torch.nn.Module):
        """Tensors in, one tensor out, for engines that know no dictionaries."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *tensors):
            output = self.model(**dict(zip(names, tensors))) if names else self.model(*tensors)
            if isinstance(output, dict):
                output = output["logits"] if "logits" in output else next(iter(output.values()))
            while isinstance(output, (tuple, list)):
                output = output[0]
            return output
    return Plain().eval()


def load_weights(module, path):
    """A state dict, alone or as trainers keep it. Raises RecordError."""
    torch = import_torch()
    try:
        try:
            kept = torch.load(path, map_location="cpu", weights_only=True)
        except TypeError:  # torch before 1.13
            kept = torch.load(path, map_location="cpu")
    except Exception as why:
        raise RecordError("--weights %s: torch.load cannot read it: %s" % (path, str(why).split("\n")[0][:200]))
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(kept, dict) and isinstance(kept.get(key), dict):
            kept = kept[key]
    if not isinstance(kept, dict):
        raise RecordError("--weights %s: not a state dict (torch.save(model.state_dict(), FILE) makes one)" % path)
    kept = {name[7:] if name.startswith("module.") else name: value for name, value in kept.items()}
    try:
        module.model.load_state_dict(kept)
    except Exception as why:
        raise RecordError("--weights %s: does not match this model: %s" % (path, " ".join(str(why).split())[:300]))


def settle(module, tensors):
    """Gives batch norms the statistics of the inputs. Random weights with none of them let activations grow or vanish from
    layer to layer, and a difference in half precision would then say nothing."""
    torch = import_torch()
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean
        norm.train()
    if norms:
        with torch.no_grad(), contextlib.suppress(ValueError):  # one value a channel has no variance
            module(*tensors)
    module.eval()


class Torch:
    """An engine: opened with its inputs, then `first`, then `times`."""

    framework = "torch"
    compiles = False

    def __init__(self, options, prepared, arrays):
        self.torch = torch = import_torch()
        if options.model is None and options.onnx is not None:
            raise Unavailable("torch cannot run ONNX files: also give --model")
        self.version, self.precision = torch.__version__, options.precision
        self.device = self._device(options.device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module, _, _ = model_and_samples(options, 1)
        module.load_state_dict(torch.load(prepared.path("weights.pt"), map_location="cpu"))
        cast = getattr(torch, CAST[self.precision]) if self.precision in CAST else None
        tensors = [torch.from_numpy(a).to(self.device) for a in arrays]
        self.tensors = [t.to(cast) if cast and t.is_floating_point() else t for t in tensors]
        module = module.to(self.device)
        self.module = module.to(cast) if cast else module
        if self.compiles:
            self._compile(options.compile_mode)

    def _device(self, name):
        if name == "cuda" and not self.torch.cuda.is_available():
            raise Unavailable("this torch %s sees no CUDA device" % self.version)
        if name == "cuda":
            from ..emit.cuda import set_cap
            set_cap(0)
        return self.torch.device("cuda", 0) if name == "cuda" else self.torch.device("cpu")

    def _compile(self, mode):
        if not hasattr(self.torch, "compile"):
            raise Unavailable("torch %s has no torch.compile; it came with 2.0" % self.version)
        try:
            self.module = self.torch.compile(self.module, mode=None if mode == "default" else mode)
        except Exception as why:
            raise UsageError("--compile-mode %s: %s" % (mode, str(why).split("\n")[0][:200]))

    def run(self):
        """One batch, to its end."""
        torch, dtype = self.torch, AUTOCAST.get(self.precision)
        with torch.inference_mode(), torch.autocast(self.device.type, dtype=getattr(torch, dtype or "bfloat16"),
                                                    enabled=dtype is not None):
            output = self.module(*self.tensors)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return output

    def first(self):
        """Outputs of the batch as arrays."""
        output = self.run().detach()
        return [(output.float() if output.is_floating_point() else output).cpu().numpy()]

    def memory(self):
        """Fields of a step."""
        if self.device.type != "cuda":
            return {}
        from ..emit.cuda import memory_figures
        return memory_figures(self.device)


class Compiled(Torch):
    """torch.compile."""

    compiles = True


def check_model(options):
    """(module, names, tensors): raises what says why there is no model."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model_and_samples(options, options.compared)
    except NotInstalled as why:
        raise MissingLibrary(str(why))
