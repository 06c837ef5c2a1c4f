// SPDX-License-Identifier: Apache-2.0
// From residuals to a correction that is careful with few data: up at once, down late and never
// below what the runs bear out.
#include "stats/stats_int.h"

#include <math.h>

// Student's t, 97.5 %, by degrees of freedom (NIST/SEMATECH e-Handbook of Statistical Methods,
// 1.3.6.7.2); between two rows the larger.
static const struct {
    ptrdiff_t freedom;
    double t;
} student[] = {{1, 12.706}, {2, 4.303},  {3, 3.182},  {4, 2.776},  {5, 2.571},  {6, 2.447},
               {7, 2.365},  {8, 2.306},  {9, 2.262},  {10, 2.228}, {12, 2.179}, {15, 2.131},
               {20, 2.086}, {30, 2.042}, {60, 2.000}, {100, 1.984}};

// Readings are whole blocks of 2 MiB, and a run differs from the next by some of them: no band is
// narrower.
static const double least_band = 0.01;
static const double most_lowering =
    0.7; // a run that needs still less was probably another training

static double t_of(ptrdiff_t freedom) {
    double t = student[0].t;
    for (size_t i = 0; i < sizeof student / sizeof *student; i++) {
        if (student[i].freedom <= freedom) t = student[i].t;
    }
    return t;
}

struct stats_correction stats_find_correction(const double *ratios, ptrdiff_t count) {
    ARENA_AUTO a = {0};
    double *logs = arena_new(&a, double, count + 1), most = -INFINITY, squares = 0;
    ptrdiff_t n = 0;
    struct stats_correction c = {.factor = 1, .fit_factor = 1, .upper_factor = 1};
    for (ptrdiff_t i = 0; i < count; i++) {
        if (!(ratios[i] > 0) || isinf(ratios[i])) continue;
        logs[n] = log(ratios[i]);
        most = fmax(most, logs[n++]);
    }
    if (n < STATS_CORRECTION_LEAST) return c;
    double median = stats_median(logs, n), mean = stats_mean(logs, n);
    for (ptrdiff_t i = 0; i < n; i++) squares += (logs[i] - mean) * (logs[i] - mean);
    double spread = sqrt(squares / (double)(n - 1));
    // Where the next run of the same kind lies: the prediction interval of a normal sample.
    double next = median + t_of(n - 1) * spread * sqrt(1 + 1 / (double)n);
    c.count = n;
    c.factor = exp(median);
    c.upper_factor = fmax(exp(fmax(next, most)), c.factor * (1 + least_band));
    c.fit_factor = fmax(c.factor, 1);
    if (c.factor < 1 && n >= STATS_CORRECTION_LOWERS) {
        c.fit_factor = fmin(fmax(c.upper_factor, most_lowering), 1);
    }
    return c;
}
