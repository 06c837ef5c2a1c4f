// SPDX-License-Identifier: Apache-2.0
// What the figures of both sides come to, by the rank test and the interval of the ratio.
#include "verbs/compare/compare.h"

#include <math.h>

static const double level = 0.95, power = 0.9, smallest = 0.02;
static const uint64_t seed = 20261122;

const struct compare_metric_row compare_metrics[COMPARE_METRICS] = {
    [COMPARE_THROUGHPUT] = {"throughput", NULL, "samples/s", "Throughput", true},
    [COMPARE_MEMORY] = {"memory", "memory_usage", "bytes", "Peak memory", false},
    [COMPARE_ENERGY] = {"energy", "energy_consumption", "J/sample", "Energy per sample", false},
    [COMPARE_TIME] = {"time", NULL, "ms/sample", "Time per sample", false},
};

const char *compare_side_name(int side) {
    return side == COMPARE_A ? "a" : "b";
}

static double median_known(struct arena *a, const double *values, ptrdiff_t count) {
    double *known = arena_new(a, double, count + 1);
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (!isnan(values[i])) known[n++] = values[i];
    }
    return stats_median(known, n);
}

// How much one trial's figure varies: half of what the ratio of neighbours varies, in squares.
static double noise_of(const double *a, const double *b, ptrdiff_t count) {
    double sum = 0, squares = 0, n = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (isnan(a[i]) || isnan(b[i]) || a[i] <= 0 || b[i] <= 0) continue;
        double ratio = log(b[i] / a[i]);
        sum += ratio, squares += ratio * ratio, n++;
    }
    if (n < 2) return (double)NAN;
    double variance = (squares - sum * sum / n) / (n - 1);
    return sqrt(fmax(variance, 0) / 2);
}

static const char *verdict_of(enum stats_verdict verdict, bool more_is_better) {
    if (verdict == STATS_SAME) return "no difference";
    return (verdict == STATS_B_LARGER) == more_is_better ? "b" : "a";
}

static void judge_pairs(struct compare *c, int metric, struct compare_result *r) {
    const struct compare_side *a = &c->sides[COMPARE_A], *b = &c->sides[COMPARE_B];
    ptrdiff_t count = a->count < b->count ? a->count : b->count;
    r->ratio = stats_find_ratio(a->figures[metric], b->figures[metric], count, level, seed);
    r->is_tested = r->ratio.pairs >= 2;
    r->verdict = r->is_tested ? verdict_of(r->ratio.verdict, compare_metrics[metric].more_is_better)
                              : "no difference";
    if (!r->is_tested) r->reason = STR("only one figure each: no test is possible");
    if (!r->is_tested || r->ratio.verdict != STATS_SAME) return;
    double seen = fabs(r->ratio.ratio - 1);
    double noise = noise_of(a->figures[metric], b->figures[metric], count);
    r->difference = seen > smallest / 4 ? seen : smallest;
    if (!isnan(noise)) {
        r->pairs_wanted = stats_pairs_needed(r->difference, noise, level, power);
    }
}

// A side that cannot run has lost, to one that can: a comparison may end before the other was
// tried.
static void judge_failed(const struct compare *c, struct compare_result *r) {
    int failed = c->sides[COMPARE_A].has_failed ? COMPARE_A : COMPARE_B;
    const struct compare_side *side = &c->sides[failed];
    r->is_measured = c->sides[1 - failed].count > 0;
    r->verdict = r->is_measured ? compare_side_name(1 - failed) : "no difference";
    r->reason = str_format(c->arena, "%s %s: %.*s", compare_side_name(failed),
                           side->status == LAUNCH_OOM ? "ran out of memory" : "failed",
                           STR_ARG(side->reason));
}

static void judge(struct compare *c, int metric) {
    const struct compare_side *a = &c->sides[COMPARE_A], *b = &c->sides[COMPARE_B];
    struct compare_result *r = &c->results[metric];
    r->a = median_known(c->arena, a->figures[metric], a->count);
    r->b = median_known(c->arena, b->figures[metric], b->count);
    r->ratio = (struct stats_ratio){.ratio = (double)NAN, .interval = {(double)NAN, (double)NAN}};
    r->verdict = "no difference";
    if (a->has_failed || b->has_failed) {
        judge_failed(c, r);
    } else if (isnan(r->a) || isnan(r->b)) {
        r->reason = isnan(r->a) ? a->why[metric] : b->why[metric];
        if (r->reason.len == 0) r->reason = STR("not measured");
    } else {
        r->is_measured = true;
        judge_pairs(c, metric, r);
    }
}

void compare_judge(struct compare *c) {
    for (int i = 0; i < COMPARE_METRICS; i++) judge(c, i);
}
