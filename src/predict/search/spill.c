// SPDX-License-Identifier: Apache-2.0
// Runs that spill: the driver moves what does not fit to the host's memory, nothing fails, and the
// step takes many times longer. Such a run is told from a good one by two facts together: the
// memory is full, and an item takes many times what it takes in a smaller batch. Left alone, the
// time of an item never rises with the batch: a step is a + b · batch.
#include "predict/search/trials_int.h"

#include <math.h>

// Seed 004's users saw 10 to 20 times; a mild case is 4. Against half the batch an item may have
// become cheaper by a third at the same time, so that 2.7 is left of 4. A good run never costs more
// an item than a smaller batch but for noise: 2.2 is 5 deviations of 10 % noise in both.
static const double many_times = 2.2;
// The least whose whole step is not explained by noise and the larger batch, and the most that is.
static const double spill_least = 2.8, clean_most = 1.8;
static const double time_doubt = 0.15; // two deviations of a step's time between launches
// Drivers hold back some memory of a full GPU.
static const double full_share = 0.95;

bool search_at_ceiling(const struct search_seen *seen, double ceiling_bytes) {
    return seen->bytes >= full_share * ceiling_bytes; // false for NaN
}

bool search_fits(const struct search_seen *seen) {
    return seen->outcome == SEARCH_FITS;
}

static bool is_reference(const struct search_seen *other, int64_t value, double ceiling_bytes) {
    return other->value < value && search_fits(other) && other->seconds_per_item > 0 &&
           !search_at_ceiling(other, ceiling_bytes);
}

static double step_of(const struct search_seen *seen) {
    return seen->seconds_per_item * (double)seen->value;
}

// A line through two references, lowered by what noise may have raised it, reaches the step's time.
static bool is_explained(const struct search_seen *seen, const struct search_seen *a,
                         const struct search_seen *b) {
    double apart = (double)(b->value - a->value), beyond = (double)(seen->value - b->value);
    double slope = (step_of(b) - step_of(a)) / apart - time_doubt * step_of(b) / apart;
    return apart > 0 && step_of(seen) <= clean_most * (step_of(b) + slope * beyond);
}

bool search_is_settled(const struct search_seen *items, ptrdiff_t count,
                       const struct search_seen *seen, double ceiling_bytes) {
    for (ptrdiff_t i = 0; i < count; i++) {
        const struct search_seen *near = &items[i];
        if (!is_reference(near, seen->value, ceiling_bytes)) continue;
        if (near->value * 2 >= seen->value - 1) return true; // near enough to have shown it
        if (step_of(seen) < spill_least * step_of(near)) return true;
        for (ptrdiff_t j = 0; j < count; j++) {
            if (is_reference(&items[j], near->value, ceiling_bytes) &&
                is_explained(seen, &items[j], near)) {
                return true;
            }
        }
    }
    return false;
}

// Without a known ceiling the fullest run is taken for it.
static double ceiling_of(const struct search_seen *items, ptrdiff_t count, double ceiling_bytes) {
    if (!isnan(ceiling_bytes)) return ceiling_bytes;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (items[i].outcome != SEARCH_OUT) ceiling_bytes = fmax(ceiling_bytes, items[i].bytes);
    }
    return ceiling_bytes;
}

static bool is_slower(const struct search_seen *seen, const struct search_seen *other,
                      double ceiling) {
    if (other->outcome == SEARCH_OUT || other->value == seen->value) return false;
    double ratio = seen->seconds_per_item / other->seconds_per_item;
    // What is larger than one that spills needs memory that there is not, either.
    bool is_spilt = other->outcome == SEARCH_SPILLS && other->value < seen->value;
    if (is_spilt) return ratio >= 1 / clean_most;
    if (other->value < seen->value) return ratio >= many_times;
    // A smaller batch may well cost more an item, but its whole step cannot take longer.
    bool is_clean = !isnan(other->bytes) && !search_at_ceiling(other, ceiling);
    return is_clean && step_of(seen) >= many_times * step_of(other);
}

static bool mark_one(struct search_seen *items, ptrdiff_t count, struct search_seen *seen,
                     double ceiling) {
    if (seen->outcome == SEARCH_OUT || seen->outcome == SEARCH_SPILLS) return false;
    if (!search_at_ceiling(seen, ceiling)) return false;
    for (ptrdiff_t j = 0; j < count && seen->outcome != SEARCH_SPILLS; j++) {
        if (is_slower(seen, &items[j], ceiling)) seen->outcome = SEARCH_SPILLS;
    }
    return seen->outcome == SEARCH_SPILLS;
}

void search_mark_spills(struct search_seen *items, ptrdiff_t count, double ceiling_bytes) {
    double ceiling = ceiling_of(items, count, ceiling_bytes);
    for (bool is_more = true; is_more;) { // what was marked is evidence about larger ones
        is_more = false;
        for (ptrdiff_t i = 0; i < count; i++) {
            if (mark_one(items, count, &items[i], ceiling)) is_more = true;
        }
    }
}
