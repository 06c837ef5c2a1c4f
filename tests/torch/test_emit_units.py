# SPDX-License-Identifier: Apache-2.0
"""Parts of the emitter alone. What needs a GPU runs against fakes of torch.cuda, named so: they show that the parts do
what they should with such answers, not that CUDA gives them."""

import importlib.util
import json
import os
import socket
import sys
import tempfile
import unittest
from unittest import mock

from helper import PYTHON, torch


def load():
    """The package under its private name, as the hook loads it."""
    if "_batchfit_emit" not in sys.modules:
        place = os.path.join(PYTHON, "batchfit", "emit", "__init__.py")
        spec = importlib.util.spec_from_file_location("_batchfit_emit", place, submodule_search_locations=[os.path.dirname(place)])
        module = sys.modules["_batchfit_emit"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return "_batchfit_emit"


clock = importlib.import_module(load() + ".clock")
cuda = importlib.import_module(load() + ".cuda")
hooks = importlib.import_module(load() + ".hooks")
machine = importlib.import_module(load() + ".machine")
journal = importlib.import_module(load() + ".journal")
samples = importlib.import_module(load() + ".samples")
transport = importlib.import_module(load() + ".transport")


class StandInCard:
    """Not CUDA: a stream whose events pass when told, at times that are told."""

    def __init__(self):
        self.made, self.recorded, self.passed, self.capturing, self.broken = 0, [], 0, False, False

    def new_event(self):
        self.made += 1
        return StandInEvent(self)

    def record(self, event):
        if self.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        event.place = len(self.recorded)
        self.recorded.append(10.0 * len(self.recorded) ** 2)  # ms: differences grow

    def clock(self):
        return clock.CudaClock(self.new_event, self.record, lambda: self.capturing)


class StandInEvent:
    """Not torch.cuda.Event: query() and elapsed_time() of the fake GPU. There is no synchronize()."""

    def __init__(self, card):
        self.card, self.place = card, None

    def query(self):
        assert not self.card.capturing, "a question during capture would end the capture"
        return self.place < self.card.passed

    def elapsed_time(self, other):
        return self.card.recorded[other.place] - self.card.recorded[self.place]


class Clocks(unittest.TestCase):
    def test_late_events(self):
        """Times are known when events have passed, in order, and the pool stays small."""
        card = StandInCard()
        c = card.clock()
        marks = [c.last] + [c.mark() for _ in range(5)]
        c.poll()
        self.assertFalse(c.passed(marks[0]))
        card.passed = 3
        c.poll()
        self.assertEqual([c.passed(m) for m in marks], [True] * 3 + [False] * 3)
        self.assertEqual((c.ms(marks[0], marks[1]), c.ms(marks[1], marks[2])), (10.0, 30.0))
        card.passed = 6
        c.poll()
        self.assertEqual(c.ms(marks[2], marks[5]), 210.0)
        self.assertEqual(sum(c.ms(a, b) for a, b in zip(marks, marks[1:])), c.ms(marks[0], marks[5]))
        for _ in range(100):
            c.mark()
            card.passed += 1
            c.poll()
        self.assertLessEqual(card.made, 7)

    def test_out_of_order(self):
        """A later event that passed earlier (another stream) neither blocks for ever nor gives a negative time."""
        card = StandInCard()
        c = card.clock()
        first, second, third = c.last, c.mark(), c.mark()
        card.recorded[2] = card.recorded[1] - 5
        card.passed = 3
        c.poll()
        self.assertEqual((c.ms(first, second), c.ms(second, third)), (10.0, 0.0))

    def test_capture_and_error(self):
        """While a graph is captured nothing is recorded or asked; an error of the GPU is not ours to raise."""
        card = StandInCard()
        c = card.clock()
        before = c.mark()
        card.capturing = True
        self.assertIs(c.mark(), before)
        c.poll()
        card.capturing, card.broken = False, True
        self.assertIs(c.mark(), before)

    def test_machine_on_a_stand_in_card(self):
        """Steps come when their events have passed, in order, with the GPU's times."""
        lines = []
        sink = mock.Mock(write=lambda more: lines.extend(map(json.loads, more)), dropped=0)
        card, diary = StandInCard(), journal.Journal(sink)
        diary.has_optimizer = True
        net = torch.nn.Linear(2, 2)
        memory = {"allocated": 1, "peak_allocated": 2, "reserved": 3, "peak_reserved": 4, "alloc_retries": 0}
        with mock.patch.object(machine, "cuda_clock", lambda device: card.clock()), \
                mock.patch.object(machine.events, "start_event", lambda device, world: {"event": "start"}), \
                mock.patch.object(journal, "memory_figures", lambda device: dict(memory)), \
                mock.patch.object(machine, "tighten_cap"):
            for _ in range(3):
                diary.forward_begin(net, (torch.ones(4, 2),), {}, True)
                diary.busy = False
                diary.backward_begin(mock.Mock(device=torch.device("cuda", 0), spec=["device"]))
                diary.backward_end()
                diary.optimizer_begin()
                diary.optimizer_end(True)
            diary.read(True)
            self.assertEqual([line["event"] for line in lines], ["start"])
            card.passed = 7  # the first step's events and those of a part of the second
            diary.read(True)
            self.assertEqual([line.get("step") for line in lines], [None, 1])
            card.passed = len(card.recorded)
            diary.read(True)
        self.assertEqual([line.get("step") for line in lines], [None, 1, 2, 3])
        self.assertEqual([line["samples"] for line in lines[1:]], [4, 4, 4])
        self.assertEqual({k: lines[3][k] for k in memory}, memory)
        place = lambda n: 10.0 * n * n  # noqa: E731
        second = lines[2]
        # 0 begins the clock, 1 is where the host's clock was left, 2 to 5 are the rest of the first step
        self.assertAlmostEqual(second["backward_ms"], place(8) - place(7))
        self.assertAlmostEqual(second["total_ms"], place(10) - place(5))


class Caps(unittest.TestCase):
    def test_cap(self):
        """The context and the other processes are taken off, on a fake of torch.cuda's memory calls."""
        gib = 1 << 30
        for cap, others, expected in ((8 * gib, 2 * gib, 7 / 16), (0, 0, None), (gib // 2, 2 * gib, 0.0), (99 * gib, 2 * gib, 1.0)):
            seen = []
            with mock.patch.multiple(torch.cuda, mem_get_info=lambda device: (12 * gib, 16 * gib), create=True,
                                     memory_reserved=lambda device: gib,
                                     set_per_process_memory_fraction=lambda fraction, device: seen.append((fraction, device))), \
                    mock.patch.dict(os.environ, BATCHFIT_MEMORY_CAP=str(cap), BATCHFIT_OTHERS=str(others)):
                cuda.set_cap(0)
            self.assertEqual(seen, [] if expected is None else [(expected, 0)])

    def test_before_the_first_allocation(self):
        """torch runs queued calls when CUDA begins; ours is among them and chooses the launcher's GPU."""
        queued, seen = [], []
        with mock.patch.object(torch.cuda, "_lazy_call", queued.append), mock.patch.object(hooks, "hook_copies"), \
                mock.patch.object(torch.cuda, "device_count", lambda: 4), \
                mock.patch.object(cuda, "set_cap", seen.append), mock.patch.dict(os.environ, LOCAL_RANK="2"):
            hooks.hook_cuda(None)
            queued[0]()
        self.assertEqual(seen, [2])


class Copies(unittest.TestCase):
    def test_which_copies_count(self):
        """Tensor.to of a tensor on the host to a device; the meta device stands in for a GPU."""
        diary = mock.Mock(busy=False, owner=__import__("threading").get_ident())
        diary.h2d_begin.side_effect = lambda: setattr(diary, "busy", True)
        diary.h2d_end.side_effect = lambda: setattr(diary, "busy", False)
        to, cuda_, allowed = torch.Tensor.to, torch.Tensor.cuda, torch.nn.parameter.UninitializedTensorMixin._allowed_methods
        try:
            hooks.hook_copies(diary)
            x = torch.ones(2)
            for target, counts in (("meta", 1), (torch.device("meta"), 1), (torch.ones(1, device="meta"), 1), ("cpu", 0),
                                   (torch.float64, 0), (x, 0)):
                diary.h2d_begin.reset_mock()
                x.to(target)
                self.assertEqual(diary.h2d_begin.call_count, counts, target)
            diary.h2d_begin.reset_mock()
            x.to(dtype=torch.float16, device="meta").to("meta")
            torch.nn.Linear(2, 2).to("meta")
            self.assertEqual(diary.h2d_begin.call_count, 3)
            torch.nn.LazyLinear(2).to("cpu")  # its table of allowed methods knows the replaced ones
        finally:
            torch.Tensor.to, torch.Tensor.cuda = to, cuda_
            torch.nn.parameter.UninitializedTensorMixin._allowed_methods = allowed


class Samples(unittest.TestCase):
    def test_shapes_of_batches(self):
        x = torch.zeros
        box = {"batch_idx": x(9), "bboxes": x(9, 4), "cls": x(9, 1), "im_file": ["a"] * 4, "img": x(4, 3, 8, 8),
               "ori_shape": [(8, 8)] * 4, "resized_shape": [(8, 8)] * 4}
        for batch, expected, number in (
                (x(5, 2), None, 5), ([x(5, 2), x(5)], None, 5), ([x(5, 2), x(5)], 5, 5), ([x(5, 2), x(5)], 8, 5),
                ({"input_ids": x(3, 9), "labels": x(3, 4)}, None, 3), (box, None, 4), (box, 4, 4),
                ((tuple(x(3, 4, 4) for _ in range(6)), tuple({"boxes": x(7, 4)} for _ in range(6))), 6, 6),
                ("text", None, None), ([], 4, None), (x(()), 4, None), (7, None, None), ({"a": {"b": x(2, 2)}}, None, 2)):
            self.assertEqual(samples.SampleCounter().count(batch, expected), number, batch)

    def test_place_is_remembered(self):
        counter = samples.SampleCounter()
        image = lambda n: (tuple(torch.zeros(3, 4, 4) for _ in range(n)), tuple({} for _ in range(n)))  # noqa: E731
        self.assertEqual(counter.count(image(8), 8), 8)
        self.assertEqual(counter.count(image(2), 8), 2)
        self.assertEqual(counter.count(torch.zeros(5, 2), 8), 5)


class Transports(unittest.TestCase):
    def test_full_disk(self):
        """A line that was cut does not swallow the next one, and is counted. (A fake of a full disk: os.write.)"""
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, BATCHFIT_STEPS_DIR=folder):
            os.environ.pop("BATCHFIT_FD", None)
            sender, real = transport.Transport(), os.write
            sender.write([b'{"a":1}'])
            with mock.patch.object(transport.os, "write", lambda number, data: real(number, data[:4])):
                sender.write([b'{"b":2}'])
            with mock.patch.object(transport.os, "write", mock.Mock(side_effect=OSError(28, "No space left on device"))):
                sender.write([b'{"c":3}'])
            sender.write([b'{"d":4}', b"x" * 5000, None])
            os.close(sender.number)
            with open(os.path.join(folder, "%s-%d.jsonl" % (socket.gethostname(), os.getpid())), "rb") as f:
                self.assertEqual(f.read().split(b"\n"), [b'{"a":1}', b'{"b"', b'{"d":4}', b""])
            self.assertEqual(sender.dropped, 4)

    def test_writes_fit_a_pipe(self):
        """Many lines go in several writes, none over 4,096 bytes, each ending with a line's end."""
        seen = []
        sender = transport.Transport()
        sender.opened, sender.number = True, 9
        with mock.patch.object(transport.os, "write", lambda number, data: seen.append(data) or len(data)):
            sender.write([b"x" * 300] * 40)
        self.assertEqual(b"".join(seen), (b"x" * 300 + b"\n") * 40)
        self.assertTrue(all(len(data) <= 4096 and data.endswith(b"\n") for data in seen))
        self.assertLess(len(seen), 5)


class Faults(unittest.TestCase):
    def test_a_fault_of_ours(self):
        """What fails in the emitter ends it with one line, and the program never hears of it."""
        lines = []
        sink = mock.Mock(write=lambda more: lines.extend(map(json.loads, more)), dropped=0)
        diary = journal.Journal(sink)
        with mock.patch.object(diary.machine, "see_device", mock.Mock(side_effect=KeyError("ours"))):
            diary.backward_begin(torch.ones(1))
        self.assertIsNone(diary.owner)
        self.assertEqual([line["event"] for line in lines], ["fault"])


if __name__ == "__main__":
    unittest.main()
