// SPDX-License-Identifier: Apache-2.0
// How many tokens a second a decoder trains at, on one GPU or many. The arithmetic is known from
// the model's shape, what else its kernels move from the sizes on its tape, and what GPUs exchange
// from how they share the weights: so a template, which has no work lines, has a time, too
// (doc/speed-model.md, "Language models").
#pragma once

#include "predict/plan/plan.h"
#include "predict/shape/shape.h"
#include "predict/speed/collective.h"
#include "predict/speed/speed.h"

enum speed_tokens_constant {
    SPEED_TOKENS_LINEAR,    // share of the peak rate in products with weights
    SPEED_TOKENS_ATTENTION, // and in fused causal attention, whose masked half is not counted
    SPEED_TOKENS_KNEE,      // narrow products: flops count (1 + knee / hidden) times
    SPEED_TOKENS_MOVED,     // share of the bandwidth, of everything else
    SPEED_TOKENS_LAYER_MS,  // that a sharded layer waits in a micro-step, beyond what is computed
    SPEED_TOKENS_CONSTANTS
};
// A row of data/tokens.tsv. Of `row` the constants and what is doubtful are not used.
struct speed_tokens_row {
    struct speed_row row;
    double constants[SPEED_TOKENS_CONSTANTS];
};
struct speed_tokens_table {
    struct speed_tokens_row *rows;
    ptrdiff_t count, capacity;
    struct speed_links links;
};
// data/tokens.tsv and data/links.tsv. FAIL_INPUT names file, line and column.
int speed_tokens_load(struct arena *a, struct speed_tokens_table *ret, struct fail *why);

// What a tape says of a micro-step: the bytes that its kernels move, but those that multiply; how
// many kernels there are, roughly; and how much of the forward pass is computed again in backward,
// of products with weights and of attention.
struct speed_seen {
    double bytes, kernels, linear_again, attention_again;
};
struct speed_seen speed_seen_of(const struct tape *t, int64_t batch);

struct speed_tokens_run {
    const struct plan *plan; // with batch, accumulation and a sequence length
    const struct shape *shape;
    const struct gpu *gpu;
    struct speed_seen seen;
};
// What one token costs, in operations, forward and backward, on all GPUs that compute it together.
struct speed_tokens_work {
    double linear, attention; // that are computed
    double useful;            // that the model needs: what the utilisation (MFU) counts
};
struct speed_tokens_work speed_tokens_work_of(const struct speed_tokens_run *run);

// *ret also has tokens_per_s, mfu, waits_s. False: nothing can be said.
bool speed_tokens_at(const struct speed_tokens_table *t, const struct speed_tokens_run *run,
                     struct speed *ret);
