# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of an ONNX file, without the onnx package: the few fields of its protocol buffer that say them (onnx.proto of
ONNX 1.16: ModelProto, GraphProto, ValueInfoProto). Weights are passed over, however large."""

import os

from ..errors import RecordError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
TYPES = {1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64"}


class Broken(Exception):
    """No protocol buffer, or not all of one."""


class Input:
    """name, dtype (numpy's word), shape: whole numbers, and names (or '') of what is open."""

    def __init__(self, name, dtype, shape):
        self.name, self.dtype, self.shape = name, dtype, shape


def _varint(file, end):
    value = shift = 0
    while file.tell() < end and shift < 64:
        byte = file.read(1)
        if not byte:
            break
        value |= (byte[0] & 127) << shift
        shift += 7
        if byte[0] < 128:
            return value
    raise Broken("it ends in the middle of a number")


def _fields(file, start, end):
    """(number, value) of a message; of texts and messages the value is (first byte, byte after the last)."""
    file.seek(start)
    while file.tell() < end:
        key = _varint(file, end)
        number, wire = key >> 3, key & 7
        if not 0 < number < 1000:
            raise Broken("it is not an ONNX protocol buffer")
        if wire == VARINT:
            yield number, _varint(file, end)
            continue
        length = {FIXED64: 8, FIXED32: 4}.get(wire) if wire != BYTES else _varint(file, end)
        if length is None:
            raise Broken("it is not an ONNX protocol buffer")
        first = file.tell()
        if first + length > end:
            raise Broken("it is truncated")
        yield number, (first, first + length)
        file.seek(first + length)


def _message(file, span):
    """All fields of a message."""
    if not isinstance(span, tuple):
        raise Broken("a number where a message belongs")
    return list(_fields(file, *span))


def _first(file, span, number):
    return next((value for found, value in _message(file, span) if found == number), None)


def _text(file, span):
    if not isinstance(span, tuple):
        return ""
    file.seek(span[0])
    return file.read(span[1] - span[0]).decode("utf-8", "replace")


def _dimension(file, span):
    for number, value in _message(file, span):
        if number == 1 and not isinstance(value, tuple):
            return value if value > 0 else ""
        if number == 2:
            return _text(file, value)
    return ""


def _input(file, span):
    name, kind = "", None
    for number, value in _message(file, span):
        name = _text(file, value) if number == 1 else name
        kind = value if number == 2 else kind
    tensor = _first(file, kind, 1) if kind is not None else None
    if tensor is None:
        raise Broken("its input %r is not a tensor" % name)
    dtype, shape = None, []
    for number, value in _message(file, tensor):
        if number == 1:
            dtype = TYPES.get(value)
        elif number == 2:
            shape = [_dimension(file, d) for n, d in _message(file, value) if n == 1]
    if dtype is None:
        raise Broken("its input %r has a type that batchfit cannot fill" % name)
    return Input(name, dtype, shape)


def _read(file, end):
    version = graph = None
    for number, value in _message(file, (0, end)):
        version = value if number == 1 and not isinstance(value, tuple) else version
        graph = value if number == 7 and isinstance(value, tuple) else graph
    if not version or graph is None:
        raise Broken("it has no ONNX version or graph")
    inputs, outputs, weights = [], [], set()
    for number, value in _message(file, graph):
        if number == 11:
            inputs.append(_input(file, value))
        elif number == 12:
            outputs.append(_text(file, _first(file, value, 1)))
        elif number == 5:
            weights.add(_text(file, _first(file, value, 8)))
    inputs = [i for i in inputs if i.name not in weights]  # files of old exporters list weights as inputs
    if not inputs:
        raise Broken("its graph has no inputs")
    return inputs, outputs


def read(path):
    """([Input], names of the outputs). Raises RecordError with one line that says what is wrong with the file."""
    try:
        with open(path, "rb") as file:
            return _read(file, os.fstat(file.fileno()).st_size)
    except OSError as why:
        raise RecordError("%s: %s" % (path, why.strerror))
    except Broken as why:
        raise RecordError("%s: not a readable ONNX file: %s" % (path, why))
