# SPDX-License-Identifier: Apache-2.0
"""The small tables beside this file, and what they make of one row of a published table: a case to record and judge."""

import csv
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(os.path.dirname(os.path.dirname(HERE)), "data")


def read_tsv(path):
    """Rows of a tab-separated file as dicts; '#' starts a comment line."""
    with open(path, encoding="utf-8") as f:
        lines = [line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#")]
    return [dict(zip(lines[0], cells)) for cells in lines[1:]]


def read_csv(path):
    """(columns, rows)."""
    with open(path, encoding="utf-8", newline="") as f:
        reader = csv.DictReader(f)
        return list(reader.fieldnames or []), list(reader)


def fill(template, row):
    """'{col}' -> the cell, '{col:first}' its first word, '{col:GiB}' the number times 1024."""
    def cell(match):
        name, _, how = match.group(1).partition(":")
        text = row.get(name) or ""
        if how == "first":
            return text.split()[0] if text.split() else ""
        return "%.0f" % (float(text) * 1024) if how == "GiB" and text else text
    return re.sub(r"\{([^}]*)\}", cell, template)


def value(text):
    """A knob's value from its text."""
    number = int(text) if re.fullmatch(r"\d+", text) else float(text) if re.fullmatch(r"\d+\.\d+", text) else text
    return {"true": True, "false": False}.get(text, number)


class Tables:
    """Profiles, column meanings, aliases and overheads."""

    def __init__(self):
        self.profiles = read_tsv(os.path.join(HERE, "profiles.tsv"))
        self.columns = read_tsv(os.path.join(HERE, "columns.tsv"))
        self.unjudged = read_tsv(os.path.join(HERE, "unjudged.tsv"))
        self.adapters = {a["name"]: a["config"] for a in read_tsv(os.path.join(HERE, "adapters.tsv"))}
        self.aliases = {(a["library"], a["name"]): a["model"] for a in read_tsv(os.path.join(HERE, "aliases.tsv"))}

    def known(self, row):
        """The row, and the column `adapter` where its method is an adapter that adapters.tsv knows by name ('lora/NAME; ...'), and
        `samples_per_sec` where its throughput is in images per second of one GPU."""
        more = {"adapter": self.adapters.get((row.get("method") or "").partition(";")[0])}
        if row.get("throughput_unit") == "images/s" and row.get("n_gpus") == "1":
            more["samples_per_sec"] = row.get("throughput")
        return dict(row, **more)

    def profile(self, row):
        """The first profile whose needs the row meets, or None."""
        return next((p for p in self.profiles if all(meets(row, need) for need in p["needs"].split(","))), None)

    def why_unjudged(self, row):
        """What of the row no profile models."""
        found = next((u["why"] for u in self.unjudged if all(meets(row, need) for need in u["needs"].split(","))), None)
        return found or "the row has no figure that a profile knows how to judge"

    def job(self, row, profile):
        """(source, knobs) for the recorder."""
        knobs = dict(pair.split("=", 1) for pair in fill(profile["knobs"], row).split())
        for c in self.columns:
            match = re.search(c["regex"], row.get(c["column"]) or "")
            if match:
                knobs[c["knob"]] = match.expand(c["value"])
        if knobs.get("accumulation") == "1":
            del knobs["accumulation"]
        kind, _, name = fill(profile["source"], row).partition(":")
        name = self.aliases.get((profile["packages"], name), name)
        # a version such as 1.10 stays text
        return kind + ":" + name, {k: v if k == "rules" else value(v) for k, v in sorted(knobs.items())}


def meets(row, need):
    """'col': the cell is not empty; for batch_fails and the like only the column must be there. 'col~REGEX': it matches."""
    name, tilde, regex = need.partition("~")
    text = row.get(name)
    return bool(text) and (not tilde or re.search(regex, text) is not None)


def fitted(row, name):
    """Was this overhead found by fitting predictions to the table `name`? A published reading of the context is no fit."""
    return name in row["from"].split(",") and row["what"] != "context"


class Overheads:
    """data/overheads.tsv: bytes outside of the allocator, in parts, by GPU and software.

    Rows that come from the judged table are passed over: no table is judged with a constant that was fitted to it.
    """

    def __init__(self, judged):
        name = os.path.basename(judged)
        name = name[len("sample_"):] if name.startswith("sample_") else name
        self.rows = [r for r in read_tsv(os.path.join(DATA, "overheads.tsv")) if not fitted(r, name)]

    def total_mib(self, described):
        """(MiB, 'what from, what from') for 'gpu=rtx_3090 cc=86 sms=82 cuda=1103 parts=context,cudnn'."""
        card = dict(pair.split("=", 1) for pair in described.split())
        rows = [self._part(what, card) for what in card["parts"].split(",")]
        return sum(r[0] for r in rows), ", ".join(r[1] for r in rows)

    def _part(self, what, card):
        """The most specific row that matches."""
        found = [r for r in self.rows if r["what"] == what and self._matches(r, card)]
        if not found:
            return 0, "%s unknown" % what
        row = min(found, key=lambda r: (not r["gpu"], not (r["cc_min"] or r["cc_max"]), not r["vendor"]))
        size = float(row["mib"]) + float(row["mib_per_sm"] or 0) * int(card["sms"])
        return round(size), "%s %.0f MiB from %s" % (what, size, row["from"])

    @staticmethod
    def _matches(row, card):
        cuda, cc = int(card["cuda"]), int(card["cc"])
        return (row["vendor"] in ("", "NVIDIA") and row["gpu"] in ("", card["gpu"]) and row["loading"] in ("", card["loading"])
                and int(row["cc_min"] or 0) <= cc <= int(row["cc_max"] or 999)
                and int(row["cuda_min"] or 0) <= cuda <= int(row["cuda_max"] or 9999))
