# SPDX-License-Identifier: Apache-2.0
"""batchfit bench on the real PyTorch: the built-in workload, a script of one's own, memory that runs out. More: slow_bench.py."""

import os
import textwrap
import unittest

from benching import Benching

SLOW = """
    test_buckets_of_ddp_without_a_word_in_the_script test_buckets_without_ddp_are_without_effect test_built_in_network
    test_slow_loading_is_seen_and_more_workers_help test_memory_runs_out
"""

SCRIPT = textwrap.dedent("""
    import argparse
    import torch
    from torch import nn
    p = argparse.ArgumentParser()
    p.add_argument("--bs", type=int)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--amp", action="store_true")
    o = p.parse_args()
    data = torch.utils.data.TensorDataset(torch.randn(4096, o.width), torch.randint(0, 10, (4096,)))
    loader = torch.utils.data.DataLoader(data, batch_size=o.bs, num_workers=o.workers, shuffle=True)
    model = nn.Sequential(nn.Linear(o.width, o.width), nn.ReLU(), nn.Linear(o.width, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(1000):
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=o.amp):
                loss = nn.functional.cross_entropy(model(x).float(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """)

# Each sample takes 10 ms to load, as from a slow disk: a worker delivers a batch of 8 every 80 ms.
SLOW_LOADER = SCRIPT.replace("loader =", """
class Slow(torch.utils.data.Dataset):
    def __len__(self): return len(data)
    def __getitem__(self, i):
        import time
        time.sleep(0.01)
        return data[i]
loader =""").replace("DataLoader(data,", "DataLoader(Slow(),")

# Needs 64 MiB more for each sample: memory that runs out for real.
HUNGRY = textwrap.dedent("""
    import sys
    import torch
    weight = torch.nn.Parameter(torch.ones(1, 1 << 20))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    model = torch.nn.ParameterList([weight])
    loader = torch.utils.data.DataLoader(torch.zeros(1024, 1), batch_size=int(sys.argv[1]))
    for epoch in range(1000):
        for x in loader:
            loss = torch.cat([(weight * (x[i] + 1)).exp().repeat(4, 1).sigmoid().sum()[None] for i in range(len(x))]
                             + [torch.zeros(len(x) * (8 << 20)).sum()[None]]).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """)

# DistributedDataParallel with 25 MiB a bucket, of one rank by gloo; says what it got.
DDP = textwrap.dedent("""
    import os
    import sys
    import torch
    from torch import nn
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64), WAY)
    with open(sys.argv[1], "a") as f:
        print(model.bucket_bytes_cap >> 20, file=f)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(torch.zeros(1024, 64), batch_size=8):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """)


class Bench(Benching):
    def test_buckets_of_ddp_without_a_word_in_the_script(self):
        import inspect
        from torch.nn.parallel import DistributedDataParallel
        before = list(inspect.signature(DistributedDataParallel).parameters.values())[1:]
        before = before[:[p.name for p in before].index("bucket_cap_mb")]
        by_place = "".join(repr(p.default) + ", " for p in before) + "25"
        for number, way in enumerate((by_place, "bucket_cap_mb=25", "")):
            said = os.path.join(self.folder, f"said{number}")
            script = self.file("train.py", DDP.replace("WAY", way))
            found = self.bench("--bucket-cap-mb", "1", "100", "--steps", "3", command=["{python}", script, said])
            self.assertEqual([(row["axes"], row["status"]) for row in found["rows"]],
                             [({"bucket_cap_mb": "1"}, "OK"), ({"bucket_cap_mb": "100"}, "OK")])
            with open(said, encoding="utf-8") as f:
                self.assertEqual(f.read().split(), ["1", "100"])
            self.assertFalse([note for note in found["notes"] if "no effect here" in note], found["notes"])

    def test_buckets_without_ddp_are_without_effect(self):
        script = self.file("train.py", SCRIPT)
        found = self.bench("--bucket-cap-mb", "1", "100", "--batch-sizes", "16", "--steps", "3",
                           command=["{python}", script, "--bs", "{batch}"])
        self.assertTrue([note for note in found["notes"] if "bucket_cap_mb has no effect" in note], found["notes"])

    def test_built_in_network(self):
        found = self.bench("--batch-sizes", "2", "4", "--num-workers", "0", "--amp", "both", "--steps", "4", "--img-size", "16",
                           "--depth", "1", "--hidden", "4")
        rows = found["rows"]
        self.assertEqual([(r["batch_size"], r["workers"], r["precision"], r["pin_memory"]) for r in rows],
                         [(2, 0, "fp32", False), (4, 0, "fp32", False), (2, 0, "amp-bf16", False), (4, 0, "amp-bf16", False)])
        for row in rows:
            self.check_row(row)
            self.assertGreaterEqual(row["steps"], 4)
        for best in found["best"].values():
            self.assertIn(best["row"], range(4))

    def test_own_script(self):
        script = self.file("train.py", SCRIPT)
        found = self.bench("--batch-sizes", "16", "32", "--num-workers", "0", "--amp", "both", "--steps", "5",
                           command=["{python}", script, "--bs", "{batch}", "--workers", "{workers}", "{amp:--amp}"])
        self.assertEqual([(r["batch_size"], r["precision"]) for r in found["rows"]],
                         [(16, "fp32"), (32, "fp32"), (16, "amp-bf16"), (32, "amp-bf16")])
        for row in found["rows"]:
            self.check_row(row)

    def test_slow_loading_is_seen_and_more_workers_help(self):
        script = self.file("train.py", SLOW_LOADER)
        # Three workers deliver three batches at a time: two steps in three wait for nothing, and still the time is there.
        found = self.bench("--batch-sizes", "8", "--num-workers", "0", "3", "--steps", "12", "--warmup", "4",
                           command=["{python}", script, "--bs", "{batch}", "--workers", "{workers}"])
        alone, three = found["rows"]
        for row in (alone, three):
            self.check_row(row)
            self.assertAlmostEqual(row["samples_per_s"] * row["total_ms"] / 1000 / row["batch_size"], 1, delta=0.01)
        self.assertGreater(alone["io_ms"], 75)
        self.assertGreater(three["io_ms"], 10)
        self.assertGreater(three["samples_per_s"], 1.5 * alone["samples_per_s"])
        self.assertIn("io-bound", [finding["id"] for finding in found["diagnosis"]])

    def test_own_script_that_ignores_the_batch(self):
        script = self.file("train.py", SCRIPT.replace("batch_size=o.bs", "batch_size=8"))
        found = self.bench("--batch-sizes", "16", "--steps", "3", status=3, command=["{python}", script, "--bs", "{batch}"])
        self.assertEqual(found["rows"][0]["status"], "FAILED")
        self.assertIn("16", found["rows"][0]["reason"])

    def test_memory_runs_out(self):
        script = self.file("hungry.py", HUNGRY)
        found = self.bench("--batch-sizes", "1", "4", "64", "128", "--memory", "1500MiB", "--steps", "3",
                           command=["{python}", script, "{batch}"])
        self.assertEqual([(r["batch_size"], r["status"]) for r in found["rows"]], [(1, "OK"), (4, "OK"), (64, "OOM")])
        self.assertTrue(any("skipped" in note for note in found["notes"]), found["notes"])
        self.assertEqual(found["best"]["throughput"]["batch_size"] in (1, 4), True)

    def test_a_batch_that_cannot_fit_is_known_before_the_memory_is_full(self):
        found = self.bench("--batch-sizes", "4", "4096", "--num-workers", "0", "--img-size", "64", "--memory", "1500MiB", "--steps", "3")
        fits, too_large = found["rows"]
        self.assertEqual((fits["status"], too_large["status"]), ("OK", "OOM"), found)
        self.assertRegex(too_large["reason"], r"^batch 4096 needs at least \d{4,5} MiB, .* 1500 MiB are allowed")


if __name__ == "__main__":
    unittest.main()
