# SPDX-License-Identifier: Apache-2.0
"""Tapes of a real GPU, as far as they can be tested without one: hand-made histories in the allocator's documented format
(every one of them a FAKE, no GPU made them), and the real script on the CPU under a fake of the history."""

import json
import unittest
import weakref

from helper import Tape, command, modern, record

import torch
from batchfit import build, cuda_history, cuda_trace
from batchfit.errors import NotAffine, RecordError

MAIN, SIDE = (0, (0, 0)), (7, (0, 0))


def alloc(address, size, where=MAIN):
    return ("alloc", address, size) + where


def free(address, size, where=MAIN):
    """Both entries of a free that nothing delays."""
    return [("free_requested", address, size) + where, ("free_completed", address, size) + where]


def history(batch, workspace=None, kernels=1):
    """FAKE: a parameter, two steps of input, forward, backward, optimizer. workspace: bytes of the convolution's scratch;
    kernels: how many scratch blocks it takes one after the other."""
    entries, marks = [("segment_alloc", 100, 2097152) + MAIN], []

    def mark(kind, step=0, labels=()):
        marks.append((len(entries), kind, step, 0, dict(labels)))

    mark("init")
    entries.append(alloc(100, 1000))
    labels = {100: ("param", "-", "conv")}
    for step in range(2):
        mark("forward", step, labels)
        entries.append(alloc(200, 40 * batch))
        for _ in range(kernels):
            entries.append(alloc(300, workspace or 512 + 8 * batch))
            entries.extend(free(300, 0))
        if step == 0:
            entries.append(alloc(900, 8519680))  # cuBLAS' work space, which stays
        mark("backward", step)
        entries.append(alloc(400, 1000))
        entries.extend(free(200, 0))
        mark("optimizer", step, {400: ("gradient", "-", "-")})
        labels = {}
        if step == 0:
            entries.append(alloc(500, 1000))
            labels = {500: ("optimizer", "-", "-")}
        mark("zero_grad", step, labels)
        entries.extend(free(400, 0))
        labels = {}
    mark(None)
    return entries, marks


def answer(batch, **more):
    """FAKE for cuda_history.trace()."""
    entries, marks = history(batch, **more)
    return {"entries": entries, "marks": marks, "figures": {"allocated": 9000000 + 100 * batch, "reserved": 20971520, "retries": 0},
            "header": {"tape": 1, "model": "fake", "batches": [batch], "recorded_on": {"device": "fake, no card"}}}


def tape_of(batches, answers):
    answers = [json.loads(json.dumps(a)) for a in answers]  # as they come from the other process
    return Tape(cuda_history.document(batches, answers, 1.0))


class Trace(unittest.TestCase):
    def test_phases_tags_and_sizes(self):
        tape = tape_of((2, 4, 8), [answer(b) for b in (2, 4, 8)])
        kinds = [kind for kind, _ in tape.phases]
        self.assertEqual(kinds, ["init"] + ["forward", "backward", "optimizer", "zero_grad"] * 2)
        first = [a[:4] for a in tape.allocs.values() if a[5][1] == 0]
        self.assertEqual(first, [(1000, 0, "param", ["-", "conv"]), (0, 40, "activation", []), (512, 8, "temporary", []),
                                 (8519680, 0, "other", []), (1000, 0, "gradient", []), (1000, 0, "optimizer", [])])
        self.assertEqual(tape.header["batches"], [2, 4, 8])
        self.assertEqual(tape.header["upper_sizes"], 0)
        self.assertEqual(tape.header["measured"]["allocated"], [9000200, 9000400, 9000800])

    def test_requested_bytes_of_one_history(self):
        tape = tape_of((32,), [answer(32, workspace=12345)])
        self.assertEqual(tape.bytes_of("temporary", 1, ("forward", 1)), 12345)

    def test_each_stream_and_private_pool_is_a_pool(self):
        entries = [alloc(1, 10), alloc(2, 20, SIDE), alloc(3, 30, (0, (0, 5))), alloc(4, 40, SIDE)]
        events = cuda_trace.events(entries, [(0, "init", 0, 0, {}), (4, None, 0, 0, {})])
        self.assertEqual([e[cuda_trace.STREAM] for e in events if e[0] == "a"], [0, 1, 2, 1])

    def test_a_block_is_free_when_its_free_completes(self):
        entries = [alloc(1, 10), ("free_requested", 1, 10) + MAIN, alloc(2, 5), ("free_completed", 1, 10) + MAIN, alloc(1, 7)]
        events = cuda_trace.events(entries, [(0, "init", 0, 0, {}), (5, None, 0, 0, {})])
        self.assertEqual([e[0] for e in events], ["m", "a", "a", "f", "a"])

    def test_empty_cache_is_one_event(self):
        entries = [alloc(1, 10), ("segment_free", 9, 2097152) + MAIN, ("segment_free", 8, 2097152) + MAIN, alloc(2, 5)]
        events = cuda_trace.events(entries, [(0, "init", 0, 0, {}), (4, None, 0, 0, {})])
        self.assertEqual([e[0] for e in events], ["m", "a", "e", "a"])

    def test_what_began_before_the_history_is_passed_over(self):
        events = cuda_trace.events(free(77, 5) + [("snapshot", 0, 0) + MAIN], [(0, "init", 0, 0, {}), (3, None, 0, 0, {})])
        self.assertEqual(events, [("m", "init", 0)])

    def test_histories_that_cannot_be_used(self):
        marks = [(0, "init", 0, 0, {}), (2, None, 0, 0, {})]
        with self.assertRaisesRegex(RecordError, "incomplete"):
            cuda_trace.events([alloc(1, 10), alloc(1, 10)], marks)
        with self.assertRaisesRegex(RecordError, "ran out of memory.*4096 bytes"):
            cuda_trace.events([alloc(1, 10), ("oom", 0, 4096) + MAIN], marks)
        full = answer(2)
        full["figures"]["retries"] = 1
        with self.assertRaisesRegex(RecordError, "too full"):
            tape_of((2,), [full])


class Batches(unittest.TestCase):
    def test_upper_is_the_least_line_above(self):
        for sizes in ([10, 10, 10], [0, 100, 0], [512, 2048, 1024], [7, 1, 0], [3, 9, 100]):
            c, k = cuda_trace.upper((2, 4, 8), sizes)
            self.assertTrue(k >= 0 and c + k >= 0, sizes)
            self.assertTrue(all(c + k * b >= s for b, s in zip((2, 4, 8), sizes)), sizes)
            self.assertTrue(c == -k or any(c + k * b == s for b, s in zip((2, 4, 8), sizes)), sizes)
        self.assertEqual(cuda_trace.upper((2, 4, 8), [7, 11, 19]), (3, 2))

    def test_scratch_that_is_no_line_is_rounded_up(self):
        sizes = {2: 5000, 4: 100000, 8: 6000}
        tape = tape_of((2, 4, 8), [answer(b, workspace=w) for b, w in sizes.items()])
        self.assertEqual(tape.header["upper_sizes"], 2)
        c, k = [a[:2] for a in tape.allocs.values() if a[2] == "temporary"][0]
        self.assertTrue(all(c + k * b >= w for b, w in sizes.items()))
        self.assertEqual(c + k * 4, 100000)

    def test_another_kernel_becomes_one_block_of_its_peak(self):
        answers = [answer(2, kernels=1), answer(4, kernels=3), answer(8, kernels=0)]
        tape = tape_of((2, 4, 8), answers)
        self.assertEqual(tape.header["merged_scratch"], 2)
        scratch = [a for a in tape.allocs.values() if a[2] == "temporary"]
        self.assertEqual(len(scratch), 2)
        c, k = scratch[0][:2]
        self.assertTrue(c + 2 * k >= 1024 and c + 4 * k >= 1024)  # 528 and 544 rounded to 512
        kept = [a[:3] for a in tape.allocs.values() if a[2] != "temporary"]
        plain = [a[:3] for a in tape_of((2, 4, 8), [answer(b) for b in (2, 4, 8)]).allocs.values() if a[2] != "temporary"]
        self.assertEqual(kept, plain)

    def test_scratch_that_overlaps_is_scratch_too(self):
        both = answer(4)
        for position in (both["marks"][5][0] + 2, both["marks"][1][0] + 2):  # inside the life of block 300, and beyond it
            both["entries"][position:position] = [alloc(310, 2048)]
            both["entries"][position + 3:position + 3] = free(310, 2048)
            both["marks"] = [(at + 3 * (at > position), *rest) for at, *rest in both["marks"]]
        tape = tape_of((2, 4), [answer(2), both])
        self.assertEqual(tape.header["merged_scratch"], 2)
        c, k = [a[:2] for a in tape.allocs.values() if a[2] == "temporary"][0]
        self.assertEqual((c + 2 * k, c + 4 * k), (1024, 1024 + 2048))

    def test_a_change_of_what_stays_is_refused(self):
        other = answer(4)
        entries = other["entries"]
        entries.insert(other["marks"][1][0], alloc(600, 64))
        other["marks"] = [(at + (i > 0), *rest) for i, (at, *rest) in enumerate(other["marks"])]
        with self.assertRaisesRegex(NotAffine, "between batches 2 and 4"):
            tape_of((2, 4), [answer(2), other])

    def test_the_order_of_frees_that_follow_each_other_is_nothing(self):
        """As autocast empties its table of weights: on an H100 with torch 2.11 in another order at each batch."""
        def recording(order, batch):
            casts = [["a", number, 1000, "cast", "-", "-", 0] for number in (1, 2, 3)]
            return [("m", "forward", 0), *casts, *(("f", number) for number in order), ["a", 4, 8 * batch, "activation", "-", "-", 0], ("f", 4)]
        agreed, notes = cuda_trace.agree((2, 4), [recording((1, 2, 3), 2), recording((3, 1, 2), 4)])
        self.assertEqual(notes, {"upper_sizes": 0, "merged_scratch": 0})
        self.assertEqual([e[1] for e in agreed[1] if e[0] == "f"], [1, 2, 3, 4])

    def test_a_cache_drop_at_one_batch_is_kept(self):
        other = answer(4)
        at = other["marks"][1][0]
        other["entries"].insert(at, ("segment_free", 50, 2097152) + MAIN)
        other["marks"] = [(p + (i > 0), *rest) for i, (p, *rest) in enumerate(other["marks"])]
        self.assertEqual(self.drops(tape_of((2, 4), [answer(2), other])), ["e"])
        benchmark = answer(2, kernels=3)  # and where the scratch is merged, too
        tape = tape_of((2, 4), [benchmark, other])
        self.assertEqual((self.drops(tape), tape.header["merged_scratch"]), (["e"], 2))

    def drops(self, tape):
        return [line for line in tape.lines if line == "e"]


class NoCard(unittest.TestCase):
    def setUp(self):
        if torch.cuda.is_available():
            raise unittest.SkipTest("this machine has a card")

    def test_it_is_said(self):
        status, out, err = command("python:models:relu", "--device", "cuda", "-o", "-")
        self.assertEqual((status, out), (4, ""))
        self.assertRegex(err, "record: error: no GPU: torch .* (was built without CUDA|sees no CUDA device)")
        self.assertEqual(len(err.strip().split("\n")), 1)

    def test_the_process_of_one_batch_says_it_too(self):
        said = cuda_history._child({"source": "python:models:relu", "said": {}, "batch": 2})
        self.assertEqual(said["status"], 4)


class StandInHistory:
    """FAKE for the GPU's allocator: the storages that real operations on the CPU make."""

    def __init__(self):
        from torch.utils._python_dispatch import TorchDispatchMode
        noted, refs = [], {}

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                for tensor in cuda_history._tensors(out):
                    storage = tensor.untyped_storage()
                    address, size = storage.data_ptr(), storage.nbytes()
                    if not address or storage._cdata in refs:
                        continue
                    noted.append(alloc(address, size))
                    refs[storage._cdata] = weakref.finalize(storage, gone, storage._cdata, address, size)
                return out

        def gone(key, address, size):
            refs.pop(key, None)
            noted.extend(free(address, size))

        self.noted, self.mode = noted, Mode()

    def start(self):
        self.mode.__enter__()

    def entries(self):
        return list(self.noted)

    def figures(self):
        return {"retries": 0}


@unittest.skipUnless(modern(), "SKIPPED: torch 1.x keeps no history of allocations")
class OnTheProcessor(unittest.TestCase):
    """The real script with real tensors; only the history is a fake."""

    def traced(self, source, batch, **said):
        history = StandInHistory()
        try:
            return cuda_history.trace(source, said, batch, history, device="cpu")
        finally:
            history.mode.__exit__(None, None, None)
            build.DEVICE = "meta"

    def recorded(self, source, batches=(2, 4, 8), **said):
        return tape_of(batches, [self.traced(source, b, **said) for b in batches])

    def test_it_agrees_with_the_meta_recorder_on_what_stays(self):
        for name, optimizer in (("relu", "adamw"), ("gelu", "sgd"), ("layernorm", "adam"), ("conv", "sgd")):
            source = "python:models:" + name
            real = self.recorded(source, optimizer=optimizer)
            meta = record(source, optimizer=optimizer, batches=[2, 4, 8], cublas_workspace=0)
            for tag in ("param", "gradient", "optimizer", "input"):
                steps = 4 * 4 if tag == "optimizer" else 0  # Adam's step counters: on the processor anyway
                self.assertAlmostEqual(real.bytes_of(tag, 16), meta.bytes_of(tag, 16), delta=steps, msg=(name, tag))
            self.assertEqual([k for k, _ in real.phases], [k for k, _ in meta.phases])
            low, high = sorted((real.peak(16), meta.peak(16)))
            self.assertLess(high, 1.5 * low, name)
            self.assertEqual(real.header["parameters"], meta.header["parameters"])

    def test_knobs_of_the_script(self):
        tape = self.recorded("python:models:relu", (2, 4), accumulation=2, ema=True, clip_grad=1.0, zero_grad="zero")
        self.assertEqual(sum(kind == "backward" for kind, _ in tape.phases), 2)
        self.assertGreater(tape.bytes_of("other", 1), 0)

    def test_one_batch_alone(self):
        self.assertEqual(self.recorded("python:models:relu", (16,)).header["batches"], [16])


if __name__ == "__main__":
    unittest.main()
