# SPDX-License-Identifier: Apache-2.0
"""A template against a direct recording, event by event: batchfit makes the tape of the one, its recorder that of the other."""

import json
import os
import subprocess
import tempfile

from . import dims, record

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("BATCHFIT", os.path.join(ROOT, "build", "batchfit"))


def instance(path, letters, value, free_batch=False):
    """The event lines of a template's tape at these values, and "h MOST PINNED" of the host's bytes where there are some."""
    named = ",".join("%s=%d" % (dims.NAMES[k], value[k]) for k in letters if k != "B" or not free_batch)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "made.tape")
        done = subprocess.run([PROGRAM, "sim", path, "--batch", str(value["B"]), "--dims", named, "--write-tape", out,
                               "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise ValueError(done.stderr.strip())
        with open(out, encoding="utf-8") as f:
            header, *lines = f.read().splitlines()
    header = json.loads(header)
    return lines + (["h %d %d" % (header["host_bytes"], header["host_pinned_bytes"])] if "host_bytes" in header else [])


def _of_classes(words, more):
    """An allocation with so many classes more than the tape's: 'n=CN,KN' of bytes each."""
    if not words[-1].startswith("n=") or more is None:
        return words
    each, of_batch = map(int, words[-1][2:].split(","))
    return words[:2] + [str(int(words[2]) + each * more), str(int(words[3]) + of_batch * more)] + words[4:-1]


def _plain(lines, more_classes):
    """With blocks numbered as they come, and without those of 0 bytes: a sum may be 0 where a recording has no event."""
    numbers, out, count = {}, [], 0
    for words in (_of_classes(line.split(), more_classes) for line in lines):
        if words[0].startswith("a"):
            numbers[words[1]] = None if words[2:4] == ["0", "0"] else count
            count += words[2:4] != ["0", "0"]
        if words[0] == "f" or words[0].startswith("a"):
            number = numbers[words[1]]
            if number is None:
                continue
            words[1] = str(number)
        out.append(" ".join(words))
    return out


def difference(variant, path, value):
    """The first event that differs, as a text; None: the two are equal."""
    more = value.get("C", dims.CLASSES) - dims.CLASSES if variant.is_of_classes else None
    made, recorded = (_plain(lines, more) for lines in (instance(path, variant.letters, value), record.direct(variant, value)))
    for i, (a, b) in enumerate(zip(made, recorded)):
        if a != b:
            return "event %d is '%s', recorded '%s'" % (i, a, b)
    return None if len(made) == len(recorded) else "%d events, recorded %d" % (len(made), len(recorded))
