# SPDX-License-Identifier: Apache-2.0
"""The longest batch first (BATCHFIT_LONGEST_FIRST): a trial makes a dozen steps, and the batch that needs most may come later.

Samples of a data set are looked at, at most SAMPLES and for SECONDS; the longest of them make the first batch that its loader gives.
That is for trials only: what is trained on it is thrown away."""

import time
from collections.abc import Mapping

SAMPLES, SECONDS, DEPTH = 4096, 10, 3


def length_of(sample, depth=DEPTH):
    """How much a sample holds: numbers of tensors and arrays, items of lists."""
    count = getattr(sample, "numel", None)
    if callable(count):
        return int(count())
    size = getattr(sample, "size", None)
    if type(size) is int:
        return size
    if isinstance(sample, Mapping):
        sample = list(sample.values())
    if not isinstance(sample, (list, tuple)):
        return 0
    if depth and sample and not isinstance(sample[0], (int, float)):
        return sum(length_of(part, depth - 1) for part in sample)
    return len(sample)


def look(dataset):
    """[(length, index)] of the samples that were looked at, evenly over the data set."""
    total, found = len(dataset), []
    until = time.monotonic() + SECONDS
    step = max(1, total // SAMPLES)
    for index in range(0, total, step):
        found.append((length_of(dataset[index]), index))
        if time.monotonic() > until:
            break
    return found


def first_batch(iterator, indices):
    """(indices of the longest samples, as many as were asked for, what to say of the look); (indices, None) where the data cannot
    be looked at: without length or indices, or when it fails."""
    dataset = getattr(iterator, "_dataset", None)
    if not isinstance(indices, list) or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        return indices, None
    try:
        found = look(dataset)
    except Exception:  # a data set that works in its workers only
        return indices, None
    if not found:
        return indices, None
    said = {"event": "lengths", "looked": len(found), "samples": len(dataset), "longest": max(found)[0], "shortest": min(found)[0]}
    if said["longest"] == said["shortest"]:
        return indices, said
    found.sort(reverse=True)
    longest = [index for _, index in found[:len(indices)]]
    return longest + indices[len(longest):], said
