// SPDX-License-Identifier: Apache-2.0
// What the trials so far let one believe about the peaks of the values that were not tried.
#pragma once

#include "predict/search/search.h"

enum {
    BELIEF_LIMITS = 48,
    BELIEF_SHARES = 9,
    BELIEF_LINES = BELIEF_LIMITS * BELIEF_SHARES,
    BELIEF_NOISES = 3,
    BELIEF_GUESSES = BELIEF_LINES * BELIEF_NOISES,
};

// The peak of a guess at a value, as a share of the budget, is fixed + (1 - fixed) · x / limit. x
// is the value, or what a prediction says of its growth, in units of values: x / limit = 1 is where
// the budget is reached. Launches are off it by the noise.
struct belief_guess {
    double fixed, limit, noise, weight;
};
// A prediction seen as a line: bytes = fixed + per_value · x near its own limit.
struct belief_line {
    bool is_known;
    double fixed_bytes, bytes_per_value, limit;
};
struct belief {
    const struct search_trials *trials;
    struct belief_line line;
    struct belief_guess guesses[BELIEF_GUESSES]; // weights add up to 1
    int count;                                   // of those that have weight
};

void search_belief_form(const struct search_trials *s, struct belief *b);
// How likely a launch at a value stays in a part of the budget.
double search_belief_fits(const struct belief *b, int64_t value, double part);
// The same by one guess, of the whole budget.
double search_belief_guess_fits(const struct belief *b, const struct belief_guess *g,
                                int64_t value);
// More likely than not, the peaks are further off any line than two launches are apart.
bool search_belief_is_rough(const struct belief *b);
// The value at which a guess reaches the budget, as far as it can be told from a value near it.
double search_belief_limit(const struct belief *b, const struct belief_guess *g, int64_t near);

// Is at the ceiling, or over it: a run there may be one that spills and does not say so.
bool search_at_ceiling(const struct search_seen *seen, double ceiling_bytes);
// Trials of smaller values, with the memory not full, tell that this one, which is full, does not
// spill; or are so near that it would have been marked.
bool search_is_settled(const struct search_seen *items, ptrdiff_t count,
                       const struct search_seen *seen, double ceiling_bytes);
bool search_fits(const struct search_seen *seen);
