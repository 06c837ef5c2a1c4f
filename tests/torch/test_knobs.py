# SPDX-License-Identifier: Apache-2.0
"""Each knob changes what it should, and nothing else."""

import unittest

from helper import modern, record

from batchfit.errors import UsageError

MODEL = "python:models:conv"
PARAMETERS = 16 * 8 * 9 + 2 * 16 + 16 * 10 + 10


class Knobs(unittest.TestCase):
    def test_grammar_and_header(self):
        tape = record(MODEL)
        self.assertEqual(tape.header["tape"], 1)
        self.assertEqual(tape.header["model"], MODEL)
        self.assertEqual(tape.header["parameters"], PARAMETERS)
        self.assertEqual(tape.header["batches"], [2, 4, 8])
        self.assertEqual(tape.bytes_of("param", 1), PARAMETERS * 4)

    def test_optimizer_changes_only_its_own_phase(self):
        sgd, adamw = (record(MODEL, optimizer=o) for o in ("sgd", "adamw"))
        for phase in sgd.phases:
            same = sgd.phases[phase] == adamw.phases[phase]
            self.assertEqual(same, phase[0] != "optimizer", phase)

    def test_state_bytes_per_parameter(self):
        for optimizer, extra, per in (("adamw", {}, 8), ("sgd", {}, 4), ("sgd", {"momentum": 0.0}, 0), ("lion", {}, 4)):
            tape = record(MODEL, optimizer=optimizer, **extra)
            self.assertEqual(tape.bytes_of("optimizer", 1), per * PARAMETERS, optimizer)

    def test_other_optimizers_run(self):
        eight = record(MODEL, optimizer="adamw8bit").bytes_of("optimizer", 1)
        self.assertLess(record(MODEL, optimizer="adafactor").bytes_of("optimizer", 1), 4 * PARAMETERS)
        self.assertEqual(eight, 8 * PARAMETERS, "tensors under 4096 elements keep fp32 states")
        fused = record(MODEL, optimizer="adamw", fused_optimizer=True)
        self.assertEqual(fused.bytes_of("temporary", 1, ("optimizer", 1)), 0)
        self.assertEqual(fused.bytes_of("optimizer", 1), 8 * PARAMETERS + 4 * 5)

    def test_foreach_takes_more_at_once(self):
        one, many = (record(MODEL, weight_decay=0.1, foreach=f).peak(1, "optimizer") for f in (False, True))
        self.assertGreater(many, one)

    def test_early_foreach_adam_takes_two_more_at_once(self):
        for optimizer in ("adam", "adamw"):
            early, now = (record(MODEL, optimizer=optimizer, foreach=True, rules=r) for r in ("2.0", "2.1"))
            self.assertEqual(early.bytes_of("optimizer", 1), 8 * PARAMETERS)
            sizes = [early.bytes_of("temporary", 1, ("optimizer", 1)), now.bytes_of("temporary", 1, ("optimizer", 1))]
            own = 4 if modern() else 8  # rules from 2.1 on take the running torch's own, and 1.13's is an early one
            self.assertEqual(sizes, [8 * PARAMETERS, own * PARAMETERS], optimizer)

    def test_gradients_dropped_before_backward(self):
        late, plain = (list(record(MODEL, script_defaults=p).phases) for p in ("zero-before-backward", "plain"))
        self.assertEqual(late[-4:], [("forward", 1), ("zero_grad", 1), ("backward", 1), ("optimizer", 1)])
        self.assertEqual(sorted(late), sorted(plain))
        with self.assertRaisesRegex(UsageError, "drops gradients before each backward"):
            record(MODEL, script_defaults="zero-before-backward", accumulation=2)

    def test_gradients_kept_or_dropped(self):
        for way, count in (("none", 2), ("zero", 1)):
            tape = record(MODEL, zero_grad=way)
            self.assertEqual(tape.bytes_of("gradient", 1), count * 4 * PARAMETERS, way)

    def test_accumulation_keeps_gradients(self):
        tape = record(MODEL, accumulation=4, zero_grad="none")
        self.assertEqual(tape.header["accumulation"], 2)
        self.assertEqual(len([l for l in tape.lines if l.startswith("m forward")]), 4)
        self.assertEqual(tape.bytes_of("gradient", 1), 2 * 4 * PARAMETERS)

    def test_amp_and_scaler(self):
        amp = record(MODEL, precision="amp-fp16")
        self.assertTrue(amp.header["grad_scaler"])
        self.assertGreater(amp.bytes_of("cast", 8), 0)
        self.assertFalse(record(MODEL, precision="amp-bf16").header["grad_scaler"])
        self.assertEqual(record(MODEL).bytes_of("cast", 8), 0)

    def test_pure_bf16_halves_parameters(self):
        self.assertEqual(record(MODEL, precision="bf16").bytes_of("param", 1), 2 * PARAMETERS)

    def test_ema_copies_parameters_and_buffers(self):
        plain, ema = record(MODEL), record(MODEL, ema=True)
        copy = ema.bytes_of("other", 1, ("init", 0)) - plain.bytes_of("other", 1, ("init", 0))
        self.assertEqual(copy, 4 * (PARAMETERS + 2 * 16) + 8)

    def test_benchmark_empties_the_cache(self):
        self.assertEqual(record(MODEL, cudnn_benchmark=False).order.count(("e",)), 0)
        self.assertGreater(record(MODEL, cudnn_benchmark=True).order.count(("e",)), 0)

    def test_inference(self):
        tape = record(MODEL, mode="inference", precision="fp16")
        self.assertEqual({p[0] for p in tape.phases}, {"init", "input", "forward"})
        self.assertEqual(tape.bytes_of("gradient", 1), 0)
        self.assertLess(tape.peak(64), record(MODEL).peak(64))

    def test_clip_grad_makes_norms(self):
        clipped = record(MODEL, clip_grad=1.0)
        self.assertGreater(len(clipped.phases[("optimizer", 1)]), len(record(MODEL).phases[("optimizer", 1)]))

    def test_one_batch(self):
        tape = record(MODEL, batches=[1])
        self.assertEqual(tape.header["batches"], [1])
        self.assertTrue(all(a[1] == 0 for a in tape.allocs.values()))
        self.assertEqual(tape.peak(1), record(MODEL, batches=[1, 2]).peak(1))

    def test_presets(self):
        residents = {p: record(MODEL, script_defaults=p).phases for p in ("timm-benchmark", "timm-train", "plain", "hf-trainer")}
        self.assertNotIn(("input", 1), residents["timm-benchmark"])
        self.assertEqual(list(residents["plain"])[1:3], [("zero_grad", 0), ("input", 0)])
        self.assertEqual(list(residents["hf-trainer"])[-1], ("zero_grad", 1))

    def test_classes_derivative(self):
        text = [l for l in record("python:models:sized", num_classes=10, classes_derivative=True).lines if " n=" in l]
        weight = next(l for l in text if " param" in l and " 2560 " in l)
        self.assertTrue(weight.endswith("n=256,0"), weight)
        self.assertTrue(any(l.endswith("n=0,4") for l in text), "the logits")

    def test_channels_last_is_recorded(self):
        tape = record(MODEL, channels_last=True)
        self.assertEqual(tape.header["layout"], "nhwc")
        self.assertTrue(any(w[2].get("layout") == "nhwc" for w in tape.work if w[0] == "conv_fwd"))


if __name__ == "__main__":
    unittest.main()
