# SPDX-License-Identifier: Apache-2.0
"""Who saves a checkpoint says so: begin, end or failure with the path (event `checkpoint` of doc/formats/steps.md). What is told is
the outermost call: a framework's own saving where there is one, a folder as a whole, and torch.save or safetensors where there is
none. What a framework saves that nobody can go on from (the model alone, at the end) is told as no checkpoint.

Files that a program saves by itself, two or more between two steps, into a folder that it made for them and that has a number in its
name, are one checkpoint: the folder. That is said when the training goes on.

Recipe: a framework that saves checkpoints is a function `hook_NAME(saves)` that replaces the method by `saves.told(...)`, a row of
HOOKS and a test in tests/torch/test_emit_checkpoints.py."""

import builtins
import functools
import io
import os
import sys
import threading
from threading import get_ident

from .events import error_text
from .machine import OTHER
from .shelter import Shelter
from .tracing import is_tracing

MADE_MAX = 1000  # folders that are remembered between two steps
MOVED_MAX = 64  # paths that may still get another name
PATH_MAX = 1800  # characters of JSON: two of them and the rest of their event fit a line


def path_of(target):
    """The absolute path of the file or folder that something is saved to; None where that is not known."""
    is_path = isinstance(target, (str, os.PathLike))  # pathlib's have a name, too: without their folder
    name = target if is_path else getattr(target, "name", None)  # of an open file
    if not isinstance(name, (str, os.PathLike)):
        return None
    path = os.path.abspath(os.fspath(name))
    return path if isinstance(path, str) and len(ascii(path)) <= PATH_MAX else None


class Call(threading.local):
    """The outermost saving of this thread; what failed in it, by path."""

    inside = False
    failures = {}


class Saves:
    """One process's. All hooks go through told()."""

    def __init__(self, journal):
        self.journal = journal
        self.call = Call()
        self.shelter = Shelter()
        self.reset()

    def reset(self):
        self.made = set()  # folders that it made, or would have, since the last step
        self.files = set()  # folders whose files are checkpoints themselves: saved into more than once
        self.known = set()  # folders that were saved into before the last step
        self.row = {}  # of them those that files were saved into, and how many
        self.moved = []  # the newest paths that were told

    def told(self, original, by, place, is_checkpoint=True, collective=False):
        """original, told as saving by `by`; place(args, kwargs) is the path, or raises. collective: all ranks take part."""
        tracing = is_tracing()

        @functools.wraps(original)
        def save(*args, **kwargs):
            if tracing() or self.journal.owner is None:
                return original(*args, **kwargs)
            try:
                path = path_of(place(args, kwargs))
            except Exception:
                path = None
            if self.call.inside:
                return self._part(original, path, args, kwargs)
            return self._whole(original, by, path if is_checkpoint else None, collective, args, kwargs)

        save._batchfit = True
        return save

    def _part(self, original, path, args, kwargs):
        """A call inside of another one: of interest only when it fails, also where somebody catches that."""
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            self.call.failures[path] = error_text(error)
            raise
        self.call.failures.pop(path, None)
        return result

    def _whole(self, original, by, path, collective, args, kwargs):
        journal = self.journal
        is_own = not journal.busy and get_ident() == journal.owner
        event = {"path": path, "by": by, "ranks": journal.machine.world if collective else 1}
        self.call.inside, self.call.failures = True, {}
        if is_own:
            journal.checkpoint_begin(event)
        else:  # a thread that saves while another one trains: at which step its copy was made, nobody says
            event["background"] = True
            journal.say_checkpoint(dict(event, state="begin"))
        failure = "stopped"
        try:
            result = original(*args, **kwargs)
            failure = next(iter(self.call.failures.values()), None)
            return result
        except Exception as error:
            failure = error_text(error)
            if is_own:
                journal.failed(error, OTHER)
            raise
        finally:
            self.call.inside = False
            self._end(event, is_own, failure)

    def _end(self, event, is_own, failure):
        folder = os.path.dirname(event["path"] or "")
        event = dict(event, state="end") if failure is None else dict(event, state="failed", error=failure)
        if failure is None and event["by"] in FLOOR and self.may_be_one(folder):
            event["folder"] = folder
            self.row[folder] = self.row.get(folder, 0) + 1
        if event["path"] is not None:
            self.moved = [p for p in self.moved[1 - MOVED_MAX:] if p != event["path"]] + [event["path"]]
        if is_own:
            self.journal.checkpoint_end(event)
        else:
            self.journal.say_checkpoint(event)

    def may_be_one(self, folder):
        """May the files that are saved into it now be one checkpoint?"""
        if folder in self.known:
            self.files.add(folder)
        return folder in self.made and folder not in self.files and any(c.isdigit() for c in os.path.basename(folder))

    def row_is_over(self):
        """The training goes on, or has ended by itself: what was saved together is all there."""
        row, self.row = self.row, {}
        self.made.clear()
        self.known.update(list(row)[:MADE_MAX - len(self.known)])
        for folder, count in row.items():
            if count > 1:
                self.journal.say_checkpoint({"path": folder, "by": "files", "ranks": 1, "step": self.journal.machine.steps,
                                             "state": "end"})
                self.moved.append(folder)

    def renamed(self, src, dst):
        """Whoever wants the whole checkpoint or none writes it under another name first."""
        for path in self.moved:
            if path != src and not path.startswith(src + os.sep):
                continue
            if src in self.row:
                self.row[dst] = self.row.pop(src)
                self.made.add(dst)
            self.moved = [dst + p[len(src):] if p == src or p.startswith(src + os.sep) else p for p in self.moved]
            self.journal.checkpoint_renamed(src, dst)
            return


FLOOR = ("torch.save", "safetensors")


def argument(number, name):
    """The place that is an argument."""
    return lambda args, kwargs: args[number] if number < len(args) else kwargs.get(name)


def hook_save(saves):
    import torch
    original = saves.shelter.saving(torch.save, 1, "f")
    told = saves.told(original, "torch.save", argument(1, "f"))

    @functools.wraps(original)
    def save(*args, **kwargs):
        if args and "Storage" in type(args[0]).__name__:  # how torch pickles a single tensor
            return original(*args, **kwargs)
        return told(*args, **kwargs)

    torch.save = torch.serialization.save = save
    if saves.shelter.scratch is not None:
        builtins.open = io.open = saves.shelter.opening(builtins.open)


def hook_renaming(saves):
    def told(original):
        @functools.wraps(original)
        def rename(src, dst, *args, **kwargs):
            result = None if saves.shelter.takes_place(src, dst) else original(src, dst, *args, **kwargs)
            if saves.moved:
                src, dst = path_of(src), path_of(dst)
                if src is not None and dst is not None:
                    saves.renamed(src, dst)
            return result
        return rename

    os.replace, os.rename = told(os.replace), told(os.rename)


def hook_making(saves):
    """A checkpoint of several files gets a folder of its own, made just before."""
    original = os.mkdir

    @functools.wraps(original)
    def mkdir(path, *args, **kwargs):
        if len(saves.made) < MADE_MAX:  # also one that is there already: from a checkpoint that was cut short
            saves.made.add(path_of(path))
        return original(path, *args, **kwargs)

    os.mkdir = mkdir


def replace(saves, owner, name, by, place, **more):
    """The method or function `name`, once: a module that is loaded again makes another one."""
    original = getattr(owner, name, None)
    if original is not None and not hasattr(original, "_batchfit"):
        setattr(owner, name, saves.told(original, by, place, **more))


def hook_safetensors(saves):
    module = sys.modules["safetensors.torch"]
    if not hasattr(module.save_file, "_batchfit"):
        module.save_file = saves.shelter.saving(module.save_file, 1, "filename")
    replace(saves, module, "save_file", "safetensors", argument(1, "filename"))


def hook_transformers(saves):
    def folder(args, kwargs):
        trainer, trial = args[0], argument(2, "trial")(args, kwargs)
        return os.path.join(trainer._get_output_dir(trial=trial), "checkpoint-%d" % trainer.state.global_step)

    module = sys.modules["transformers.trainer"]
    trainer = module.Trainer
    if saves.shelter.scratch is not None:  # older checkpoints may be another training's
        for owner, name in ((trainer, "_rotate_checkpoints"), (module, "rotate_checkpoints")):
            if hasattr(owner, name):
                setattr(owner, name, lambda *args, **kwargs: None)
    replace(saves, trainer, "_save_checkpoint", "transformers", folder, collective=True)
    replace(saves, trainer, "save_model", "transformers", argument(1, "output_dir"), is_checkpoint=False)


def hook_accelerate(saves):
    def folder(args, kwargs):
        accelerator = args[0]
        if accelerator.project_configuration.automatic_checkpoint_naming:
            return os.path.join(accelerator.project_dir, "checkpoints", "checkpoint_%d" % accelerator.save_iteration)
        return os.path.expanduser(args[1] if len(args) > 1 else kwargs.get("output_dir"))

    accelerator = sys.modules["accelerate.accelerator"].Accelerator
    replace(saves, accelerator, "save_state", "accelerate", folder, collective=True)
    replace(saves, accelerator, "save_model", "accelerate", argument(2, "save_directory"), is_checkpoint=False)


def hook_lightning(name):
    def hook(saves):
        def path(args, kwargs):
            # One that writes in a thread of its own is not done when it returns: --checkpoint is for that.
            if "Async" in type(getattr(args[0].strategy, "checkpoint_io", None)).__name__:
                return None
            return argument(1, "filepath")(args, kwargs)

        replace(saves, sys.modules[name].Trainer, "save_checkpoint", "lightning", path, collective=True)
    return hook


def hook_distributed(saves):
    """torch.distributed.checkpoint. What it saves behind the training's back is whole when its future is done."""
    def path(args, kwargs):
        target = kwargs.get("checkpoint_id", args[1] if len(args) > 1 else None)  # older ones: the writer is the second
        writer = kwargs.get("storage_writer")
        return next(p for p in (target, getattr(target, "path", None), getattr(writer, "path", None))
                    if isinstance(p, (str, os.PathLike)))

    module = sys.modules["torch.distributed.checkpoint"]
    for name in ("save", "save_state_dict"):
        replace(saves, module, name, "torch.distributed.checkpoint", path, collective=True)
    original = getattr(module, "async_save", None)
    if original is None or hasattr(original, "_batchfit"):
        return

    @functools.wraps(original)
    def async_save(*args, **kwargs):
        journal, event = saves.journal, None
        if not saves.call.inside and journal.owner is not None:
            try:
                if get_ident() == journal.owner and not journal.busy:
                    journal.read(True)  # up to the step that is copied now
                event = {"path": path_of(path(args, kwargs)), "by": "torch.distributed.checkpoint", "ranks": journal.machine.world,
                         "step": journal.machine.steps}
            except Exception:
                pass
        if event is None:
            return original(*args, **kwargs)

        def done(future):
            error = future.exception()
            journal.say_checkpoint(dict(event, state="end") if error is None else
                                   dict(event, state="failed", error=error_text(error)))

        journal.say_checkpoint(dict(event, state="begin"))
        saves.call.inside, saves.call.failures = True, {}
        try:
            future = original(*args, **kwargs)
        except Exception as error:  # before anything was written
            journal.say_checkpoint(dict(event, state="failed", error=error_text(error)))
            raise
        finally:
            saves.call.inside = False
        getattr(future, "upload_completion", future).add_done_callback(done)  # newer ones: of the copy, and of the writing
        return future

    async_save._batchfit = True
    module.async_save = async_save


def hook_deepspeed(saves):
    def folder(args, kwargs):
        tag = args[2] if len(args) > 2 else kwargs.get("tag")
        return os.path.join(argument(1, "save_dir")(args, kwargs), str(tag or "global_step%d" % args[0].global_steps))

    engine = sys.modules["deepspeed.runtime.engine"].DeepSpeedEngine
    replace(saves, engine, "save_checkpoint", "deepspeed", folder, collective=True)
    replace(saves, engine, "save_16bit_model", "deepspeed", argument(1, "save_dir"), is_checkpoint=False)


def hook_ultralytics(saves):
    replace(saves, sys.modules["ultralytics.engine.trainer"].BaseTrainer, "save_model", "ultralytics", lambda args, _: args[0].last)


HOOKS = (  # name of the module, function: it is called when that module has been loaded
    ("torch", hook_save),
    ("torch", hook_renaming),
    ("torch", hook_making),
    ("safetensors.torch", hook_safetensors),
    ("torch.distributed.checkpoint", hook_distributed),
    ("transformers.trainer", hook_transformers),
    ("accelerate.accelerator", hook_accelerate),
    ("lightning.pytorch.trainer.trainer", hook_lightning("lightning.pytorch.trainer.trainer")),
    ("pytorch_lightning.trainer.trainer", hook_lightning("pytorch_lightning.trainer.trainer")),
    ("deepspeed.runtime.engine", hook_deepspeed),
    ("ultralytics.engine.trainer", hook_ultralytics),
)
