# SPDX-License-Identifier: Apache-2.0
"""A small GPT in the manner of nanoGPT: --KEY=VALUE changes a global, batches are cut from a file of tokens without a DataLoader,
`iter N: loss` is printed, one ckpt.pt is overwritten, and --init_from=resume takes it."""
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

out_dir, data, init_from = "out", "tokens.bin", "scratch"
batch_size, block_size, gradient_accumulation_steps = 8, 32, 1
n_layer, n_embd, n_head, vocab_size = 2, 64, 2, 64
max_iters, eval_interval, eval_iters, log_interval = 60, 20, 2, 10
for argument in sys.argv[1:]:
    key, value = argument.removeprefix("--").split("=")
    globals()[key] = type(globals()[key])(value)
os.makedirs(out_dir, exist_ok=True)
torch.manual_seed(1337)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(n_embd, n_head, 4 * n_embd, 0.0, "gelu", batch_first=True,
                                                               norm_first=True) for _ in range(n_layer))
        self.head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx, targets):
        x = self.tokens(idx) + self.places(torch.arange(idx.size(1)))
        mask = nn.Transformer.generate_square_subsequent_mask(idx.size(1))
        for block in self.blocks:
            x = block(x, mask, is_causal=True)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


def get_batch():
    tokens = np.memmap(data, dtype=np.uint16, mode="r")
    starts = torch.randint(len(tokens) - block_size - 1, (batch_size,))
    both = torch.stack([torch.from_numpy(tokens[i:i + block_size + 1].astype(np.int64)) for i in starts])
    return both[:, :-1], both[:, 1:]


model, iter_num = GPT(), 0
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if init_from == "resume":
    checkpoint = torch.load(os.path.join(out_dir, "ckpt.pt"), weights_only=False)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    iter_num = checkpoint["iter_num"]
    print("resuming from iteration", iter_num)
begin = time.time()
while iter_num <= max_iters:
    if iter_num % eval_interval == 0:
        model.eval()
        with torch.no_grad():
            loss = sum(model(*get_batch()).item() for _ in range(eval_iters)) / eval_iters
        model.train()
        print(f"step {iter_num}: val loss {loss:.4f}")
        if iter_num > 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": iter_num},
                       os.path.join(out_dir, "ckpt.pt"))
    for _ in range(gradient_accumulation_steps):
        loss = model(*get_batch()) / gradient_accumulation_steps
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if iter_num % log_interval == 0:
        print(f"iter {iter_num}: loss {loss.item():.4f}, time {(time.time() - begin) * 1000:.2f}ms", flush=True)
    begin = time.time()
    iter_num += 1
