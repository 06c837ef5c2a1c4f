// SPDX-License-Identifier: Apache-2.0
// Templates: tapes of version 2 (doc/formats/tape.md), whose sizes are expressions of named
// dimensions and whose layers are blocks that repeat. With a value for every dimension a template
// becomes a tape of version 1 in memory; everything that predicts goes on from there.
#pragma once

#include "predict/tape/tape.h"

enum { TAPE_TEMPLATE_VERSION = 2, TAPE_DIM_MOST = 1 << 30 };

enum tape_dim {
    TAPE_DIM_BATCH,
    TAPE_DIM_SEQUENCE,
    TAPE_DIM_HIDDEN,
    TAPE_DIM_FFN,
    TAPE_DIM_VOCABULARY,
    TAPE_DIM_HEAD_SIZE,
    TAPE_DIM_KV_HEADS,
    TAPE_DIM_GROUP, // query heads that share one key-value head
    TAPE_DIM_ADAPTER_RANK,
    TAPE_DIM_LAYERS,
    TAPE_DIM_RANKS,           // that share the weights
    TAPE_DIM_TENSOR_PARALLEL, // reserved: no template has it yet
    TAPE_DIM_IMAGE_SIZE,      // pixels of the square's side
    TAPE_DIM_EXPERTS,         // of a layer, and those that one token goes to
    TAPE_DIM_ACTIVE_EXPERTS,
    TAPE_DIM_EXPERT_FFN,      // where a feed-forward network stands beside the experts
    TAPE_DIM_POSITIONS,       // that a table has rows of
    TAPE_DIM_TARGET_SEQUENCE, // tokens of what an encoder and decoder writes
    TAPE_DIM_COUNT
};
// The name in a header and the letter in expressions.
struct tape_dim_word {
    const char *name;
    char letter;
};
extern const struct tape_dim_word tape_dim_words[TAPE_DIM_COUNT];
int tape_dim_find(struct str name); // by name or letter; -1: there is none

// What a dimension may be: least … most in steps. A dimension that the template lacks has most 0;
// it is 1.
struct tape_bound {
    int64_t least, most, step;
};
bool tape_bound_holds(const struct tape_bound *b, int64_t value);

struct tape_template;
// Reads and checks a template, plain or zstd-compressed; what it refers to lives in the arena or in
// `bytes`. FAIL_INPUT with "NAME:LINE: what was expected".
int tape_template_read(struct arena *a, struct str name, struct str bytes,
                       struct tape_template **ret, struct fail *why);
// Its two halves: line by line, and once through at the least value of every dimension, so that
// what is wrong with its ids, blocks and sizes is known before it is used.
int tape_template_parse(struct arena *a, struct str name, struct str bytes,
                        struct tape_template **ret, struct fail *why);
int tape_template_check(struct arena *a, const struct tape_template *t, struct fail *why);
struct tape_bound tape_template_bound(const struct tape_template *t, enum tape_dim dim);

// The tape at these values. Batch 0 stays free: the sizes are affine in it, as in any tape. Zero
// stands for "not said", which only the batch and dimensions that the template lacks may be. A
// value out of its bounds, and a size that is negative or above 2^60 there, are FAIL_INPUT.
int tape_instantiate(struct arena *a, const struct tape_template *t,
                     const int64_t values[TAPE_DIM_COUNT], struct tape *ret, struct fail *why);
// The same without the modules of allocations, a quarter of the work: for a tape that is replayed
// and nothing else.
int tape_instantiate_bare(struct arena *a, const struct tape_template *t,
                          const int64_t values[TAPE_DIM_COUNT], struct tape *ret, struct fail *why);
