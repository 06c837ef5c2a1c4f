# SPDX-License-Identifier: Apache-2.0
"""What a step of preference training allocates: trl's own trainer on the recorder's device against our script.

    python3 -m pip install --no-deps --target DIR trl==1.13.0
    PYTHONPATH=DIR build/frameworks2/bin/python tests/frameworks/test_preference.py --peaks      # prints PEAKS
    build/frameworks2/bin/python tests/frameworks/test_preference.py --table                     # the figures of doc/accuracy.md
"""

import collections
import contextlib
import importlib
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
from trl.trainer import grpo_trainer, utils  # noqa: E402
from trl.trainer.dpo_config import DPOConfig  # noqa: E402
from trl.trainer.dpo_trainer import DPOTrainer  # noqa: E402
from trl.trainer.kto_trainer import KTOTrainer  # noqa: E402
from trl.trainer.reward_trainer import RewardTrainer  # noqa: E402
try:
    from trl.kernels import chunked_logprob  # noqa: E402
except ImportError:  # before 1.15
    chunked_logprob = None

try:
    from trl.experimental.cpo import CPOTrainer  # noqa: E402
    from trl.experimental.orpo import ORPOTrainer  # noqa: E402
except ImportError:  # before 1.0
    from trl import CPOTrainer, ORPOTrainer  # noqa: E402

from batchfit import composites, prepare, recorder, sharded  # noqa: E402
from batchfit.knobs import Knobs  # noqa: E402

NEEDS_TORCH_2 = True

# Whole tiles, so that ours are as many as theirs are large: 2 x 8 answers of 513 tokens, and 65,536 words.
BATCH, TOKENS = 8, 513
COMPLETION = 256  # of these tokens, of 32 completions
CONFIG = dict(model_type="llama", hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              head_dim=16, vocab_size=65536, max_position_embeddings=1024, tie_word_embeddings=False)


class _Kernel:
    """A Triton kernel that does nothing."""

    def __getitem__(self, grid):
        return lambda *args, **kwargs: None


def _of_kernel():
    """trl's function of that name, which a machine without Triton cannot import."""
    language = types.SimpleNamespace(constexpr=None)
    triton = types.SimpleNamespace(jit=lambda kernel: _Kernel(), language=language, cdiv=lambda a, b: -(-a // b))
    with mock.patch.dict(sys.modules, {"triton": triton, "triton.language": language}):
        return importlib.import_module("trl.kernels.logprob_entropy").selective_log_softmax_and_entropy


def _as_on_a_gpu():
    """trl's code takes the way that it takes on CUDA; what its kernels write to is allocated by its Python."""
    enabled, dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
    yield mock.patch.object(chunked_logprob, "_use_triton", lambda device: True)
    yield mock.patch.object(utils, "_use_triton", lambda device: True)
    for name in ("_forward_kernel", "_backward_kernel"):
        yield mock.patch.object(chunked_logprob, name, _Kernel())
    yield mock.patch.object(chunked_logprob, "triton", types.SimpleNamespace(cdiv=lambda a, b: -(-a // b)), create=True)
    yield mock.patch.object(chunked_logprob, "_addmm_fp32", lambda acc, a, b: None)  # in place, from torch 2.8 on
    yield mock.patch.object(utils, "is_triton_available", lambda: True)
    yield mock.patch.object(utils, "_supports_trl_loss_kernel", lambda *args: True)
    yield mock.patch.object(utils, "_fused_logprob_entropy", _of_kernel(), create=True)
    for name in ("nanmin", "nanmax"):  # a value that nobody knows is taken for true, so all would be NaN
        yield mock.patch.object(grpo_trainer, name, lambda x: (torch.isnan(x).all(), torch.min(x[~torch.isnan(x)]))[1])
    yield mock.patch.object(torch, "is_autocast_enabled", lambda kind="cuda": enabled("cuda"))
    yield mock.patch.object(torch, "get_autocast_dtype", lambda kind: dtype("cuda"))


ACCELERATOR = types.SimpleNamespace(gather_for_metrics=lambda x: x, gather=lambda x: x, unwrap_model=lambda m: m, device=torch.device("meta"))


def _alone(kind, **more):
    """Of trl's that have no reference, without its preparations."""
    def make(job, knobs, _):
        made = object.__new__(kind)
        made.model, made.accelerator, made.args = job.model, ACCELERATOR, types.SimpleNamespace(device="meta")
        made.is_encoder_decoder, made.aux_loss_enabled, made._peft_has_been_casted_to_bf16 = False, False, False
        made.padding_value = made.pad_token_id = 0
        made.beta, made.alpha, made.label_smoothing, made.loss_type, made.simpo_gamma = 0.1, 0.0, 0.0, "sigmoid", 0.5
        made.__dict__.update(_stored_metrics=collections.defaultdict(lambda: collections.defaultdict(list)), **more)
        sharded.autocast_forward(job.model, knobs)
        return made
    return make


def _dpo(job, knobs, folder):
    """trl's, without its preparations: on our model, whose head is then its own."""
    made = object.__new__(DPOTrainer)
    made.args = DPOConfig(folder, use_cpu=True, report_to=[])
    made.model, made.ref_model, made.accelerator = job.model, job.reference, ACCELERATOR
    made.beta, made.precompute_ref_logps, made.loss_types, made.loss_weights = 0.1, job.how.is_precomputed, ["sigmoid"], [1.0]
    made.ld_alpha, made.f_divergence_type, made.label_smoothing, made.use_weighting = None, "reverse_kl", 0.0, False
    made.aux_loss_enabled, made._tp_size, made._total_train_tokens = False, 1, 0
    made._metrics = {"train": collections.defaultdict(list)}
    made.use_liger_kernel = False
    _heads(job, knobs, "entropy", "mean_logits", "is_top1")
    return made


def _heads(job, knobs, *outputs):
    """accelerate's autocast around trl's heads, which give these of the model that is trained."""
    for model in filter(None, (job.model, job.reference)):
        if chunked_logprob:
            inner = model.get_base_model() if hasattr(model, "get_base_model") else model
            del inner.forward
            utils.add_fused_lm_head(inner, outputs=("log_probs",) + (outputs if model is job.model else ()))
        sharded.autocast_forward(model, knobs)


def _kto(job, knobs, folder):
    """And KTO's."""
    made = object.__new__(KTOTrainer)
    made.args = types.SimpleNamespace(gradient_checkpointing_kwargs=None)
    made.model, made.ref_model, made.accelerator = job.model, job.reference, ACCELERATOR
    made.calculate_KL, made.aux_loss_enabled, made.precompute_ref_logps, made.use_liger_kernel = True, False, False, False
    made.loss_type, made.beta, made.desirable_weight, made.undesirable_weight = "kto", 0.1, 1.0, 1.0
    made._total_train_tokens, made._tp_size, made._metrics = 0, 1, {"train": collections.defaultdict(list)}
    _heads(job, knobs, "entropy", "mean_logits")
    return made


def _reward(job, knobs, folder):
    """And the one of reward models."""
    del folder
    made = object.__new__(RewardTrainer)
    made.model, made.accelerator, made.args = job.model, ACCELERATOR, types.SimpleNamespace(center_rewards_coefficient=None)
    made._total_train_tokens, made._tp_size, made._metrics = 0, 1, {"train": collections.defaultdict(list)}
    sharded.autocast_forward(job.model, knobs)
    return made


def _grpo(job, knobs, folder):
    """And the one of groups of completions."""
    del folder
    made = object.__new__(grpo_trainer.GRPOTrainer)
    accelerator = dict(ACCELERATOR.__dict__, is_main_process=False, reduce=lambda x, reduction: x, num_processes=1, autocast=contextlib.nullcontext)
    made.model, made.accelerator = job.model, types.SimpleNamespace(**accelerator)
    made.args = types.SimpleNamespace(delta=None, steps_per_generation=1, use_bias_correction_kl=False)
    made.beta, made.loss_type, made.importance_sampling_level = 0.04 if job.how.has_reference else 0.0, "dapo", "token"
    made.epsilon_low, made.epsilon_high, made.top_entropy_quantile, made.off_policy_mask_threshold = 0.2, 0.2, 1.0, None
    made.temperature, made.use_vllm, made.use_liger_kernel, made.aux_loss_enabled, made._entropy_bonus_enabled = 1.0, False, False, False, False
    made.current_gradient_accumulation_steps, made.model_kwarg_keys = 1, ("logits_to_keep",)
    made._metrics = {"train": collections.defaultdict(list)}
    reference, job.reference = job.reference, None  # its scores come with the batch
    _heads(job, knobs, "entropy")
    job.reference = reference
    return made


TRAINERS = {"grpo": _grpo, "dpo": _dpo, "orpo": _alone(ORPOTrainer), "cpo": _alone(CPOTrainer, cpo_alpha=1.0),
            "simpo": _alone(CPOTrainer, cpo_alpha=0, loss_type="simpo"), "kto": _kto, "reward": _reward}
NAMES = {"completion": "completion_mask", "chosen": "ref_chosen_logps", "rejected": "ref_rejected_logps",
         "old": "old_per_token_logps", "referred": "ref_per_token_logps"}  # of what we call otherwise


class _Theirs:
    """The job with trl's loss."""

    def __init__(self, job, knobs, folder):
        self.trainer, self.job = TRAINERS[job.how.name](job, knobs, folder), job

    def forward_loss(self, inputs):
        compute = self.trainer.compute_loss
        if self.job.how.name == "grpo":
            self.job.count(inputs)
            compute = self.trainer._compute_loss  # around which the other measures times
        with mock.patch.object(torch, "nonzero", _all_or_none()):
            return None, compute(self.job.model, {NAMES.get(name, name): x for name, x in inputs.items()})


def _all_or_none():
    """nonzero, first of the good ones and then of the others, of which there are none."""
    found, nonzero = [], torch.nonzero

    def of(x, **how):
        found.append(nonzero(x, **how))
        return found[-1] if len(found) == 1 else found[-1][:0]
    return of


def _log(folder, theirs, **said):
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(CONFIG, f)
    composites.install()
    knobs = Knobs("hf", torch.__version__, dict(dict(precision="bf16", weights="bf16", fused_optimizer=True, seq_len=TOKENS,
                                                     target_len=COMPLETION if said["loss"].startswith("grpo") else None), **said))
    job = prepare.load("hf:" + path, knobs)
    if theirs:
        job.forward_loss = _Theirs(job, knobs, folder).forward_loss
    return recorder.recorded(job, knobs, BATCH * {"kto": 2, "grpo": 4}.get(job.how.name, 1))  # whose samples are no pairs


def _added(events):
    """The same where autograd adds two gradients of all logits in place, as it does when no dispatch mode looks on (input_buffer.cpp)."""
    sizes, lives_on, total = {}, {}, None
    for e in events:
        if e[0] == "a":
            sizes[e[1]] = e[2]
        if e[0] == "a" and (e[2], e[4]) == (ALL, "add"):
            total = e[1]
        elif e[0] == "f" and total is not None and sizes[e[1]] == ALL:
            lives_on[total], total = e[1], None
        else:
            yield ("f", lives_on.get(e[1], e[1])) if e[0] == "f" else e


def _sequence(log):
    """(sizes of what is allocated in order, the most bytes at a time by phase)."""
    sizes, now, most, asked = {}, 0, [], []
    for e in _added(log.events):
        if e[0] == "m":
            most.append(0)
        if e[0] == "a":
            sizes[e[1]] = e[2]
            asked.append((e[2], {"full": "empty", "zeros": "empty", "_to_copy": "empty", "max": "min"}.get(e[4], e[4])))
        if e[0] in "af":
            now += sizes[e[1]] * (1 if e[0] == "a" else -1)
            most[-1] = max(most[-1], now)
    return asked, most


ALL = 4 * 2 * BATCH * TOKENS * CONFIG["vocab_size"]  # logits in fp32
BY_TILES = {
    "full": dict(loss="dpo@1.16"),
    "full, checkpointing": dict(loss="dpo@1.16", checkpointing=True),
    "fp32": dict(loss="dpo@1.16", precision="amp-bf16", weights="fp32"),
    "precomputed": dict(loss="dpo:precomputed@1.15"),
    "lora": dict(loss="dpo@1.16", adapter="lora:4", precision="amp-bf16", checkpointing=True),
    "qlora": dict(loss="dpo@1.16", adapter="lora:4", quant="nf4", precision="amp-bf16"),
}


ALONE = {
    "full": dict(loss="orpo@1.16", precision="amp-bf16"),
    "full, checkpointing": dict(loss="orpo@1.16", precision="amp-bf16", checkpointing=True),
    "fp32": dict(loss="orpo@1.16", precision="amp-bf16", weights="fp32"),
    "lora": dict(loss="orpo@1.16", precision="amp-bf16", adapter="lora:4"),
    "qlora": dict(loss="orpo@1.16", precision="amp-bf16", adapter="lora:4", quant="nf4", checkpointing=True),
}


KTO = {name: dict(said, loss=said["loss"].replace("dpo", "kto")) for name, said in BY_TILES.items() if "precomputed" not in name}
GRPO = {"%s%s" % (name, part and ", reference"): dict(said, loss="grpo%s@1.16" % part)
        for part in ("", ":reference") for name, said in ALONE.items()}
REWARD = {name: dict(said, loss="reward") for name, said in ALONE.items()}


@unittest.skipUnless(chunked_logprob, "all logits before trl 1.15")
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

    def test_orpo(self):
        for name, said in ALONE.items():
            with self.subTest(name):
                self.compare(**said)

    def test_kto(self):
        for name, said in KTO.items():
            with self.subTest(name):
                self.compare(**said)

    def test_grpo(self):
        for name, said in GRPO.items():
            with self.subTest(name):
                self.compare(**said)

    def test_reward(self):
        for name, said in REWARD.items():
            with self.subTest(name):
                self.compare(**said)

    def test_others_differ_in_scalars(self):
        """CPO has ORPO's step, SimPO's lacks the cross-entropy: their peaks are the same, to an entry a pair."""
        for loss in ("cpo@1.16", "simpo@1.16"):
            with self.subTest(loss), tempfile.TemporaryDirectory() as folder:
                ours, theirs = (_passes(_log(folder, which, loss=loss, precision="amp-bf16")) for which in (False, True))
                for a, b in zip(ours, theirs, strict=True):
                    self.assertAlmostEqual(a, b, delta=1 << 10)


# With all logits. What the forward and the backward passes of trl 1.13.0 take at most, by --peaks.
LOGITS = 4 * 2 * BATCH * (TOKENS - 1) * CONFIG["vocab_size"]
OF_LOGITS = {
    "full": dict(loss="dpo", precision="amp-bf16"),
    "full, checkpointing": dict(loss="dpo", precision="amp-bf16", checkpointing=True),
    "fp32": dict(loss="dpo", precision="amp-bf16", weights="fp32"),
    "precomputed": dict(loss="dpo:precomputed", precision="amp-bf16"),
    "lora": dict(loss="dpo", precision="amp-bf16", adapter="lora:4"),
    "orpo": dict(loss="orpo", precision="amp-bf16"),
    "orpo, lora": dict(loss="orpo", precision="amp-bf16", adapter="lora:4", checkpointing=True),
    "simpo": dict(loss="simpo", precision="amp-bf16"),
    "kto": dict(loss="kto", precision="amp-bf16"),
    "kto, lora": dict(loss="kto", precision="amp-bf16", adapter="lora:4", checkpointing=True),
    "grpo": dict(loss="grpo", precision="amp-bf16"),
    "grpo, fp32, reference": dict(loss="grpo:reference", precision="amp-bf16", weights="fp32"),
    "grpo, lora": dict(loss="grpo", precision="amp-bf16", adapter="lora:4", checkpointing=True),
}
PEAKS = {
    "full": [6638795252, 8681315000, 6681165640, 8723685388],
    "full, checkpointing": [6600582860, 8643102608, 6642953248, 8685472996],
    "fp32": [6692771636, 8735291384, 6768992648, 8811512396],
    "precomputed": [4470159156, 8664389688, 4512529544, 8706760076],
    "lora": [6622803956, 8665323704, 6631389284, 8673909032],
    "orpo": [4369750648, 9738361084, 4412121036, 9780731472],
    "orpo, lora": [4329469776, 9698014548, 4338055104, 9706599876],
    "simpo": [3298007536, 8664586488, 3340377924, 8706956876],
    "kto": [8688119840, 8681512008, 8730490228, 8723882396],
    "kto, lora": [8628812344, 8624305760, 8637397672, 8632891088],
    "grpo": [4518210616, 8703929664, 4560581004, 8746300052],
    "grpo, fp32, reference": [4600702008, 8786421056, 4676923020, 8862642068],
    "grpo, lora": [4438660624, 8624379672, 4447245952, 8632965000],
}


def _passes(log):
    """The most bytes of each forward and backward pass."""
    marks = [e[1] for e in log.events if e[0] == "m"]
    return [n for kind, n in zip(marks, _sequence(log)[1]) if kind in ("forward", "backward")]


class _Seen(torch.autograd.Function):
    """Remembers where the gradient of a use lies."""

    @staticmethod
    def forward(ctx, x, places):
        ctx.places = places
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        grad = grad * 1
        ctx.places.append(grad.data_ptr())
        return grad, None


class AllLogits(unittest.TestCase):
    def test_two_gradients_are_added_in_place(self):
        """What _added takes for granted, on real tensors."""
        first, places, sums = torch.ones(1000, requires_grad=True), [], []
        both = first * 1
        both.register_hook(lambda grad: sums.append(grad.data_ptr()))
        (_Seen.apply(both, places) + _Seen.apply(both, places)).sum().backward()
        self.assertIn(sums[0], places)

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
    recorded = [pair for part in (BY_TILES, ALONE, KTO, GRPO, REWARD) for pair in part.items()]
    for name, said in recorded + list(OF_LOGITS.items()):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = (_passes(_log(folder, which, **said)) if not which or (name, said) in recorded else PEAKS[name] for which in (False, True))
        print("| %s, %s | %d, %d | %d, %d |" % (said["loss"], name, *theirs[2:], *ours[2:]))


if __name__ == "__main__":
    {"--peaks": _peaks, "--table": _table}.get("".join(sys.argv[1:2]), unittest.main)()
