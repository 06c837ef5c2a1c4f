// SPDX-License-Identifier: Apache-2.0
// Plain numbers in, plain numbers out. Everything random takes a seed and gives the same answer on
// every machine.
#pragma once

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

struct stats_random {
    uint64_t state;
};
uint64_t stats_next(struct stats_random *r);  // SplitMix64
double stats_uniform(struct stats_random *r); // [0, 1)
double stats_normal(struct stats_random *r);  // mean 0, deviation 1

// Values are not changed. NaN for no values.
double stats_mean(const double *values, ptrdiff_t count);
double stats_median(const double *values, ptrdiff_t count);
double stats_quantile(const double *values, ptrdiff_t count, double q); // 0 … 1, linear (type 7)

// What a counter counted between two readings; NaN: one of them is unknown. One that went back was
// begun again, and cannot have counted more than `most` since: the time that passed, or INFINITY.
double stats_counted(double before, double after, double most);
double stats_or_0(double value);                  // NaN as 0
int stats_by_value(const void *a, const void *b); // for qsort of doubles: rising

struct stats_interval {
    double low, high; // NaN: fewer than two values
};
// Percentile bootstrap of the mean and of the median, 2,000 resamples; `level` is 0.95.
struct stats_interval stats_mean_interval(const double *values, ptrdiff_t count, double level,
                                          uint64_t seed);
struct stats_interval stats_median_interval(const double *values, ptrdiff_t count, double level,
                                            uint64_t seed);

// How fast y grows with x: the median slope of all pairs of points (Theil and Sen), with Sen's
// interval at `level`. Points with a NaN are left out. No two points: NaN; too few for the level:
// infinite ends.
struct stats_slope {
    double slope;
    struct stats_interval interval;
};
struct stats_slope stats_find_slope(const double *x, const double *y, ptrdiff_t count,
                                    double level);

// One setting, with the seconds that each of its steps took for one sample.
struct stats_setting {
    int64_t size; // batch
    const double *seconds_per_sample;
    ptrdiff_t count;
};
struct stats_knee {
    ptrdiff_t best;  // index of the highest throughput; -1: nothing measured
    ptrdiff_t knee;  // index of the smallest size that is within `tolerance` of the best
    bool is_certain; // at `level`: every smaller one is slower by more than the tolerance, and the
                     // knee is within it
    struct stats_interval ratio; // throughput of the knee over the best's
};
// Bootstrap over steps, 2,000 resamples. A smaller size counts as within the tolerance (0.02) when
// the lower end of the interval of its ratio to the best is at least 1 - tolerance.
struct stats_knee stats_find_knee(const struct stats_setting *settings, ptrdiff_t count,
                                  double tolerance, double level, uint64_t seed);

// Whether the values of b tend to be larger than those of a: the rank test of Mann and Whitney,
// two-sided. NaN values are left out. Up to 40 values together p is exact, also with ties; beyond,
// the normal approximation with the correction for ties.
struct stats_rank {
    double u; // pairs (a, b) with a < b, ties counting one half; NaN: no pairs
    double p; // 1: nothing to compare
    bool is_exact;
};
struct stats_rank stats_find_rank(const double *a, ptrdiff_t count_a, const double *b,
                                  ptrdiff_t count_b);

// Two settings measured in turn, A B B A A B …: one figure a trial, a[i] and b[i] being neighbours
// in time. The ratio of the medians, b over a, with a bootstrap interval over whole pairs, so that
// what a pair has in common (a machine that warms up) does not widen it. Pairs with a NaN are left
// out.
enum stats_verdict { STATS_SAME, STATS_B_LARGER, STATS_B_SMALLER };
struct stats_ratio {
    double ratio;                   // NaN: no pair
    struct stats_interval interval; // NaN: fewer than two pairs
    struct stats_rank rank;
    // Not SAME only when p is at most 1 - level and the interval leaves 1 out.
    enum stats_verdict verdict;
    ptrdiff_t pairs;
};
struct stats_ratio stats_find_ratio(const double *a, const double *b, ptrdiff_t count, double level,
                                    uint64_t seed);

// What was measured over what was predicted, of several runs: by what later predictions are to be
// multiplied. The rule and its reasons: doc/history.md.
enum { STATS_CORRECTION_LEAST = 3, STATS_CORRECTION_LOWERS = 8 };
struct stats_correction {
    ptrdiff_t count;     // ratios that were used; 0: fewer than three, all factors are 1
    double factor;       // of the figure shown: the median ratio
    double fit_factor;   // of the figure that decides: below 1 only from eight ratios on
    double upper_factor; // of the band's upper end: not exceeded by the next run in 97.5 %
};
// Ratios that are not positive numbers are left out.
struct stats_correction stats_find_correction(const double *ratios, ptrdiff_t count);

// How many pairs it takes to find a true difference of the share `difference` (0.02) in the share
// `power` (0.9) of experiments, when one trial's figure varies by the share `noise`; at least as
// many as the rank test needs to be able to say anything. PTRDIFF_MAX: no number would do (a
// difference of 0).
ptrdiff_t stats_pairs_needed(double difference, double noise, double level, double power);
