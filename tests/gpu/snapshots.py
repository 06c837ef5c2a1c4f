#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real memory snapshots on a real GPU: a small training runs out of memory under `batchfit run --snapshot`, and what doctor says
of the file is compared with what torch said. Without a GPU it is skipped, and says so.

tests/gpu/snapshots.py BATCHFIT    exit status: 0 passed, 77 skipped (no GPU), 1 failed"""

import json
import os
import subprocess
import sys
import tempfile

TRAIN = """
import torch
torch.cuda.set_per_process_memory_fraction(min(1.0, 4e9 / torch.cuda.get_device_properties(0).total_memory))
model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
batch = 512
while True:
    optimizer.zero_grad()
    model(torch.randn(batch, 4096, device="cuda")).sum().backward()
    optimizer.step()
    batch *= 2
"""


def main():
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("SKIPPED: no GPU that torch can use; no real memory snapshot was made")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        program, out = os.path.join(folder, "train.py"), os.path.join(folder, "out")
        with open(program, "w", encoding="utf-8") as f:
            f.write(TRAIN)
        subprocess.run([sys.argv[1], "run", "--snapshot", out, "--", sys.executable, program], cwd=folder, check=False)
        names = [n for n in os.listdir(out) if n.endswith(".pickle")] if os.path.isdir(out) else []
        if not names:
            print("FAILED: no snapshot was written")
            return 1
        done = subprocess.run([sys.argv[1], "doctor", "--json", os.path.join(out, names[0])], capture_output=True, text=True, check=False)
        gpu = json.loads(done.stdout)["snapshot"]["gpus"][0]
        kinds = {k["kind"]: k["bytes"] for k in gpu["kinds"]}
        weights = 8 * (4096 * 4096 + 4096) * 4
        print(json.dumps({"asked": gpu["asked_bytes"], "kinds": kinds, "replay": gpu["replay"]}))
        good = gpu["out_of_memory"] and weights <= kinds.get("weights", 0) <= weights * 1.01 and kinds.get("optimizer", 0) >= 2 * weights
        print("passed" if good else "FAILED: weights of %d bytes were expected" % weights)
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
