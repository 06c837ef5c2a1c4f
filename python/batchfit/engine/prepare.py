# SPDX-License-Identifier: Apache-2.0
"""What all engines are given alike, made once in a folder: inputs, the reference's outputs, weights, ONNX files.

The reference is torch in fp32 on the CPU; of an ONNX file without a model, onnxruntime's CPU in fp32, else the plain evaluator
of the onnx package. What cannot be made is written down with its reason: the engines that need it say so, the others run."""

import json
import os
import shutil
import warnings

from ..errors import MissingLibrary, RecordError, UsageError
from . import onnx_file
from .errors import NotInstalled, Unavailable, need
from .onnx_engine import half_file

COMPARED = 8  # samples of the reference; a larger batch repeats them
ONNX_ENGINES = ("onnxruntime", "onnxruntime-tensorrt", "trtexec")
OPSET = 17  # the newest of torch 1.13; TensorRT 8.6 reads it


def _numpy():
    try:
        import numpy
    except ImportError as why:
        raise MissingLibrary("cannot import numpy (%s); install it with: pip install numpy" % why)
    return numpy


class Prepared:
    """The folder, read."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "prepared.json"), encoding="utf-8") as file:
            said = json.load(file)
        self.names, self.reference, self.files = said["names"], said["reference"], said["onnx"]
        self.outputs, self.has_open_axes, self.fixed_batch = said["outputs"], said["has_open_axes"], said["fixed_batch"]

    def path(self, name):
        """Of a file in it."""
        return os.path.join(self.folder, name)

    def arrays(self, batch):
        """Inputs of `batch` samples."""
        numpy = _numpy()
        with numpy.load(self.path("inputs.npz")) as kept:
            arrays = [kept["a%d" % i] for i in range(len(self.names))]
        return [numpy.ascontiguousarray(numpy.take(a, numpy.arange(batch) % len(a), axis=0)) for a in arrays]

    def wanted(self):
        """Outputs of the reference."""
        with _numpy().load(self.path("reference.npz")) as kept:
            return [kept["a%d" % i] for i in range(len(kept.files))]

    def onnx(self, precision):
        """The ONNX file; raises why there is none."""
        found = self.files.get(precision, {"status": 5, "why": "the ONNX file was not written"})
        if "path" in found:
            return found["path"]
        kinds = {kind.status: kind for kind in (RecordError, Unavailable, NotInstalled)}
        raise kinds.get(found["status"], RecordError)(found["why"])


def _keep(folder, name, arrays):
    _numpy().savez(os.path.join(folder, name), **{"a%d" % i: a for i, a in enumerate(arrays)})


def _attempt(make, path):
    """{"path"}, or why not: an engine less is no reason to measure none."""
    try:
        make(path)
        return {"path": path}
    except RecordError as why:
        return {"status": why.status, "why": str(why)}
    except Exception as why:
        line = " ".join(str(why).split())[:300]
        return {"status": 3, "why": "cannot export an ONNX file: %s: %s" % (type(why).__name__, line)}


# ---- from a model --------------------------------------------------------------------------------------------------

def _export(module, names, tensors, path):
    """By TorchScript, which every torch has so far; by torch.export where that fails and onnxscript is there."""
    import torch
    axes = {name: {0: "batch"} for name in names + ["output"]}
    common = {"input_names": names, "output_names": ["output"]}
    if hasattr(torch, "compile"):  # torch 1.13 writes the file without it
        need("onnx", "onnx")
    script = {"dynamo": False} if "dynamo" in torch.onnx.export.__code__.co_varnames else {}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(module, tuple(tensors), path, dynamic_axes=axes, opset_version=OPSET, **common, **script)
        except Exception as first:
            if not script:
                raise
            need("onnxscript", "onnx onnxscript")
            batch = torch.export.Dim("batch")
            try:
                torch.onnx.export(module, tuple(tensors), path, dynamo=True, dynamic_shapes=(tuple({0: batch} for _ in tensors),),
                                  **common)
            except Exception:
                raise first from None


def _from_model(options):
    numpy = _numpy()
    from . import torch_engine
    module, names, tensors = torch_engine.check_model(options)
    torch = torch_engine.import_torch()
    if options.weights:
        torch_engine.load_weights(module, options.weights)
    else:
        torch_engine.settle(module, tensors)
    with torch.no_grad():
        output = module(*tensors)
    if not isinstance(output, torch.Tensor):
        raise RecordError("the model's first output is not a tensor but %s" % type(output).__name__)
    torch.save(module.state_dict(), os.path.join(options.folder, "weights.pt"))
    arrays = [numpy.ascontiguousarray(t.numpy()) for t in tensors]
    _keep(options.folder, "inputs.npz", arrays)
    _keep(options.folder, "reference.npz", [output.numpy()])
    said = {"names": names, "outputs": ["output"], "reference": "torch %s, fp32, CPU" % torch.__version__, "onnx": {},
            "has_open_axes": True, "fixed_batch": None}
    if options.onnx:
        inputs, said["outputs"] = _matching(options.onnx, names, arrays)
        return said, inputs
    if any(e in ONNX_ENGINES for e in options.engines):
        said["onnx"]["fp32"] = _attempt(lambda path: _export(module, names, tensors, path),
                                        os.path.join(options.folder, "model.onnx"))
    return said, None


def _matching(path, names, arrays):
    """The inputs of a file that is compared with a model: they must be the model's."""
    inputs, outputs = onnx_file.read(path)
    if len(inputs) != len(arrays):
        raise RecordError("%s has %d inputs, the model has %d" % (path, len(inputs), len(arrays)))
    for one, array in zip(inputs, arrays):
        if len(one.shape) != array.ndim or any(isinstance(n, int) and n != m for n, m in zip(one.shape[1:], array.shape[1:])):
            raise RecordError("%s: its input %r is %s, the model's is %s" % (
                path, one.name, _shape_words(one.shape), _shape_words(array.shape)))
    names[:] = [one.name for one in inputs]
    return inputs, outputs


# ---- from an ONNX file ---------------------------------------------------------------------------------------------

def _shape_words(shape):
    return "x".join(str(n) if n != "" else "?" for n in shape)


def _size(path, one, axis, options):
    size = one.shape[axis]
    if isinstance(size, int):
        return size
    option, said = ("--img-size", options.img_size) if len(one.shape) == 4 else ("--seq-len", options.seq_len)
    if len(one.shape) == 4 and axis == 1:
        return 3
    if not said:
        raise UsageError("%s: its input %r is %s: set the open axis with %s" % (
            path, one.name, _shape_words(one.shape), option))
    return said


def _from_file(options):
    path = options.onnx
    inputs, outputs = onnx_file.read(path)
    numpy = _numpy()
    random, arrays = numpy.random.default_rng(options.seed), []
    fixed = next((i.shape[0] for i in inputs if i.shape and isinstance(i.shape[0], int)), None)
    for one in inputs:
        shape = [fixed or options.compared] + [_size(path, one, axis, options) for axis in range(1, len(one.shape))]
        shape = shape if one.shape else []
        if one.dtype.startswith("float"):
            arrays.append(random.standard_normal(shape).astype(one.dtype))
        else:  # valid as a token, a class and a mask
            arrays.append(random.integers(0, 2, shape).astype(one.dtype))
    _keep(options.folder, "inputs.npz", arrays)
    said = {"names": [i.name for i in inputs], "outputs": outputs, "reference": None, "onnx": {}}
    for name, run in (("onnxruntime", _run_onnxruntime), ("onnx", _run_evaluator)):
        try:
            found = run(path, dict(zip(said["names"], arrays)))
        except NotInstalled:
            continue
        _keep(options.folder, "reference.npz", found)
        said["reference"] = "%s, fp32, CPU" % name
        break
    return said, inputs


def _run_onnxruntime(path, feeds):
    ort = need("onnxruntime", "onnxruntime")
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    try:
        return ort.InferenceSession(path, settings, providers=["CPUExecutionProvider"]).run(None, feeds)
    except Exception as why:
        raise RecordError("onnxruntime cannot run %s: %s" % (path, " ".join(str(why).split())[:300]))


def _run_evaluator(path, feeds):
    reference = need("onnx.reference", "onnx")
    return reference.ReferenceEvaluator(path).run(None, feeds)


def _keep_files(folder, files):
    """What the engines run stays behind: model.onnx, model-fp16.onnx, with the weights that lie beside."""
    os.makedirs(folder, exist_ok=True)
    for file in files.values():
        path = file.get("path")
        for each in (path, path + ".data") if path else ():
            if os.path.isfile(each):
                shutil.copy2(each, folder)


def prepare(options):
    """Fills options.folder."""
    options.compared = COMPARED
    from_file = options.onnx is not None and options.model is None
    said, inputs = _from_file(options) if from_file else _from_model(options)
    if inputs is not None:
        said["onnx"]["fp32"] = {"path": os.path.abspath(options.onnx)}
        said["has_open_axes"] = any(not isinstance(n, int) for i in inputs for n in i.shape)
        said["fixed_batch"] = next((i.shape[0] for i in inputs if i.shape and isinstance(i.shape[0], int)), None)
    wants_half = "fp16" in options.precisions and "onnxruntime" in options.engines
    if wants_half and "fp32" in said["onnx"]:
        whole = said["onnx"]["fp32"]
        said["onnx"]["fp16"] = whole if "path" not in whole else _attempt(
            lambda path: half_file(whole["path"], path), os.path.join(options.folder, "model-fp16.onnx"))
    if options.keep:
        _keep_files(options.keep, said["onnx"])
    with open(os.path.join(options.folder, "prepared.json"), "w", encoding="utf-8") as file:
        json.dump(said, file)
