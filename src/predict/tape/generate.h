// SPDX-License-Identifier: Apache-2.0
// What stands around a step of GRPO: completions that the model generates before it, by
// transformers' generate, and a reference model.
#pragma once

#include "predict/tape/tape.h"

// Sizes of the model are elements, lengths tokens.
struct tape_generation {
    int64_t sequences; // at a time on one GPU; 0: as many as the batch
    int64_t layers, hidden, ffn, vocabulary;
    int64_t cached;             // keys of one token in one layer, as many as values
    int64_t prompt, completion; //
    int64_t bytes;              // of an element of the cache and of what is computed
    int64_t whole;              // elements of the largest weight that is made anew; 0: none is
    bool has_reference;         // a second model, which gives scores
    bool has_reference_scores;  // from such, or without the adapter
    bool is_elsewhere;          // another program generates
};

// The tape of a step of GRPO with these. How the cache grows is taken as one move from the prompt
// to the end, a copy at a time (transformers/cache_utils.py, DynamicLayer.update); what a pass over
// the prompts takes is a gated feed-forward part's (modeling_llama.py, LlamaMLP). How the pieces of
// a cache that grew token by token lie is not known, so what is cached is given back: the step is
// laid out as without it.
void tape_generate(struct arena *a, const struct tape *t, const struct tape_generation *how,
                   struct tape *ret);
