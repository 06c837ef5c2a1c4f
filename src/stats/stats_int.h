// SPDX-License-Identifier: Apache-2.0
// What the files of this room share: resampling.
#pragma once

#include "stats/stats.h"

// Enough for the 2.5 % points of a percentile interval to stand still to about a twentieth of its
// width (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 19, ask for 1,000).
enum { STATS_RESAMPLES = 2000 };

// The values that are numbers, in their order; NaN means "not measured" and is left out.
double *stats_known(struct arena *a, const double *values, ptrdiff_t count, ptrdiff_t *ret_count);
// A place in 0 … count - 1.
ptrdiff_t stats_place(struct stats_random *r, ptrdiff_t count);
// Means of STATS_RESAMPLES resamples of known values.
void stats_resample_means(const double *values, ptrdiff_t count, uint64_t seed, double *ret_means);
// The middle `level` of STATS_RESAMPLES figures, which are put in order.
struct stats_interval stats_middle(double *figures, double level);
