# SPDX-License-Identifier: Apache-2.0
"""CUDA only: the memory snapshot of an out-of-memory (BATCHFIT_SNAPSHOT, a folder), which `batchfit doctor` reads.

PyTorch keeps the last ENTRIES actions of its allocator with their stacks, and calls an observer at the moment in which memory
runs out, before the exception: what the program held is then still there. torch 1.x keeps no history."""

import inspect
import os
import sys

ENTRIES = 100000  # bounded: the newest ones; about 20 MB in the file
DUMPS = 3         # of one process: a program may catch the exception and try again, and again


class Observer:
    """What torch calls; nothing of it may stop the program."""

    def __init__(self, folder, dump):
        self.folder, self.dump, self.made = folder, dump, 0

    def path(self):
        """One for each process and death."""
        rank = os.environ.get("RANK", "0")
        return os.path.join(self.folder, "oom-rank%s-%d-%d.pickle" % (rank if rank.isdigit() else "0", os.getpid(), self.made))

    def __call__(self, *_):
        if self.made >= DUMPS:
            return
        try:
            path = self.path()
            self.dump(path + ".part")
            os.replace(path + ".part", path)
            self.made += 1
            print("batchfit: out of memory; a memory snapshot for batchfit doctor: %s" % path, file=sys.stderr, flush=True)
        except Exception:
            self.made = DUMPS  # a full disk stays full


def start():
    """Runs inside torch's lazy initialisation of CUDA, before the first allocation."""
    folder = os.environ.get("BATCHFIT_SNAPSHOT")
    if not folder:
        return None
    import torch
    record = torch.cuda.memory._record_memory_history
    if "max_entries" in inspect.signature(record).parameters:  # torch 2.1 on
        record(max_entries=ENTRIES)
    else:  # 2.0
        record(True, trace_alloc_max_entries=ENTRIES, trace_alloc_record_context=True)
    observer = Observer(folder, torch.cuda.memory._dump_snapshot)
    torch._C._cuda_attach_out_of_memory_observer(observer)
    return observer
