// SPDX-License-Identifier: Apache-2.0
// Completions that a model generates by transformers' generate: before a step of GRPO, with the
// reference model that scores them; or alone.
#pragma once

#include "predict/tape/tape.h"

// Sizes of the model are elements, lengths tokens.
struct tape_generation {
    int64_t sequences; // at a time on one GPU; 0: as many as the batch
    int64_t layers, hidden, ffn, vocabulary;
    int64_t cached;             // keys of one token in one layer, as many as values
    int64_t prompt, completion; //
    int64_t window, windowed;   // layers that keep so many tokens of a sequence only; 0: none
    int64_t bytes;              // of an element that is computed with
    int64_t held;               // … of the cache and of hidden states, which are in the weights'
                                // type under autocast: keys are turned by factors in that type, and
                                // the values of a cache take the keys'
    bool is_autocast;           // logits are made fp32, as accelerate does
    int64_t scored;             // heads whose scores a pass over the prompts holds; 0: none does
    int64_t whole;              // elements of the largest dequantized weight; 0: none is
    bool has_reference;         // a second model, which gives scores
    bool has_reference_scores;  // from such, or without the adapter
    bool is_elsewhere;          // another program generates
    bool is_all;                // nothing is trained: of the tape only the weights are taken
};

// The tape of a step of GRPO with these, or of a model that generates. How the cache grows is taken
// as one move from the prompt to the end, a copy at a time, and that of the last token
// (transformers/cache_utils.py, DynamicLayer.update; where autocast makes both of a layer's keys
// and values half as long, they are as much). A layer with a window holds the whole prompt until
// the next token is there, by a view of it (DynamicSlidingWindowLayer.update; seen so by storages
// on the CPU), and then the window. What a pass over the prompts takes is a gated feed-forward
// part's (modeling_llama.py, LlamaMLP) beside a mask of the prompts. The scores of the token before
// are held while the next is computed (generation/utils.py, _sample). Against transformers 5 on the
// CPU, counted by storages: within 3 % (tests/unit/tape_generate.c). How the pieces of a cache that
// grew token by token lie is not known, so what is cached is given back: the step is laid out as
// without it.
void tape_generate(struct arena *a, const struct tape *t, const struct tape_generation *how,
                   struct tape *ret);
