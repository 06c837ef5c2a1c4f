# SPDX-License-Identifier: Apache-2.0
"""What a program may ask of batchfit for the model that it holds: `fit` records it here, on the meta device, and asks the program
`batchfit` for the answer. Importing this module loads no PyTorch."""

import contextlib
import json
import os
import random
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Tuple

RAN = (0, 1)  # fits; does not: also an answer (doc/formats/exit.md)


class Error(RuntimeError):
    """There is no answer; the message says why and what to do. status: the program's exit status (doc/formats/exit.md)."""

    def __init__(self, message: str, status: int = 3) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Plan:
    """One GPU's answer. `details` is the document of `batchfit fit --json` (doc/formats/fit.md), whole."""

    gpu: str
    fits: bool
    headline: str  # "FITS  batch 32 x 2 = 64 on RTX 4090: 8.3 of 23.6 GiB (worst case 9.3)"
    batch_size: int  # of one GPU's data loader; 0: no batch fits
    accumulation: int
    ranks: int
    effective_batch_size: int
    precision: str
    optimizer: str
    expected_bytes: int  # memory of the GPU at the peak
    worst_bytes: int
    usable_bytes: int
    notes: Tuple[str, ...]
    details: dict = field(repr=False)
    _words: tuple = field(repr=False, default=())
    _tapes: tuple = field(repr=False, default=(), compare=False)

    def __str__(self) -> str:
        return "\n".join([self.headline, *("- " + note for note in self.notes)])

    def _repr_html_(self) -> str:
        """A notebook's view: the memory over the step, as `batchfit explain --html` draws it."""
        with _Tapes(self._tapes) as tapes:
            page = os.path.join(tapes.folder, "memory.html")
            words = [*self._words, "--batch-size", str(max(1, self.batch_size)), "--html", page]
            done = _ask("explain", words, tapes.folder)
            if done.returncode not in RAN:
                raise Error(_reason(done), done.returncode)
            with open(page, encoding="utf-8") as f:
                text = f.read()
        quoted = text.replace("&", "&amp;").replace('"', "&quot;")
        return '<iframe srcdoc="%s" style="width:100%%;height:40em;border:0" sandbox="allow-scripts"></iframe>' % quoted


def fit(model: Any = None, sample_batch: Any = None, *, loss: Optional[Callable] = None, gpu: Optional[str] = None,
        optimizer: Any = "adamw", precision: Optional[str] = None, effective_batch_size: Optional[int] = None,
        checkpointing: Optional[bool] = None, **options: Any) -> Plan:
    """The largest batch with which a training of `model` fits `gpu`. Nothing is trained and no GPU is used.

    model: a torch.nn.Module, which stays as it is; or a name that `batchfit list models` or `list shapes` shows; or None with
        config="train.yaml".
    sample_batch: what the training gives the model in one step, of any batch size: a tensor, (input, target), or a dict of its
        arguments. A tensor whose first dimension is that of the first tensor grows with the batch. Only shapes and types count.
    loss: loss(output, target) or loss(output); without it the output's `.loss`, or cross entropy of (batch, classes).
    gpu: "rtx4090", "a100-80gb", ...; None: this machine's.
    optimizer: "sgd", "adam", "adamw", "adafactor", "lion", "adamw8bit", or an optimizer of torch.optim.
    precision: "fp32", "amp-fp16" and "amp-bf16" (autocast), "bf16" (the weights, too); None: the weights' own.
    effective_batch_size: kept exactly, by accumulation; None: no accumulation.
    options: further ones of `batchfit fit`: safety_margin=0.1, max_batch_size=64, ranks=8, seq_len=2048 (of a name), ...

    Returns a Plan, also if nothing fits (`fits` is False). Raises Error if the model cannot be recorded, or the program cannot
    answer; ValueError for a word that is none."""
    asked = {"config": options.pop("config", None), "gpu": gpu, "effective_batch_size": effective_batch_size, **options}
    if model is None or isinstance(model, str):
        if not (model or asked["config"]):
            raise ValueError("fit: a model, the name of one, or config=FILE")
        asked.update(model=model, optimizer=None if asked["config"] else optimizer, precision=precision, checkpointing=checkpointing)
        return _answer(_words(asked), ())
    knobs = _knobs(model, optimizer, precision, checkpointing)
    tapes = _record(model, sample_batch, loss, knobs, (1,) if effective_batch_size is None else (1, 2))
    asked.update(model=knobs["name"], optimizer=knobs["optimizer"], precision=knobs["precision"], checkpointing=checkpointing)
    return _answer(_words(asked), tapes)


# --- The model -----------------------------------------------------------------------------------

def _knobs(model, optimizer, precision, checkpointing):
    """The recorder's words (knobs.py) for what was asked."""
    knobs = {"name": "python:" + type(model).__name__, "checkpointing": checkpointing}
    if any(c.__name__ == "PreTrainedModel" and c.__module__.startswith("transformers.") for c in type(model).__mro__):
        knobs["script_defaults"] = "hf-trainer"
    if isinstance(optimizer, str):
        knobs["optimizer"] = optimizer
    else:
        knobs["optimizer"] = (optimizer if isinstance(optimizer, type) else type(optimizer)).__name__.lower()
        settings = getattr(optimizer, "defaults", {})
        knobs.update({k: settings[k] for k in ("momentum", "weight_decay", "nesterov", "foreach") if settings.get(k) is not None})
        knobs["fused_optimizer"] = settings.get("fused") or None
    kinds = {str(p.dtype) for p in model.parameters() if p.is_floating_point()}
    knobs["precision"] = precision or ("bf16" if kinds == {"torch.bfloat16"} else "fp32")
    if not precision and kinds - {"torch.float32", "torch.bfloat16"}:
        raise ValueError("fit: the weights are %s: say precision=" % ", ".join(sorted(kinds)))
    return knobs


def _twin(model):
    """A copy on the meta device: no weight is copied, and what is shared stays shared."""
    import copy

    import torch
    memo = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        twin = torch.empty_like(tensor, device="meta")
        if isinstance(tensor, torch.nn.Parameter):
            twin = torch.nn.Parameter(twin, requires_grad=tensor.requires_grad)
        memo[id(tensor)] = twin
        if tensor.grad is not None:
            memo[id(tensor.grad)] = None
    return copy.deepcopy(model, memo)


def _at(batch, sample, first):
    """The sample with another batch size, as shapes only."""
    import torch
    if isinstance(sample, torch.Tensor):
        shape = (batch, *sample.shape[1:]) if sample.dim() > 0 and sample.shape[0] == first else sample.shape
        return torch.empty(shape, dtype=sample.dtype, device="meta")
    if hasattr(sample, "items"):  # a dict, or what transformers' tokenizers return
        return {k: _at(batch, v, first) for k, v in sample.items()}
    if isinstance(sample, (list, tuple)):
        return tuple(_at(batch, v, first) for v in sample)
    return sample


def _first(sample):
    """The batch size of a sample: the first dimension of its first tensor."""
    if hasattr(sample, "dim"):
        return sample.shape[0] if sample.dim() > 0 else 0
    values = sample.values() if hasattr(sample, "items") else sample if isinstance(sample, (list, tuple)) else ()
    return next(filter(None, map(_first, values)), 0)


class _Randomness:
    """Inside, what draws random numbers leaves none changed."""

    def __enter__(self):
        import torch
        numpy = sys.modules.get("numpy.random")
        self.states = [(random.setstate, random.getstate()), (torch.set_rng_state, torch.get_rng_state())]
        if numpy is not None:
            self.states.append((numpy.set_state, numpy.get_state()))

    def __exit__(self, *why):
        for put, state in self.states:
            put(state)


def _unseen():
    """Under `batchfit run` the steps of a recording are none of the training's."""
    emitter = sys.modules.get("_batchfit_emit")  # python/hook/sitecustomize.py
    return emitter.paused() if hasattr(emitter, "paused") else contextlib.nullcontext()


def _record(model, sample, loss, knobs, accumulations):
    """((name, text of a tape), ...) of the model as it is, one for each number of micro-steps."""
    import torch

    from .errors import RecordError
    from .recorder import record
    first = _first(sample)
    if not isinstance(model, torch.nn.Module) or not first:
        raise ValueError("fit: a torch.nn.Module, and a sample batch with a tensor in it")
    if type(model).__name__ in ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"):
        raise ValueError("fit: give the model that %s wraps, and ranks=N" % type(model).__name__)
    model = getattr(model, "_orig_mod", model)  # of torch.compile

    def made():
        return _twin(model), loss, lambda batch: _at(batch, sample, first)

    tapes = []
    try:
        with _Randomness(), torch.enable_grad(), _unseen():
            for accumulation in accumulations:
                tapes.append(("%d.tape" % accumulation, record(made, dict(knobs, accumulation=accumulation))))
    except RecordError as why:
        raise Error("%s cannot be recorded: %s" % (type(model).__name__, why), why.status) from why
    return tuple(tapes)


# --- The program ---------------------------------------------------------------------------------

class _Tapes:
    """Inside, a folder with these tapes."""

    def __init__(self, tapes):
        self.tapes = tapes

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="batchfit-")
        for name, text in self.tapes:
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
                f.write(text)
        return self

    def __exit__(self, *why):
        shutil.rmtree(self.folder, ignore_errors=True)


def program() -> str:
    """The path of the program: BATCHFIT, beside this Python, in the user's own folder, or in PATH. Raises Error."""
    places = [os.environ.get("BATCHFIT"), os.path.join(sysconfig.get_path("scripts"), "batchfit"),
              os.path.join(site.getuserbase(), "bin", "batchfit"), shutil.which("batchfit")]
    for path in filter(None, places):
        if os.access(path, os.X_OK):
            return path
    raise Error("the program batchfit is not here: pip install batchfit, or BATCHFIT=/path/of/batchfit", 4)


def _ask(verb, words, folder):
    env = dict(os.environ, LC_ALL="C.UTF-8")
    if folder:
        env["BATCHFIT_TAPES"] = folder
    return subprocess.run([program(), verb, *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")


def _reason(done):
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return "\n".join(lines) or "batchfit ended with status %d and said nothing" % done.returncode


def _words(asked):
    """Options of the program: {"max_batch_size": 64} -> --max-batch-size=64; True is a switch; None and False are not said."""
    words = []
    for name, value in asked.items():
        if value is not None and value is not False:
            option = "--" + name.replace("_", "-")
            words.append(option if value is True else "%s=%s" % (option, os.fspath(value) if hasattr(value, "__fspath__") else value))
    return tuple(words)


def _answer(words, tapes):
    with _Tapes(tapes) as there:
        done = _ask("fit", [*words, "--test-only", "--json"], there.folder if tapes else None)
    if done.returncode not in RAN:
        raise Error(_reason(done), done.returncode)
    document = json.loads(done.stdout)
    found, fits = document["results"][0], done.returncode == 0
    plan, memory = found["plan"], found["memory"]
    return Plan(
        gpu=found["gpu"]["name"], fits=fits, headline=found["headline"], batch_size=plan["batch_size"] if fits else 0,
        accumulation=plan["gradient_accumulation_steps"], ranks=plan["ranks"], effective_batch_size=plan["effective_batch_size"],
        precision=plan["precision"], optimizer=plan["optimizer"], expected_bytes=memory["expected_bytes"],
        worst_bytes=memory["worst_bytes"], usable_bytes=memory["usable_bytes"], notes=tuple(found["notes"] + document["notes"]),
        details=document,
        _words=tuple(w for w in words if not w.startswith("--effective-batch-size=")), _tapes=tapes)
