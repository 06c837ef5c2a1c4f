# SPDX-License-Identifier: Apache-2.0
"""What the trainings of the soak share: data, a net that counts which samples its weights have seen, and faults.

The count is a buffer of the net: it is saved and loaded with the weights, so at the end it says how often each sample made them what
they are, whatever was lost and done again in between. A fault is a line of the file FAULTS, "SAMPLES KIND"; it happens once, when the
weights have seen so many samples, and leaves a file FAULTS.N."""

import os
import resource
import signal

import torch

SAMPLES, WIDTH = 192, 16
FAULTS = os.environ.get("SOAK_FAULTS", "faults")
torch.set_num_threads(1)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {"number": index, "x": torch.randn(WIDTH, generator=generator), "labels": index % 3}


def collate(rows):
    return {"number": torch.tensor([r["number"] for r in rows]), "x": torch.stack([r["x"] for r in rows]),
            "labels": torch.tensor([r["labels"] for r in rows])}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(WIDTH, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
        self.register_buffer("seen", torch.zeros(SAMPLES, dtype=torch.long))

    def forward(self, x, number=None, labels=None):
        out = self.layers(x)
        if self.training and number is not None:
            meet(int(self.seen.sum()))
            self.seen.index_add_(0, number, torch.ones_like(number))
        loss = torch.nn.functional.cross_entropy(out, labels) if labels is not None else None
        return {"loss": loss, "logits": out}


def planned():
    """(number, samples, kind) of those that have not happened yet."""
    if not os.path.exists(FAULTS):
        return []
    with open(FAULTS, encoding="utf-8") as f:
        rows = [line.split() for line in f]
    return [(i, int(at), kind) for i, (at, kind) in enumerate(rows) if not os.path.exists("%s.%d" % (FAULTS, i))]


def happens(number):
    try:
        os.close(os.open("%s.%d" % (FAULTS, number), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False  # another rank's
    return True


def out_of_memory():
    kind = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    raise kind("CUDA out of memory. Tried to allocate 2.00 GiB. (raised by the test)")


def fill_memory():
    held = []
    while True:
        held.append(torch.ones(8 << 20))


def crash():
    raise RuntimeError("a crash of the test")


def stop():
    """Both ranks: the launcher would end the other one."""
    os.kill(os.getpid(), signal.SIGSTOP)


KINDS = {"kill": lambda: os.kill(os.getpid(), signal.SIGKILL), "stall": stop, "oom": out_of_memory, "memory": fill_memory,
         "crash": crash}
saving = []  # (number, kind) that wait for this rank's next torch.save


def meet(seen):
    for number, at, kind in planned():
        if seen < at:
            continue
        if kind not in KINDS:
            if (number, kind) not in saving:
                saving.append((number, kind))
        elif happens(number):
            KINDS[kind]()


save = torch.save


def faulty_save(what, place, *args, **named):
    number, kind = saving.pop() if saving else (None, None)
    if number is not None and not happens(number):
        kind = None
    if kind == "full":  # the system's own words, and torch's
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))
    if kind in ("save-killed", "save-raises") and isinstance(place, (str, os.PathLike)):
        with open(place, "wb") as f:
            f.write(b"PK\3\4 half of it")
    if kind == "save-killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "save-raises":
        raise OSError(28, "No space left on device")
    return save(what, place, *args, **named)


torch.save = faulty_save


def result(net, steps):
    """The last word: what the weights have seen, and in how many steps."""
    with open("final.tmp", "w", encoding="utf-8") as f:
        f.write("%d %s\n" % (steps, " ".join(map(str, net.seen.tolist()))))
    os.rename("final.tmp", "final")
