# SPDX-License-Identifier: Apache-2.0
"""From recordings at several batches to the text of a tape (doc/formats/tape.md, version 1)."""

import json

from . import work
from .errors import NotAffine
from .events import BYTES, ID, MODULE, OP, ROWS, STREAM, TAG


def _shape(event):
    """What must be the same at every batch."""
    if event[0] == "a":
        return ("a", event[ID], event[OP], event[STREAM])
    if event[0] == "w":
        return ("w",)
    if event[0] == "o":
        return ("o",)
    return tuple(event)


def _where(event):
    return "%s in %s" % (event[OP], event[MODULE]) if event[0] == "a" else "event %r" % (event[0],)


def difference(first, second):
    """Index of the first event where two recordings differ in kind, or None."""
    for i, (a, b) in enumerate(zip(first, second)):
        if _shape(a) != _shape(b):
            return i
    return None if len(first) == len(second) else min(len(first), len(second))


def line(batches, values):
    """(c, k) with value = c + k*B at every batch, exactly; None if there is no such pair. One batch: (value, 0)."""
    if len(batches) == 1:
        return values[0], 0
    (b0, b1), (v0, v1) = batches[:2], values[:2]
    k, rest = divmod(v1 - v0, b1 - b0)
    c = v0 - k * b0
    if rest or any(c + k * b != v for b, v in zip(batches, values)):
        return None
    return c, k


def check(batches, recordings):
    """Raises NotAffine naming the op where the recordings at `batches` part."""
    for batch, events in zip(batches[1:], recordings[1:]):
        i = difference(recordings[0], events)
        if i is not None:
            at = events[i] if i < len(events) else recordings[0][i]
            raise NotAffine("the sequence of operations changes with the batch: at batch %d event %d (%s) differs from "
                            "batch %d" % (batch, i, _where(at), batches[0]))


def _alloc(batches, row, classes):
    a = row[0]
    fit = (0, 0) if len(a) > ROWS else line(batches, [r[BYTES] for r in row])
    classes = a[ROWS] if len(a) > ROWS else classes
    if fit is None:
        raise NotAffine("the size of %s is not c + k*B: %s at batches %s"
                        % (_where(a), [r[BYTES] for r in row], batches))
    text = "a%s %d %d %d %s" % ("@%d" % a[STREAM] if a[STREAM] else "", a[ID], fit[0], fit[1], a[TAG])
    if a[MODULE] != "-":
        text += " %s %s" % (a[OP], a[MODULE])
    elif a[OP] != "-":
        text += " " + a[OP]
    return text + (" n=%d,%d" % classes if classes and classes != (0, 0) else "")


def lines(batches, recordings, classes=None):
    """The event lines. recordings: one event list per batch; classes: per event (cn, kn) or None."""
    check(batches, recordings)
    out = []
    for i, row in enumerate(zip(*recordings)):
        kind = row[0][0]
        if kind == "a":
            out.append(_alloc(batches, row, classes[i] if classes else None))
        elif kind == "f":
            out.append("f %d" % row[0][1])
        elif kind == "m":
            out.append("m %s %d" % row[0][1:3])
        elif kind == "w":
            fit = line(batches, [r[1] for r in row])
            if fit:
                out.append("w %d %d" % fit)
        elif kind == "o":
            out.extend(work.merged(batches, [r[1] for r in row]))
        else:
            out.append("e")
    return out


def by_classes(few, many, batches, classes, more):
    """Per event (cn, kn): size grows by (cn + kn*B) per class. few, many: recordings at two batches each."""
    check(batches, [few[0], many[0]])
    found = []
    for row in zip(few[0], few[1], many[0], many[1]):
        if row[0][0] != "a":
            found.append(None)
            continue
        grow = [row[2 + i][BYTES] - row[i][BYTES] for i in range(2)]
        if any(g % (more - classes) for g in grow):
            raise NotAffine("the size of %s is not linear in the number of classes" % _where(row[0]))
        fit = line(batches, [g // (more - classes) for g in grow])
        if fit is None:
            raise NotAffine("the size of %s is not linear in classes times batch" % _where(row[0]))
        found.append(fit)
    return found


def document(header, body):
    """The whole tape. header: dict; body: lines."""
    return json.dumps(header, separators=(",", ":"), ensure_ascii=False) + "\n" + "\n".join(body) + "\n"
