# SPDX-License-Identifier: Apache-2.0
"""What the trainers of this folder train on, in one folder and without a network: python prepare.py FOLDER

    tiny-gpt2/, tiny-t5/   a model of some thousand weights with its tokenizer, as `from_pretrained` reads them
    text.jsonl             lines of different lengths: {"text", "label", "summary"}
    tokens.bin             numbers of tokens in 16 bits, as nanoGPT reads them
"""
import json
import os
import random
import sys

WORDS = ("the a one small red blue old new quick slow cat dog bird fish house tree river road runs sits eats sleeps sees likes "
         "over under near with and then while because").split()
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


def sentences(count, seed=7):
    """They have four to forty words, and nothing in them is anyone's."""
    pick = random.Random(seed)
    for number in range(count):
        words = [pick.choice(WORDS) for _ in range(pick.randint(4, 40))]
        yield {"text": " ".join(words), "label": number % 2, "summary": " ".join(words[:4])}


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(SPECIAL + WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                                   model_max_length=64)


def models_of(folder):
    from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration
    size = len(SPECIAL) + len(WORDS)
    gpt2 = GPT2Config(vocab_size=size, n_positions=64, n_embd=64, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    t5 = T5Config(vocab_size=size, d_model=64, d_kv=32, d_ff=128, num_layers=2, num_heads=2, decoder_start_token_id=0)
    for name, model in (("tiny-gpt2", GPT2LMHeadModel(gpt2)), ("tiny-t5", T5ForConditionalGeneration(t5))):
        model.save_pretrained(os.path.join(folder, name))
        tokenizer().save_pretrained(os.path.join(folder, name))


def main(folder):
    import numpy
    os.makedirs(folder, exist_ok=True)
    lines = list(sentences(512))
    with open(os.path.join(folder, "text.jsonl"), "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    tokens = [len(SPECIAL) + WORDS.index(word) for line in lines for word in line["text"].split()]
    numpy.array(tokens, dtype=numpy.uint16).tofile(os.path.join(folder, "tokens.bin"))
    models_of(folder)


if __name__ == "__main__":
    main(sys.argv[1])
