# SPDX-License-Identifier: Apache-2.0
"""What test_bench.py and slow_bench.py share: `batchfit bench --json`, and what must hold for each row."""

import os

from helper import InFolder

PHASES = ("io_ms", "h2d_ms", "forward_ms", "backward_ms", "optimizer_ms", "other_ms")


class Benching(InFolder):
    def bench(self, *words, status=0, command=()):
        """The document that `bench --json` prints."""
        document = self.answer("bench", *words, status=status, command=command)
        self.assertEqual(os.listdir(os.path.join(self.folder, "cache", "batchfit", "bench")), [], "nothing is left")
        return document

    def check_row(self, row):
        self.assertEqual(row["status"], "OK", row)
        total = row["total_ms"]
        self.assertLess(abs(sum(row[p] or 0 for p in PHASES) - total), 0.02 * total, row)
        for phase in ("forward_ms", "backward_ms", "optimizer_ms", "samples_per_s", "memory_bytes"):
            self.assertGreater(row[phase], 0, row)
        self.assertLessEqual(row["samples_per_s_ci"][0], row["samples_per_s"])
        self.assertGreaterEqual(row["samples_per_s_ci"][1], row["samples_per_s"])
        self.assertIsNone(row["gpu_percent"])
