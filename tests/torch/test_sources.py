# SPDX-License-Identifier: Apache-2.0
"""Every kind of source, the command line, and what is said when something is wrong. Skips are counted at the end."""

import importlib.util
import json
import os
import sys
import tempfile
import unittest

from helper import Tape, command, modern, process, record

SKIPPED = []


def needs(module):
    """Skip loudly without a model library."""
    if importlib.util.find_spec(module) is None:
        SKIPPED.append(module)
        raise unittest.SkipTest("SKIPPED: %s is not installed" % module)


def complete(source, **said):
    """record(), skipped loudly where the library is there but does not import."""
    from batchfit.errors import MissingLibrary
    try:
        return record(source, **said)
    except MissingLibrary as why:
        SKIPPED.append("working " + source.split(":")[0])
        raise unittest.SkipTest("SKIPPED: %s" % why)


def tearDownModule():
    if SKIPPED:
        print("SKIPPED %d tests of sources: no %s" % (len(SKIPPED), ", ".join(sorted(set(SKIPPED)))), file=sys.stderr)


class Sources(unittest.TestCase):
    def test_timm(self):
        needs("timm")
        tape = record("timm:resnet18", script_defaults="timm-benchmark")
        self.assertEqual(tape.header["parameters"], 11689512)
        self.assertEqual(tape.header["classes"], 1000)
        self.assertTrue(any(a[3][1:] == ["layer1.0.conv1"] for a in tape.allocs.values()))

    def test_timm_checkpointing_lowers_the_peak(self):
        needs("timm")
        plain, saved = (record("timm:vit_tiny_patch16_224", batches=[2, 4], checkpointing=c) for c in (False, True))
        self.assertLess(saved.peak(64), 0.7 * plain.peak(64))

    def test_timm_prefetch_is_a_side_stream(self):
        needs("timm")
        tape = record("timm:resnet18", batches=[2, 4])
        side = [a for a in tape.allocs.values() if a[4] == 1]
        self.assertEqual({a[1] for a in side}, {3 * 224 * 224, 3 * 224 * 224 * 4, 8})

    def test_torchvision(self):
        needs("torchvision")
        tape = complete("torchvision:resnet18", batches=[2, 4])
        self.assertEqual(tape.header["parameters"], 11689512)

    def test_hf_encoder_decoder_and_both(self):
        needs("transformers")
        for name, parameters, task in (("distilbert-base-uncased", 66955010, "classification"),
                                       ("distilgpt2", 81912576, "causal-lm"), ("t5-small", 60506624, "seq2seq-lm")):
            tape = record("hf:" + name, seq_len=64, batches=[2, 4])
            self.assertEqual((tape.header["task"], tape.header["sequence_length"]), (task, 64))
            self.assertEqual(tape.header["parameters"], parameters, name)

    def test_hf_config_file(self):
        needs("transformers")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as f:
                json.dump(dict(model_type="bert", hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
                               intermediate_size=128, vocab_size=100), f)
            tape = record("hf:" + path, seq_len=16, attention="math")
            self.assertIn("attention", json.dumps(tape.header))

    def test_hf_head_that_a_config_of_an_unknown_family_names(self):
        needs("transformers")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as f:
                json.dump(dict(model_type="xglm", architectures=["XGLMForCausalLM"], d_model=64, num_layers=2, attention_heads=2,
                               ffn_dim=128, vocab_size=100), f)
            self.assertEqual(record("hf:" + path, seq_len=16).header["task"], "causal-lm")

    def test_fused_attention_keeps_no_scores(self):
        needs("transformers")
        if not modern():
            SKIPPED.append("torch 2 (fused attention)")
            self.skipTest("SKIPPED: torch 1 has no fused attention")
        math, fused = (record("hf:distilbert-base-uncased", seq_len=256, batches=[2, 4], attention=a)
                       for a in ("math", "fused"))
        self.assertGreater(math.peak(32), fused.peak(32) + 32 * 12 * 256 * 256 * 4 * 6)

    def test_ultralytics(self):
        needs("ultralytics")
        tape = complete("ultralytics:yolov8n", img_size=128, batches=[2, 4])
        self.assertTrue(tape.header["ema"])
        self.assertEqual(tape.header["targets_per_image"], 40)


class Wrong(unittest.TestCase):
    def says(self, status, words, *arguments):
        code, out, err = command(*arguments, "-o", "-", "--quiet")
        self.assertEqual(code, status, err)
        self.assertEqual(out, "")
        self.assertEqual(len(err.strip().split("\n")), 1, err)
        for word in words:
            self.assertIn(word, err)

    def test_usage(self):
        self.says(2, ["SOURCE must be one of"], "nonsense")
        self.says(2, ["--precision"], "python:models:conv", "--precision", "fp32x")
        self.says(2, ["fp16"], "python:models:conv", "--precision", "fp16")

    def test_not_recordable(self):
        self.says(3, ["no such thing"], "python:models:broken")
        self.says(3, ["no function"], "python:models:nothing")
        self.says(3, ["nonzero", "depends on the data"], "python:models:needs_data")

    def test_not_affine_names_the_op(self):
        self.says(3, ["exp", "changes with the batch"], "python:models:branch")
        self.says(3, ["mm", "not c + k*B"], "python:models:quadratic")

    def test_own_process_writes_a_tape_to_stdout(self):
        code, out, err = process("python:models:relu", "-o", "-")
        self.assertEqual(code, 0, err)
        self.assertEqual(Tape(out).header["optimizer"], "sgd")
        self.assertTrue(all(line.startswith("record: ") for line in err.strip().split("\n")), err)

    def test_missing_library(self):
        code, _, err = command("hf:gpt2", "-o", "-", "--quiet") if importlib.util.find_spec("transformers") is None \
            else (4, "", "pip install")
        self.assertEqual(code, 4)
        self.assertIn("pip install", err)


class Jobs(unittest.TestCase):
    def test_many_tapes_and_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = [dict(id=1, source="python:models:conv", output=folder + "/a/x.tape", optimizer="adamw"),
                     dict(id=2, source="python:models:branch", output=folder + "/y.tape"),
                     dict(id=3, source="python:models:conv", output=folder + "/z.tape", colour="red"),
                     dict(id=4, source="python:models:relu", output=folder + "/w.tape", batches=[1])]
            code, out, _ = command("--jobs", "-", "--quiet", stdin="\n".join(map(json.dumps, lines)) + "\nnot json\n")
            results = [json.loads(line) for line in out.strip().split("\n")]
            self.assertEqual(code, 3)
            self.assertEqual([r["ok"] for r in results], [True, False, False, True, False])
            self.assertEqual([r.get("status") for r in results], [None, 3, 2, None, 2])
            with open(folder + "/a/x.tape") as f:
                self.assertEqual(Tape(f.read()).header["optimizer"], "adamw")
            self.assertFalse(os.path.exists(folder + "/y.tape"))


if __name__ == "__main__":
    unittest.main()
