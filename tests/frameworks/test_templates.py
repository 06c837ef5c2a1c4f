# SPDX-License-Identifier: Apache-2.0
"""Templates: the maker's parts, and shipped ones against recordings at two shapes (slow_templates_*.py: at seven)."""

import json
import os
import subprocess
import tempfile
import unittest
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from templates_helper import SHAPES, Compared, check, dims, families, record, shipped
from batchfit import adapters, four_bit, recorder, zero
from batchfit.errors import RecordError, UsageError
from template import fold, ids, make

NEEDS_TORCH_2 = True


class TestDims(unittest.TestCase):
    def setUp(self):
        self.d = dims.first("SDFVEKLBGR")
        self.v = self.d.value

    def text(self, n):
        found = self.d.product(n)
        return found and dims.text(found)

    def test_products(self):
        v = self.v
        self.assertEqual(self.text(2 * v["B"] * v["S"] * v["D"]), "2BSD")
        self.assertEqual(self.text(4 * v["D"] * v["F"]), "4DF")
        self.assertEqual(self.text(6 * v["K"] * v["G"] * v["E"]), "6EKG")
        self.assertEqual(self.text(v["B"] * v["S"] * v["E"] // 2 * v["K"]), None)  # not a whole constant
        self.assertEqual(self.text(8 * v["B"] * (v["S"] + 1)), "8BS+8B")
        self.assertEqual(self.text(4 * v["B"] * v["K"] * v["G"] * 128 * dims.ceil(v["S"], 128)), "512BKG[S/128]")
        self.assertEqual(self.text(2 * v["D"] * v["D"]), "2DD")

    def test_what_is_none(self):
        v = self.v
        large = dims.CONSTANT_MOST + 1
        for n in (v["D"] + 1, 2 * v["B"] * v["S"] * v["D"] + 512, 5 * 10 ** 9 + 1, 4 * v["B"], 4 * v["D"] * 1000003, 4 * v["F"] * large):
            self.assertIsNone(self.text(n), n)

    def test_a_length_that_is_cut_by_one(self):
        v = (d := dims.first("SDFVEKLB", beside=-1, alone="B")).value
        self.assertEqual(dims.text(d.product(8 * v["B"] * (v["S"] - 1) * v["V"])), "8BSV-8BV")
        self.assertEqual(dims.text(d.product(16 * v["B"])), "16B")
        self.assertIsNone(d.product(8 * v["B"] * (v["S"] + 1)))

    def test_a_completion_behind_a_prompt(self):
        v = (d := dims.first("SDFVEKLBY", beside=-1, alone="B", completion=True)).value
        self.assertEqual(dims.text(d.product(8 * v["B"] * (v["S"] - v["Y"]))), "8BS-8BY")
        self.assertEqual(dims.text(d.product(2 * v["B"] * (v["Y"] + 1) * v["V"])), "2BYV+2BV")
        self.assertEqual(dims.text(d.product(4 * v["B"] * (v["S"] - 1))), "4BS-4B")
        self.assertIsNone(d.product(4 * v["B"] * (v["Y"] - 1)))

    def test_two_sets_have_no_marker_in_common_at_one_place(self):
        one, two = dims.first("SDFVEKLBGR"), dims.second("SDFVEKLBGR")
        self.assertFalse([k for k in one.marker if one.marker[k] == two.marker[k]])


class TestTower(unittest.TestCase):
    """What Gemma 3 has beside its text model: sizes of its own."""

    def test_sizes(self):
        d = dims.first("SDFVEKLBGR")

        class Log:
            rounded, shards = {}, {}
        for size, text in ((4304 * 1152 * 2, "9916416"), (4304 * d.value["R"] * 4, "17216R")):
            for where in ("base_model.model.model.vision_tower.encoder.layers.3.mlp.fc1", "model.layers.3.mlp.fc1"):
                terms = make._terms(["a", 1, size, "param", "-", where, 0], Log, d)
                self.assertEqual(terms and dims.text(terms), text if "vision_tower" in where else None)


class TestOtherDims(unittest.TestCase):
    """Dimensions of families that are no Llama."""

    def test_a_part_of_a_head(self):
        d = dims.first("SVEKLBF", parts=True)
        v = d.value
        self.assertEqual(v["D"], v["K"] * v["E"])  # no dimension of its own
        rotated = v["B"] * v["S"] * v["K"] * v["E"] // 4
        self.assertEqual([dims.text(d.product(n * rotated)) for n in (1, 2, 4, 6)], ["BSK[E/4]", "BSK[E/2]", "BSEK", "3BSK[E/2]"])
        self.assertIsNone(dims.first("SVEKLBF").product(2 * rotated))

    def test_experts(self):
        d = dims.first("SDFVEKLBGXAW", by=8)
        v = d.value
        self.assertFalse([k for k in "DFW" if v[k] % 8])
        self.assertEqual(dims.text(d.product(4 * v["X"] * v["W"] * v["D"])), "4DWX")
        self.assertEqual(dims.text(d.product(2 * v["B"] * v["S"] * v["A"] * v["F"])), "2BSFA")
        self.assertEqual(dims.text(d.product(4 * v["X"])), "4X")
        self.assertIsNone(d.product(4 * v["A"]))

    def test_two_lengths(self):
        d = dims.first("SYDFVEKLB", alone="K")
        v = d.value
        self.assertEqual([v["S"] % 16, v["Y"] % 16], [0, 0])
        self.assertEqual(dims.text(d.product(2 * v["K"] * v["S"] * v["Y"])), "2SYK")
        self.assertEqual(dims.text(d.product(4 * v["B"] * v["K"] * 64 * dims.ceil(v["S"], 64) * v["E"])), "256BEK[S/64]")
        self.assertEqual(dims.text(d.product(64 * v["K"])), "64K")
        self.assertIsNone(dims.first("SYDFVEKLB").product(64 * v["K"]))


class TestFold(unittest.TestCase):
    def test_blocks(self):
        tokens = {n: list("ab" + "cde" * n + "cd" + "xy" * n + "z") for n in (3, 4, 5)}
        values = {n: [(i,) for i in range(len(t))] for n, t in tokens.items()}
        found = fold.loops(tokens, values)
        self.assertEqual([(loop.period, loop.begin[3], loop.turns[3]) for loop in found], [(3, 2, 3), (2, 13, 3)])

    def test_a_first_turn_that_frees_something_else_is_written_out(self):
        tokens = {n: list("a" + "bc" * n + "z") for n in (3, 4, 5)}
        values = {n: [(7 if i == 2 else i,) for i in range(len(t))] for n, t in tokens.items()}
        loop, = fold.loops(tokens, values)
        self.assertEqual((loop.begin[3] % 2, loop.turns[3], loop.more), (1, 2, {-1}))

    def test_what_is_not_repeated(self):
        with self.assertRaises(fold.NotRepeated):
            fold.loops({n: list("a" + "bcdefg"[:n]) for n in (3, 4, 5)}, {n: [(0,)] * (n + 1) for n in (3, 4, 5)})

    def test_affine(self):
        self.assertEqual(fold.affine([(i, n, 5 + 3 * i - 2 * n) for n in (3, 4) for i in range(n)]), (5, 3, -2))
        self.assertIsNone(fold.affine([(i, n, i * i) for n in (3, 4) for i in range(n)]))


class TestIds(unittest.TestCase):
    text = "m init 0\na 7 D param\na@1 8 D param\na 10 D param\nf 8\nf 11\nl i L\na 3+2i D other\na 4+2i D other\nf 3+2i\nf 7\n/l\nf 10\na L D other"

    def test_told_from_the_last_allocation(self):
        told = ("m init 0\na 7 D param\na@1 + D param\na 10 D param\nf -2\nf 11\nl i L\na 3+2i D other\na + D other\nf -1\nf 7\n/l\nf 10\n"
                "a L D other")
        self.assertEqual(ids.told(self.text), told)
        self.assertEqual(ids.told(told), told)


class TestMake(unittest.TestCase):
    def test_a_size_that_is_no_product_is_an_error(self):
        d = dims.first("SDFVEKL")

        class Log:
            rounded, shards = {}, {}
            events = [("m", "init", 0), ["a", 1, 2 * d.value["V"] + 2, "param", "-", "-", 0]]
        with self.assertRaisesRegex(make.NotATemplate, "no product of dimensions"):
            make.body({n: Log for n in (3, 4, 5)}, d)


class TestFourBit(unittest.TestCase):
    """Bytes that bitsandbytes' own tensors have (functional.quantize_4bit)."""

    def sizes(self, double):
        like = torch.nn.Linear(4096, 1000, bias=False, device="meta")
        layer = four_bit.Linear4bit(like, double=double)
        return {name: t.numel() * t.element_size() for name, t in [("weight", layer.weight), *layer.named_buffers()]}

    def test_sizes(self):
        n = 4096 * 1000
        self.assertEqual(self.sizes(False), {"weight": n // 2, "absmax": n // 64 * 4, "code": 64})
        self.assertEqual(self.sizes(True), {"weight": n // 2, "absmax": n // 64, "code": 64, "offset": 4, "absmax2": n // 64 // 256 * 4,
                                            "code2": 1024})

    def test_rounded_up(self):
        layer = four_bit.Linear4bit(torch.nn.Linear(7, 9, bias=False, device="meta"), double=True)
        self.assertEqual([t.numel() for t in (layer.weight, layer.state.absmax, layer.state.absmax2)], [32, 1, 1])


    def test_early_bitsandbytes_kept_the_input(self):
        def kept(early):
            net = torch.nn.Sequential(torch.nn.Linear(64, 64, device="meta"))
            four_bit.quantize(net, (), torch.bfloat16, False, keeps_input=early)
            x = torch.empty(2, 64, device="meta", dtype=torch.bfloat16, requires_grad=True) * 1
            there = weakref.ref(x)
            y = net(x)
            del x
            return there() is not None and y is not None
        self.assertEqual([kept(True), kept(False)], [True, False])

    def test_what_a_weight_was_before_is_made_first(self):
        """bitsandbytes dequantizes a weight in the type that was quantised, then casts it."""
        def types(was):
            net, seen = torch.nn.Sequential(torch.nn.Linear(64, 64, device="meta")), []
            four_bit.quantize(net, (), torch.bfloat16, False, was=was)

            class Look(TorchDispatchMode):
                def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
                    made = func(*args, **(kwargs or {}))
                    seen.extend([made.dtype] if made.shape == (64, 64) and func._schema.name in ("aten::empty", "aten::_to_copy") else [])
                    return made
            with Look():
                net(torch.empty(2, 64, device="meta", dtype=torch.bfloat16))
            return seen
        self.assertEqual(types(torch.float16), [torch.float16, torch.bfloat16])
        self.assertEqual(types(None), [torch.bfloat16])


class TestAdapters(unittest.TestCase):
    def test_words(self):
        self.assertEqual(adapters.parse("lora:16"), (16, "all-linear", 0.0, False))
        self.assertEqual(adapters.parse("lora:8:q_proj,v_proj"), (8, ["q_proj", "v_proj"], 0.0, False))
        self.assertEqual(adapters.parse("lora:8:all-linear:dropout")[1:], ("all-linear", adapters.DROPOUT, False))
        self.assertEqual(adapters.parse("lora:8:all-linear:bf16")[1:], ("all-linear", 0.0, True))
        self.assertEqual(adapters.parse("lora:8:q_proj:dropout:bf16")[1:], (["q_proj"], adapters.DROPOUT, True))
        for text in ("lora", "lora:0", "lora:x", "dora:16", "16", "lora:16:q_proj:0.1", "lora:16:q_proj:dropout:x", "lora:16:q_proj:bf16:dropout",
                     "lora:16:q_proj:"):
            with self.assertRaises(UsageError):
                adapters.parse(text)

    def record(self, **said):
        variant = families.Variant("llama", "lora")
        value = dict(SHAPES["3B b4 s1000"], L=1)
        with tempfile.TemporaryDirectory() as folder:
            return recorder.record("hf:" + variant.write_config(folder, value), dict(said, seq_len=128, batches=[2]))

    def test_a_fused_loss_under_an_adapter(self):
        tape = self.record(adapter="lora:4", quant="nf4", precision="amp-bf16", weights="bf16", optimizer="adamw", loss="liger", checkpointing=True)
        self.assertIn('"loss":"liger","loss_tokens":128,"loss_parts":42,', tape)
        self.assertIn(" n=%d,0\n" % (2 * SHAPES["3B b4 s1000"]["V"]), tape)  # a row of the first chunk's logits

    def test_targets_that_match_nothing(self):
        with self.assertRaisesRegex(RecordError, "peft: Target modules"):
            self.record(adapter="lora:16:nothing")

    def test_four_bits_without_an_adapter(self):
        with self.assertRaisesRegex(UsageError, "cannot be trained"):
            self.record(quant="nf4")

    def test_four_bits_after_an_adapter_on_whole_weights(self):
        self.record(adapter="lora:4:q_proj", precision="bf16", weights="bf16", optimizer="adamw")
        tape = self.record(adapter="lora:4:q_proj", quant="nf4", precision="amp-bf16", weights="bf16", optimizer="adamw")
        self.assertIn(" clone base_model.model.model.layers.0.self_attn.q_proj\n", tape)  # peft's layer for four bits

    def test_only_the_adapter_has_gradients(self):
        tape = self.record(adapter="lora:4:q_proj", precision="bf16", weights="bf16", optimizer="adamw")
        lines = tape.split("m backward 0")[1].split("m optimizer 0")[0].splitlines()
        kept = [line.split()[2] for line in lines if " gradient " in line]
        self.assertEqual(kept, [str(4 * 4 * 3072)] * 2)  # A and B of one layer, in fp32

    def test_any_method_by_its_configuration(self):
        def trained(config):
            tape = self.record(adapter=config, precision="bf16", weights="bf16", optimizer="adamw")
            states = [line for line in tape.split("m optimizer 0")[1].split("m zero_grad 0")[0].splitlines() if " optimizer " in line]
            return json.loads(tape.splitlines()[0])["adapter"], sum(int(line.split()[2]) for line in states), tape
        name, states, _ = trained('{"peft_type": "IA3", "target_modules": ["k_proj"], "feedforward_modules": []}')
        self.assertEqual((name, states), ("ia3", 8 * 1024))
        lora, states, tape = trained('{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}')
        ours = self.record(adapter="lora:4:q_proj", precision="bf16", weights="bf16", optimizer="adamw")
        self.assertEqual((lora, tape.splitlines()[1:]), ("lora", ours.splitlines()[1:]))

    def test_an_adapter_in_the_weights_own_type(self):
        given = {"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}
        sizes = []
        for more in ({}, {"autocast_adapter_dtype": False}):
            tape = self.record(adapter=json.dumps(dict(given, **more)), precision="bf16", weights="bf16", optimizer="adamw")
            sizes.append({line.split()[2] for line in tape.splitlines() if " param - " in line and "lora_A" in line})
        self.assertEqual(sizes, [{str(4 * 4 * 3072)}, {str(2 * 4 * 3072)}])

    def test_adalora_keeps_averages(self):
        given = {"peft_type": "ADALORA", "init_r": 4, "target_r": 2, "tinit": 2, "tfinal": 2, "total_step": 9, "target_modules": ["q_proj"]}
        tape = self.record(adapter=json.dumps(given), precision="bf16", weights="bf16", optimizer="adamw")
        states = tape.split("m optimizer 0")[1].split("m zero_grad 0")[0].splitlines()
        size = str(4 * 4 * 3072)  # of A and of B: two states of AdamW, and sensitivity with its two averages
        self.assertEqual(len([line for line in states if " optimizer " in line and line.split()[2] == size]), 2 * 5)

    def test_configurations_that_are_none(self):
        for text, words in (("{}", "no peft_type"), ("nothing.json", "No such file"), ("{", "Expecting")):
            with self.assertRaisesRegex(UsageError, words):
                self.record(adapter=text)
        with self.assertRaisesRegex(RecordError, "has no NONE"):
            self.record(adapter='{"peft_type": "NONE"}')
        with self.assertRaisesRegex(RecordError, "FROD begins with the values of the weights"):
            self.record(adapter='{"peft_type": "FROD", "target_modules": ["q_proj"]}', precision="bf16", weights="bf16", optimizer="adamw")

    def test_who_prepares_four_bits(self):
        def weights(prepare, quant="nf4"):
            tape = self.record(adapter="lora:4:q_proj", quant=quant, precision="amp-bf16", weights="bf16", optimizer="adamw",
                               quant_prepare=prepare)
            sizes = {line.split()[-1]: int(line.split()[2]) for line in tape.splitlines() if " param - " in line}
            return [next(v for k, v in sizes.items() if word in k) for word in ("input_layernorm", "lm_head")]
        norm, head = 3072, 3072 * 128256
        self.assertEqual(weights(None), [4 * norm, 4 * head])  # peft: everything to fp32
        self.assertEqual(weights("trl"), [4 * norm, 2 * head])
        self.assertEqual(weights("none"), [2 * norm, 2 * head])
        self.assertEqual(weights(None, "nf4-dq-left"), [2 * norm, 2 * head])

    def test_an_adapter_is_in_fp32_as_peft_makes_it_or_in_bf16(self):
        def of(where, adapter, **more):
            tape = self.record(adapter=adapter, precision="bf16", optimizer="adamw", fused_optimizer=True, **more)
            if where == "param":
                return {line.split()[-1].split("model.")[-1]: int(line.split()[2]) for line in tape.splitlines() if " param - " in line}
            return sum(int(line.split()[2]) for line in tape.split("m optimizer 0")[1].split("m ")[0].splitlines() if " optimizer " in line)
        rank, q = 4 * 3072, 3072 * 3072
        for adapter, size in (("lora:4:q_proj", 4), ("lora:4:q_proj:bf16", 2)):
            sizes = of("param", adapter)
            self.assertEqual([v for k, v in sizes.items() if "lora_" in k], [size * rank] * 2)
            self.assertEqual([v for k, v in sizes.items() if "q_proj" in k and "lora_" not in k], [2 * q])
            self.assertEqual(of("optimizer", adapter), 4 * size * rank + 4 * 2)  # two moments of two matrices, and steps
        for quant in ("nf4", "nf4-torchao"):
            left = of("param", "lora:4:q_proj:bf16", quant=quant)
            self.assertEqual([v for k, v in left.items() if "lm_head" in k], [2 * 3072 * 128256])
            self.assertEqual([v for k, v in left.items() if "lora_" in k], [2 * rank] * 2)

    def test_dropout_keeps_its_mask(self):
        said = dict(precision="amp-bf16", weights="bf16", optimizer="adamw")
        plain, dropped = [self.record(adapter="lora:4:q_proj" + more, **said) for more in ("", ":dropout")]
        self.assertNotIn("native_dropout", plain)
        self.assertIn("native_dropout", dropped)
        self.assertIn('"adapter": "lora:4:q_proj:dropout"', dropped.splitlines()[0].replace('":"', '": "'))


class TestSharded(unittest.TestCase):
    """One rank of FSDP2 by torch's own code."""

    def record(self, **said):
        variant = families.Variant("llama", "fsdp2")
        value = dict(SHAPES["3B b4 s1000"], L=2)
        knobs = dict(precision="amp-bf16", optimizer="adamw", fused_optimizer=True, shard="fsdp2", ranks=7, seq_len=128, batches=[2])
        with tempfile.TemporaryDirectory() as folder:
            source = said.pop("source", None) or "hf:" + variant.write_config(folder, value)
            return recorder.record(source, dict(knobs, **said))

    def test_shards_and_streams(self):
        tape = self.record()
        self.assertIn('"shard":"fsdp2","ranks":7', tape.splitlines()[0])
        rows, words = -(-3072 // 7), -(-128256 // 7)
        for line in (" %d 0 param - model.layers.1.mlp.down_proj\n" % (4 * rows * 8192),
                     " %d 0 temporary fsdp.gathered model.embed_tokens\n" % (2 * 7 * words * 3072),
                     " %d 0 gradient fsdp.reduce_scatter\n" % (4 * words * 3072)):
            self.assertTrue(line in tape, line)
        streams = {line.split()[0] for line in tape.splitlines() if line.startswith("a") and " fsdp." in line}
        self.assertEqual(streams, {"a", "a@1", "a@3"})

    def test_adapters_are_in_their_layers_groups(self):
        tape = self.record(adapter="lora:4:q_proj", weights="bf16")
        own = 3072 + -(-3072 // 7) * 4  # elements of a layer's adapter that this rank has
        self.assertIn(" %d 0 temporary fsdp.all_gather base_model.model.model.layers.1\n" % (2 * own), tape)
        kept = [line.split()[2] for line in tape.split("m backward 0")[1].splitlines() if " gradient fsdp.reduce_scatter" in line]
        self.assertEqual(kept[:2], [str(4 * own)] * 2)  # reduced in bf16 and kept in fp32

    def test_torchtitan(self):
        def peak(**said):
            with tempfile.TemporaryDirectory() as folder:
                config = families.Variant("llama", "fsdp2").write_config(folder, dict(SHAPES["3B b4 s1000"], L=3))
                tape = recorder.record("titan:" + config, dict(shard="fsdp2", ranks=7, seq_len=8192, batches=[2], **said))
                path = os.path.join(folder, "made.tape")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(tape)
                done = subprocess.run([check.PROGRAM, "sim", path, "--batch", "2", "--json"], stdout=subprocess.PIPE, check=True)
            return json.loads(done.stdout)["allocated_bytes"]
        every, per_op, layer, none = (peak(checkpointing=True), peak(checkpointing=True, selective="op"),
                                      peak(checkpointing=True, selective="layer"), peak())
        self.assertTrue(every < per_op < none and every < layer < none, (every, per_op, layer, none))
        with self.assertRaises(UsageError):
            recorder.record("titan:meta-llama/Llama-3.1-8B", dict(seq_len=128, batches=[2]))

    def test_torchtitans_groups_are_of_their_months(self):
        def of(**said):  # how often in a step the last layer is gathered, and a matrix of the vocabulary
            with tempfile.TemporaryDirectory() as folder:
                config = families.Variant("llama", "fsdp2").write_config(folder, dict(SHAPES["3B b4 s1000"], L=3))
                tape = recorder.record("titan:" + config, dict(shard="fsdp2", ranks=7, seq_len=1024, batches=[2], **said))
            gathered = [line.split() for line in tape.split("m forward 1\n")[1].splitlines() if " fsdp.gathered" in line]
            return sum(w[-1] == "layers.2" for w in gathered) / 9, sum(w[2] == str(2 * 7 * -(-128256 // 7) * 3072) for w in gathered)
        self.assertEqual(of(rules="2.6"), (1, 2))  # the last layer and the rest stay from forward to backward
        self.assertEqual(of(), (2, 3))  # of the rest the head does

    def test_a_layer_is_split(self):
        with tempfile.TemporaryDirectory() as folder:
            config = families.Variant("llama", "fsdp2").write_config(folder, dict(SHAPES["3B b4 s1000"], L=2))

            def record_(**said):
                return recorder.record("titan:" + config, dict(dict(shard="fsdp2", ranks=2, seq_len=1024, batches=[2]), **said))
            tape = record_(tp=4)
            self.assertEqual(json.loads(tape.split("\n", 1)[0])["tp"], 4)
            self.assertNotIn("_wrap_tensor_autograd", tape)
            norm, split = (next(line.split() for line in tape.splitlines() if line.endswith(end))
                           for end in ("layers.0.attention_norm", "layers.0.attention.wq"))
            self.assertEqual((int(norm[2]), int(split[2])), (4 * 3072 // 2, 4 * 3072 * 3072 // 8))
            for said in (dict(tp=3), dict(tp=16), dict(tp=4, seq_len=1022)):
                with self.assertRaisesRegex(RecordError, "divided among|needs one", msg=said):
                    record_(**said)
            for said in (dict(tp=1), dict(tp=2, shard=None, ranks=None)):
                with self.assertRaises(UsageError, msg=said):
                    record_(**said)
            with self.assertRaises(UsageError):
                recorder.record("hf:" + config, dict(shard="fsdp2", ranks=2, tp=2, fused_optimizer=True, seq_len=64, batches=[2]))

    def test_what_is_refused(self):
        for said in (dict(ranks=None), dict(ranks=1), dict(shard=None), dict(adapter="lora:4", quant="nf4"), dict(optimizer="adafactor"),
                     dict(fused_optimizer=False), dict(ema=True), dict(source="timm:resnet18")):
            with self.assertRaises(UsageError, msg=said):
                self.record(**said)


class TestZero(unittest.TestCase):
    """DeepSpeed's ZeRO: what is refused, and what stages 1 and 2 are made of. Its own recordings: tests/tapes/zero/make."""

    def record(self, **said):
        variant = families.Variant("llama", "zero")
        value = dict(SHAPES["3B b4 s1000"], L=1)
        knobs = dict(precision="amp-bf16", optimizer="adamw", fused_optimizer=True, shard="zero0", seq_len=128, batches=[2])
        with tempfile.TemporaryDirectory() as folder:
            source = said.pop("source", None) or "hf:" + variant.write_config(folder, value)
            return recorder.record(source, dict(knobs, **said))

    def test_words(self):
        self.assertEqual(zero.parse("zero2"), (2, zero.BUCKET, False, {}))
        self.assertEqual(zero.parse("zero3:auto"), (3, None, False, {}))
        self.assertEqual(zero.parse("zero1:1000:overlap"), (1, 1000, True, {}))
        self.assertEqual(zero.parse("zero3:7:overlap:reuse=0"), (3, 7, True, {"reuse": "0"}))
        self.assertEqual(zero.stage3_config("zero3:auto:live=5", 100), {
            "stage3_prefetch_bucket_size": 9000, "stage3_param_persistence_threshold": 1000, "stage3_max_live_parameters": 5,
            "stage3_max_reuse_distance": 1000000000, "sub_group_size": 1000000000})
        self.assertEqual(zero.stage3_config("zero3:7:prefetch=auto", 100)["stage3_prefetch_bucket_size"], 9000)
        self.assertEqual(zero.stage3_config("zero3", 100)["stage3_param_persistence_threshold"], 100000)
        for word in ("zero4", "zero", "zero2:0", "zero2:x", "zero2:auto:fast", "zero2:auto:overlap:x", "zero2:auto:reuse=1", "zero3:auto:reuse=auto",
                     "zero3:auto:fast=1"):
            with self.assertRaises(UsageError, msg=word):
                zero.parse(word)

    def test_the_engine_casts_the_adapter_too(self):
        tape = self.record(adapter="lora:4:q_proj", weights="bf16")
        kept = [int(line.split()[2]) for line in tape.split("m backward 0")[1].split("m optimizer 0")[0].splitlines() if " gradient " in line]
        self.assertEqual(kept, [2 * 4 * 3072] * 2)

    def test_what_is_refused(self):
        for said in (dict(shard="zero2"), dict(shard="zero2", ranks=zero.MOST_RANKS + 1), dict(precision="fp32"), dict(shard="zero3:trace", adapter="lora:4", quant="nf4-left", weights="bf16"),
                     dict(optimizer="adafactor"), dict(fused_optimizer=False), dict(ema=True), dict(source="timm:resnet18")):
            with self.assertRaises(UsageError, msg=said):
                self.record(**said)


class Accumulating(families.Variant):
    """The same with two micro-steps an optimizer step."""

    def knobs(self, value):
        return dict(super().knobs(value), accumulation=2)


class TestAccumulation(unittest.TestCase):
    def figures(self, path, *options):
        done = subprocess.run([check.PROGRAM, "sim", path, "--batch", "3", "--json", *options], stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout)
        return [found[k] for k in ("allocated_bytes", "reserved_bytes", "needed_bytes")]

    def test_a_second_micro_step_is_what_a_recording_has(self):
        value = dict(B=3, S=1000, D=512, F=1024, V=2000, E=64, K=2, G=4, R=8, L=4, N=4)
        for kind in ("full", "lora", "tune-full", "tune-lora-bf16"):
            variant = Accumulating("llama", kind, True)
            named = ",".join("%s=%d" % (dims.NAMES[k], value[k]) for k in variant.letters)
            with tempfile.TemporaryDirectory() as folder, self.subTest(kind=kind):
                recorded = os.path.join(folder, "recorded.tape")
                with open(recorded, "w", encoding="utf-8") as f:
                    f.write("\n".join(['{"tape":1,"model":"x","batches":[3]}'] + record.direct(variant, value)) + "\n")
                made = self.figures(shipped.extract(variant.name, folder), "--dims", named, "--accumulation", "2")
                self.assertEqual(made, self.figures(recorded))


class TestShipped(Compared):
    def test_what_the_tables_say_is_shipped_whole(self):
        self.assertEqual(sorted(shipped.index()), sorted(v.name for v in families.variants()))

    def test_two_shapes(self):
        self.compare("llama", "qlora", True, "8B b2 s2048")
        self.compare("llama", "full", False, "7B b1 s640")

    def test_without_autocast(self):
        self.compare("llama", "lora-bf16", False, "8B b2 s2048")
        self.compare("qwen3", "qlora-bf16-dropout", True, "qwen3-4B b8 s8192")
        self.compare("mistral", "qlora-bf16-qv-dropout", False, "8B b1 s131072")
        self.compare("llama", "lora-fp32-dropout", True, "7B b3 s512")
        self.compare("gemma2", "lora-bf16", True, "9B b1 s4096", tied=True)
        self.compare("qwen2", "full-fp32", True, "3B b4 s1000", tied=True)
        self.compare("gpt2", "full-fp32", False, "medium b3 s512", tied=True)

    def test_frozen_weights_in_fp32(self):
        self.compare("llama", "lora-w32-qv-dropout", True, "8B b2 s2048")
        self.compare("llama", "lora-w32-dropout", False, "7B b3 s512")
        self.compare("qwen2", "lora-w32-qv-dropout", False, "3B b4 s1000", tied=True)
        self.compare("qwen3", "lora-w32", True, "qwen3-4B b8 s8192")
        self.compare("gemma", "lora-w32-qv-dropout", True, "2B b2 s2048", tied=True)

    def test_four_bits_with_the_rest_in_bf16(self):
        self.compare("llama", "qlora-dq-left-dropout", True, "8B b2 s2048")
        self.compare("llama", "qlora-left-dropout", False, "3B b4 s1000")

    def test_torchtunes_loss(self):
        self.compare("llama", "linear-lora-bf16", True, "8B b2 s2048")
        self.compare("qwen2", "linear-full", True, "3B b4 s1000", tied=True)
        self.compare("mistral", "linear-qlora-torchao", True, "8B b1 s131072")
        self.compare("qwen2", "qlora-torchao", False, "3B b4 s1000", tied=True)

    def test_torchtunes_sharding(self):
        self.compare("llama", "tune-full", False, "8B b2 s2048")
        self.compare("qwen2", "tune-lora-bf16", True, "3B b4 s1000", tied=True)
        self.compare("llama", "tune-lora-bf16", False, "7B b1 s640")

    def test_cut_cross_entropy(self):
        self.compare("llama", "cut-qlora-dropout", True, "8B b2 s2048")
        self.compare("qwen3", "cut-full-amp", True, "qwen3-4B b8 s8192")
        self.compare("gemma2", "cut-lora-dropout", True, "9B b1 s4096", tied=True)

    def test_families_of_another_kind(self):
        self.compare("gemma2", "full", True, "9B b1 s4096", tied=True)
        self.compare("phi", "full-amp", True, "1.5 b2 s2048")
        self.compare("olmo2", "full-amp", False, "7B b1 s4096")
        self.compare("gemma3_text", "qlora", False, "1B b2 s2048", tied=True)
        self.compare("gemma3", "qlora-dropout", True, "4B b2 s2048", tied=True)
        self.compare("phi3", "lora", True, "phi-4 b4 s2048")
        self.compare("smollm3", "lora-dropout", True, "3B b3 s1000", tied=True)

    def test_pairs(self):
        self.compare("llama", "dpo-full", True, "3B b4 s1000")
        self.compare("llama", "dpo-tiled-qlora", False, "8B b1 s131072")
        self.compare("llama", "dpo-llamafactory-lora", True, "8B b2 s2048")
        self.compare("llama", "orpo-lora", True, "8B b2 s2048")
        self.compare("llama", "kto-qlora", True, "3B b4 s1000")
        self.compare("llama", "grpo-lora", True, "8B b2 s2048")
        self.compare("qwen2", "grpo-tiled-full", False, "3B b4 s1000")
        self.compare("qwen3", "reward-full", False, "qwen3-4B b8 s8192")

    def test_encoders(self):
        self.compare("bert", "full-amp-foreach", False, "base b8 s512", tied=True)
        self.compare("bert", "full-fp32-foreach", True, "MiniLM-L6 b64 s256", tied=True)
        self.compare("roberta", "full-amp", True, "xlm base b16 s256", tied=True)
        self.compare("distilbert", "full-amp-foreach", True, "base b3 s500", tied=True)
        self.compare("roberta", "full-fp32-foreach", False, "klue base b64 s64", tied=True)

    def test_bert_is_what_its_shipped_recordings_are(self):
        """To the byte, but for GradScaler's two blocks of 512 bytes under autocast to fp16."""
        with tempfile.TemporaryDirectory() as folder:
            for model, sizes in (("hf:bert-base-uncased", (3072, 12, 12)), ("hf:bert-large-uncased", (4096, 16, 24))):
                for length, precision, kind, checkpointing in (
                        ("128", "fp32", "full-fp32-foreach", False), ("512", "fp32", "full-fp32-foreach", True),
                        ("512", "amp-fp16", "full-amp-foreach", False), ("128", "amp-fp16", "full-amp-foreach", True)):
                    recorded = self.shipped_figures(folder, model=model, mode="train", sequence_length=length, precision=precision, optimizer="adamw",
                                                    accumulation="1", checkpointing=str(checkpointing).lower())
                    path = shipped.extract("-".join(filter(None, ("bert", kind, "checkpointing" * checkpointing, "mha-tied"))), folder)
                    dims_ = "sequence=%s,head_size=64,vocabulary=30522,positions=512,ffn=%d,kv_heads=%d,layers=%d" % (length, *sizes)
                    made = [self.figures(path, batch, "--dims", dims_) for batch in (2, 7)]
                    scaler = 0 if precision == "fp32" else 1024
                    self.assertEqual([[figures[0] + scaler] + figures[1:] for figures in made], recorded, (model, length, precision, checkpointing))

    def test_families_that_are_no_llama(self):
        self.compare("gpt2", "qlora", True, "medium b3 s512", tied=True)
        self.compare("gpt_neox", "lora", False, "1b b2 s2048")
        self.compare("mixtral", "full", True, "8x7B b2 s2048")
        self.compare("qwen3_moe", "lora-qkvo", False, "30B-A3B b4 s1000")
        self.compare("t5", "full-foreach", False, "base b7 s512/256", tied=True)

    def shipped_figures(self, folder, **wanted):
        """Of a shipped recording, at two batches."""
        row = next(r for r in shipped.tapes() if all(r[k] == v for k, v in wanted.items()))
        path = os.path.join(folder, "recorded.tape")
        with open(path, "wb") as f:
            f.write(shipped.tape(row))
        return [self.figures(path, batch) for batch in (2, 7)]

    def figures(self, path, batch, *options):
        done = subprocess.run([check.PROGRAM, "sim", path, "--batch", str(batch), "--json", *options], stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout)
        return [found[k] for k in ("allocated_bytes", "reserved_bytes", "needed_bytes")]

    def test_t5_is_what_its_shipped_recordings_are(self):
        """With checkpointing to the byte; else they keep a cache of keys and values, as trainers before transformers 5 did."""
        models = (("hf:t5-base", "t5", "mha-tied", (768, 3072, 32128, 12, 12)), ("hf:google/mt5-large", "t5-gated", "mha", (1024, 2816, 250112, 16, 24)))
        for model, family, shape, sizes in models:
            dims_ = "sequence=512,target_sequence=256,head_size=64,hidden=%d,ffn=%d,vocabulary=%d,kv_heads=%d,layers=%d" % sizes
            for precision, kind, checkpointing in (("fp32", "full-fp32-foreach", True), ("bf16", "full-foreach", False)):
                name = "-".join(filter(None, (family, kind, "checkpointing" * checkpointing, shape)))
                with tempfile.TemporaryDirectory() as folder, self.subTest(name=name):
                    recorded = self.shipped_figures(folder, model=model, mode="train", precision=precision, optimizer="adamw", accumulation="1",
                                                    checkpointing=str(checkpointing).lower())
                    path = shipped.extract(name, folder)
                    made = [self.figures(path, batch, "--dims", dims_) for batch in (2, 7)]
                    if checkpointing:
                        self.assertEqual(made, recorded)
                    for a, b in zip(sum(made, []), sum(recorded, [])):
                        self.assertLess(abs(a / b - 1), 0.01, (made, recorded))

    def test_what_zero_is_made_of(self):
        for kind in ("zero-lora", "zero-qlora-dropout", "zero3-lora"):
            self.compare("llama", kind, True, "3B b4 s1000")
        self.compare("qwen3", "zero", False, "3B b4 s1000")
        self.compare("qwen2", "zero3", False, "3B b4 s1000", tied=True)
        self.compare("llama", "full", False, "7B b1 s640")  # DeepSpeed leaves nothing behind

    def test_torchtitans_own(self):
        for kind in ("titan-op", "titan-tp", "titan-tp-single-op"):
            self.compare("llama", kind, True, "3B b4 s1000")

    def test_one_rank_of_eight(self):
        self.compare("llama", "fsdp2-accumulating", True, "3B b4 s1000")
        self.compare("llama", "fsdp2-lora", True, "3B b4 s1000")


if __name__ == "__main__":
    unittest.main()
