# SPDX-License-Identifier: Apache-2.0
"""What can go wrong while recording, each with the process exit status that reports it."""


class RecordError(Exception):
    """A recording that cannot be made; `str()` is one clear line that says what to do. Exit status 3."""

    status = 3


class UsageError(RecordError):
    """An option or its value makes no sense. Exit status 2."""

    status = 2


class MissingLibrary(RecordError):
    """The model's library (or torch itself) is not installed or does not load. Exit status 4."""

    status = 4


class NoDevice(RecordError):
    """There is no GPU to record on. Exit status 4."""

    status = 4


class NotAffine(RecordError):
    """The sequence of events differs between batches, or a size is no affine function of the batch. Exit status 3."""
