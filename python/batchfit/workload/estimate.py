# SPDX-License-Identifier: Apache-2.0
"""What a training step on the CPU needs at least, before it is made: two samples go forward and then three, and what autograd
keeps of them is counted. Without it a batch that is much too large works for minutes, until the memory is full.
"""

import os

import torch

from . import data

VARIABLE = "BATCHFIT_MEMORY_LIMIT"  # bytes that batchfit lets the trial have
FEW = 2  # one alone is too few for a normalization over the batch
MOMENTS = {"sgd": 1, "adam": 2, "adamw": 2, "rmsprop": 1, "lion": 1}  # the others keep less than a copy of the weights


def _bytes(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def _storage(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def kept(task, autocast, samples):
    """Bytes that autograd keeps of so many samples, each memory counted once; the model's own left out."""
    own = {_storage(t).data_ptr() for t in (*task.model.parameters(), *task.model.buffers())}
    sizes = {}

    def pack(tensor):
        storage = _storage(tensor)
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor
    batch = torch.utils.data.default_collate([task.dataset[i] for i in range(samples)])
    with torch.random.fork_rng(devices=[]), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), autocast():
        loss = task.loss(task.model, data.to_device(batch, torch.device("cpu")))
    del loss
    return sum(sizes.values())


def needed(task, options, autocast):
    """Bytes that a step of options.batch_size needs at least."""
    weights = [p for p in task.model.parameters() if p.requires_grad]
    state = _bytes(task.model.parameters()) + _bytes(weights) * (1 + MOMENTS.get(options.optimizer, 0))
    few = kept(task, autocast, FEW)
    each = max(0, kept(task, autocast, FEW + 1) - few)  # the rest is of the weights: autocast's copies of them
    return state + few + each * (options.batch_size - FEW)


def check(task, options, autocast, say):
    """Says what is needed; raises MemoryError where that is more than the limit."""
    limit = int(os.environ.get(VARIABLE) or 0)
    if not limit or options.batch_size <= FEW:
        return
    try:
        figure = needed(task, options, autocast)
    except RuntimeError:  # what is wrong with the model shows in the training itself
        return
    text = "batch %d needs at least %d MiB, estimated from a few samples; %d MiB are allowed" % (
        options.batch_size, figure >> 20, limit >> 20)
    say(text)
    if figure > limit:
        raise MemoryError(text)
