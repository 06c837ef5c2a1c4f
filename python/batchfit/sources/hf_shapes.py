# SPDX-License-Identifier: Apache-2.0
"""Where the config.json of `hf:NAME` comes from: a path, the Hugging Face cache, or the table of known shapes.

The table is data/shapes.tsv, the keys of a family's config.json are in data/families.tsv; the C program reads the same two
(src/predict/shape). Nothing is ever downloaded.
"""

import difflib
import json
import os

from ..errors import RecordError

SIZES = ("hidden", "layers", "heads", "kv_heads", "head_dim", "intermediate", "vocabulary", "positions", "experts",
         "active", "expert_intermediate")


def rows(name):
    """The rows of a table as dictionaries. In the program's cache the tables lie beside this file, else in data/."""
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [os.environ.get("BATCHFIT_DATA") or here, here, os.path.join(here, "..", "..", "..", "data")]
    path = next(p for p in (os.path.join(f, name) for f in folders) if os.path.exists(p))
    with open(path, encoding="utf-8") as f:
        lines = [line.rstrip("\r\n") for line in f if not line.startswith("#")]
    columns = lines[0].split("\t")
    return [dict(zip(columns, line.split("\t"))) for line in lines[1:] if line]


def _put(values, path, value):
    *folders, key = path.split(".")
    for folder in folders:
        values = values.setdefault(folder, {})
    values[key] = value


def _merge(into, values):
    for key, value in values.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def keys_of(cell):
    """Where a config.json has a size, the way of other versions last (KEY|OTHER=VALUE of families.tsv)."""
    return cell.partition("=")[0].split("|")


def values_of(row, family):
    """What config.json says of a row of the table."""
    values = {}
    for column in SIZES:
        if row[column] and family[column]:
            _put(values, keys_of(family[column])[0], int(row[column]))
    if row["tied"]:
        values["tie_word_embeddings"] = row["tied"] == "1"
    _merge(values, json.loads(row["more"] or "{}"))
    return values


def _row(name):
    """The row of a name: exactly, else without the owner where that is one shape only. Letters' case does not matter."""
    table, wanted = rows("shapes.tsv"), name.lower()
    for short in (False, True):
        found = [row for row in table
                 if wanted in [n.split("/")[-1].lower() if short else n.lower() for n in row["ids"].split(",")]]
        if len(found) == 1:
            return found[0]
    return None


def known(name):
    """(model_type, values) of a name in the table, or None."""
    row = _row(name)
    if row is None:
        return None
    family = next(f for f in rows("families.tsv") if f["type"] == row["type"])
    return row["type"], values_of(row, family)


def names():
    """All names of the table."""
    return sorted(name for row in rows("shapes.tsv") for name in row["ids"].split(","))


def cache_folder():
    """The folder of the hub's cache, as huggingface_hub finds it."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "huggingface")
    return (os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
            or os.path.join(os.path.expanduser(home), "hub"))


def cached(name):
    """The config.json of a model in the cache: the revision of its main branch, else the one fetched last; or None."""
    folder = os.path.join(os.path.expanduser(cache_folder()), "models--" + name.replace("/", "--"))
    try:
        with open(os.path.join(folder, "refs", "main"), encoding="utf-8") as f:
            revisions = [f.read().strip()]
    except (OSError, UnicodeError):
        revisions = []
    snapshots = os.path.join(folder, "snapshots")
    try:
        found = sorted(os.listdir(snapshots), key=lambda r: os.path.getmtime(os.path.join(snapshots, r)), reverse=True)
    except OSError:
        found = []
    for revision in revisions + found:
        path = os.path.join(snapshots, revision, "config.json")
        if "/" not in revision and os.path.isfile(path):
            return path
    return None


def _check(kind, values, path):
    """Sizes that the file says are whole numbers from 1 on."""
    family = next((f for f in rows("families.tsv") if f["type"] == kind), {})
    for column in SIZES:
        for key in keys_of(family.get(column, "")):
            value = values
            for part in key.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise RecordError("%s: %s is %.60r: not a whole number from 1 on" % (path, key, value))


def _read(path):
    try:
        with open(path, encoding="utf-8") as f:
            values = json.load(f)
    except ValueError as why:
        raise RecordError("%s is not JSON: %s" % (path, why))
    if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
        raise RecordError("%s has no model_type" % path)
    values = dict(values)
    kind = values.pop("model_type")
    _check(kind, values, path)
    return kind, values


def _unknown(name):
    near = difflib.get_close_matches(name, names(), 3, 0.6)
    return RecordError("no configuration of %r: no such folder or file, not in the cache (%s), not in the table of known "
                       "shapes%s; nothing is downloaded: give the path of its config.json"
                       % (name, cache_folder(), " (nearest: %s)" % ", ".join(near) if near else ""))


def find(name):
    """(model_type, values, where from) of NAME. Raises RecordError."""
    path = os.path.join(name, "config.json") if os.path.isdir(name) else name
    if os.path.isfile(path):
        return _read(path) + (path,)
    if path.endswith(".json") or name.startswith((".", "/", "~")):
        raise RecordError("%s: no such file" % path)
    row = _row(name)
    for spelled in [name] + (row["ids"].split(",") if row else []):
        path = cached(spelled)
        if path:
            return _read(path) + (path,)
    if row is None:
        raise _unknown(name)
    return known(name) + ("the table of known shapes (%s)" % row["source"],)
