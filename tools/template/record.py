# SPDX-License-Identifier: Apache-2.0
"""Recordings of a variant at given values, by batchfit's own recorder in this process, and the template's text."""

import json
import tempfile
import warnings

import torch

from batchfit import composites, host, prepare, sources, tape
from batchfit.events import HOST
from batchfit.knobs import Knobs
from batchfit.recorder import recorded

from . import dims, make


def log(variant, value):
    """(log, header) of the variant at the values of all dimensions."""
    composites.install()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        source = ("titan:" if variant.is_titan else "hf:") + variant.write_config(folder, value)
        knobs = Knobs(sources.split(source)[0], torch.__version__, variant.knobs(value))
        job = prepare.load(source, knobs)
        done = recorded(job, knobs, value["B"])
        return done, prepare.header(source, knobs, job, [value["B"]], 0)


def direct(variant, value):
    """The event lines of a recording at these values, without work; of the host's "h MOST PINNED" in their stead."""
    events = [e for e in log(variant, value)[0].events if e[0] != "o"]
    memory, on_host = host.counted(events), {e[1] for e in events if e[0] == "a" and e[3] in HOST}
    events = [e for e in events if e[0] not in "af" or e[1] not in on_host]
    return tape.lines([value["B"]], [events]) + ["h %d %d" % (memory.most, memory.pinned)] * bool(on_host)


LATER = (0, 1, 3)  # layers more, where numbers that have nothing to do with each other are equal


def _body(variant, d):
    """(lines, header) of the first layer counts that show where the layers are."""
    for more in LATER:
        logs, header = {}, None
        for layers in variant.layers:
            logs[layers + more], header = log(variant, dict(d.value, L=layers + more))
        try:
            return make.body(logs, d), header
        except make.NotATemplate:
            if more == LATER[-1]:
                raise


def template(variant):
    """The text of the variant's template."""
    d = variant.dims(dims.first)
    lines, header = _body(variant, d)
    if "classes" in header:
        header["classes"] = dims.CLASSES
    for key in ("batches", "sequence_length", "target_length", "parameters", "seconds", "unknown_values", "loss_tokens", "loss_parts"):
        header.pop(key, None)
    header.update(tape=2, model="hf:" + variant.family, name=variant.name,
                  dims={dims.NAMES[k]: bound for k, bound in variant.bounds.items() if k in variant.letters})
    return json.dumps(header, separators=(",", ":")) + "\n" + "\n".join(lines) + "\n"
