# SPDX-License-Identifier: Apache-2.0
"""What an engine cannot do, with the exit status that says it."""

from ..errors import RecordError


class Unavailable(RecordError):
    """This machine, or this engine, cannot do what was asked for. Exit status 4."""

    status = 4


class NotInstalled(RecordError):
    """The engine is not installed; `str()` says what brings it. Exit status 6: bench goes on with the others."""

    status = 6


def need(module, install):
    """Imports a module of an engine."""
    import importlib
    try:
        return importlib.import_module(module)
    except ImportError as why:
        raise NotInstalled("%s is not installed (%s): pip install %s" % (module.partition(".")[0], why, install))


MEMORY = ("out of memory", "OutOfMemory", "Failed to allocate memory", "DefaultCPUAllocator", "bad_alloc")


def is_out_of_memory(error):
    """Does an engine's exception say that memory ran out?"""
    return isinstance(error, MemoryError) or any(words in str(error) for words in MEMORY)
