# SPDX-License-Identifier: Apache-2.0
"""hf:NAME is built from a path, the hub's cache or the table of known shapes; the tables against transformers and timm."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from helper import HERE, command, modern, record

from batchfit.errors import RecordError
from batchfit.sources import hf_shapes

ROOT = os.path.join(HERE, "..", "..")
VERSION = "5.23.0"  # whose defaults data/families.tsv has


def transformers_of_the_tables(test):
    """The module; the test is skipped loudly where another version is installed."""
    if importlib.util.find_spec("transformers") is None:
        test.skipTest("SKIPPED: transformers is not installed")
    from batchfit import stubs
    stubs.prepare()
    import transformers
    if transformers.__version__ != VERSION:
        test.skipTest("SKIPPED: the tables are of transformers %s, this is %s" % (VERSION, transformers.__version__))
    return transformers


def _get(values, path):
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values


def folder_with(values, *where):
    """A new folder with a config.json of values at a path below it."""
    folder = tempfile.TemporaryDirectory()
    place = os.path.join(folder.name, *where)
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, "config.json"), "w", encoding="utf-8") as f:
        f.write(values if isinstance(values, str) else json.dumps(values))
    return folder


BERT = dict(model_type="bert", hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, vocab_size=100,
            torch_dtype="bfloat16", transformers_version="4.0.0")
LLAMA = dict(BERT, model_type="llama", num_key_value_heads=1)


class Found(unittest.TestCase):
    def test_path_cache_table_in_this_order(self):
        with folder_with(BERT, "hub", "models--google-bert--bert-base-uncased", "snapshots", "abc") as home, \
                mock.patch.dict(os.environ, {"HF_HOME": home}):
            for gone in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
                os.environ.pop(gone, None)
            # also by the name that the hub had for it before
            for name in ("google-bert/bert-base-uncased", "bert-base-uncased"):
                kind, values, source = hf_shapes.find(name)
                self.assertEqual((kind, values["hidden_size"]), ("bert", 64))
                self.assertIn("snapshots", source)
            self.assertEqual(hf_shapes.find("google-bert/bert-large-uncased")[1]["hidden_size"], 1024)
            place = os.path.join(home, "hub", "models--google-bert--bert-base-uncased", "snapshots", "abc")
            for path in (place, os.path.join(place, "config.json")):
                self.assertEqual(hf_shapes.find(path)[1]["hidden_size"], 64)

    def test_the_main_branch_wins(self):
        with folder_with(BERT, "hub", "models--a--b", "snapshots", "new") as home, mock.patch.dict(os.environ, {"HF_HOME": home}):
            model = os.path.join(home, "hub", "models--a--b")
            for gone in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
                os.environ.pop(gone, None)
            os.makedirs(os.path.join(model, "snapshots", "main1"))
            os.makedirs(os.path.join(model, "refs"))
            with open(os.path.join(model, "snapshots", "main1", "config.json"), "w") as f:
                json.dump(LLAMA, f)
            with open(os.path.join(model, "refs", "main"), "w") as f:
                f.write("main1")
            self.assertEqual(hf_shapes.find("a/b")[0], "llama")

    def test_what_is_wrong_is_one_line(self):
        for text, words in (("", "not JSON"), ("[]", "no model_type"), ("{}", "no model_type"), ('{"model_type": 3}', "model_type")):
            with folder_with(text) as folder, self.assertRaises(RecordError) as why:
                hf_shapes.find(folder)
            self.assertIn(words, str(why.exception))
        for name in ("./nowhere", "/nowhere/config.json", "somebody/nothing-of-this-name"):
            with self.assertRaises(RecordError) as why:
                hf_shapes.find(name)
            self.assertEqual(len(str(why.exception).split("\n")), 1)
        with self.assertRaises(RecordError) as why:
            hf_shapes.find("Qwen/Qwen3-8C")
        self.assertIn("Qwen/Qwen3-8B", str(why.exception))

    def test_sizes_that_make_no_model(self):
        transformers_of_the_tables(self)
        for bad in (dict(num_attention_heads=0), dict(num_hidden_layers=-3), dict(hidden_size="many"), dict(model_type="unheard_of")):
            with folder_with(dict(LLAMA, **bad)) as folder:
                code, _, err = command("hf:" + folder, "--seq-len", "16", "-o", "-", "--quiet")
            self.assertEqual((code, len(err.strip().split("\n"))), (3, 1), "%s: %s" % (bad, err))

    def test_weights_are_of_the_plan_not_of_the_file(self):
        transformers_of_the_tables(self)
        with folder_with(LLAMA) as folder:
            tape = record("hf:" + folder, seq_len=16, batches=[2, 4], precision="fp32")
        self.assertEqual((tape.header["task"], tape.header["precision"]), ("causal-lm", "fp32"))
        weights = [a for a in tape.allocs.values() if a[0] == 100 * 64 * 4]
        self.assertTrue(weights)


class Tables(unittest.TestCase):
    def test_what_a_family_takes_where_the_file_says_nothing(self):
        transformers = transformers_of_the_tables(self)
        for family in hf_shapes.rows("families.tsv"):
            usual = transformers.AutoConfig.for_model(family["type"]).to_dict()
            for column in hf_shapes.SIZES + ("types",):
                key, _, value = family[column].partition("=")
                said = [_get(usual, k) for k in key.split("|")]
                if value and value != "4x":
                    self.assertIn(int(value), said, "%s: %s" % (family["type"], key))

    def test_every_row_makes_a_configuration_of_its_sizes(self):
        transformers = transformers_of_the_tables(self)
        families = {f["type"]: f for f in hf_shapes.rows("families.tsv")}
        rows = hf_shapes.rows("shapes.tsv")
        for row in rows:
            made = transformers.AutoConfig.for_model(row["type"], **hf_shapes.values_of(row, families[row["type"]])).to_dict()
            for column in hf_shapes.SIZES:
                for key in hf_shapes.keys_of(families[row["type"]][column]):
                    if row[column] and key and _get(made, key) is not None:
                        self.assertEqual(_get(made, key), int(row[column]), "%s: %s" % (row["ids"], key))
        self.assertGreater(len(rows), 190)

    def test_torchtunes_builders_are_of_rows(self):
        rows = {name: row for row in hf_shapes.rows("shapes.tsv") for name in row["ids"].split(",")}
        with open(os.path.join(ROOT, "data", "builders.tsv"), encoding="utf-8") as f:
            lines = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
        self.assertEqual(lines[0], ["builder", "model", "outputs", "differs"])
        for builder, model, _, differs in lines[1:]:
            self.assertIn(model, rows, builder)
            for key, is_value, value in (d.partition("=") for d in differs.split(",") if d):
                self.assertNotEqual(rows[model].get(key), value, builder)
                self.assertTrue(is_value or key == "apart", builder)
        self.assertEqual(len(lines), 1 + len({line[0] for line in lines[1:]}))

    def test_a_model_of_the_table_is_recorded(self):
        transformers_of_the_tables(self)
        tape = record("hf:google/bert_uncased_L-2_H-128_A-2", seq_len=16, batches=[2, 4], task="masked-lm")
        self.assertEqual((tape.header["task"], tape.header["parameters"] // 1000), ("masked-lm", 4416))

    def test_timm_names_are_timms(self):
        if importlib.util.find_spec("timm") is None or not modern():
            self.skipTest("SKIPPED: the table is of timm 1.0.31")
        table = os.path.join(ROOT, "data", "timm.tsv")
        made = subprocess.run([sys.executable, "-W", "ignore", os.path.join(ROOT, "tools", "timm_names.py"), "--check", table],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)


if __name__ == "__main__":
    unittest.main()
