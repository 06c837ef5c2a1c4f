# SPDX-License-Identifier: Apache-2.0
"""Fused losses: what our rules allocate against what the libraries' own Python does (kernels.tsv, made by real_kernels.py), and tapes."""

import json
import os
import unittest

import helper
import real_kernels
import torch

from batchfit import build, liger, loss_words
from batchfit.errors import RecordError, UsageError
from batchfit.recorder import record

SMALL = 5120  # from here on in what was released before 0.5.3: a chunk's scalars and its tokens' losses times a number are left out
# Ours is of Axolotl's fork, with locks rounded up to a byte a token: what it alone has, what PyPI's alone has (locks, losses once more), the peak above.
FORK = {"cut-two": ("+1280 -1280 +1280 -1280 +4 -4", "+5116 -5116 +40 -40 +512 -512", -4344),
        "cut-two-frozen": ("+1280 -1280 +1280 -1280", "+5116 -5116 +40 -40 +512 -512", -4348)}
CONFIG = dict(model_type="llama", hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              head_dim=16, vocab_size=1000, max_position_embeddings=512, tie_word_embeddings=False)


def table():
    """{name: sequence}"""
    with open(os.path.join(helper.HERE, "kernels.tsv"), encoding="utf-8") as f:
        return dict(line.rstrip("\n").split("\t") for line in f if not line.startswith("#"))


def large(text):
    """Sizes of what is allocated, without scalars."""
    return sorted(n for n in map(int, text.split()) if n > SMALL)


@unittest.skipIf(int(torch.__version__.split(".")[0]) < 2, "the libraries need torch 2")
class Rules(unittest.TestCase):
    def setUp(self):
        rows = liger.MULTIPROCESSORS
        liger.MULTIPROCESSORS = 1  # what liger counts where there is no GPU
        self.addCleanup(setattr, liger, "MULTIPROCESSORS", rows)

    def ours(self, name):
        run, tensors, autocast = real_kernels.ours(name)
        return real_kernels.sequence(run, *tensors, autocast=autocast)

    def test_as_the_libraries(self):
        for name, expected in table().items():
            got = self.ours(name)
            with self.subTest(name):
                if name.startswith("liger-two-0.5.2"):
                    self.assertEqual(large(got), large(expected))
                elif name.startswith("liger-four"):  # all its chunks, of which ours has two
                    self.assertEqual(real_kernels.peak(got), real_kernels.peak(expected))
                elif name.startswith("cut"):  # of PyPI's release; what dies at the end dies in another order
                    ours, theirs, above = FORK[name]
                    self.assertEqual(sorted(got.split() + theirs.split()), sorted(expected.split() + ours.split()))
                    self.assertEqual(real_kernels.peak(got) - real_kernels.peak(expected), above)
                else:
                    self.assertEqual(got, expected)

    def test_chunk_rows(self):
        for tokens in (3, 100, 4096, 8192, 12000):
            for parts in (1, 2, 4, 8, 63):
                part = -(-tokens // parts)  # liger: next_power_of_2 of it
                rows = min(next(1 << n for n in range(40) if 1 << n >= part), tokens)
                self.assertEqual(loss_words.chunk_rows(tokens, parts), (rows, min(rows, tokens - rows)))
                self.assertEqual(parts > 1, tokens > rows)


@unittest.skipIf(int(torch.__version__.split(".")[0]) < 2, "losses of torch 2")
class Tapes(helper.InFolder):
    def tape(self, loss, **said):
        path = self.file("config.json", json.dumps(CONFIG))
        return record("hf:" + path, dict(dict(precision="bf16", weights="bf16", fused_optimizer=True, seq_len=256, loss=loss), **said))

    def peak_of(self, text, batch):
        tape = self.file("x.tape", text)
        done = helper.subprocess.run([helper.BATCHFIT, "sim", tape, "--batch", str(batch), "--json"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def test_sizes_at_another_batch(self):
        text = self.tape("liger", batches=[2, 4, 8])
        self.assertIn('"loss":"liger","loss_tokens":256,"loss_parts":16', text)
        for batch in (3, 8, 11):  # chunks of 64, 128 and 256 rows
            direct = self.tape("liger", batches=[batch])
            self.assertEqual(self.peak_of(text, batch), self.peak_of(direct, batch))

    def test_logits_are_gone(self):
        peaks = {loss: self.peak_of(self.tape(loss, checkpointing=True), 8)["allocated_bytes"] for loss in ("ce", "chunked:4", "linear:4", "liger:loss", "cut")}
        logits = 8 * 256 * 1000
        self.assertGreater(peaks["ce"] - peaks["chunked:4"], 2 * logits)
        self.assertGreater(peaks["chunked:4"] - peaks["linear:4"], logits)
        self.assertGreater(peaks["linear:4"] - peaks["liger:loss"], 2 * logits)
        self.assertLessEqual(peaks["cut"], peaks["liger:loss"])  # not even a chunk

    def test_layers_keep_less(self):
        whole, loss_only = (self.peak_of(self.tape(loss), 8)["allocated_bytes"] for loss in ("liger", "liger:loss"))
        self.assertLess(whole, 0.9 * loss_only)

    def test_refused(self):
        for loss, what in (("ligre", "choose from"), ("liger@0.2", "choose from"), ("chunked:0", "choose from"), ("linear:x", "choose from"), ("cut:3", "choose from")):
            with self.assertRaisesRegex(UsageError, what):
                self.tape(loss)
        with self.assertRaisesRegex(UsageError, "inference"):
            self.tape("liger", mode="inference")
        with self.assertRaisesRegex(UsageError, "hf: models"):
            record("torchvision:resnet18", dict(loss="liger"))
        path = self.file("config.json", json.dumps(dict(model_type="gpt2", n_embd=64, n_layer=2, n_head=4, vocab_size=100)))
        with self.assertRaisesRegex(RecordError, "not for a gpt2"):
            record("hf:" + path, dict(loss="liger"))


class Building(unittest.TestCase):
    def test_one_inside_another(self):
        """A function of the user's may load a model by one of our sources."""
        with build.without_init():
            with build.without_init():
                torch.nn.Linear(100, 100)
            torch.nn.Linear(100, 100)
        self.assertTrue(torch.zeros(5000).uniform_(1, 2).min() >= 1)


if __name__ == "__main__":
    unittest.main()
