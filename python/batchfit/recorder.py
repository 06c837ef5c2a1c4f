# SPDX-License-Identifier: Apache-2.0
"""record(source, knobs) -> the text of a tape: build once, record at several batches, check, write."""

import time
import warnings

import torch

from . import composites, cuda_history, host, prepare, sources, tape, zero, zero_trace
from .autocast import AUTOCAST
from .dispatch import Recorder
from .errors import NotAffine, RecordError
from .knobs import Knobs
from .script import Script

BATCHES = (2, 4, 8)
FALLBACKS = ((4, 8, 16), (8, 16, 32))  # some models treat the smallest batches differently


def _script(knobs):
    if zero.is_trace(knobs.shard):
        return zero_trace.TraceScript
    return zero.ZeroScript if zero.stage(knobs.shard) else Script


def recorded(job, knobs, batch):
    """The log of one recording."""
    rec = Recorder(knobs, job.model)
    composites.configure(knobs, rec)
    AUTOCAST.rules = knobs.rules
    job.rec = rec
    script = _script(knobs)(knobs, job, batch, rec)
    with AUTOCAST:
        script.run()
    rec.log.close()
    script.clean()
    job.rec = None
    job.header.update(host.counted(rec.log.events).facts())
    job.header["unknown_values"] = rec.unknown_values or None  # data-dependent answers that were assumed
    return rec.log


class Session:
    """One source with its knobs: recordings by batch, on one model while that gives equal sequences."""

    def __init__(self, source, knobs, say):
        self.source, self.knobs, self.say = source, knobs, say
        self.job = None
        self.done = {}

    def _load(self):
        return prepare.load(self.source, self.knobs)

    def at(self, batch, fresh=False):
        """Events at a batch; fresh: with a newly built model (some cache tensors in their first forward)."""
        if fresh or self.job is None or self.job.is_used_up and batch not in self.done:
            self.job = self._load()
            self.done.pop(batch, None)
        if batch not in self.done:
            started = time.time()
            self.done[batch] = recorded(self.job, self.knobs, batch).events
            self.say("batch %d: %d events, %.1f s" % (batch, len(self.done[batch]), time.time() - started))
        return self.done[batch]

    def agree(self, batches):
        """Recordings at these batches with the same sequence; raises NotAffine."""
        recordings = [self.at(b) for b in batches]
        if any(tape.difference(recordings[0], r) is not None for r in recordings[1:]):
            recordings = [self.at(b, fresh=True) for b in batches]
        tape.check(batches, recordings)
        return recordings


def _search(session, batches):
    """(batches, recordings, body): the first set of batches that is affine."""
    sets = [tuple(batches)] if batches else [BATCHES] + list(FALLBACKS)
    first = None
    for chosen in sets:
        try:
            recordings = session.agree(chosen)
            return chosen, recordings, tape.lines(chosen, recordings)
        except NotAffine as why:
            first = first or why
            session.say("batches %s: %s" % (",".join(map(str, chosen)), why))
    raise first


def _derivative(source, said, knobs, session, batches, say):
    """Per event (cn, kn) by recording again with more classes; None for models without a classifier."""
    classes = session.job.header.get("classes")
    if not classes:
        raise RecordError("--classes-derivative: %s has no classifier size to change" % source)
    more = classes + 64
    other = Session(source, Knobs(sources.split(source)[0], torch.__version__, dict(said, num_classes=more)), say)
    pair = list(batches[:2])
    return tape.by_classes([session.at(b) for b in pair], other.agree(pair), pair, classes, more)


def record(source, said=None, say=lambda text: None):
    """Record `source` ('timm:resnet50') with the knobs in `said` (names of knobs.KNOBS, plus `batches`: list of ints,
    `classes_derivative`: bool, `device`: meta or cuda). Returns the tape's text. say: called with short progress lines.
    Raises RecordError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = dict(said or {})
        if said.pop("device", None) == "cuda":
            return cuda_history.record(source, said, say)
        return _record(source, said, say)


def _record(source, said, say):
    batches, derive = said.pop("batches", None), said.pop("classes_derivative", False)
    started = time.time()
    composites.install()
    knobs = Knobs(sources.split(source)[0], torch.__version__, said)
    session = Session(source, knobs, say)
    chosen, recordings, body = _search(session, batches)
    if derive:
        body = tape.lines(chosen, recordings, _derivative(source, said, knobs, session, chosen, say))
    return tape.document(prepare.header(source, knobs, session.job, chosen, time.time() - started), body)
