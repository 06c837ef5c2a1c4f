# SPDX-License-Identifier: Apache-2.0
"""How many samples a batch has. Frameworks nest tensors in lists, dictionaries and objects of their own, and a detector's batch
has more boxes than images. So the loader's own batch size is looked for in the batch, and the place where it was found is
asked from then on, for the last, odd batch too. Without one the number counts on which most parts agree. None where nothing
tells.

The samples are along a batch's first dimension, unless the program puts the sequence there: BATCHFIT_BATCH_DIM says which one it
is, or it is the second one that has the batch size that was asked for (the loader's, or BATCHFIT_BATCH, what a trial has given to
the command), and the first has not."""

import os
from collections.abc import Mapping

PARTS = 32  # parts of a batch that are looked at: enough for every collate function known, and bounded
DEPTH = 3


def _number_of(name):
    """A variable's number; 0: none."""
    try:
        return int(os.environ.get(name, 0))
    except ValueError:
        return 0


def _dimension(part, dimension=0):
    try:
        number = part.shape[dimension]
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


def _sizes(part, path, ret, dimension=0):
    """Appends (path, size) of a part and of what it holds. A path ends with `len` where a list of samples was counted."""
    if len(ret) >= PARTS:
        return
    number = _dimension(part, dimension)
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
            _sizes(value, path + (key,), ret, dimension)


def _follow(part, path, dimension):
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
    number = _dimension(part, dimension)
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
        self.asked = _number_of("BATCHFIT_BATCH")
        self.dimension = _number_of("BATCHFIT_BATCH_DIM")

    def count(self, batch, expected=None):
        """Samples of a batch, or None. expected: the loader's batch size, where it has one."""
        if self.path is not None:
            number = _follow(batch, self.path, self.dimension)
            if number is not None and (expected is None or number <= expected):
                return number
        found = self.sizes(batch)
        for path, number in found:
            if number == expected:
                self.path = path
                return number
        if self.second_is(batch, found, expected or self.asked):
            return self.count(batch, expected)
        smaller = [entry for entry in found if expected is None or entry[1] < expected]
        return _most_named(smaller)

    def count_arguments(self, arguments, named):
        """Samples that a module's arguments have: those of the first tensor."""
        for part in list(arguments) + list(named.values()):
            found = self.sizes(part)
            if not found:
                continue
            if found[0][1] != self.asked and self.second_is(part, found[:1], self.asked):
                return self.asked
            return found[0][1]
        return None

    def sizes(self, part):
        found = []
        _sizes(part, (), found, self.dimension)
        return found

    def second_is(self, batch, found, asked):
        """Takes the second dimension from now on, if all that was found has the batch size there and not along the first one."""
        if self.dimension or not asked or not found:
            return False
        second = dict(self._of_second(batch))
        if any(number == asked or second.get(path) != asked for path, number in found):
            return False
        self.dimension = 1
        return True

    @staticmethod
    def _of_second(batch):
        found = []
        _sizes(batch, (), found, 1)
        return found


def batch_size_of(iterator):
    """The batch size of a loader's iterator, or None. Samplers are wrapped in each other (Ultralytics repeats one for ever)."""
    sampler = getattr(iterator, "_index_sampler", None)
    for _ in range(DEPTH):
        size = getattr(sampler, "batch_size", None)
        if type(size) is int:
            return size
        sampler = getattr(sampler, "batch_sampler", None) or getattr(sampler, "sampler", None)
    return None
