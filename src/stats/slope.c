// SPDX-License-Identifier: Apache-2.0
// How fast something grows: the median of the slopes between all pairs of points (Theil 1950, Sen
// 1968), which a few outliers cannot move, and Sen's interval by the variance of Kendall's
// statistic: no resampling, no seed. Points are taken as independent; a series that keeps what it
// once rose to (a cache that fills) is not, so ask for the parts of it, too.
#include "stats/stats_int.h"

#include <math.h>
#include <stdlib.h>

// Pairs grow with the square; beyond this many points neighbours are taken together by their means,
// which moves neither the slope nor, for independent noise, its interval by much.
enum { POINTS_MAX = 400 };

struct points {
    double *x, *y;
    ptrdiff_t count;
};

static struct points known_points(struct arena *a, const double *x, const double *y,
                                  ptrdiff_t count) {
    struct points p = {arena_new(a, double, count + 1), arena_new(a, double, count + 1), 0};
    for (ptrdiff_t i = 0; i < count; i++) {
        if (isnan(x[i]) || isnan(y[i])) continue;
        p.x[p.count] = x[i];
        p.y[p.count++] = y[i];
    }
    return p;
}

static struct points thinned(struct points p) {
    if (p.count <= POINTS_MAX) return p;
    for (ptrdiff_t i = 0; i < POINTS_MAX; i++) {
        ptrdiff_t begin = i * p.count / POINTS_MAX, end = (i + 1) * p.count / POINTS_MAX;
        p.x[i] = stats_mean(p.x + begin, end - begin);
        p.y[i] = stats_mean(p.y + begin, end - begin);
    }
    p.count = POINTS_MAX;
    return p;
}

// How many deviations of a normal distribution hold the middle `level`; by halving.
static double deviations_of(double level) {
    double low = 0, high = 10;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (erf(middle / M_SQRT2) < level)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct stats_slope stats_find_slope(const double *x, const double *y, ptrdiff_t count,
                                    double level) {
    ARENA_AUTO a = {0};
    struct stats_slope result = {NAN, {NAN, NAN}};
    struct points p = thinned(known_points(&a, x, y, count));
    double *slopes = arena_new(&a, double, p.count *p.count / 2 + 1);
    ptrdiff_t pairs = 0;
    for (ptrdiff_t i = 0; i < p.count; i++) {
        for (ptrdiff_t j = i + 1; j < p.count; j++) {
            if (p.x[j] > p.x[i] || p.x[j] < p.x[i]) {
                slopes[pairs++] = (p.y[j] - p.y[i]) / (p.x[j] - p.x[i]);
            }
        }
    }
    if (pairs == 0) return result;
    qsort(slopes, (size_t)pairs, sizeof *slopes, stats_by_value);
    result.slope = stats_median(slopes, pairs);
    double n = (double)p.count, deviation = sqrt(n * (n - 1) * (2 * n + 5) / 18);
    double reach = deviations_of(level) * deviation;
    ptrdiff_t low = (ptrdiff_t)floor(((double)pairs - reach) / 2);
    ptrdiff_t high = (ptrdiff_t)ceil(((double)pairs + reach) / 2);
    // Too few points for that level: nothing is excluded.
    result.interval.low = low >= 0 ? slopes[low] : -(double)INFINITY;
    result.interval.high = high < pairs ? slopes[high] : (double)INFINITY;
    return result;
}
