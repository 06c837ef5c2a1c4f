# SPDX-License-Identifier: Apache-2.0
"""Samples that are made up: a template says what one sample looks like, the index and the seed what is in it."""

import sys

import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, SequentialSampler

ENDLESS = 1 << 40  # samples of an epoch that no run comes to the end of
_MIX = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: neighbouring seeds do not give neighbouring samples


class Field:
    """One tensor of a sample. Floats are normal; integers are uniform from 0 to below `high`."""

    def __init__(self, shape, dtype=torch.float32, high=None):
        self.shape, self.dtype, self.high = tuple(shape), dtype, high

    def make(self, generator):
        """A tensor of this shape."""
        if self.dtype.is_floating_point:
            return torch.randn(self.shape, generator=generator, dtype=self.dtype)
        return torch.randint(0, max(1, self.high or 1), self.shape, generator=generator, dtype=self.dtype)


def _fill(template, generator):
    if isinstance(template, Field):
        return template.make(generator)
    if isinstance(template, dict):
        return {key: _fill(value, generator) for key, value in template.items()}
    if isinstance(template, (list, tuple)):
        return tuple(_fill(value, generator) for value in template)
    return template


class Synthetic(Dataset):
    """Sample i of a template: nested dicts and tuples of Fields; whatever else stands in it is the same in each sample."""

    def __init__(self, template, seed):
        self.template, self.seed = template, seed

    def __len__(self):
        return ENDLESS

    def __getitem__(self, index):
        seed = (self.seed * _MIX + index) % (1 << 63)
        return _fill(self.template, torch.Generator().manual_seed(seed))


def quiet_worker(_):
    """In a data worker: that the training has ended while a batch was handed over is no error (the thread of
    multiprocessing.resource_sharer would show one)."""
    shown = sys.excepthook

    def hook(kind, error, traceback):
        if not issubclass(kind, (EOFError, ConnectionError)):
            shown(kind, error, traceback)
    sys.excepthook = hook


def loader(dataset, batch, workers, pin, seed, rank):
    """A DataLoader that never ends and gives full batches: an end of an epoch would be in the figures of some batches only.

    Made-up samples come in order, samples of a file in random order with repetition. Ranks get different ones.
    """
    if isinstance(dataset, Synthetic):
        sampler = SequentialSampler(dataset)
    else:
        sampler = RandomSampler(dataset, replacement=True, num_samples=ENDLESS,
                                generator=torch.Generator().manual_seed(seed + rank))
    return DataLoader(dataset, batch_size=batch, sampler=sampler, num_workers=workers, pin_memory=pin, drop_last=True,
                      persistent_workers=workers > 0, worker_init_fn=quiet_worker)


def to_device(value, device):
    """Nested containers of tensors, copied to the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, dict):
        return {key: to_device(v, device) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(to_device(v, device) for v in value)
    return value
