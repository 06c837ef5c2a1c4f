# SPDX-License-Identifier: Apache-2.0
"""TensorRT's trtexec: builds an engine of the ONNX file, runs it, and says what it took.

Options and what it prints: samples/common of TensorRT 8.6 and 10.x (sampleOptions.cpp, sampleReporting.cpp). A batch's time
is its GPU compute time, without the copies, as the other engines are timed: from --exportTimes each by itself, else the mean
of the summary that it prints."""

import json
import os
import re
import shutil
import subprocess

from ..errors import RecordError
from .errors import NotInstalled, Unavailable, is_out_of_memory

FLAGS = {"fp32": [], "fp16": ["--fp16"], "bf16": ["--bf16"]}
SUMMARY = ("Throughput", "Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "D2H Latency")
_LINE = re.compile(r"^(?:\[[^\]]*\] )?\[(\w)\] (.*)$")
_FIGURE = re.compile(r"(\w+(?:\(\d+%\))?)\s*=?\s+([0-9.]+(?:e[+-]?\d+)?) ?m?s?")

# How C++ prints what is not finite, which JSON has no word for and Python's reader has these.
_NOT_FINITE = re.compile(r"(?<=[ \[,])-?(?:nan|inf)(?=[ ,\]])")
_JSON = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class Summary:
    """What trtexec printed.

    version   "10.2.0", or None
    figures   {"Throughput": {"qps": 130.3}, "Latency": {"min": ..., "mean": ..., "median": ..., "percentile(99%)": ...}, ...}
    errors    texts of its [E] lines
    passed    did it say so? None: it did not come to its end
    """

    def __init__(self, text):
        self.version, self.figures, self.errors, self.passed = None, {}, [], None
        self.is_standin = False
        for line in text.splitlines():
            self._take(line.strip())

    def _take(self, line):
        if line.startswith("&&&& "):
            self._take_state(line)
        found = _LINE.match(line)
        level, text = found.groups() if found else ("I", line)
        if level == "E":
            self.errors.append(text)
        name, colon, rest = text.partition(":")
        if colon and name == "Throughput":
            qps = re.search(r"([0-9.]+(?:e[+-]?\d+)?) qps", rest)
            self.figures[name] = {"qps": float(qps.group(1))} if qps else {}
        elif colon and name in SUMMARY:
            self.figures[name] = {key: float(value) for key, value in _FIGURE.findall(rest)}

    def _take_state(self, line):
        number = re.search(r"\[TensorRT v(\d+)\]", line)
        self.is_standin = self.is_standin or "# a fake of trtexec" in line
        if number:
            self.version = _version(int(number.group(1)))
        if line.startswith(("&&&& PASSED", "&&&& FAILED")):
            self.passed = line.startswith("&&&& PASSED")


def _version(number):
    """NV_TENSORRT_VERSION: 8601 is 8.6.1, 100200 is 10.2.0 (from version 10 on two digits each)."""
    if number < 10000:
        return "%d.%d.%d" % (number // 1000, number // 100 % 10, number % 100)
    return "%d.%d.%d" % (number // 10000, number // 100 % 100, number % 100)


def read_times(path):
    """Compute times in ms of --exportTimes; empty where there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
    except (OSError, ValueError):
        return []
    times = [e.get("computeMs") for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    return [float(t) for t in times if isinstance(t, (int, float)) and t > 0]


def read_outputs(path, names):
    """Arrays of --exportOutput, in the order of the names: trtexec writes them in any."""
    import numpy
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.loads(_NOT_FINITE.sub(lambda m: _JSON[m.group(0)], file.read()))
        found = {e["name"]: numpy.array(e["values"], dtype=numpy.float64).reshape(
            [int(n) for n in str(e["dimensions"]).split("x") if n]) for e in entries}
        return [found[name] for name in (names if set(names) == set(found) else found)]
    except (OSError, ValueError, KeyError, TypeError) as why:
        raise RecordError("cannot read what trtexec wrote with --exportOutput: %s" % why)


def find_program(name):
    """The path of trtexec."""
    path = shutil.which(name or "trtexec")
    if path is None:
        raise NotInstalled("trtexec is not installed: it comes with TensorRT; put it into PATH, or name it with --trtexec PROGRAM")
    return path


class TrtExec:
    """An engine that runs as a program of its own, once for all its batches."""

    framework = "trtexec"

    def __init__(self, options, prepared, arrays):
        self.program = find_program(options.trtexec)
        if options.precision not in FLAGS:
            raise Unavailable("trtexec has fp32, fp16 and bf16, not %s" % options.precision)
        self.folder = os.environ.get("BATCHFIT_SCRATCH") or prepared.folder
        self.device, self.steps, self.outputs = "cuda:0", options.steps, prepared.outputs
        self.summary = self._run(self._argv(options, prepared, arrays))
        self.version = self.summary.version
        if self.summary.is_standin:
            self.framework = "standin"

    def _file(self, name):
        return os.path.join(self.folder, name)

    def _argv(self, options, prepared, arrays):
        argv = [self.program, "--onnx=" + prepared.onnx("fp32"), "--exportTimes=" + self._file("times.json"),
                "--exportOutput=" + self._file("outputs.json"), "--iterations=%d" % self.steps, "--duration=0",
                "--warmUp=200", "--avgRuns=1"] + FLAGS[options.precision]
        if options.keep:
            os.makedirs(options.keep, exist_ok=True)
            argv.append("--saveEngine=" + os.path.join(options.keep, "trtexec-%s-batch%d.engine" % (options.precision, len(arrays[0]))))
        loads = []
        for number, (name, array) in enumerate(zip(prepared.names, arrays)):
            array.tofile(self._file("input%d.bin" % number))
            loads.append("%s:%s" % (name, self._file("input%d.bin" % number)))
        argv.append("--loadInputs=" + ",".join(loads))
        shapes = ["%s:%s" % (name, "x".join(map(str, a.shape))) for name, a in zip(prepared.names, arrays) if a.ndim]
        if prepared.has_open_axes:
            argv.append("--shapes=" + ",".join(shapes))
        elif prepared.fixed_batch and prepared.fixed_batch != len(arrays[0]):
            raise RecordError("%s has a fixed batch of %d: --batch-sizes %d" % (
                prepared.onnx("fp32"), prepared.fixed_batch, prepared.fixed_batch))
        return argv

    def _run(self, argv):
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
        text = done.stdout.decode("utf-8", "replace")
        summary = Summary(text)
        if done.returncode == 0 and summary.passed is not False:
            return summary
        print(text[-8000:])
        why = summary.errors[0] if summary.errors else "exit status %d" % done.returncode
        memory = [e for e in summary.errors if is_out_of_memory(e)]
        if memory:
            raise MemoryError("trtexec: " + memory[0])
        raise Unavailable("trtexec failed: %s" % why[:300])

    def first(self):
        """Outputs of the batch as arrays."""
        return read_outputs(self._file("outputs.json"), self.outputs)

    def times(self, count):
        """ms of each batch, or the mean once where there are none for each."""
        each = read_times(self._file("times.json"))
        mean = self.summary.figures.get("GPU Compute Time", {}).get("mean")
        if not each and not mean:
            raise RecordError("trtexec printed no readable GPU compute time")
        return each[-count:] if each else [mean]

    def memory(self):
        """The driver says it."""
        return {}
