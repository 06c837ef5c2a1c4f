# SPDX-License-Identifier: Apache-2.0
"""What a tape says of one row, and how that compares with what was measured.

fit      batch_fits must run and batch_fails must not, in the GPU's total less overhead; a row whose schedule began at
         batch_fits has no batch_fails and is half a test
device   reserved + overhead against mem_mib, in the GPU's total less overhead: near the limit the cache is given back. With
         the scratch that convolutions' input gradients may ask for (the tape's w lines), and, for comparison, without
speed    only the speed (speed.py): the table does not say what memory was needed
reserved   what the allocator held against mem_mib
allocated  the peak of live tensors against mem_mib
ran      the row's batch must run in the GPU's total less overhead
oom      the row ran out of memory: its batch must not run in the GPU's total less overhead
end      what is still allocated after a step, before the next one, against mem_mib
weights  as device, with the tape cut off after the model was put on the GPU
"""

import json
import os
import subprocess

MIB = 1 << 20


class SimError(Exception):
    """The simulator would not replay a tape."""


def simulate(program, tape, batch, capacity_bytes, *options):
    """The answer of `batchfit sim` as a dict."""
    done = subprocess.run([program, "sim", tape, "--batch", str(batch), "--capacity", str(capacity_bytes), "--json",
                           *options], capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: does not fit
        raise SimError((done.stderr.strip().splitlines() or ["sim failed"])[-1])
    return json.loads(done.stdout)


class Verdict:
    """Of one row. status: right, wrong, measured (the errors are set), timed, unrecorded or unjudged; figures in MiB."""

    def __init__(self, status, note="", error=None, error_without=None, **figures):
        self.status, self.note, self.figures = status, note, figures
        self.error, self.error_without = error, error_without  # relative, signed; without scratch


def mib(count):
    """Bytes to whole MiB, for tables."""
    return round(count / MIB)


def judge_fit(program, tape, row, capacity_mib, overhead_mib, *options):
    """Right only if both sides are."""
    capacity = capacity_mib * MIB
    fits = simulate(program, tape, row["batch_fits"], capacity, *options)
    figures = dict(predicted_mib=mib(fits["reserved_bytes"]), needed_mib=mib(fits["needed_bytes"]), capacity_mib=capacity_mib)
    wrong = [] if fits["fits"] else ["batch %s ran, we say it does not" % row["batch_fits"]]
    if row.get("batch_fails"):
        fails = simulate(program, tape, row["batch_fails"], capacity, *options)
        figures["fails_needed_mib"] = mib(fails["needed_bytes"])
        if fails["fits"]:
            wrong.append("batch %s did not run, we say it does" % row["batch_fails"])
    return Verdict("wrong" if wrong else "right", "; ".join(wrong), **figures)


def _judge_end(has_run, note, program, tape, row, capacity_mib, options):
    got = simulate(program, tape, row.get("batch_per_gpu") or "1", capacity_mib * MIB, *options)
    is_right = got["fits"] == has_run
    return Verdict("right" if is_right else "wrong", "" if is_right else note, needed_mib=mib(got["needed_bytes"]), capacity_mib=capacity_mib)


def judge_ran(program, tape, row, capacity_mib, overhead_mib, *options):
    """It ran; right if that was said."""
    return _judge_end(True, "it ran, we say it does not", program, tape, row, capacity_mib, options)


def judge_oom(program, tape, row, capacity_mib, overhead_mib, *options):
    """It ended out of memory; right if that was said."""
    return _judge_end(False, "it ran out of memory, we say it fits", program, tape, row, capacity_mib, options)


def judge_device(program, tape, row, capacity_mib, overhead_mib, *options):
    """Signed relative error of reserved + overhead."""
    batch, truth = row.get("batch_per_gpu") or "1", float(row["mem_mib"])
    got = simulate(program, tape, batch, capacity_mib * MIB, "--scratch", *options)
    plain = simulate(program, tape, batch, capacity_mib * MIB, *options)
    predicted, without = (overhead_mib + (mib(g["reserved_in_capacity_bytes"]) if g["fits"] else capacity_mib)
                          for g in (got, plain))
    return Verdict("measured", "" if got["fits"] else "we say it does not fit", (predicted - truth) / truth,
                   (without - truth) / truth, predicted_mib=predicted, no_scratch_mib=without,
                   allocated_mib=mib(plain["allocated_bytes"]), reserved_mib=mib(plain["reserved_bytes"]),
                   capacity_mib=capacity_mib)


def _judge_held(which, program, tape, row, capacity_mib, options):
    truth = float(row["mem_mib"])
    got = simulate(program, tape, row.get("batch_per_gpu") or "1", capacity_mib * MIB, *options)
    predicted = mib(got[which])
    return Verdict("measured", "" if got["fits"] else "we say it does not fit", (predicted - truth) / truth, predicted_mib=predicted,
                   allocated_mib=mib(got["allocated_bytes"]), reserved_mib=mib(got["reserved_bytes"]),
                   needed_mib=mib(got["needed_bytes"]), capacity_mib=capacity_mib)


def judge_allocated(program, tape, row, capacity_mib, overhead_mib, *options):
    """Signed relative error of the peak of live tensors: no cache, nothing outside the allocator."""
    return _judge_held("allocated_bytes", program, tape, row, capacity_mib, options)


def judge_reserved(program, tape, row, capacity_mib, overhead_mib, *options):
    """Signed relative error of what the allocator held, near the limit what it can: nothing outside of it."""
    return _judge_held("reserved_in_capacity_bytes", program, tape, row, capacity_mib, options)


def judge_end(program, tape, row, capacity_mib, overhead_mib, *options):
    """Signed relative error of what stays after a step: weights, states, and what the script's variables hold."""
    return _judge_held("end_bytes", program, tape, row, capacity_mib, options)


def judge_weights(program, tape, row, capacity_mib, overhead_mib, *options):
    """Only the init phase of the tape."""
    short = "%s.%d" % (tape, os.getpid())
    with open(tape, encoding="utf-8") as f, open(short, "w", encoding="utf-8") as out:
        for line in f:
            if line.startswith("m ") and not line.startswith("m init"):
                break
            out.write(line)
    try:
        return judge_device(program, short, row, capacity_mib, overhead_mib, *options)
    finally:
        os.unlink(short)


def judge_speed(program, tape, row, capacity_mib, overhead_mib, *options):
    """Nothing to say about memory."""
    return Verdict("timed")


JUDGES = {"speed": judge_speed, "fit": judge_fit, "ran": judge_ran, "oom": judge_oom, "device": judge_device, "allocated": judge_allocated,
          "reserved": judge_reserved, "end": judge_end, "weights": judge_weights}
