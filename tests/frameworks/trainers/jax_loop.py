# SPDX-License-Identifier: Apache-2.0
"""A training with JAX and no PyTorch at all: what there is to see are the steps that it prints, and its checkpoints."""
import argparse
import os

import jax
import jax.numpy as jnp
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--output", default="out")
parser.add_argument("--resume")
args = parser.parse_args()
os.makedirs(args.output, exist_ok=True)


def loss_of(weights, x, y):
    hidden = jnp.tanh(x @ weights["w1"])
    return jnp.mean((hidden @ weights["w2"] - y) ** 2)


gradients_of = jax.jit(jax.value_and_grad(loss_of))


def train_step(weights, batches):
    losses, sums = zip(*(gradients_of(weights, x, x.sum(1, keepdims=True)) for x in batches))
    return {name: weights[name] - 1e-4 * sum(g[name] for g in sums) / len(sums) for name in weights}, sum(losses) / len(losses)


pick = np.random.default_rng(5)
weights = {"w1": jnp.array(pick.normal(size=(256, 512)) / 16), "w2": jnp.array(pick.normal(size=(512, 1)) / 16)}
first = 0
if args.resume:
    saved = np.load(args.resume)
    weights, first = {name: jnp.array(saved[name]) for name in weights}, int(saved["step"])
for step in range(first + 1, args.steps + 1):
    weights, loss = train_step(weights, [jnp.array(pick.normal(size=(args.batch_size, 256))) for _ in range(args.accumulate)])
    print(f"step {step}: loss {float(loss):.5f}", flush=True)
    if step % 100 == 0:
        np.savez(os.path.join(args.output, "ckpt-%d.npz" % step), step=step, **weights)
