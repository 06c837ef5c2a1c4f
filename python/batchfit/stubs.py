# SPDX-License-Identifier: Apache-2.0
"""Fakes for packages that model libraries import but training on meta does not need.

torchvision without its compiled ops, or none at all; inplace_abn, whose CUDA kernel keeps only its output.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
import types

import torch

_DONE = []
_LIBRARIES = []


def prepare():
    """Make `import torchvision` and `import inplace_abn` work. Idempotent."""
    if not _DONE:
        _DONE.append(True)
        _torchvision()
        if importlib.util.find_spec("inplace_abn") is None:
            _inplace_abn()


def _torchvision():
    try:
        importlib.import_module("torchvision")
        return
    except ImportError:
        broken = False
    except Exception:  # RuntimeError: operator torchvision::nms does not exist
        broken = True
    _forget("torchvision")
    if broken and _with_ops():
        return
    _forget("torchvision")
    _install_fake()


def _forget(package):
    for name in [n for n in sys.modules if n == package or n.startswith(package + ".")]:
        del sys.modules[name]


def _with_ops():
    """torchvision's Python with its C++ ops declared by name, not implemented: it registers shape functions for them
    at import (torchvision/_meta_registrations.py, 0.15 on)."""
    try:
        origin = importlib.util.find_spec("torchvision").submodule_search_locations[0]
        with open(os.path.join(origin, "_meta_registrations.py"), encoding="utf-8") as f:
            names = sorted(set(re.findall(r"torchvision::(\w+)", f.read()) + ["nms"]))
        library = torch.library.Library("torchvision", "DEF")
        _LIBRARIES.append(library)
        for name in names:
            library.define(name + "(Tensor x) -> Tensor")
        importlib.import_module("torchvision")
        return True
    except Exception:  # whatever is wrong with it, the fake one will do
        return False


class _Anything(types.ModuleType):
    """A module in which every name is a class that accepts anything."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (), {"__init__": lambda self, *a, **k: None, "__call__": lambda self, *a, **k: None})
        setattr(self, name, value)
        return value


class _Finder:
    """Imports of torchvision.* give an _Anything."""

    def find_spec(self, name, path=None, target=None):
        if name == "torchvision" or name.startswith("torchvision."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = _Anything(spec.name)
        module.__version__ = "0.0.0"
        module.__batchfit_stub__ = True
        return module

    def exec_module(self, module):
        pass


def _install_fake():
    sys.meta_path.insert(0, _Finder())
    importlib.import_module("torchvision")


# ---- inplace_abn ---------------------------------------------------------------------------------------------------

class _AbnFunction(torch.autograd.Function):
    """Activated batch norm in place: keeps its output and per-channel statistics (inplace_abn/functions.py, 1.1)."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.mark_dirty(x)
        var = torch.empty((x.shape[1],), device=x.device)
        count = torch.empty((1,), device=x.device)
        ctx.save_for_backward(x, var, count, weight, bias)
        return x

    @staticmethod
    def backward(ctx, grad):
        x, _, _, weight, bias = ctx.saved_tensors
        return torch.empty_like(grad), torch.empty_like(weight), torch.empty_like(bias)


class _Abn(torch.nn.Module):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, activation="leaky_relu",
                 activation_param=0.01, **_):
        super().__init__()
        self.num_features, self.activation, self.activation_param = num_features, activation, activation_param
        self.eps, self.momentum, self.affine = eps, momentum, affine
        self.weight = torch.nn.Parameter(torch.ones(num_features))
        self.bias = torch.nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, x):
        return _AbnFunction.apply(x.clone() if x.is_leaf else x, self.weight, self.bias)


def _inplace_abn():
    module = types.ModuleType("inplace_abn")
    module.__spec__ = importlib.machinery.ModuleSpec("inplace_abn", None)
    module.ABN = module.InPlaceABN = module.InPlaceABNSync = _Abn

    def inplace_abn(x, weight, bias, *args, **kwargs):
        return _AbnFunction.apply(x, weight, bias)
    functions = types.ModuleType("inplace_abn.functions")
    for place in (module, functions):
        place.inplace_abn = place.inplace_abn_sync = inplace_abn
    module.__path__, module.functions = [], functions
    sys.modules.update({"inplace_abn": module, "inplace_abn.functions": functions})
