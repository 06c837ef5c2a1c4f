# SPDX-License-Identifier: Apache-2.0
"""Samples of an HDF5 file, read by h5py: which of its datasets are inputs and targets, and what shape a sample has.

The first axis of a dataset is the samples. Inputs are the dataset of a usual name, else the largest; targets one of a usual
name that has as many samples. Each process of the data loader opens the file for itself, when it reads its first sample.
"""

import importlib
import os

import torch
from torch.utils.data import Dataset

from ..errors import MissingLibrary, RecordError

INPUTS = ("x", "data", "images", "image", "inputs", "input", "features", "samples", "signals", "x_train", "train_x")
TARGETS = ("y", "labels", "label", "targets", "target", "outputs", "output", "y_train", "train_y")
CLASSES = 1 << 16  # integers beyond are numbers, not classes
CHANNELS = 16  # an axis of at most so many entries, the smaller of the first and the last, is channels


def _h5py():
    try:
        return importlib.import_module("h5py")
    except ImportError as why:
        raise MissingLibrary("cannot import h5py (%s), which reads HDF5 files; install it with: pip install h5py" % why)


def _open(path):
    h5py = _h5py()
    if not os.path.exists(path):
        raise RecordError("%s: no such file" % path)
    if not os.path.isfile(path):
        raise RecordError("%s is not a file" % path)
    try:
        if not h5py.is_hdf5(path):
            raise RecordError("%s is not an HDF5 file" % path)
        return h5py.File(path, "r")
    except OSError as why:
        raise RecordError("cannot read %s as HDF5: %s" % (path, str(why).split("\n")[0]))


def _datasets(path, file):
    """name -> (shape, dtype) of all datasets of numbers with at least one axis."""
    h5py, found = _h5py(), {}

    def note(name, item):
        if isinstance(item, h5py.Dataset) and item.shape and item.dtype.kind in "biuf":
            found[name] = (item.shape, item.dtype)
    file.visititems(note)
    if not found:
        raise RecordError("%s has no numeric dataset (with samples as its first axis)" % path)
    return found


def _by_name(found, names):
    """The dataset whose last path component is one of the names, in the order of the names."""
    for wanted in names:
        for name in found:
            if name.rsplit("/", 1)[-1].lower() == wanted:
                return name
    return None


def _must_have(path, found, name):
    name = name.strip("/")
    if name not in found:
        raise RecordError("%s has no dataset %r; it has: %s" % (path, name, ", ".join(sorted(found))))
    return name


def _choose(path, found, wanted):
    """(inputs, targets or None). wanted: what --data-key says, 'INPUTS' or 'INPUTS,TARGETS', or None."""
    first, _, second = (wanted or "").partition(",")
    if first:
        inputs = _must_have(path, found, first)
    else:
        largest = max(found, key=lambda n: (_count(found[n][0]) * found[n][1].itemsize, n))
        inputs = _by_name(found, INPUTS) or largest
    samples = found[inputs][0][0]
    if second:
        targets = _must_have(path, found, second)
        if found[targets][0][0] != samples:
            raise RecordError("%s: %s has %d samples, %s has %d" % (path, inputs, samples, targets, found[targets][0][0]))
    else:
        targets = _by_name({n: d for n, d in found.items() if n != inputs and d[0][0] == samples}, TARGETS)
    return inputs, targets


def _count(shape):
    count = 1
    for side in shape:
        count *= side
    return count


def channels_first(shape):
    """How samples of this shape become (channels, *space): ('as is' | 'last' | 'add', result). Raises RecordError."""
    space = len(shape)
    if 2 <= space <= 4 and min(shape[0], shape[-1]) <= CHANNELS:
        if shape[0] <= shape[-1]:
            return "as is", tuple(shape)
        return "last", (shape[-1],) + tuple(shape[:-1])
    if space <= 3:
        return "add", (1,) + (tuple(shape) or (1,))
    raise RecordError("samples of shape %s are not signals, images or volumes" % "x".join(map(str, shape)))


class File(Dataset):
    """(input, target) pairs.

    count, shape   samples, and the shape of one as (channels, *space)
    kind           'class' (target: int64 below `classes`), 'values' (target: `outputs` floats),
                   'dense' (target: (outputs, *space) floats; without targets, the input itself)
    Raises RecordError, MissingLibrary.
    """

    def __init__(self, path, wanted=None):
        self.path, self.classes, self.outputs, self._file, self._owner = path, None, None, None, None
        with _open(path) as file:
            found = _datasets(path, file)
            self.inputs, self.targets = _choose(path, found, wanted)
            shape, dtype = found[self.inputs]
            if _count(shape) == 0:
                raise RecordError("%s: %s is empty" % (path, self.inputs))
            self.count, self.bytes = shape[0], dtype == "uint8"
            try:
                self.layout, self.shape = channels_first(shape[1:])
            except RecordError as why:
                raise RecordError("%s: %s: %s" % (path, self.inputs, why))
            self._describe_targets(file, found)

    def _describe_targets(self, file, found):
        if self.targets is None:
            self.kind, self.outputs = "dense", self.shape[0]
            return
        shape, dtype = found[self.targets]
        raw = found[self.inputs][0][1:]
        if dtype.kind in "biu" and _count(shape[1:]) == 1:
            labels = file[self.targets][...].reshape(-1)
            if int(labels.min()) < 0:
                raise RecordError("%s: %s has the class %d; classes count from 0" % (self.path, self.targets, labels.min()))
            self.kind, self.classes = "class", int(labels.max()) + 1
            if self.classes > CLASSES:
                self.kind, self.classes, self.outputs = "values", None, 1
        elif len(shape) <= 2:
            self.kind, self.outputs = "values", _count(shape[1:])
        elif shape[1:] == raw:
            self.kind, self.outputs = "dense", self.shape[0]
        else:
            raise RecordError("%s: targets %s of shape %s do not match inputs %s of shape %s" % (
                self.path, self.targets, "x".join(map(str, shape)), self.inputs, "x".join(map(str, found[self.inputs][0]))))

    def __len__(self):
        return self.count

    def _opened(self):
        if self._owner != os.getpid():
            self._file, self._owner = _open(self.path), os.getpid()
        return self._file

    def _arrange(self, sample):
        """(channels, *space), 32-bit floats; bytes from 0 to 1."""
        tensor = torch.from_numpy(sample.astype("float32")) if sample.shape else torch.tensor([float(sample)])
        if self.bytes:
            tensor /= 255
        if self.layout == "last":
            tensor = tensor.movedim(-1, 0).contiguous()
        return tensor.reshape(self.shape)

    def __getitem__(self, index):
        file = self._opened()
        x = self._arrange(file[self.inputs][index])
        if self.targets is None:
            return x, x
        target = file[self.targets][index]
        if self.kind == "class":
            return x, int(target.reshape(-1)[0])
        if self.kind == "dense":
            return x, self._arrange(target)
        return x, torch.from_numpy(target.astype("float32").reshape(-1))

    def __getstate__(self):
        return dict(self.__dict__, _file=None, _owner=None)  # a process that is spawned opens the file itself
