# SPDX-License-Identifier: Apache-2.0
"""batchfit compare on the real PyTorch: a script of one's own, and the built-in workload by two configs. The machine is noisy,
so only differences that are many times larger than the noise are looked for."""

import sys
import textwrap
import unittest

from helper import InFolder

MEASURES = True

SCRIPT = textwrap.dedent("""
    import sys
    import torch
    from torch import nn
    width = int(dict(line.split(": ") for line in open(sys.argv[1]))["width"])
    data = torch.utils.data.TensorDataset(torch.randn(1024, 64), torch.randint(0, 10, (1024,)))
    loader = torch.utils.data.DataLoader(data, batch_size=32)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(1000):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """)


class Compare(InFolder):
    def test_a_script_whose_configs_differ_a_hundredfold_in_work(self):
        a, b = self.file("a.yaml", "batch_size: 32\nwidth: 2048\n"), self.file("b.yaml", "batch_size: 32\nwidth: 32\n")
        found = self.answer("compare", "--pairs", "4", "--a", a, "--b", b, "--steps", "5", timeout=600,
                            command=(sys.executable, self.file("train.py", SCRIPT), "{config}"))
        throughput = found["metrics"]["throughput"]
        self.assertEqual((found["pairs"], throughput["verdict"]), (4, "b"), found)
        self.assertGreater(throughput["ci"][0], 1)
        self.assertGreater(throughput["ratio"], 1.5)
        self.assertGreater(found["metrics"]["memory"]["a"], found["metrics"]["memory"]["b"])
        self.assertIn("reason", found["metrics"]["energy"])  # too short, or no counter: never 0
        self.assertIsNone(found["metrics"]["energy"]["a"])

    def test_the_built_in_workload_by_both_configs(self):
        text = "batch_size: %d\nnum_workers: 0\nimage_size: 16\nmodel:\n  depth: 1\n  hidden: 4\n"
        a, b = self.file("a.yaml", text % 1), self.file("b.yaml", text % 64)
        found = self.answer("compare", "--pairs", "4", "--a", a, "--b", b, "--steps", "5", "--metrics", "throughput", timeout=600)
        throughput = found["metrics"]["throughput"]
        self.assertEqual(throughput["verdict"], "b", throughput)


if __name__ == "__main__":
    unittest.main()
