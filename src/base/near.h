// SPDX-License-Identifier: Apache-2.0
// "Did you mean …": the names nearest to what was typed.
#pragma once

#include "base/str.h"

enum { NEAR_MAX = 5 };

// Damerau-Levenshtein distance over lower-cased text without blanks, dashes and underscores;
// a name that contains what was typed is nearer than its length suggests.
int near_distance(struct str typed, struct str name);

// Collects candidates; keep a zeroed one and offer every name.
struct near {
    struct str typed;
    struct str names[NEAR_MAX];
    int distances[NEAR_MAX];
    int count;
};
void near_offer(struct near *n, struct str name);
// "rtx3060, rtx3060ti" or empty when nothing is near enough to be meant.
struct str near_text(struct arena *a, const struct near *n);
