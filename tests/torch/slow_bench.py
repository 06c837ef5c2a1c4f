# SPDX-License-Identifier: Apache-2.0
"""As test_bench.py: an HDF5 file, ranks, and what the built-in workload says that it cannot do."""

import os
import sys
import textwrap
import unittest

import torch
from benching import Benching


class Bench(Benching):
    def test_config_and_hdf5_of_older_scripts(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("no h5py")
        path = os.path.join(self.folder, "data.h5")
        with h5py.File(path, "w") as f:
            f["images"] = [[[[(i * 7 + x) % 255 for x in range(12)]] * 12] for i in range(64)]
            f["labels"] = [i % 3 for i in range(64)]
        config = self.file("checking_gpu_optimization.yaml", textwrap.dedent("""
            benchmark:
              # 테스트할 배치 크기 (2의 거듭제곱 권장)
              batch_sizes: [2, 4]
              num_workers_options: [0, 1]
              steps_per_test: 3
              test_mixed_precision: false
              test_pin_memory: true
            """))
        found = self.bench("--config", config, "--data-path", path)
        self.assertEqual([(r["batch_size"], r["workers"]) for r in found["rows"]], [(2, 0), (4, 0), (2, 1), (4, 1)])
        for row in found["rows"]:
            self.check_row(row)
        self.assertTrue(any("pin_memory" in note for note in found["notes"]), found["notes"])

    def test_what_the_workload_cannot_do_is_said(self):
        with open(os.path.join(self.folder, "broken.h5"), "wb") as f:
            f.write(b"\x89HDF\r\n\x1a\n" + bytes(100))
        for words, says in ((["--data-path", "broken.h5"], "broken.h5"), (["--model", "timm:nosuchmodel"], "nosuchmodel")):
            found = self.bench("--batch-sizes", "2", "4", "8", "--steps", "2", *words, status=3)
            self.assertIn(says, found["reason"])
            self.assertEqual([r["status"] for r in found["rows"]], ["FAILED"] * 2, "it is not tried at every batch")

    @unittest.skipIf(sys.version_info >= (3, 11) and torch.__version__.startswith("1."),
                     "torchrun of torch 1.x does not start under this Python: its enum Std has no value 0 there")
    def test_two_ranks(self):
        found = self.bench("--batch-sizes", "2", "--num-workers", "0", "--ranks", "2", "--steps", "3", "--img-size", "16",
                           "--depth", "1", "--hidden", "4")
        row, = found["rows"]
        self.check_row(row)
        self.assertEqual(found["ranks"], 2)
        # Both ranks' samples count.
        self.assertAlmostEqual(row["samples_per_s"] * row["total_ms"] / 1000 / row["batch_size"], 2, delta=0.02)


if __name__ == "__main__":
    unittest.main()
