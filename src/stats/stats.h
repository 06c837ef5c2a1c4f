// SPDX-License-Identifier: Apache-2.0
// Plain numbers in, plain numbers out. Everything random takes a seed and gives the same answer on
// every machine.
#ifndef STATS_STATS_H
#define STATS_STATS_H

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
    ptrdiff_t points;
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

#endif
