# SPDX-License-Identifier: Apache-2.0
"""What the lines say (doc/formats/steps.md): dictionaries in, bytes of one line out."""

import json
import os
import sys
import time

from .transport import LINE_BYTES

TIMES = ("io_ms", "h2d_ms", "forward_ms", "backward_ms", "optimizer_ms", "other_ms")  # by machine.Phase
TEXT_BYTES = 2000
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def cut_text(text, limit=TEXT_BYTES):
    """The first bytes of a text, whole characters."""
    return str(text).encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def encode_line(event):
    """One line without its end, short enough to be written at once; None where it cannot be."""
    line = _encode(event).encode("utf-8", "replace")
    if len(line) < LINE_BYTES:
        return line
    event = dict(event)
    for name in ("message", "error", "program"):
        if name in event:
            event[name] = cut_text(event[name], TEXT_BYTES // 6)  # a control character takes six bytes
    line = _encode(event).encode("utf-8", "replace")
    return line if len(line) < LINE_BYTES else None


STEP = ('{"v":1,"event":"step","rank":%d,"pid":%d,"step":%d,"t":%.4f,'
        + "".join('"%s":%%.4f,' % name for name in TIMES) + '"total_ms":%.4f')


def encode_step(rank, pid, step, sums):
    """The line of a step, by a template: it is the one that is written often. step: its other fields; sums: ms by phase."""
    line = STEP % (rank, pid, step.pop("step"), step.pop("t"), *sums, sum(sums))
    micro = step.pop("micro_batches", None)
    if micro is not None and len(micro) < 400:  # hundreds of them: their sum remains
        line += ',"micro_batches":[%s]' % ",".join(map(str, micro))
    for name, value in step.items():
        line += ',"%s":%d' % (name, value)
    return (line + "}").encode()


def rank_and_world():
    """(rank, world) of this process."""
    import torch
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    except ValueError:
        return 0, 1


def likely_device():
    """The device of a training that has failed before its loss was seen."""
    import torch
    if torch.cuda.is_initialized():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def device_name(device):
    """The name the hardware gives itself, or None."""
    import torch
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "cpu" and os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return None


def start_event(device, world):
    """device: a torch.device, or None."""
    import torch
    event = {"event": "start", "framework": "torch", "framework_version": str(torch.__version__), "world": world,
             "program": cut_text(" ".join(sys.argv[:1]) or "-", 200), "t": round(time.monotonic(), 4)}
    if device is not None:
        event["device"] = str(device)
        try:
            name = device_name(device)
        except Exception:
            name = None
        if name:
            event["device_name"] = name
    return event


def is_out_of_memory(error):
    """Does an exception say that memory ran out?"""
    import torch
    kinds = (MemoryError, getattr(torch.cuda, "OutOfMemoryError", MemoryError), getattr(torch, "OutOfMemoryError", MemoryError))
    if isinstance(error, kinds):
        return True
    text = str(error) if isinstance(error, RuntimeError) else ""
    return "out of memory" in text or "DefaultCPUAllocator" in text


def error_text(error):
    """TYPE: MESSAGE."""
    text = str(error)
    return cut_text(type(error).__name__ + (": " + text if text else ""))


def last_error():
    """The exception that ends the program, or None: what Python printed a traceback of. (It is there whatever hooks the
    program has put into sys.excepthook; sys.exit() is none.) In a child of multiprocessing it is still on its way."""
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None) or sys.exc_info()[1]
