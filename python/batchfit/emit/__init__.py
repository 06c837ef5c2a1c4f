# SPDX-License-Identifier: Apache-2.0
"""The steps emitter: tells over the steps protocol (doc/formats/steps.md) what a PyTorch training does, from inside it.

hook/sitecustomize.py loads this package as `_batchfit_emit` right after the first import of torch; nothing of it imports
torch before. Not one line of it may change what the program computes or stop it: what goes wrong here ends the emitter, not
the training.

    transport.py   how a line leaves the process
    events.py      what a line says
    clock.py       when something happened: on the host, or in the stream of a CUDA device
    hooks.py       where in PyTorch something is noted
    checkpoints.py who saves a checkpoint, and whether it came to its end
    shelter.py     what a trial saves takes no file's place
    journal.py     the notes: what began or ended, and when; all that a training step pays for
    machine.py     reads them a little later: in which phase the training was; cuts time into steps
    byhand.py      whether a program without torch.optim has changed its weights
    inference.py   the journal and the machine of a program that only predicts (BATCHFIT_MODE=inference)
    samples.py     how many samples a batch has
    longest.py     the longest batch first, in a trial that is to see it
    cuda.py        the allocator's figures, and its cap
    snapshot.py    the memory snapshot of an out-of-memory

Recipes:

- a framework that saves checkpoints: the recipe of checkpoints.py.
- a hook (another loader of data): write a function `hook_NAME(journal)` in hooks.py
  that replaces the callable by one made with `wrapped` or by hand after `wrap_module_call`'s pattern (not the owner's thread,
  or busy: straight on; otherwise begin, call, end in `finally`), and add a row (name of the module, function) to HOOKS: it is
  called when that module has been imported. A test in tests/torch/test_emit_*.py trains with it.
- a transport (a cluster's launcher): a function `open_NAME()` in transport.py that looks at the environment and returns an
  open descriptor or None, and a row in TRANSPORTS, the first that works being used; the variable goes into VARIABLES of
  hook/sitecustomize.py, into the table of doc/formats/steps.md and into src/measure/trial/transport.c.
- a device whose work does not wait for the host: a class with the methods of clock.HostClock, and a line in
  machine.Machine.see_device."""

import contextlib

_journals = []


@contextlib.contextmanager
def paused():
    """Inside, what this process does with PyTorch is no part of the training."""
    before = [(journal, journal.owner) for journal in _journals]
    try:
        for journal, _ in before:
            journal.owner = None
        yield
    finally:
        for journal, owner in before:
            journal.owner = owner


def install(when_imported):
    """Puts the emitter into this process; torch is loaded. when_imported(name, callback) calls back when a module is."""
    import atexit
    import os

    from . import hooks
    from .inference import InferenceJournal
    from .journal import Journal
    from .transport import Transport

    only_predicts = os.environ.get("BATCHFIT_MODE") == "inference"
    journal = (InferenceJournal if only_predicts else Journal)(Transport())
    hooks.install(journal, when_imported)
    os.register_at_fork(after_in_child=journal.after_fork)
    atexit.register(journal.at_exit)
    _journals.append(journal)
    return journal
