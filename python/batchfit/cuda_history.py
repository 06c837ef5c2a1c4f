# SPDX-License-Identifier: Apache-2.0
"""record --device cuda: two real training steps on this machine's GPU, and a tape from the allocator's own history.

The script is the recorder's (script.py) with real tensors, so the tape holds the real work spaces of cuBLAS and cuDNN and the
real kernels' temporaries. Each batch runs in a process of its own (python3 -m batchfit.cuda_history), because work spaces and
cuDNN's choices outlive a recording. What the history's entries mean is in cuda_trace.py; torch 1.x keeps none.
"""

import inspect
import json
import os
import subprocess
import sys
import tempfile
import time

import torch

from . import build, cuda_trace, prepare, sources, tape
from .errors import MissingLibrary, NoDevice, NotAffine, RecordError
from .events import storage_of
from .knobs import Knobs
from .script import Script

MAX_ENTRIES = 1 << 22
BATCHES = ((2, 4, 8), (4, 8, 16), (8, 16, 32))
# below 2**16, from which the first steps overflow and GradScaler leaves out the optimizer
INIT_SCALE = 16.0


class History:
    """The allocator's history on the current CUDA device."""

    def __init__(self):
        self._record = torch.cuda.memory._record_memory_history
        self._names = inspect.signature(self._record).parameters
        self.device = torch.cuda.current_device()

    def start(self):
        """From now on every allocation is kept, without stack traces."""
        if "max_entries" in self._names:  # torch 2.1 on
            self._record(enabled="all", context=None, stacks="python", max_entries=MAX_ENTRIES)
        elif "trace_alloc_max_entries" in self._names:  # 2.0
            self._record(True, record_context=False, trace_alloc_max_entries=MAX_ENTRIES, trace_alloc_record_context=False)
        else:
            raise MissingLibrary("torch %s records no allocation history; --device cuda needs torch 2.0 or newer, "
                                 "--device meta does not" % torch.__version__)

    def entries(self):
        """[(action, address, bytes, stream, pool)] since the start."""
        traces = torch.cuda.memory._snapshot().get("device_traces") or []
        trace = traces[self.device] if self.device < len(traces) else []
        return [(e["action"], e.get("addr", 0), e.get("size", 0), e.get("stream", 0), tuple(e.get("pool_id") or (0, 0)))
                for e in trace]

    def figures(self):
        """What torch itself says of this process: peaks in bytes, and retries."""
        stats = torch.cuda.memory_stats()
        return {"allocated": stats["allocated_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"],
                "retries": stats["num_alloc_retries"]}


class _Marks:
    """Takes the place of events.Log: where in the history the phases begin, and which address is what."""

    def __init__(self, history):
        self.history, self.marks, self.labels, self.stream = history, [], {}, 0

    def mark(self, kind, step=0, micro=0):
        """Phase `kind` begins; the labels noted so far are of blocks that are live now."""
        self.marks.append((len(self.history.entries()), kind, step, micro, self.labels))
        self.labels = {}

    def note(self, tensor, op="-", module="-", tag=None):
        """The tensor's storage is a `tag` of the module, if it is on the device."""
        if tensor.device.type == build.DEVICE and storage_of(tensor).nbytes():
            self.labels[storage_of(tensor).data_ptr()] = (tag or "other", op, module)

    def retag(self, tensor, tag):
        self.note(tensor, tag=tag)

    def poll(self):
        pass


class _Nothing:
    """Takes the place of dispatch.Recorder and its modules: nothing needs watching."""

    work = None

    def __init__(self, log=None):
        self.log = log
        self.modules = _Nothing() if log is not None else None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False

    def forget(self):
        pass


class _RealScaler:
    """GradScaler with the two calls that Script makes."""

    def __init__(self, optimizer):
        make = getattr(torch.amp, "GradScaler", None)
        self.scaler = make("cuda", init_scale=INIT_SCALE) if make else torch.cuda.amp.GradScaler(init_scale=INIT_SCALE)
        self.optimizer, self.scale = optimizer, self.scaler.scale

    def unscale(self, model):
        self.scaler.unscale_(self.optimizer)

    def step(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()


def _tensors(value):
    """All tensors in nested containers."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from _tensors(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors(v)


class RealScript(Script):
    """The same script on a device with real memory."""

    def run(self):
        """The whole recording; the last mark ends it."""
        super().run()
        self._label()
        self.log.mark(None)

    def _mark(self, kind, step=0, micro=0):
        self._label()
        self.log.mark(kind, step, micro)

    def _label(self):
        """Names what the phase that ends has left behind."""
        for tensor in _tensors([self.inputs, self.loader]):
            self.log.note(tensor, tag="input")
        for state in self.optimizer.state.values() if getattr(self, "optimizer", None) else ():
            for tensor in _tensors(state):
                self.log.note(tensor, tag="optimizer")

    def _start_work(self, step):
        pass

    def _finish_work(self):
        pass

    def _init(self):
        self.job.model.to(build.DEVICE)
        torch.backends.cudnn.benchmark = bool(self.knobs.cudnn_benchmark)
        super()._init()

    def _make_optimizer(self):
        if self.knobs.fused_optimizer and self.knobs.optimizer in ("sgd", "adam", "adamw"):
            made = super()._make_optimizer()
            cls = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[self.knobs.optimizer]
            extra = dict(momentum=self.knobs.momentum, nesterov=bool(self.knobs.nesterov and self.knobs.momentum)) if cls is torch.optim.SGD else {}
            return cls([{"params": g["params"], "weight_decay": g.get("weight_decay", 0.0)} for g in made.param_groups],
                       lr=1e-3, fused=True, **extra)
        return super()._make_optimizer()

    def _make_scaler(self):
        return _RealScaler(self.optimizer)

    def _update(self):
        if self.scaler:
            self.scaler.step()
        else:
            self.optimizer.step()

    def _prefetched(self):
        if not torch.cuda.is_available():
            return super()._prefetched()
        self.side = getattr(self, "side", None) or torch.cuda.Stream()
        with torch.cuda.stream(self.side):
            made = self.job.prefetched(self.batch)
        torch.cuda.current_stream().wait_stream(self.side)
        return made


def trace(source, said, batch, history, device="cuda"):
    """One recording in this process: {"entries", "marks", "header", "figures"}, all plain data.

    history: a History; the model is built on the CPU after it was started. said: knobs as for recorder.record.
    """
    build.DEVICE = device
    history.start()
    knobs = Knobs(sources.split(source)[0], torch.__version__, said)
    job = prepare.load(source, knobs)
    script = RealScript(knobs, job, batch, _Nothing(_Marks(history)))
    script.run()
    marks = script.log.marks
    return {"entries": history.entries()[:marks[-1][0]], "marks": marks, "figures": history.figures(),
            "header": prepare.header(source, knobs, job, [batch], 0.0)}


def _check_device():
    if torch.cuda.is_available():
        return
    if not torch.backends.cuda.is_built():
        raise NoDevice("no GPU: torch %s was built without CUDA; record without --device cuda, or on a machine with a GPU"
                       % torch.__version__)
    raise NoDevice("no GPU: torch %s sees no CUDA device (no driver, no GPU, or CUDA_VISIBLE_DEVICES is empty); record "
                   "without --device cuda, or on a machine with a GPU" % torch.__version__)


def _child(order):
    """The answer to one order {"source", "said", "batch"}."""
    try:
        _check_device()
        torch.cuda.init()
        answer = trace(order["source"], order["said"], order["batch"], History())
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        answer["header"]["recorded_on"] = {"device": properties.name, "cuda": torch.version.cuda or torch.version.hip,
                                           "cudnn": torch.backends.cudnn.version()}
        return answer
    except RecordError as why:
        return {"error": str(why), "status": why.status}
    except torch.cuda.OutOfMemoryError:
        return {"error": "the GPU is too small for batch %d while recording; choose smaller --batches" % order["batch"],
                "status": 3}


def _ask(source, said, batch):
    """One recording in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="batchfit-") as folder:
        path = os.path.join(folder, "trace.json")
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        start = os.path.join(package, "start.py")
        done = subprocess.run([sys.executable, start, "batchfit.cuda_history", path], text=True,
                              input=json.dumps({"source": source, "said": said, "batch": batch}), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
        if not os.path.exists(path):
            last = (done.stderr.strip().split("\n") or [""])[-1][:200]
            raise RecordError("recording batch %d on the GPU failed: %s" % (batch, last or "status %d" % done.returncode))
        with open(path, encoding="utf-8") as f:
            answer = json.load(f)
    if "error" in answer:
        raised = {4: NoDevice}.get(answer["status"], RecordError)
        raise raised(answer["error"])
    return answer


def recording(answer):
    """The event list of one answer of trace(), also after JSON."""
    if answer["figures"].get("retries"):
        raise RecordError("the GPU was too full: the allocator had to empty its cache and retry; choose smaller "
                          "--batches, or free the GPU")
    marks = [(at, kind, step, micro, {int(a): tuple(label) for a, label in labels.items()})
             for at, kind, step, micro, labels in answer["marks"]]
    return cuda_trace.events(answer["entries"], marks)


def document(batches, answers, seconds):
    """The tape's text from one answer of trace() per batch. Raises NotAffine."""
    recordings, notes = cuda_trace.agree(batches, [recording(a) for a in answers])
    body = tape.lines(batches, recordings)
    head = dict(answers[0]["header"], batches=list(batches), seconds=round(seconds, 1))
    head.update(notes, measured={key: [a["figures"].get(key) for a in answers] for key in ("allocated", "reserved")})
    return tape.document(head, body)


def record(source, said, say):
    """The tape of real steps on this machine's GPU. Raises RecordError, NoDevice."""
    _check_device()
    started, known = time.time(), {}
    said = {k: v for k, v in said.items() if v is not None}
    if said.pop("classes_derivative", False):
        raise RecordError("--classes-derivative is for --device meta")
    wanted = said.pop("batches", None)
    first = None
    for chosen in [tuple(wanted)] if wanted else BATCHES:
        for batch in chosen:
            if batch not in known:
                known[batch] = _ask(source, said, batch)
                say("batch %d: %d entries of the allocator's history" % (batch, len(known[batch]["entries"])))
        try:
            return document(chosen, [known[b] for b in chosen], time.time() - started)
        except NotAffine as why:
            first = first or why
            say("batches %s: %s" % (",".join(map(str, chosen)), why))
    raise first


def main():
    """The process of one batch: an order on stdin, the answer in the file argv[1]."""
    answer = _child(json.load(sys.stdin))
    with open(sys.argv[1] + ".part", "w", encoding="utf-8") as f:
        json.dump(answer, f)
    os.replace(sys.argv[1] + ".part", sys.argv[1])


if __name__ == "__main__":
    main()
