# SPDX-License-Identifier: Apache-2.0
"""What transformers' generate holds beside the weights, measured: the rows of tests/unit/tape_generate.c.

    PYTHON bench/accuracy/generate.py        (the newest torch with transformers and accelerate)

Small Llamas sample on the CPU as trl's GRPO has them sample: left-padded prompts, by temperature, no end; weights in bf16, or in fp32
under accelerate's autocast. Live bytes are those of all storages that operators give, in blocks of 512 bytes, without the weights."""
import itertools
import weakref

import torch
import transformers
from accelerate.utils import convert_outputs_to_fp32
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HIDDEN, FFN, LAYERS, HEADS = 256, 688, 4, 8
MODELS = ((2000, 2), (32000, 8), (32000, 4))  # words, heads of keys
LENGTHS = ((8, 64, 192), (4, 400, 40), (16, 16, 300))  # sequences, prompt, completion


class Live(TorchDispatchMode):
    def __init__(self, known):
        super().__init__()
        self.sizes = {x.untyped_storage()._cdata: 0 for x in known}
        self.now = self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = func(*args, **(kwargs or {}))
        for x in tree_leaves(given):
            if isinstance(x, torch.Tensor):
                self.note(x.untyped_storage())
        return given

    def note(self, storage):
        if storage._cdata in self.sizes or storage.nbytes() == 0:
            return
        self.sizes[storage._cdata] = -(-storage.nbytes() // 512) * 512
        self.now += self.sizes[storage._cdata]
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self.forget, storage._cdata)

    def forget(self, key):
        self.now -= self.sizes.pop(key, 0)


def measure(words, kv_heads, sequences, prompt, completion, autocast):
    config = transformers.LlamaConfig(hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                                      num_key_value_heads=kv_heads, vocab_size=words, tie_word_embeddings=False)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32 if autocast else torch.bfloat16).eval()
    if autocast:
        model.forward = convert_outputs_to_fp32(torch.autocast('cpu', torch.bfloat16)(model.forward))
    tokens = torch.randint(5, words, (sequences, prompt))
    mask = torch.ones_like(tokens)
    mask[0, :prompt // 4] = 0
    how = transformers.GenerationConfig(max_new_tokens=completion, do_sample=True, temperature=0.9, top_k=0, top_p=1.0, pad_token_id=0,
                                        eos_token_id=None, bos_token_id=2)
    with torch.no_grad(), Live([*model.parameters(), *model.buffers(), tokens, mask]) as live:
        model.generate(input_ids=tokens, attention_mask=mask, generation_config=how)
    casts = 2 * sum(p.numel() for name, p in model.named_parameters() if p.dim() == 2 and 'embed' not in name)
    return live.most, casts if autocast else 0


print(f'// torch {torch.__version__}, transformers {transformers.__version__}')
for (words, kv_heads), lengths, autocast in itertools.product(MODELS, LENGTHS, (False, True)):
    most, casts = measure(words, kv_heads, *lengths, autocast)
    print(f'{{{words}, {kv_heads * HIDDEN // HEADS}, {", ".join(map(str, lengths))}, {casts}, {most}}},', flush=True)
