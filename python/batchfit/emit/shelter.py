# SPDX-License-Identifier: Apache-2.0
"""What a trial saves takes no file's place: a checkpoint that was there before it is the user's. Where torch.save or safetensors would
write over one, open() would empty one, or what they wrote would get its name, the trial's file goes into its scratch folder and away;
what is new is written where the program says, and the program's own files it may write again. Nothing is done where the training is
the user's own, not a trial (BATCHFIT_TRIAL)."""

import functools
import os

_remove = os.remove
# How files are called that hold weights: pickles, torch's, safetensors', NumPy's, HDF5's. Logs and figures a trial may write again.
NAMES = (".pt", ".pth", ".pth.tar", ".ckpt", ".bin", ".safetensors", ".pkl", ".pickle", ".npy", ".npz", ".h5", ".joblib")


def _path(target):
    """None of an open file: whoever opened it has made room already."""
    return os.path.realpath(os.fspath(target)) if isinstance(target, (str, os.PathLike)) else None


class Shelter:
    """One process's."""

    def __init__(self):
        scratch = os.environ.get("BATCHFIT_SCRATCH") if os.environ.get("BATCHFIT_TRIAL") else None
        self.scratch = os.path.realpath(scratch) if scratch else None
        self.own = set()  # files that this trial saved
        self.opened = set()  # files that it made by open()

    def is_kept(self, path):
        """Is there a file that was there before?"""
        is_own = path in self.own or path in self.opened
        if self.scratch is None or not isinstance(path, str) or is_own or path.startswith(self.scratch + os.sep):
            return False
        return os.path.isfile(path)

    def saving(self, original, at, name):
        """original, whose argument number `at`, called `name`, says where."""
        if self.scratch is None:
            return original

        @functools.wraps(original)
        def save(*args, **kwargs):
            given = args[at] if at < len(args) else kwargs.get(name)
            path = _path(given)
            if not self.is_kept(path):
                result = original(*args, **kwargs)
                if path is not None:
                    self.own.add(path)
                return result
            aside = self.aside(path)
            if at < len(args):
                args = args[:at] + (aside,) + args[at + 1:]
            else:
                kwargs = dict(kwargs, **{name: aside})
            try:
                return original(*args, **kwargs)
            finally:
                if os.path.exists(aside):
                    _remove(aside)
        return save

    def opening(self, original):
        """open(): a checkpoint that was there is not emptied; what is written has no name."""
        @functools.wraps(original)
        def opened(file, mode="r", *args, **kwargs):
            path = _path(file) if isinstance(mode, str) and ("w" in mode or "x" in mode) else None
            if path is None:
                return original(file, mode, *args, **kwargs)
            if self.is_kept(path) and path.endswith(NAMES) and "w" in mode:
                aside = self.aside(path)
                stream = original(aside, mode, *args, **kwargs)
                _remove(aside)
                return stream
            is_new = not os.path.exists(path)
            stream = original(file, mode, *args, **kwargs)
            if is_new:
                self.opened.add(path)
            return stream
        return opened

    def aside(self, path):
        return os.path.join(self.scratch, "saved-%d-%s" % (os.getpid(), os.path.basename(path)))

    def takes_place(self, src, dst):
        """Would a file that the trial made take the place of one that was there? Then it is gone, and that one stays."""
        src, dst = _path(src), _path(dst)
        made = self.own if src in self.own else self.opened
        if dst is None or src not in made:
            return False
        made.discard(src)
        if not self.is_kept(dst) or (made is self.opened and not dst.endswith(NAMES)):
            made.add(dst)
            return False
        _remove(src)
        return True
