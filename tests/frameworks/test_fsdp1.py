# SPDX-License-Identifier: Apache-2.0
"""FSDP1, and where FSDP2 is as it, offload too: a recording of one rank against ranks that torch runs itself, what it is made of, what is
refused, and templates where the ranks divide the parameters and where they do not."""

import json
import os
import subprocess
import sys
import tempfile
import types
import unittest

import accelerate
import peft
import torch
import transformers
from torch.distributed.fsdp.wrap import _or_policy

from templates_helper import SHAPES, Compared, families
from batchfit import recorder
from batchfit.errors import UsageError

NEEDS_TORCH_2 = True

SLOW = "test_fsdp2_of_two_versions test_offload test_offload_of_fsdp2 test_two_ranks_and_an_adapter test_ranks_that_divide_and_that_do_not"

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = dict(S=8, D=48, F=80, V=101, K=2, G=2, E=8, L=3)
KNOBS = dict(precision="amp-bf16", optimizer="adamw", fused_optimizer=True, weights="bf16", shard="fsdp1", seq_len=8, batches=[2])


def sizes(tape, phase, operation, tag=None):
    """Bytes of the phase's allocations by an operation (None: any), in order."""
    lines = [line.split() for line in tape.split("m %s 0\n" % phase)[1].split("\nm ")[0].splitlines()]
    return [int(w[2]) for w in lines if w[0].startswith("a") and operation in (None, *w[5:6]) and tag in (None, w[4])]


class Layer(torch.nn.Linear):
    """A unit."""


class Own(torch.nn.Module):
    """Three of them and a head, which is the root's."""

    _no_split_modules = ["Layer"]

    def __init__(self):
        super().__init__()
        self.layers, self.head = torch.nn.Sequential(*(Layer(12, 12) for _ in range(3))), torch.nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.layers(x))


def own():
    """As the recorder's python: sources are."""
    return Own(), lambda output: output.mean(), lambda batch: torch.empty(batch, 12, 12)


class TestAgainstTorch(unittest.TestCase):
    """Three ranks, which do not divide the layers' parameters, and two that do."""

    def both(self, ranks, shard="fsdp1", adapter=None, **said):
        """(what torch had, the recording's tape)"""
        with tempfile.TemporaryDirectory() as folder:
            config = families.Variant("llama", "fsdp1").write_config(folder, SMALL)
            done = subprocess.run([sys.executable, os.path.join(HERE, "fsdp1_ranks.py"), config, str(ranks), shard] + [adapter] * bool(adapter),
                                  stdout=subprocess.PIPE, check=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
            return json.loads(done.stdout), recorder.record("hf:" + config, dict(KNOBS, ranks=ranks, shard=shard, adapter=adapter, **said))

    def compare(self, ranks, adapter=None):
        real, tape = self.both(ranks, adapter=adapter)
        for phase, gathered in zip(("forward", "backward"), real["gathered"]):
            self.assertEqual(sizes(tape, phase, "fsdp.gathered"), [n * size for n, size in gathered], phase)
        init = [line.split() for line in tape.split("m init 0\n")[1].split("m input")[0].splitlines()]
        self.assertEqual([int(w[2]) for w in init if w[4] == "param"], [n * size for n, size in real["weights"]])
        self.assertEqual(sorted(sizes(tape, "backward", "fsdp.reduce_scatter", "gradient")), sorted(n * size for n, size in real["gradients"]))

    def test_three_ranks(self):
        self.compare(3)

    def test_two_ranks_and_an_adapter(self):
        self.compare(2, "lora:4:q_proj,v_proj")


    def test_offload(self):
        for ranks, adapter in ((3, None), (2, "lora:4:q_proj,v_proj")):
            with self.subTest(ranks=ranks):
                real, tape = self.both(ranks, "fsdp1:offload", adapter)
                pinned = [n * size for n, size in real["pinned"]]
                self.assertEqual(sizes(tape, "forward", "_to_copy", "pinned"), pinned)  # of each unit its shard and its gradient
                self.assertEqual(sizes(tape, "init", None, "host"), [n * size for n, size in real["weights"]])
                for phase, gathered in zip(("forward", "backward"), real["gathered"]):
                    self.assertEqual(sizes(tape, phase, "fsdp.gathered"), [n * size for n, size in gathered], phase)
                states = sizes(tape, "optimizer", "zeros_like", "host")
                self.assertEqual(sorted(states), sorted(2 * [n * size for n, size in real["gradients"]]))
                self.assertNotIn(" optimizer ", "".join(line for line in tape.splitlines(True) if line[0] == "a"))

    def test_fsdp2_of_two_versions(self):
        for shard in ("fsdp2", "fsdp2@1.13"):
            with self.subTest(shard=shard):
                real, tape = self.both(3, shard)
                init = [line.split() for line in tape.split("m init 0\n")[1].split("m input")[0].splitlines()]
                self.assertEqual(sorted(int(w[2]) for w in init if w[4] == "param"), sorted(n * size for n, size in real["weights"]))

    def test_offload_of_fsdp2(self):
        real, tape = self.both(3, "fsdp2:offload", weights="fp32")
        self.assertEqual(sorted(sizes(tape, "init", None, "pinned")), sorted(n * size for n, size in real["pinned"]))
        self.assertEqual(sizes(tape, "backward", "_to_copy", "pinned"), [n * size for n, size in real["gradients"]])
        self.assertEqual(len(sizes(tape, "optimizer", "zeros_like", "host")), 2 * len(real["gradients"]))
        self.assertEqual([line for line in tape.splitlines() if " optimizer " in line and line[0] == "a"], [])


class TestRecording(unittest.TestCase):
    def record(self, **said):
        with tempfile.TemporaryDirectory() as folder:
            source = said.pop("source", None) or "hf:" + families.Variant("llama", "fsdp1").write_config(folder, SMALL)
            return recorder.record(source, {**KNOBS, "ranks": 7, **said})

    def test_one_unit_is_gathered_early_in_backward(self):
        def most(phase):
            live, peak = {}, 0
            for words in map(str.split, tape.split("m %s 1\n" % phase)[1].split("\nm ")[0].splitlines()):
                if words[0].startswith("a") and "fsdp.gathered" in words:
                    live[words[1]] = 1
                elif words[0] == "f":
                    live.pop(words[1], None)
                peak = max(peak, len(live))
            return peak
        tape = self.record()
        self.assertEqual((most("forward"), most("backward")), (2, 2))  # the root and a layer; a layer and the one before
        self.assertEqual({line.split()[0] for line in tape.splitlines() if line.startswith("a") and " fsdp." in line}, {"a", "a@1", "a@2", "a@3"})

    def test_before_the_last_micro_step_gradients_are_whole(self):
        for shard in ("fsdp1", "fsdp2"):
            with self.subTest(shard=shard):
                tape = self.record(shard=shard, weights="fp32", accumulation=2)
                first, last = (part.split("\nm ")[0] for part in tape.split("m backward 0\n")[1:])
                self.assertNotIn("fsdp.reduce_scatter", first)
                self.assertIn("fsdp.reduce_scatter", last)

    def test_what_is_no_layer_is_one_group_up_to_accelerate_1_13(self):
        for shard, groups in (("fsdp2", 5), ("fsdp2@1.13", 4)):  # three layers, the rest, and the embedding by itself
            for weights, each in (("fp32", 2), ("bf16", 1 + (shard == "fsdp2"))):  # what is gathered is cast where shards are fp32
                tape = self.record(shard=shard, weights=weights)
                self.assertEqual(len(sizes(tape, "forward", "fsdp.all_gather")), each * groups, (shard, weights))

    def test_four_bits_are_stored_as_the_other_weights(self):
        tape = self.record(adapter="lora:4:q_proj", quant="nf4")
        layer = [48 * 32, 48 * 16, 48 * 16, 32 * 48] + 3 * [48 * 80]
        words = sum(-(-n // 4) for n in layer) + 2 * 48  # of two bytes, norms as they are
        self.assertIn(" %d 0 param - model.base_model.model.model.layers.1\n" % (2 * -(-words // 7)), tape.replace("param - base", "param - model.base"))
        self.assertEqual(tape.count(" 64 0 buffer - "), 3 * 7)  # the codes of every matrix, on every rank

    def test_a_model_of_ones_own(self):
        """In a loop of its own: its layers are units, and what it returns stays in the arithmetic's type."""
        units = {"fsdp1": 7 * -(-(12 * 12 + 12) // 7),  # elements of a matrix and its bias, padded behind the last
                 "fsdp2": 7 * (2 * 12 + 2)}  # each by its rows
        for shard, gathered in (("fsdp1", "fsdp.gathered"), ("fsdp2", "fsdp.all_gather")):
            with self.subTest(shard=shard):
                tape = self.record(source=own, name="own", shard=shard, weights="fp32", seq_len=None)
                self.assertEqual(sizes(tape, "forward", gathered).count(2 * units[shard]), 3)
                self.assertIn(2 * 12 * 5 * 2, sizes(tape, "forward", None))  # the head's output, bf16
                self.assertNotIn(2 * 12 * 5 * 4, sizes(tape, "forward", None))
                tape = self.record(source=own, name="own", shard=shard, weights="fp32", seq_len=None, accumulation=2)
                self.assertIn("fsdp.reduce_scatter", tape.split("m backward 0\n")[1].split("\nm ")[0])  # of the first micro-step
        with self.assertRaisesRegex(UsageError, "_no_split_modules"):
            self.record(source=lambda: torch.nn.Linear(3, 3), weights="fp32", seq_len=None)

    def test_what_is_refused(self):
        for said in (dict(ranks=None), dict(ranks=1), dict(ema=True), dict(optimizer="adafactor"), dict(mode="inference"),
                     dict(adapter="lora:4", quant="nf4", weights="fp32"), dict(source="timm:resnet18"), dict(source="titan:Llama-3.1-8B")):
            with self.assertRaises(UsageError, msg=said):
                self.record(**said)


class Stop(Exception):
    """All is known."""


def stop(*_, **__):
    raise Stop


class TestTrainer(unittest.TestCase):
    def is_of_adapters(self, version):
        """Does transformers' Trainer give FSDP of this version peft's policy of what is wrapped?"""
        config = transformers.LlamaConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, vocab_size=8)
        model = peft.get_peft_model(transformers.LlamaForCausalLM(config), peft.LoraConfig(target_modules=["q_proj"]))
        plugin = accelerate.FullyShardedDataParallelPlugin(fsdp_version=version, auto_wrap_policy="transformer_based_wrap")
        with tempfile.TemporaryDirectory() as folder:
            trainer = transformers.Trainer(model, transformers.TrainingArguments(folder, use_cpu=True, report_to=[]))
        trainer.is_fsdp_enabled = True
        trainer.accelerator = types.SimpleNamespace(state=types.SimpleNamespace(fsdp_plugin=plugin), prepare=stop, unwrap_model=trainer.accelerator.unwrap_model)
        with self.assertRaises(Stop):
            trainer._prepare_for_training(1, None, None)
        return getattr(plugin.auto_wrap_policy, "func", None) is _or_policy

    def test_policy_of_adapters_is_fsdp1s(self):
        self.assertTrue(self.is_of_adapters(1))
        self.assertFalse(self.is_of_adapters(2))  # so each layer is a group, which an H100 agreed with (tests/gpu/measured)


class TestShipped(Compared):
    def test_ranks_that_divide_and_that_do_not(self):
        for ranks in (8, 7):
            SHAPES["fsdp1"] = dict(SHAPES["3B b4 s1000"], N=ranks)
            self.compare("llama", "fsdp1", True, "fsdp1")
            self.compare("qwen2", "fsdp1-lora-accumulating", False, "fsdp1")
        SHAPES["fsdp1"] = dict(SHAPES["8B b2 s2048"], N=65536)  # more than an adapter's matrix has elements
        self.compare("qwen3", "fsdp1-lora-dropout", True, "fsdp1")
        self.compare("qwen3", "fsdp1-lora-inside", True, "fsdp1")

    def test_four_bits_over_ranks(self):
        SHAPES["fsdp1"] = dict(SHAPES["3B b4 s1000"], N=7)
        self.compare("mistral", "fsdp1-qlora-dq-inside", True, "fsdp1")
        self.compare("mistral", "fsdp1-qlora-dropout-accumulating", True, "fsdp1")
        self.compare("llama", "fsdp1-qlora-accumulating", False, "fsdp1")
        self.compare("qwen2", "fsdp2-qlora-dq-together-dropout-accumulating", True, "fsdp1")
        self.compare("mistral", "fsdp2-qlora-dropout", True, "fsdp1")
        self.compare("qwen3", "fsdp2-together-bf16", False, "fsdp1")


if __name__ == "__main__":
    unittest.main()
