// SPDX-License-Identifier: Apache-2.0
// Means, medians, quantiles, and how sure they are, by resampling. Values that are NaN were not
// measured and are left out. Random numbers are SplitMix64 (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators, OOPSLA 2014), so that a seed gives the same answer everywhere;
// quantiles are type 7 of Hyndman and Fan (1996), which R and NumPy use, too.
#include "stats/stats_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t stats_next(struct stats_random *r) {
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double stats_uniform(struct stats_random *r) {
    return (double)(stats_next(r) >> 11) * 0x1p-53;
}

double stats_normal(struct stats_random *r) {
    double radius = sqrt(-2 * log(1 - stats_uniform(r))); // Box and Muller; never log(0)
    return radius * cos(2 * M_PI * stats_uniform(r));
}

ptrdiff_t stats_place(struct stats_random *r, ptrdiff_t count) {
    ptrdiff_t place = (ptrdiff_t)(stats_uniform(r) * (double)count);
    return place < count ? place : count - 1;
}

int stats_by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double *stats_known(struct arena *a, const double *values, ptrdiff_t count, ptrdiff_t *ret_count) {
    double *known = arena_new(a, double, count + 1);
    *ret_count = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (!isnan(values[i])) known[(*ret_count)++] = values[i];
    }
    return known;
}

static double *sorted(struct arena *a, const double *values, ptrdiff_t count,
                      ptrdiff_t *ret_count) {
    double *known = stats_known(a, values, count, ret_count);
    if (*ret_count) qsort(known, (size_t)*ret_count, sizeof *known, stats_by_value);
    return known;
}

static double quantile_of(const double *rising, ptrdiff_t count, double q) {
    if (!count) return NAN;
    double place = fmin(fmax(q, 0), 1) * (double)(count - 1);
    ptrdiff_t below = (ptrdiff_t)place;
    double share = place - (double)below;
    if (share <= 0) return rising[below]; // no infinity - infinity where nothing is in between
    return rising[below] + share * (rising[below + 1] - rising[below]);
}

double stats_counted(double before, double after, double most) {
    if (isnan(before) || isnan(after)) return (double)NAN;
    return after >= before ? after - before : fmin(after, most);
}

double stats_or_0(double value) {
    return isnan(value) ? 0 : value;
}

double stats_mean(const double *values, ptrdiff_t count) {
    double sum = 0;
    ptrdiff_t known = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (isnan(values[i])) continue;
        sum += values[i];
        known++;
    }
    return known ? sum / (double)known : NAN;
}

double stats_quantile(const double *values, ptrdiff_t count, double q) {
    ARENA_AUTO a = {0};
    ptrdiff_t known;
    const double *rising = sorted(&a, values, count, &known);
    return quantile_of(rising, known, q);
}

double stats_median(const double *values, ptrdiff_t count) {
    return stats_quantile(values, count, 0.5);
}

struct stats_interval stats_middle(double *figures, double level) {
    qsort(figures, STATS_RESAMPLES, sizeof *figures, stats_by_value);
    double tail = (1 - level) / 2;
    return (struct stats_interval){quantile_of(figures, STATS_RESAMPLES, tail),
                                   quantile_of(figures, STATS_RESAMPLES, 1 - tail)};
}

void stats_resample_means(const double *values, ptrdiff_t count, uint64_t seed, double *ret_means) {
    struct stats_random r = {seed};
    for (int i = 0; i < STATS_RESAMPLES; i++) {
        double sum = 0;
        for (ptrdiff_t j = 0; j < count; j++) sum += values[stats_place(&r, count)];
        ret_means[i] = sum / (double)count;
    }
}

// The median of one resample of rising values: by counting how often each was drawn, not by
// sorting.
static double resampled_median(const double *rising, ptrdiff_t count, struct stats_random *r,
                               ptrdiff_t *drawn) {
    memset(drawn, 0, (size_t)count * sizeof *drawn);
    for (ptrdiff_t j = 0; j < count; j++) drawn[stats_place(r, count)]++;
    ptrdiff_t low = (count - 1) / 2, high = count / 2, i = 0, seen = drawn[0];
    while (seen <= low) seen += drawn[++i];
    double below = rising[i];
    while (seen <= high) seen += drawn[++i];
    return below + (rising[i] - below) / 2;
}

struct stats_interval stats_mean_interval(const double *values, ptrdiff_t count, double level,
                                          uint64_t seed) {
    ARENA_AUTO a = {0};
    ptrdiff_t known;
    const double *items = stats_known(&a, values, count, &known);
    if (known < 2) return (struct stats_interval){NAN, NAN};
    double *means = arena_new(&a, double, STATS_RESAMPLES);
    stats_resample_means(items, known, seed, means);
    return stats_middle(means, level);
}

struct stats_interval stats_median_interval(const double *values, ptrdiff_t count, double level,
                                            uint64_t seed) {
    ARENA_AUTO a = {0};
    ptrdiff_t known;
    const double *rising = sorted(&a, values, count, &known);
    if (known < 2) return (struct stats_interval){NAN, NAN};
    ptrdiff_t *drawn = arena_new(&a, ptrdiff_t, known);
    double *medians = arena_new(&a, double, STATS_RESAMPLES);
    struct stats_random r = {seed};
    for (int i = 0; i < STATS_RESAMPLES; i++) {
        medians[i] = resampled_median(rising, known, &r, drawn);
    }
    return stats_middle(medians, level);
}
