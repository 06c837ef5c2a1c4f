# SPDX-License-Identifier: Apache-2.0
"""What a step of preference training allocates: trl's own trainer on the recorder's device against our script.

    python3 -m pip install --no-deps --target DIR trl==1.13.0
    PYTHONPATH=DIR build/frameworks2/bin/python tests/frameworks/test_preference.py --peaks      # prints PEAKS
    build/frameworks2/bin/python tests/frameworks/test_preference.py --table                     # the figures of doc/accuracy.md
"""

import collections
import json
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "python")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
from trl.trainer import utils  # noqa: E402
from trl.trainer.dpo_config import DPOConfig  # noqa: E402
from trl.trainer.dpo_trainer import DPOTrainer  # noqa: E402
try:
    from trl.kernels import chunked_logprob  # noqa: E402
except ImportError:  # before 1.14
    chunked_logprob = None

from batchfit import composites, prepare, recorder, sharded  # noqa: E402
from batchfit.knobs import Knobs  # noqa: E402

# Whole tiles, so that ours are as many as theirs are large: 2 x 8 answers of 513 tokens, and 65,536 words.
BATCH, TOKENS = 8, 513
CONFIG = dict(model_type="llama", hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              head_dim=16, vocab_size=65536, max_position_embeddings=1024, tie_word_embeddings=False)


class _Kernel:
    """A Triton kernel that does nothing."""

    def __getitem__(self, grid):
        return lambda *args, **kwargs: None


def _as_on_a_gpu():
    """trl's code takes the way that it takes on CUDA; what its kernels write to is allocated by its Python."""
    enabled, dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
    yield mock.patch.object(chunked_logprob, "_use_triton", lambda device: True)
    yield mock.patch.object(utils, "_use_triton", lambda device: True)
    for name in ("_forward_kernel", "_backward_kernel"):
        yield mock.patch.object(chunked_logprob, name, _Kernel())
    yield mock.patch.object(chunked_logprob, "triton", types.SimpleNamespace(cdiv=lambda a, b: -(-a // b)), create=True)
    yield mock.patch.object(chunked_logprob, "_addmm_fp32", lambda acc, a, b: None)  # in place, from torch 2.8 on
    yield mock.patch.object(torch, "is_autocast_enabled", lambda kind="cuda": enabled("cuda"))
    yield mock.patch.object(torch, "get_autocast_dtype", lambda kind: dtype("cuda"))


def _trainer(job, knobs, folder):
    """trl's, without its preparations: on our model, whose head is then its own."""
    made = object.__new__(DPOTrainer)
    made.args = DPOConfig(folder, use_cpu=True, report_to=[])
    made.model, made.ref_model = job.model, job.reference
    made.accelerator = types.SimpleNamespace(gather_for_metrics=lambda x: x, gather=lambda x: x, unwrap_model=lambda m: m, device="meta")
    made.beta, made.precompute_ref_logps, made.loss_types, made.loss_weights = 0.1, job.how.is_precomputed, ["sigmoid"], [1.0]
    made.ld_alpha, made.f_divergence_type, made.label_smoothing, made.use_weighting = None, "reverse_kl", 0.0, False
    made.aux_loss_enabled, made._tp_size, made._total_train_tokens = False, 1, 0
    made._metrics = {"train": collections.defaultdict(list)}
    made.use_liger_kernel = False
    for model in filter(None, (job.model, job.reference)):
        sharded.autocast_forward(model, knobs) if not chunked_logprob else _with_head(model, job, knobs)
    return made


def _with_head(model, job, knobs):
    """trl's in place of ours, and then accelerate's autocast."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    del inner.forward
    more = ("entropy", "mean_logits", "is_top1") if model is job.model else ()
    utils.add_fused_lm_head(inner, outputs=("log_probs",) + more)
    sharded.autocast_forward(model, knobs)


class _Theirs:
    """The job with trl's loss."""

    def __init__(self, job, knobs, folder):
        self.trainer, self.job = _trainer(job, knobs, folder), job

    def forward_loss(self, inputs):
        given = dict(inputs, completion_mask=inputs["completion"])
        for ours, name in (("chosen", "ref_chosen_logps"), ("rejected", "ref_rejected_logps")):
            if ours in given:
                given[name] = given.pop(ours)
        del given["completion"]
        return None, self.trainer.compute_loss(self.job.model, given)


def _log(folder, theirs, **said):
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(CONFIG, f)
    composites.install()
    knobs = Knobs("hf", torch.__version__, dict(dict(precision="bf16", weights="bf16", fused_optimizer=True, seq_len=TOKENS), **said))
    job = prepare.load("hf:" + path, knobs)
    if theirs:
        job.forward_loss = _Theirs(job, knobs, folder).forward_loss
    return recorder.recorded(job, knobs, BATCH)


def _sequence(log):
    """(sizes of what is allocated in order, the most bytes at a time by phase)."""
    sizes, now, most, asked = {}, 0, [], []
    for e in log.events:
        if e[0] == "m":
            most.append(0)
        if e[0] == "a":
            sizes[e[1]] = e[2]
            asked.append((e[2], {"full": "empty", "zeros": "empty", "_to_copy": "empty"}.get(e[4], e[4])))
        if e[0] in "af":
            now += sizes[e[1]] * (1 if e[0] == "a" else -1)
            most[-1] = max(most[-1], now)
    return asked, most


BY_TILES = {
    "full": dict(loss="dpo@1.16"),
    "full, checkpointing": dict(loss="dpo@1.16", checkpointing=True),
    "fp32": dict(loss="dpo@1.16", precision="amp-bf16", weights="fp32"),
    "precomputed": dict(loss="dpo:precomputed@1.14"),
    "lora": dict(loss="dpo@1.16", adapter="lora:4", precision="amp-bf16", checkpointing=True),
    "qlora": dict(loss="dpo@1.16", adapter="lora:4", quant="nf4", precision="amp-bf16"),
}


@unittest.skipUnless(chunked_logprob, "all logits before trl 1.14")
class AsTrl(unittest.TestCase):
    def setUp(self):
        for patch in _as_on_a_gpu():
            patch.start()
            self.addCleanup(patch.stop)

    def compare(self, **said):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = (_sequence(_log(folder, which, **said)) for which in (False, True))
        self.assertEqual(ours[0], theirs[0])
        self.assertEqual(ours[1], theirs[1])

    def test_full(self):
        self.compare(**BY_TILES["full"])
        self.compare(**BY_TILES["full, checkpointing"])
        self.compare(**BY_TILES["fp32"])

    def test_precomputed(self):
        self.compare(**BY_TILES["precomputed"])

    def test_lora(self):
        self.compare(**BY_TILES["lora"])
        self.compare(**BY_TILES["qlora"])


# With all logits. What the forward and the backward passes of trl 1.13.0 take at most, by --peaks.
LOGITS = 4 * 2 * BATCH * (TOKENS - 1) * CONFIG["vocab_size"]
OF_LOGITS = {
    "full": dict(loss="dpo", precision="amp-bf16"),
    "full, checkpointing": dict(loss="dpo", precision="amp-bf16", checkpointing=True),
    "fp32": dict(loss="dpo", precision="amp-bf16", weights="fp32"),
    "precomputed": dict(loss="dpo:precomputed", precision="amp-bf16"),
    "lora": dict(loss="dpo", precision="amp-bf16", adapter="lora:4"),
}
PEAKS = {
    "full": [6638795252, 8681315000, 6681165640, 8723685388],
    "full, checkpointing": [6600582860, 8643102608, 6642953248, 8685472996],
    "fp32": [6692771636, 8735291384, 6768992648, 8811512396],
    "precomputed": [4470159156, 8664389688, 4512529544, 8706760076],
    "lora": [6622803956, 8665323704, 6631389284, 8673909032],
}


def _passes(log):
    """The most bytes of each forward and backward pass."""
    marks = [e[1] for e in log.events if e[0] == "m"]
    return [n for kind, n in zip(marks, _sequence(log)[1]) if kind in ("forward", "backward")]


class AllLogits(unittest.TestCase):
    def test_as_trl(self):
        """Ours goes through one sequence of all, and through one part of those of which the entropy is made; gather's gradient is no copy."""
        for name, said in OF_LOGITS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                ours = _passes(_log(folder, False, **said))
                for i, (a, b) in enumerate(zip(ours, PEAKS[name], strict=True)):
                    self.assertAlmostEqual(a, b - LOGITS * (i % 2), delta=1 << 17)

    def test_a_softmax_beside(self):
        """LLaMA-Factory's: of both models all logits and a softmax of them, and in the backward pass its gradient and gather's."""
        with tempfile.TemporaryDirectory() as folder:
            said = dict(precision="amp-bf16", adapter="lora:4")
            other, same = (_passes(_log(folder, False, loss=loss, **said)) for loss in ("dpo:llamafactory", "dpo"))
        self.assertAlmostEqual(other[0] / LOGITS, 4, delta=0.1)
        self.assertGreater(other[0], same[0])


def _peaks():
    for name, said in OF_LOGITS.items():
        with tempfile.TemporaryDirectory() as folder:
            print('    "%s": %s,' % (name, _passes(_log(folder, True, **said))))


def _table():
    for patch in _as_on_a_gpu():
        patch.start()
    for name, said in list(BY_TILES.items()) + list(OF_LOGITS.items()):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = (_passes(_log(folder, which, **said)) if not which or said in BY_TILES.values() else PEAKS[name] for which in (False, True))
        print("| %s, %s | %d, %d | %d, %d |" % (said["loss"], name, *theirs[2:], *ours[2:]))


if __name__ == "__main__":
    {"--peaks": _peaks, "--table": _table}.get("".join(sys.argv[1:2]), unittest.main)()
