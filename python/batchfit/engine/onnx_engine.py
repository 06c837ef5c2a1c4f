# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime, by the provider of the device or by TensorRT's; and the half-precision twin of an ONNX file."""

import os

from ..errors import RecordError
from .errors import NotInstalled, Unavailable, need

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
TENSORRT = "TensorrtExecutionProvider"


def half_file(source, path):
    """Writes the file with fp16 inside and its inputs and outputs as they are."""
    try:
        onnx = need("onnx", "onnx")
    except NotInstalled as why:  # the engine is there, and its fp32 runs
        raise Unavailable("converting an ONNX file to fp16 needs onnx: %s" % why)
    try:
        from onnxruntime.transformers.float16 import convert_float_to_float16
    except ImportError:
        convert_float_to_float16 = need("onnxconverter_common.float16", "onnxconverter-common").convert_float_to_float16
    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), path)


def _provider_options(name):
    cap = int(os.environ.get("BATCHFIT_MEMORY_CAP") or 0)
    if name == PROVIDERS["cuda"] and cap > 0:
        return {"gpu_mem_limit": str(cap), "arena_extend_strategy": "kSameAsRequested"}
    return {}


class OnnxRuntime:
    """An engine, as torch_engine.Torch. Inputs and outputs stay on the device: what is timed is the model."""

    framework = "onnxruntime"
    tensorrt = False

    def __init__(self, options, prepared, arrays):
        self.ort = need("onnxruntime", "onnxruntime-gpu" if options.device == "cuda" else "onnxruntime")
        self.version, self.device = self.ort.__version__, options.device
        half = options.precision == "fp16" and not self.tensorrt
        if options.precision not in ("fp32", "fp16"):
            raise Unavailable("%s has fp32 and fp16, not %s" % (options.engine, options.precision))
        self.session = self._session(prepared.onnx("fp16" if half else "fp32"), options)
        self.binding = self.session.io_binding()
        self._bind(arrays, prepared)

    def _wanted(self, options):
        if self.tensorrt:
            settings = {"trt_fp16_enable": options.precision == "fp16"}
            if options.keep:
                settings.update(trt_engine_cache_enable=True, trt_engine_cache_path=os.path.abspath(options.keep))
            return [(TENSORRT, settings), PROVIDERS["cuda"]] if self.device == "cuda" else [TENSORRT]
        name = PROVIDERS[self.device]
        return [(name, _provider_options(name))]

    def _session(self, path, options):
        wanted = self._wanted(options)
        name = wanted[0] if isinstance(wanted[0], str) else wanted[0][0]
        if name not in self.ort.get_available_providers():
            raise NotInstalled("onnxruntime %s has no %s: %s" % (
                self.version, name, "pip install onnxruntime-gpu" if self.device == "cuda" else "it needs a GPU (--device cuda)"))
        settings = self.ort.SessionOptions()
        threads = os.environ.get("OMP_NUM_THREADS", "")
        if threads.isdigit() and int(threads) > 0:  # as PyTorch obeys it
            settings.intra_op_num_threads = int(threads)
        settings.log_severity_level = 3
        try:
            session = self.ort.InferenceSession(path, settings, providers=wanted)
        except Exception as why:
            if type(why).__name__ in ("InvalidProtobuf", "InvalidGraph", "InvalidArgument", "NotImplemented", "Fail"):
                raise RecordError("onnxruntime cannot load %s: %s" % (path, " ".join(str(why).split())[:300]))
            raise
        if session.get_providers()[0] != name:  # it falls back to the CPU without a word
            raise Unavailable("onnxruntime's %s cannot start on this machine; it would run %s" % (
                name, session.get_providers()[0]))
        return session

    def _bind(self, arrays, prepared):
        for wanted in self.session.get_inputs():
            if wanted.name not in prepared.names:
                raise RecordError("%s has an input %r that batchfit cannot fill" % (prepared.onnx("fp32"), wanted.name))
            array = arrays[prepared.names.index(wanted.name)]
            fixed = wanted.shape[0] if wanted.shape else None
            if isinstance(fixed, int) and fixed != len(array):
                raise RecordError("%s has a fixed batch of %d: --batch-sizes %d" % (prepared.onnx("fp32"), fixed, fixed))
            self.binding.bind_ortvalue_input(wanted.name, self.ort.OrtValue.ortvalue_from_numpy(array, self.device, 0))
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name, self.device)

    def run(self):
        """One batch, to its end."""
        self.session.run_with_iobinding(self.binding)
        if self.device == "cuda":
            self.binding.synchronize_outputs()

    def first(self):
        """Outputs of the batch as arrays."""
        self.run()
        return self.binding.copy_outputs_to_cpu()

    def memory(self):
        """ONNX Runtime does not say it: the driver does."""
        return {}


class TensorRT(OnnxRuntime):
    """ONNX Runtime's TensorRT provider; what TensorRT cannot do runs on its CUDA provider."""

    tensorrt = True
