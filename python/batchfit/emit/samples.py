# SPDX-License-Identifier: Apache-2.0
"""How many samples a batch has. Frameworks nest tensors in lists, dictionaries and objects of their own, and a detector's batch
has more boxes than images. So the loader's own batch size is looked for in the batch, and the place where it was found is
asked from then on, for the last, odd batch too. Without one the number counts on which most parts agree. None where nothing
tells."""

from collections.abc import Mapping

PARTS = 32  # parts of a batch that are looked at: enough for every collate function known, and bounded
DEPTH = 3


def _first_dimension(part):
    try:
        number = part.shape[0]
    except (AttributeError, IndexError, TypeError):
        return None
    return number if type(number) is int else None


def _children(part):
    """[(key, value)] of what a part holds; empty for what is no container."""
    if isinstance(part, Mapping):
        return list(part.items())[:PARTS]
    if isinstance(part, (list, tuple)):
        return list(enumerate(part[:PARTS]))
    return []


def _sizes(part, path, ret):
    """Appends (path, size) of a part and of what it holds. A path ends with `len` where a list of samples was counted."""
    if len(ret) >= PARTS:
        return
    number = _first_dimension(part)
    if number is None:  # a batch object, of torch_geometric for one
        number = getattr(part, "num_graphs", None)
        number = number if type(number) is int else None
    if number is not None:
        ret.append((path, number))
        return
    # The outermost list is the batch's own structure, not a list of samples; nor are the numbers of one sample.
    if path and isinstance(part, (list, tuple)) and part and not isinstance(part[0], (int, float)):
        ret.append((path + (len,), len(part)))
    if len(path) < DEPTH:
        for key, value in _children(part):
            _sizes(value, path + (key,), ret)


def _follow(part, path):
    """The size at a path of another batch; None where it is not there."""
    try:
        for key in path:
            if not isinstance(part, (Mapping, list, tuple)):
                return None
            part = len(part) if key is len else part[key]
    except (KeyError, IndexError, TypeError):
        return None
    if type(part) is int:
        return part
    number = _first_dimension(part)
    return getattr(part, "num_graphs", None) if number is None else number


def _most_named(found):
    """The size on which most parts agree; parts further in count half."""
    votes = {}
    for path, number in found:
        votes[number] = votes.get(number, 0) + (2 if len(path) - (len in path) < 2 else 1)
    return max(votes, key=votes.get) if votes else None


class SampleCounter:
    """Counts the samples of one training's batches."""

    def __init__(self):
        self.path = None  # where the loader's batch size was found

    def count(self, batch, expected=None):
        """Samples of a batch, or None. expected: the loader's batch size, where it has one."""
        if self.path is not None:
            number = _follow(batch, self.path)
            if number is not None and (expected is None or number <= expected):
                return number
        found = []
        _sizes(batch, (), found)
        for path, number in found:
            if number == expected:
                self.path = path
                return number
        smaller = [entry for entry in found if expected is None or entry[1] < expected]
        return _most_named(smaller)


def count_arguments(arguments, named):
    """Samples that a module's arguments have: the first tensor's first dimension."""
    for part in list(arguments) + list(named.values()):
        found = []
        _sizes(part, (), found)
        if found:
            return found[0][1]
    return None


def batch_size_of(iterator):
    """The batch size of a loader's iterator, or None. Samplers are wrapped in each other (Ultralytics repeats one for ever)."""
    sampler = getattr(iterator, "_index_sampler", None)
    for _ in range(DEPTH):
        size = getattr(sampler, "batch_size", None)
        if type(size) is int:
            return size
        sampler = getattr(sampler, "batch_sampler", None) or getattr(sampler, "sampler", None)
    return None
