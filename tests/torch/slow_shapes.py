# SPDX-License-Identifier: Apache-2.0
"""Every row of data/shapes.tsv is built by transformers, on the meta device, and has the parameters that the table says."""

import unittest

from helper import HERE  # noqa: F401 - our Python first

from batchfit.sources import hf_shapes
from test_shapes import transformers_of_the_tables

HEADS = {"seq2seq": "AutoModelForSeq2SeqLM", "speech": "AutoModelForSpeechSeq2Seq", "encoder": "AutoModel", "vision": "AutoModel",
         "two-tower": "AutoModel", "decoder": "AutoModelForCausalLM"}
OTHERS = {"llama4": "AutoModelForImageTextToText", "gemma3": "AutoModelForImageTextToText", "gpt2": "AutoModel", "opt": "AutoModel",
          "bart": "AutoModel"}


class Parameters(unittest.TestCase):
    def test_all_rows(self):
        transformers = transformers_of_the_tables(self)
        import torch
        from batchfit.sources.hf_models import _share
        families = {f["type"]: f for f in hf_shapes.rows("families.tsv")}
        for row in hf_shapes.rows("shapes.tsv"):
            values = hf_shapes.values_of(row, families[row["type"]])
            config = transformers.AutoConfig.for_model(row["type"], **values)
            if "tie_word_embeddings" in values:  # some configurations drop it
                config.tie_word_embeddings = values["tie_word_embeddings"]
            head = OTHERS.get(row["type"], HEADS[families[row["type"]]["kind"]])
            with torch.device("meta"):
                model = getattr(transformers, head).from_config(config)
            if row["type"] != "llama4":
                model.tie_weights()
            count = sum(p.numel() for p in _share(model).parameters())
            self.assertEqual(count, int(row["parameters"]), row["ids"])


if __name__ == "__main__":
    unittest.main()
