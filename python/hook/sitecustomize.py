# SPDX-License-Identifier: Apache-2.0
"""Puts the steps emitter into a Python program by its environment only (PYTHONPATH starts with this folder).

Python imports `sitecustomize` before the program. This one arms a hook that waits for the first import of torch, takes its
own folder off sys.path, and hands over to the sitecustomize that would have been found without it (a distribution's, a
virtual environment's). The emitter is loaded by its place, as `_batchfit_emit`, so that nothing named `batchfit` appears in
the program. Without one of the steps protocol's variables nothing is armed at all. Nothing here may stop the program."""

import _frozen_importlib
import _frozen_importlib_external
import _thread
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
VARIABLES = ("BATCHFIT_FD", "BATCHFIT_STEPS_DIR")  # rows of TRANSPORTS in batchfit/emit/transport.py


def swallow():
    """A fault of ours is not the program's; BATCHFIT_EMIT_DEBUG=1 shows it to whoever works on the emitter."""
    if os.environ.get("BATCHFIT_EMIT_DEBUG"):
        sys.excepthook(*sys.exc_info())


class ImportWatch:
    """A finder that finds nothing itself: it runs callbacks after a module has been executed, and again after a reload. Looking
    a module up is no import: importlib.util.find_spec is called as often as one likes, and what it gives may never be loaded."""

    def __init__(self):
        self.callbacks = {}
        self.searching = set()  # (name, thread): the search goes on behind us
        self.loaded = set()

    def when_imported(self, name, callback):
        """Calls callback() when the module is loaded; at once if it is."""
        self.callbacks.setdefault(name, []).append(callback)
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if name in self.loaded or spec is not None and not getattr(spec, "_initializing", False):
            callback()

    def find_spec(self, name, path=None, target=None):
        search = (name, _thread.get_ident())
        if name not in self.callbacks or search in self.searching:
            return None
        self.searching.add(search)
        try:
            return self._watched(name, path, target)
        except Exception:
            swallow()
            return None
        finally:
            self.searching.discard(search)

    def _watched(self, name, path, target):
        """What the finders behind us find, with a loader that tells us; None where the module is not installed (yet)."""
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                break
        else:
            return None
        loader, load = spec.loader, spec.loader.exec_module
        if hasattr(load, "_batchfit"):  # a finder that gives the same loader again
            return spec

        def exec_module(module):
            loader.__dict__.pop("exec_module", None)
            load(module)
            if name in sys.modules:  # else a copy that nobody else will see
                self._executed(name)

        exec_module._batchfit = True
        loader.exec_module = exec_module  # on this one loader object: module.__loader__ stays what it is
        return spec

    def _executed(self, name):
        self.loaded.add(name)
        for callback in self.callbacks[name]:
            try:
                callback()
            except Exception:
                swallow()


def load_emitter():
    """The emitter's package under a private name."""
    folder = os.path.join(HERE, "..", "batchfit", "emit")
    source = _frozen_importlib_external.SourceFileLoader("_batchfit_emit", os.path.join(folder, "__init__.py"))
    spec = _frozen_importlib.ModuleSpec("_batchfit_emit", source, origin=source.path, is_package=True)
    spec.submodule_search_locations.append(folder)
    spec.has_location = True
    module = _frozen_importlib.module_from_spec(spec)
    sys.modules["_batchfit_emit"] = module
    source.exec_module(module)
    return module


def arm():
    if not any(os.environ.get(name) for name in VARIABLES):
        return
    watch = ImportWatch()

    def torch_is_there():
        if "_batchfit_emit" not in sys.modules:
            load_emitter().install(watch.when_imported)

    sys.meta_path.insert(0, watch)
    watch.when_imported("torch", torch_is_there)


def hand_over():
    """Runs the next sitecustomize on the path, in the place of this one. What it raises is its own affair."""
    sys.path[:] = [p for p in sys.path if not p or os.path.normpath(p) != HERE]
    spec = _frozen_importlib_external.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = _frozen_importlib.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    arm()
except Exception:
    swallow()
hand_over()
