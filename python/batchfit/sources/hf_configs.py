# SPDX-License-Identifier: Apache-2.0
"""Shapes of well-known transformers models, as facts: their public config.json, what differs from the library's default.

name -> (model_type, configuration values). Names match the hub's, with or without the owner.
"""

_BERT_LARGE = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
_ROBERTA = dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1,
                bos_token_id=0, eos_token_id=2)
_T5 = dict(d_kv=64, num_heads=8, vocab_size=32128, decoder_start_token_id=0)
_MT5 = dict(vocab_size=250112, d_kv=64, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
            decoder_start_token_id=0)
_QWEN = dict(vocab_size=151936, max_position_embeddings=32768, tie_word_embeddings=True)
_DEBERTA = dict(vocab_size=128100, max_position_embeddings=512, type_vocab_size=0, relative_attention=True,
                position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"],
                position_biased_input=False, max_relative_positions=-1, layer_norm_eps=1e-7)

CONFIGS = {
    "bert-base-uncased": ("bert", dict(vocab_size=30522)),
    "bert-base-cased": ("bert", dict(vocab_size=28996)),
    "bert-base-multilingual-cased": ("bert", dict(vocab_size=119547)),
    "bert-large-uncased": ("bert", dict(_BERT_LARGE, vocab_size=30522)),
    "bert-large-cased": ("bert", dict(_BERT_LARGE, vocab_size=28996)),
    "klue/bert-base": ("bert", dict(vocab_size=32000)),
    "klue/roberta-base": ("roberta", dict(_ROBERTA, vocab_size=32000)),
    "klue/roberta-large": ("roberta", dict(_ROBERTA, **dict(_BERT_LARGE, vocab_size=32000))),
    "distilbert-base-uncased": ("distilbert", dict(vocab_size=30522)),
    "roberta-base": ("roberta", _ROBERTA),
    "roberta-large": ("roberta", dict(_ROBERTA, **_BERT_LARGE)),
    "xlm-roberta-base": ("xlm-roberta", dict(_ROBERTA, vocab_size=250002)),
    "xlm-roberta-large": ("xlm-roberta", dict(_ROBERTA, **dict(_BERT_LARGE, vocab_size=250002))),
    "albert-base-v2": ("albert", dict(hidden_size=768, num_attention_heads=12, intermediate_size=3072)),
    "google/electra-base-discriminator": ("electra", dict(hidden_size=768, embedding_size=768, num_attention_heads=12,
                                                          intermediate_size=3072)),
    "google/electra-small-discriminator": ("electra", dict(hidden_size=256, embedding_size=128, num_attention_heads=4,
                                                           intermediate_size=1024)),
    "google/electra-large-discriminator": ("electra", dict(_BERT_LARGE, embedding_size=1024)),
    "microsoft/deberta-v3-base": ("deberta-v2", dict(_DEBERTA, hidden_size=768, num_hidden_layers=12,
                                                     num_attention_heads=12, intermediate_size=3072)),
    "microsoft/deberta-v3-large": ("deberta-v2", dict(_DEBERTA, **_BERT_LARGE)),
    "microsoft/deberta-v3-small": ("deberta-v2", dict(_DEBERTA, hidden_size=768, num_hidden_layers=6,
                                                      num_attention_heads=12, intermediate_size=3072)),
    "gpt2": ("gpt2", {}),
    "gpt2-medium": ("gpt2", dict(n_embd=1024, n_layer=24, n_head=16)),
    "gpt2-large": ("gpt2", dict(n_embd=1280, n_layer=36, n_head=20)),
    "gpt2-xl": ("gpt2", dict(n_embd=1600, n_layer=48, n_head=25)),
    "distilgpt2": ("gpt2", dict(n_layer=6)),
    "facebook/opt-125m": ("opt", {}),
    "facebook/opt-350m": ("opt", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, ffn_dim=4096,
                                      word_embed_proj_dim=512, do_layer_norm_before=False)),
    "facebook/opt-1.3b": ("opt", dict(hidden_size=2048, num_hidden_layers=24, num_attention_heads=32, ffn_dim=8192,
                                      word_embed_proj_dim=2048)),
    "EleutherAI/pythia-160m": ("gpt_neox", dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                                                intermediate_size=3072, vocab_size=50304)),
    "EleutherAI/pythia-410m": ("gpt_neox", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                                                intermediate_size=4096, vocab_size=50304)),
    "TinyLlama/TinyLlama-1.1B": ("llama", dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22,
                                               num_attention_heads=32, num_key_value_heads=4, vocab_size=32000,
                                               max_position_embeddings=2048)),
    "meta-llama/Llama-2-7b": ("llama", dict(vocab_size=32000, max_position_embeddings=4096)),
    "meta-llama/Llama-3.1-8B": ("llama", dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                                              num_attention_heads=32, num_key_value_heads=8, vocab_size=128256,
                                              max_position_embeddings=131072)),
    "meta-llama/Llama-3.2-1B": ("llama", dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                                              num_attention_heads=32, num_key_value_heads=8, head_dim=64,
                                              vocab_size=128256, max_position_embeddings=131072,
                                              tie_word_embeddings=True)),
    "meta-llama/Llama-3.2-3B": ("llama", dict(hidden_size=3072, intermediate_size=8192, num_hidden_layers=28,
                                              num_attention_heads=24, num_key_value_heads=8, head_dim=128,
                                              vocab_size=128256, max_position_embeddings=131072,
                                              tie_word_embeddings=True)),
    "Qwen/Qwen2-0.5B": ("qwen2", dict(_QWEN, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                                      num_attention_heads=14, num_key_value_heads=2)),
    "Qwen/Qwen2-1.5B": ("qwen2", dict(_QWEN, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28,
                                      num_attention_heads=12, num_key_value_heads=2)),
    "mistralai/Mistral-7B-v0.1": ("mistral", dict(num_key_value_heads=8, sliding_window=4096)),
    "t5-small": ("t5", dict(_T5, d_model=512, d_ff=2048, num_layers=6)),
    "t5-base": ("t5", dict(_T5, d_model=768, d_ff=3072, num_layers=12, num_heads=12)),
    "t5-large": ("t5", dict(_T5, d_model=1024, d_ff=4096, num_layers=24, num_heads=16)),
    "google/mt5-small": ("mt5", dict(_MT5, d_model=512, d_ff=1024, num_layers=8, num_heads=6)),
    "google/mt5-base": ("mt5", dict(_MT5, d_model=768, d_ff=2048, num_layers=12, num_heads=12)),
    "google/mt5-large": ("mt5", dict(_MT5, d_model=1024, d_ff=2816, num_layers=24, num_heads=16)),
    "facebook/bart-base": ("bart", dict(d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12,
                                        decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072)),
    "facebook/bart-large": ("bart", {}),
    "google/vit-base-patch16-224": ("vit", dict(num_labels=1000)),
    "google/vit-large-patch16-224": ("vit", dict(_BERT_LARGE, num_labels=1000)),
}
_SHORT = {name.split("/")[-1].lower(): name for name in CONFIGS}


def find(name):
    """(model_type, values) or None. Case and owner do not matter."""
    full = name if name in CONFIGS else _SHORT.get(name.split("/")[-1].lower())
    return CONFIGS.get(full)


def names():
    """All known names."""
    return sorted(CONFIGS)
