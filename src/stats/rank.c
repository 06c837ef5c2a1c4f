// SPDX-License-Identifier: Apache-2.0
// Two samples compared by ranks (Mann and Whitney 1947), the ratio of two settings that were
// measured in turn, and how many pairs would tell. The exact distribution is that of the rank sum
// over all ways to deal the values that were seen into two groups, so ties need no correction in
// it; it is counted by adding one value at a time, over doubled mid-ranks, which are whole numbers.
#include "stats/stats_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Both together. Above it the normal approximation differs by less than 0.0015
// (tests/unit/stats_rank.c).
enum { EXACT_MOST = 40 };

struct ranked {
    double value;
    bool is_b;
    int64_t rank2; // doubled mid-rank, 2 … 2 * count
};

static int by_value(const void *x, const void *y) {
    double a = ((const struct ranked *)x)->value, b = ((const struct ranked *)y)->value;
    return (a > b) - (a < b);
}

// Sorts and ranks; returns the sum over groups of equal values of t^3 - t.
static double rank_values(struct ranked *items, ptrdiff_t count) {
    double ties = 0;
    if (count) qsort(items, (size_t)count, sizeof *items, by_value);
    for (ptrdiff_t i = 0; i < count;) {
        ptrdiff_t end = i;
        while (end < count && items[end].value == items[i].value) end++;
        double t = (double)(end - i);
        ties += t * t * t - t;
        for (ptrdiff_t k = i; k < end; k++) items[k].rank2 = i + 1 + end;
        i = end;
    }
    return ties;
}

// The share of all choices of `chosen` of the ranks whose sum lies as far from the mean as `seen`.
static double exact_p(struct arena *a, const struct ranked *items, ptrdiff_t count,
                      ptrdiff_t chosen, int64_t seen) {
    int64_t most = count * (count + 1), middle = chosen * (count + 1);
    // ways[k * (most + 1) + s]: choices of k ranks with the sum s.
    double *ways = arena_new(a, double, (chosen + 1) * (most + 1));
    ways[0] = 1;
    for (ptrdiff_t i = 0; i < count; i++) {
        for (ptrdiff_t k = i < chosen ? i + 1 : chosen; k > 0; k--) {
            double *to = ways + k * (most + 1);
            const double *from = to - (most + 1);
            for (int64_t s = items[i].rank2; s <= most; s++) to[s] += from[s - items[i].rank2];
        }
    }
    double all = 0, far = 0;
    const double *sums = ways + chosen * (most + 1);
    for (int64_t s = 0; s <= most; s++) {
        all += sums[s];
        if (llabs(s - middle) >= llabs(seen - middle)) far += sums[s];
    }
    return far / all;
}

static double normal_p(double u, double n, double m, double ties) {
    double all = n + m;
    double variance = n * m / 12 * (all + 1 - ties / (all * (all - 1)));
    double off = fmax(fabs(u - n * m / 2) - 0.5, 0); // correction for continuity
    return variance > 0 ? erfc(off / sqrt(2 * variance)) : 1;
}

struct stats_rank stats_find_rank(const double *a, ptrdiff_t count_a, const double *b,
                                  ptrdiff_t count_b) {
    ARENA_AUTO scratch = {0};
    ptrdiff_t n, m;
    const double *x = stats_known(&scratch, a, count_a, &n);
    const double *y = stats_known(&scratch, b, count_b, &m);
    struct ranked *items = arena_new(&scratch, struct ranked, n + m + 1);
    if (n == 0 || m == 0) return (struct stats_rank){.u = NAN, .p = 1};
    for (ptrdiff_t i = 0; i < n + m; i++) {
        items[i] = (struct ranked){.value = i < n ? x[i] : y[i - n], .is_b = i >= n};
    }
    double ties = rank_values(items, n + m);
    int64_t sum2 = 0;
    for (ptrdiff_t i = 0; i < n + m; i++) sum2 += items[i].is_b ? items[i].rank2 : 0;
    double u = (double)sum2 / 2 - (double)m * (double)(m + 1) / 2;
    bool exact = n + m <= EXACT_MOST;
    return (struct stats_rank){
        .u = u,
        .p = exact ? exact_p(&scratch, items, n + m, m, sum2)
                   : normal_p(u, (double)n, (double)m, ties),
        .is_exact = exact,
    };
}

// --- Pairs ---------------------------------------------------------------------------------------

// Values in rising order, each with the pair it is of.
struct paired {
    double value;
    ptrdiff_t pair;
};
static int by_paired_value(const void *x, const void *y) {
    double a = ((const struct paired *)x)->value, b = ((const struct paired *)y)->value;
    return (a > b) - (a < b);
}

static struct paired *in_order(struct arena *a, const double *values, ptrdiff_t count) {
    struct paired *items = arena_new(a, struct paired, count);
    for (ptrdiff_t i = 0; i < count; i++) items[i] = (struct paired){values[i], i};
    qsort(items, (size_t)count, sizeof *items, by_paired_value);
    return items;
}

// The median where pair i was drawn drawn[i] times, `count` in all.
static double drawn_median(const struct paired *rising, ptrdiff_t count, const ptrdiff_t *drawn) {
    ptrdiff_t low = (count - 1) / 2, high = count / 2, i = 0, seen = drawn[rising[0].pair];
    while (seen <= low) seen += drawn[rising[++i].pair];
    double below = rising[i].value;
    while (seen <= high) seen += drawn[rising[++i].pair];
    return below + (rising[i].value - below) / 2;
}

static struct stats_interval ratio_interval(struct arena *arena, const double *a, const double *b,
                                            ptrdiff_t count, double level, uint64_t seed) {
    const struct paired *x = in_order(arena, a, count), *y = in_order(arena, b, count);
    ptrdiff_t *drawn = arena_new(arena, ptrdiff_t, count);
    double *ratios = arena_new(arena, double, STATS_RESAMPLES);
    struct stats_random r = {seed};
    for (int i = 0; i < STATS_RESAMPLES; i++) {
        memset(drawn, 0, (size_t)count * sizeof *drawn);
        for (ptrdiff_t j = 0; j < count; j++) drawn[stats_place(&r, count)]++;
        ratios[i] = drawn_median(y, count, drawn) / drawn_median(x, count, drawn);
    }
    return stats_middle(ratios, level);
}

struct stats_ratio stats_find_ratio(const double *a, const double *b, ptrdiff_t count, double level,
                                    uint64_t seed) {
    ARENA_AUTO scratch = {0};
    double *x = arena_new(&scratch, double, count + 1), *y = arena_new(&scratch, double, count + 1);
    struct stats_ratio found = {.interval = {NAN, NAN}};
    for (ptrdiff_t i = 0; i < count; i++) {
        if (isnan(a[i]) || isnan(b[i])) continue;
        x[found.pairs] = a[i];
        y[found.pairs++] = b[i];
    }
    found.ratio = stats_median(y, found.pairs) / stats_median(x, found.pairs);
    found.rank = stats_find_rank(x, found.pairs, y, found.pairs);
    if (found.pairs < 2) return found;
    found.interval = ratio_interval(&scratch, x, y, found.pairs, level, seed);
    if (found.rank.p > 1 - level) return found;
    if (found.interval.low > 1) found.verdict = STATS_B_LARGER;
    if (found.interval.high < 1) found.verdict = STATS_B_SMALLER;
    return found;
}

// --- How many ------------------------------------------------------------------------------------

// The value that a standard normal exceeds with the probability `tail`.
static double normal_tail(double tail) {
    double low = 0, high = 40;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (erfc(middle / M_SQRT2) / 2 > tail)
            low = middle;
        else
            high = middle;
    }
    return low;
}

ptrdiff_t stats_pairs_needed(double difference, double noise, double level, double power) {
    // Relative to the t test, whose count this is, where the noise is normal: the verdict also
    // wants the interval of the medians to leave 1 out, and a median is 2 / pi as efficient as a
    // mean.
    static const double efficiency = 2 / M_PI;
    double effect = fabs(log1p(difference)) / noise;
    double z = normal_tail((1 - level) / 2) + normal_tail(1 - power);
    double pairs = 2 * z * z / (effect * effect * efficiency) + 1; // 1: p is coarse for few pairs
    // With n and n values, all of b above all of a: p = 2 / (2n over n).
    ptrdiff_t least = 1;
    for (double ways = 2; 2 / ways > 1 - level; least++) {
        ways *= (double)((2 * least + 1) * (2 * least + 2)) / (double)((least + 1) * (least + 1));
    }
    if (!(effect > 0) || pairs > 1e15) return PTRDIFF_MAX;
    return pairs > (double)least ? (ptrdiff_t)ceil(pairs) : least;
}
