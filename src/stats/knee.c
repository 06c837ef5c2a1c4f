// SPDX-License-Identifier: Apache-2.0
// The knee: the smallest batch that is practically as fast as the fastest. Throughput is all
// samples over all time, not the mean of the steps' throughputs, which fast steps would flatter.
// Steps are resampled within each setting; a figure that noise alone can explain is not called a
// difference.
#include "stats/stats_int.h"

#include <math.h>

// Resampled mean seconds of one sample; NULL: fewer than two steps.
static double *resampled(struct arena *a, const struct stats_setting *s, uint64_t seed) {
    ptrdiff_t known;
    const double *seconds = stats_known(a, s->seconds_per_sample, s->count, &known);
    if (known < 2) return NULL;
    double *means = arena_new(a, double, STATS_RESAMPLES);
    stats_resample_means(seconds, known, seed, means);
    return means;
}

static ptrdiff_t fastest(const struct stats_setting *settings, ptrdiff_t count) {
    ptrdiff_t best = -1;
    double least = INFINITY;
    for (ptrdiff_t i = 0; i < count; i++) {
        double seconds = stats_mean(settings[i].seconds_per_sample, settings[i].count);
        bool is_tie = seconds == least && best >= 0 && settings[i].size < settings[best].size;
        if (!(seconds < least) && !is_tie) continue; // also what was not measured
        best = i;
        least = seconds;
    }
    return best;
}

// Interval of a setting's throughput over the best's.
static struct stats_interval ratio_of(struct arena *a, const struct stats_setting *s,
                                      const double *best_means, double level, uint64_t seed) {
    double *means = resampled(a, s, seed);
    if (!means || !best_means) return (struct stats_interval){NAN, NAN};
    for (int i = 0; i < STATS_RESAMPLES; i++) means[i] = best_means[i] / means[i];
    return stats_middle(means, level);
}

// Each setting has random numbers of its own; the same ones would tie their noise together.
static uint64_t seed_of(uint64_t seed, ptrdiff_t index) {
    struct stats_random r = {seed + (uint64_t)index};
    return stats_next(&r);
}

struct stats_knee stats_find_knee(const struct stats_setting *settings, ptrdiff_t count,
                                  double tolerance, double level, uint64_t seed) {
    ARENA_AUTO a = {0};
    ptrdiff_t best = fastest(settings, count);
    struct stats_knee k = {.best = best, .knee = best, .ratio = {NAN, NAN}};
    if (best < 0) return k;
    const double *best_means = resampled(&a, &settings[best], seed_of(seed, best));
    struct stats_interval *ratios = arena_new(&a, struct stats_interval, count);
    if (best_means) k.ratio = (struct stats_interval){1, 1};
    for (ptrdiff_t i = 0; i < count; i++) {
        if (settings[i].size >= settings[best].size) continue;
        struct arena_mark mark = arena_mark(&a);
        ratios[i] = ratio_of(&a, &settings[i], best_means, level, seed_of(seed, i));
        arena_rewind(&a, mark);
        if (!(ratios[i].low >= 1 - tolerance) || settings[i].size >= settings[k.knee].size)
            continue;
        k.knee = i;
        k.ratio = ratios[i];
    }
    k.is_certain = best_means != NULL;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (settings[i].size >= settings[k.knee].size) continue;
        if (!(ratios[i].high < 1 - tolerance))
            k.is_certain = false; // neither within nor clearly out
    }
    return k;
}
