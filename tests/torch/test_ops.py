# SPDX-License-Identifier: Apache-2.0
"""What single ops keep for backward, and what they allocate, under CUDA's rules. Expected bytes are formulas."""

import unittest

from helper import modern, record

B = 8


def kept(tape, module=None):
    """Bytes per sample that forward of step 1 keeps: {op: bytes}, for a module."""
    found = {}
    for c, k, tag, more, _, phase in tape.allocs.values():
        if phase == ("forward", 1) and tag in ("activation", "cast") and (module is None or module in more[1:]):
            found[more[0]] = found.get(more[0], 0) + c + k * B
    return found


class Saved(unittest.TestCase):
    def act(self, name, **said):
        return kept(record("python:models:" + name, **said), "act")

    def test_relu_keeps_its_output(self):
        self.assertEqual(self.act("relu"), {"relu": B * 64 * 4})

    def test_relu_keeps_its_input_too_before_1_10(self):
        old = record("python:models:relu", rules="1.9")
        self.assertEqual((kept(old, "a"), kept(old, "act")), ({"mm": B * 64 * 4}, {"clamp_min": B * 64 * 4}))
        self.assertEqual(kept(record("python:models:relu", rules="1.10"), "a"), {}, "and no longer after it")

    def test_gelu_keeps_its_output_as_next_input(self):
        self.assertEqual(self.act("gelu"), {"gelu": B * 64 * 4})

    def test_dropout_keeps_one_byte_an_element(self):
        self.assertEqual(self.act("dropout"), {"native_dropout": B * 64 * (4 + 1)})

    def test_layer_norm_keeps_two_floats_a_row(self):
        self.assertEqual(self.act("layernorm"), {"native_layer_norm": B * 64 * 4 + B * 2 * 4})

    @unittest.skipUnless(modern(), "SKIPPED: this torch has no RMSNorm")
    def test_rms_norm_is_one_kernel_from_2_9_on(self):
        """From then on it keeps its input, here the output of the layer before, and a float a row; before, what its operations keep."""
        rows, wide = B * 4, B * 64 * 4
        self.assertEqual(self.act("rmsnorm", rules="2.8"), {"rsqrt": rows, "mul": 2 * wide})
        self.assertEqual(self.act("rmsnorm", rules="2.9"), {"_fused_rms_norm": wide + rows})
        self.assertEqual(self.act("rmsnorm", rules="2.9", precision="bf16"), {"_fused_rms_norm": wide // 2 + rows})
        self.assertEqual(kept(record("python:models:rmsnorm", rules="2.9"), "a"), {"mm": wide})

    def test_relu6_in_place_copies_its_input_from_1_10_on(self):
        self.assertEqual(self.act("relu6", rules="1.9"), {})
        self.assertEqual(self.act("relu6", rules="1.10"), {"clone": B * 64 * 4})
        self.assertEqual(self.act("relu6"), {"clone": B * 64 * 4})

    def test_softmax_keeps_its_input_up_to_1_10_only(self):
        old, new = (record("python:models:softmax", rules=r) for r in ("1.10", "1.12"))
        self.assertEqual(kept(old, "act"), {"_softmax": B * 64 * 4})
        self.assertEqual(kept(old, "a").get("mm"), B * 64 * 4)
        self.assertNotIn("mm", kept(new, "a"))

    def test_amp_casts_weights_once_and_layer_norm_to_fp32(self):
        tape = record("python:models:layernorm", precision="amp-fp16", accumulation=1)
        casts = [a for a in tape.allocs.values() if a[2] == "cast" and a[5] == ("forward", 1)]
        weights = [a for a in casts if a[1] == 0]
        self.assertEqual(sorted(a[0] for a in weights), [10 * 64 * 2, 64 * 64 * 2])
        self.assertIn(64 * 4, [a[1] for a in casts], "layer norm's input in fp32")
        self.assertIn(64 * 2, [a[1] for a in casts], "layer norm's output back in fp16")

    def test_interpolation_runs_in_fp32_from_2_4_on(self):
        for rules, width in (("2.3", 2), ("2.4", 4 if modern() else 2)):  # an older one has no such kernel
            tape = record("python:models:upsample", precision="amp-fp16", rules=rules)
            sizes = {a[1] for a in tape.allocs.values() if a[5] == ("forward", 1) and a[3][:1] == ["upsample_nearest2d"]}
            self.assertEqual(sizes, {16 * 32 * 32 * width}, rules)

    def test_a_loss_that_loops_is_run_on_one_image(self):
        """What it keeps of one counts once for each: five of ten values, say, twice."""
        tape = record("python:models:looping")
        mean = [a for a in tape.allocs.values() if a[3][0] == "exp" and a[5] == ("forward", 1)]
        self.assertEqual(len(mean), 1, "one image's operations, whatever the batch")
        self.assertEqual((mean[0][0], mean[0][1] % 4), (0, 0), "all of it for each image")
        self.assertGreater(mean[0][1], 0)

    def test_amp_softmax_reads_half_and_writes_float_in_one_kernel(self):
        tape = record("python:models:softmax", precision="amp-fp16")
        sizes = [(a[1], a[3][0]) for a in tape.allocs.values() if a[5] == ("forward", 1) and a[3][1:] == ["act"]]
        self.assertEqual(sizes, [(64 * 4, "_softmax")])

    def test_convolution_and_batch_norm(self):
        tape = record("python:models:conv", cudnn_benchmark=True)
        got = kept(tape)
        self.assertEqual(got["convolution"], B * 16 * 256 * 4)
        self.assertEqual(got["native_batch_norm"], 2 * 16 * 4, "statistics; ReLU keeps its own output instead")
        self.assertEqual(got["relu"], B * 16 * 256 * 4)
        self.assertEqual(tape.order.count(("e",)), 2, "forward and weight gradient; the input wants no gradient")

    def test_a_filters_gradient_has_winograds_work_space_before_1_7(self):
        def space(name, rules, **said):
            tape = record("python:models:" + name, rules=rules, **said)
            return {tuple(a[:2]) for a in tape.allocs.values() if a[3][:1] == ["cudnn_winograd"]}
        tiles, values = 16 // 4 * 16 // 4, 4 * 36  # bytes of 6 x 6 floats
        self.assertEqual(space("conv", "1.6"), {(values * 8 * 16, values * tiles * (8 + 16))})
        self.assertEqual(space("conv", "1.7"), set())
        self.assertEqual(space("conv", "1.6", precision="amp-fp16"), set(), "in fp32 alone")
        self.assertEqual(space("depthwise", "1.6"), set(), "of groups there is none")

    def test_depthwise_nchw_is_not_cudnn(self):
        self.assertEqual(record("python:models:depthwise", cudnn_benchmark=True).order.count(("e",)), 0)
        self.assertEqual(record("python:models:depthwise", cudnn_benchmark=True, channels_last=True).order.count(("e",)), 2)

    def test_lstm_is_one_kernel_with_a_reserve(self):
        tape = record("python:models:lstm")
        self.assertLess(len([a for a in tape.allocs.values() if a[5] == ("forward", 1)]), 20)
        self.assertIn(7 * 32 * 6 * 4, [a[1] for a in tape.allocs.values() if a[5] == ("forward", 1)])


class Work(unittest.TestCase):
    def test_matmul_flops(self):
        work = [w for w in record("python:models:relu").work if w[3] == ("forward", 1) and w[0] == "mm"]
        self.assertEqual([w[1][:2] for w in work], [[0, 2 * 64 * 64], [0, 2 * 64 * 10]])
        self.assertEqual(work[0][2]["m"], "0+1B")

    def test_convolution_backward_is_split(self):
        tape = record("python:models:conv")
        classes = [w[0] for w in tape.work if w[3] == ("backward", 1)]
        self.assertIn("conv_wgrad", classes)
        forward = next(w for w in tape.work if w[0] == "conv_fwd")
        self.assertEqual(forward[1][1], 2 * 256 * 16 * 8 * 9)
        self.assertEqual({k: forward[2][k] for k in ("groups", "cin", "cout", "kernel", "stride", "out")},
                         dict(groups="1", cin="8", cout="16", kernel="9", stride="1", out="256"))

    def test_work_is_of_the_last_step_only(self):
        self.assertEqual({w[3][1] for w in record("python:models:conv").work}, {1})


class Versions(unittest.TestCase):
    """What differs between torch 1.13 and 2.13: stated here, so a third version that differs is noticed."""

    def test_defaults_follow_the_rules_version(self):
        old, new = (record("python:models:relu", optimizer="adamw", rules=r).header for r in ("1.13", "2.13"))
        self.assertEqual((old["zero_grad"], old["attention"]), ("zero", "math"))
        self.assertEqual((new["zero_grad"], new["attention"]), ("none", "fused"))

    def test_backward_names_modules_from_torch_2_on(self):
        tape = record("python:models:gelu")
        named = [a for a in tape.allocs.values() if a[5] == ("backward", 1) and len(a[3]) > 1]
        self.assertEqual(bool(named), modern())

    def test_cublas_work_space_from_2_0_on(self):
        for rules, count in (("1.13", 0), ("2.13", 2)):
            tape = record("python:models:relu", rules=rules)
            self.assertEqual(sum("cublas_workspace" in a[3] for a in tape.allocs.values()), count)


if __name__ == "__main__":
    unittest.main()
