// SPDX-License-Identifier: Apache-2.0
// Walks values of a knob with a test given from outside; knows no GPU and no model.
#pragma once

#include "base/arena.h"
#include "base/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// 1: the value works, 0: it does not, negative: the walk ends with this error. The test is not
// expected to be monotone: a larger value may work where a smaller one does not.
typedef int search_test(void *context, int64_t value, struct fail *why);

// A cheap necessary condition, monotone: when it fails for a value it fails for all larger ones.
typedef bool search_bound(void *context, int64_t value);

// The first value of a falling list that works: 1 and *ret_value, 0 when none does, or an error.
// The bound (may be NULL) is bisected to skip the hopeless head of the list; every value after that
// is tested in turn.
int search_largest(const int64_t *falling, int count, search_bound *bound, search_test *test,
                   void *context, int64_t *ret_value, struct fail *why);

// Finds the largest value (batch) that fits with few expensive trials: ask for the next value, try
// it, tell what came of it. Knows no GPU, no process and no file; the same walk is run by fit with
// real launches and by bench/search with made-up ones.
//
//     struct search_trials s = search_trials_open(a, &space);
//     while (search_trials_ask(&s, &value)) { … search_trials_tell(&s, &seen); }
//     search_trials_answer(&s, &answer);

enum search_outcome {
    SEARCH_FITS,
    SEARCH_ALMOST, // ran, but the allocator had to retry, or over the margin: not a fit
    SEARCH_SPILLS, // ran many times slower with the memory full: not a fit
    SEARCH_OUT,    // out of memory
};

// What a trial showed. NaN where not known.
struct search_seen {
    int64_t value;
    enum search_outcome outcome;
    double bytes; // peak; of SEARCH_OUT what was needed at least, where a message said it
    double seconds_per_item;
};

struct search_space {
    const int64_t *rising; // the values that may be tried
    ptrdiff_t count;
    double budget_bytes; // the peak must stay within it; NaN: only trying tells
    int64_t first;       // the user's own value, a good first guess without a prediction; 0: none
    // Predicted peak of a value, and by how much it may be off (0.05); NULL: no prediction.
    double (*predict)(void *context, int64_t value);
    void *context;
    double prediction_error;
    double enough;   // stop when the answer is at least this share of what may fit: 0.97
    int most_trials; // 0: 12
};

struct search_trials {
    struct arena *arena;
    struct search_space space;
    struct search_seen *items; // in the order of telling; SEARCH_SPILLS may correct an outcome
    ptrdiff_t count, capacity;
};

struct search_trials search_trials_open(struct arena *a, const struct search_space *space);
// False: no further trial is worth its price.
bool search_trials_ask(const struct search_trials *s, int64_t *ret_value);
void search_trials_tell(struct search_trials *s, const struct search_seen *seen);

struct search_trials_result {
    int64_t largest; // that was tried and fits; 0: none
    int launches, out_of_memory;
};
void search_trials_answer(const struct search_trials *s, struct search_trials_result *ret_result);

// Spill: seconds per item many times those of a smaller value while the memory is at the ceiling.
// Seed 004 saw 10 to 20 times on a GPU that swaps over PCIe. Marks items of the list in place.
void search_mark_spills(struct search_seen *items, ptrdiff_t count, double ceiling_bytes);
