# SPDX-License-Identifier: Apache-2.0
"""What `make accuracy` makes of a row: which profile its columns choose, what its source records, and how it is judged."""

import os
import sys
import types
import unittest

from helper import BATCHFIT, HERE, record

sys.path.insert(0, os.path.join(HERE, "..", "..", "bench", "accuracy"))

import judge  # noqa: E402
import mmseg_source  # noqa: E402
import mmyolo_source  # noqa: E402
from tables import Tables  # noqa: E402

TOY = os.path.join(HERE, "..", "cli", "toy.tape")
MIB = 1 << 20


class Rows(unittest.TestCase):
    def setUp(self):
        self.tables = Tables()

    def chosen(self, **row):
        row = self.tables.known(row)
        profile = self.tables.profile(row)
        return profile["name"] if profile else self.tables.why_unjudged(row), row, profile

    def test_an_adapter_by_its_name(self):
        row = dict(model="meta-llama/Llama-3.2-3B", batch_per_gpu="4", mem_mib="6603.2", optimizer="AdamW", method="lora/llama-3.2-3B-rank32; x=1",
                   metric="torch memory_allocated averaged over steps", framework="torch 2.13.0; peft main 2026-07-15")
        name, full, profile = self.chosen(**row)
        self.assertEqual(name, "peft-metamath")
        _, knobs = self.tables.job(full, profile)
        self.assertIn('"peft_type":"LORA"', knobs["adapter"])
        self.assertEqual((knobs["weight_decay"], knobs["clip_grad"], knobs["rules"]), (0.1, 1, "2.13"))
        self.assertIn("an average", self.chosen(**dict(row, method="unheard-of/x; y"))[0])
        self.assertIn("freezes half", self.chosen(**dict(row, optimizer="lora-fa"))[0])

    def test_whether_gradients_are_dropped_before_backward_is_in_a_column(self):
        row = dict(model="vit_l_16 (torchvision)", batch_per_gpu="4", mem_mib="1", metric="torch.cuda.max_memory_reserved()/1e9", n_gpus="1",
                   framework="torch 2.1.0.dev20230623 cu118")
        self.assertEqual([self.chosen(**dict(row, grad_accum=n))[0] for n in ("1", "4")], ["vit-tutorial", "vit-tutorial-accumulation"])

    def test_detectors_by_the_program_that_trained_them(self):
        row = dict(model="yolov5s", family="yolov5", batch_per_gpu="16", image_size="640", mem_mib="3728.9", precision="amp fp16", method="epoch 0 (x)")
        for framework, wanted in (("torch 1.12.1+cu113; YOLOv5 v6.2-2", "yolov5-train"), ("torch 2.0.0+cu118; YOLOv5 v7.0-136", "yolov5-train-torch2"),
                                  ("torch 1.8.1+cu101; YOLOv5 v5.0-2", "another network before 6.0")):
            self.assertIn(wanted, self.chosen(**dict(row, framework=framework))[0])
        self.assertIn("validation", self.chosen(**dict(row, method="epoch 1 (x)", framework="torch 1.12.1; YOLOv5 v6.2-2"))[0])
        row = dict(model="yolov8_s_syncbn_fast_8xb16-500e_coco", batch_per_gpu="16", mem_mib="1", metric="mmengine logger memory = max_memory_allocated",
                   framework="OpenMMLab", precision="amp", source="open-mmlab/mmyolo:configs/yolov8/README.md#L21")
        name, full, profile = self.chosen(**row)
        self.assertEqual((name, self.tables.job(full, profile)[1]["precision"]), ("mmyolo", "amp-fp16"))
        self.assertIn("ignore", self.chosen(**dict(row, model="yolov5_s_ignore_x"))[0])

    def test_a_row_of_berts_own_task(self):
        row = dict(model="bert-large-uncased (MLM)", batch_per_gpu="8", mem_mib="1", seq_len="512", method="HF Trainer", gpu="NVIDIA GeForce RTX 3090 Ti",
                   framework="torch 1.13", optimizer="AdamW (HF)", precision="fp32 (tf32)")
        name, full, profile = self.chosen(**row)
        source, knobs = self.tables.job(full, profile)
        self.assertEqual((name, source, knobs["task"], knobs["optimizer"]), ("hf-trainer-mlm", "hf:bert-large-uncased", "masked-lm", "adamw"))

    def test_images_per_second_of_one_gpu_are_samples(self):
        for n_gpus, speed in (("1", "20"), ("8", None)):
            self.assertEqual(self.tables.known(dict(throughput_unit="images/s", throughput="20", n_gpus=n_gpus)).get("samples_per_sec"), speed)

    def test_every_reason_is_for_columns(self):
        for line in self.tables.unjudged:
            self.assertTrue(line["why"], line)
            for need in line["needs"].split(","):
                self.assertRegex(need, r"^\w+(~|$)", line)


class Sources(unittest.TestCase):
    def test_the_name_of_a_config_in_the_package(self):
        for old, new in (("fcn_r50-d8_512x1024_40k_cityscapes", "fcn_r50-d8_4xb2-40k_cityscapes-512x1024.py"),
                         ("fcn_m-v2-d8_512x512_160k_ade20k", "mobilenet-v2-d8_fcn_4xb4-160k_ade20k-512x512.py"),
                         ("pspnet_s101-d8_512x1024_80k_cityscapes", "resnest_s101-d8_pspnet_4xb2-80k_cityscapes512x1024.py"),
                         ("deeplabv3_unet_s5-d16_128x128_40k_chase_db1", "unet_s5-d16_deeplabv3_4xb4-40k_chase-db1-128x128.py")):
            self.assertEqual(mmseg_source.config_of(old, ["a/" + new, "a/x" + new, "a/fcn_r101.py"]), "a/" + new)
        with self.assertRaisesRegex(ValueError, "0 configs"):
            mmseg_source.config_of("fcn_r50-d8_512x1024_40k_cityscapes", [])

    def test_the_largest_images_of_a_config(self):
        config = types.SimpleNamespace(img_scale=(640, 480), model={"data_preprocessor": {}})
        self.assertEqual(mmyolo_source.largest_side(config), [480, 640])
        config.model["data_preprocessor"]["batch_augments"] = [dict(type="X", random_size_range=(320, 810), size_divisor=32)]
        self.assertEqual(mmyolo_source.largest_side(config), [800, 800])

    def test_a_network_by_its_layers(self):
        tape = record("python:mlp_source:12 [('linear', 8, 104), ('batch_normalization', 8, 16), ('ReLU', 8, 0), ('linear', 3, 27)]")
        self.assertEqual(tape.header["parameters"], 104 + 16 + 27)


class Verdicts(unittest.TestCase):
    def test_what_a_step_leaves(self):
        verdict = judge.judge_end(BATCHFIT, TOY, {"batch_per_gpu": "8", "mem_mib": "250"}, 4096, 0)
        self.assertEqual((verdict.figures["predicted_mib"], round(verdict.error, 3)), (300, 0.2))

    def test_a_row_that_ran_out_of_memory(self):
        verdicts = [judge.judge_oom(BATCHFIT, TOY, {"batch_per_gpu": "8"}, mib, 0).status for mib in (2213, 2214)]
        self.assertEqual(verdicts, ["right", "wrong"])


if __name__ == "__main__":
    unittest.main()
