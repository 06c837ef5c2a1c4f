// SPDX-License-Identifier: Apache-2.0
// Made-up comparisons, for bench/compare and the unit test of the rank statistics: two settings, A
// B B A in turn on a machine that warms up, each trial's figure being the mean of its steps.
#ifndef BENCH_PAIRS_H
#define BENCH_PAIRS_H

#include "stats/stats.h"

#include <math.h>

enum { PAIRS_STEPS = 10, PAIRS_MOST = 1000 };

struct pairs_scene {
    const char *name;
    int pairs;
    double step_noise;  // each step, of a trial's 10
    double trial_noise; // each trial as a whole
    double drift;       // from the first trial to the last
    double difference;  // true: B takes so much longer
};

static double pairs_trial(const struct pairs_scene *s, struct stats_random *r, double place) {
    double level = (1 + s->drift * place) * exp(s->trial_noise * stats_normal(r)), sum = 0;
    for (int i = 0; i < PAIRS_STEPS; i++) sum += level * exp(s->step_noise * stats_normal(r));
    return sum / PAIRS_STEPS;
}

static void pairs_make(const struct pairs_scene *s, struct stats_random *r, double *a, double *b) {
    for (int i = 0; i < s->pairs; i++) {
        bool b_first = i % 2 == 1; // A B, B A, A B, …
        double place_a = (2 * i + b_first) / (double)(2 * s->pairs);
        double place_b = (2 * i + !b_first) / (double)(2 * s->pairs);
        a[i] = pairs_trial(s, r, place_a);
        b[i] = pairs_trial(s, r, place_b) * (1 + s->difference);
    }
}

// Of `count` experiments: how many found a difference, and in how many the interval held the truth.
struct pairs_tally {
    int found, held;
};
static struct pairs_tally pairs_play(const struct pairs_scene *s, int count, uint64_t seed) {
    struct pairs_tally tally = {0};
    double a[PAIRS_MOST], b[PAIRS_MOST];
    struct stats_random r = {seed};
    for (int i = 0; i < count; i++) {
        pairs_make(s, &r, a, b);
        struct stats_ratio ratio = stats_find_ratio(a, b, s->pairs, 0.95, seed + (uint64_t)i);
        double truth = 1 + s->difference;
        tally.found += ratio.verdict != STATS_SAME;
        tally.held += ratio.interval.low <= truth && truth <= ratio.interval.high;
    }
    return tally;
}

#endif
