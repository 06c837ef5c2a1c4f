# SPDX-License-Identifier: Apache-2.0
"""Runs programs one after another, each in a fork of itself: for emit_helper.run.

Importing torch, and what its first optimizer imports, takes seconds, and most tests of the emitter look at what a program does
after that. So it is done once, without the emitter. A fork takes the program's environment, runs hook/sitecustomize.py as Python
does before a program, which puts the emitter into the torch that is there, and is the program from then on. How the emitter gets
into a fresh Python, before torch, is for test_emit_ways.py.

main() reads a line of JSON for each program, and answers with its exit status (-9: killed by signal 9).
"""
import atexit
import gc
import json
import os
import sys
import threading

import torch  # noqa: F401
try:
    import torch._dynamo  # noqa: F401
except ImportError:  # torch 1
    pass


def serve():
    """In a fork: what it is to be. None when there is no more to do."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return compile(f.read(), path, "exec")


def end(status):
    """As Python ends, but for the taking apart of every module: it takes a second, and copies all of torch."""
    threading._shutdown()  # pylint: disable=protected-access
    atexit._run_exitfuncs()  # pylint: disable=protected-access
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def become(task):
    """The program: this process, with nothing of ours in sight."""
    for number, path in enumerate((os.devnull, task["out"], task["err"])):
        opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(task["env"])
    sys.argv[:] = [task["path"]]
    sys.path[0] = os.path.dirname(task["path"])
    os.chdir(sys.path[0])
    exec(text_of(task["hook"]), {"__name__": "sitecustomize", "__file__": task["hook"]})
    text, names = text_of(task["path"]), sys.modules["__main__"].__dict__
    for name in [n for n in names if not n.startswith("__")]:
        del names[name]
    names["__file__"] = task["path"]
    exec(text, names)  # what it raises, SystemExit too, is Python's affair
    end(0)


def main():
    gc.freeze()  # else a fork's first collection touches, and so copies, all of torch
    task = serve()
    if task is not None:
        become(task)
