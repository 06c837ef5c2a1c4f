// SPDX-License-Identifier: Apache-2.0
// What a run does to the memory: a leak, a spill to the host, a GPU that is nearly full, a
// prediction that was missed.
#include "machine/trend/trend_int.h"

#include "base/unit.h"
#include "stats/stats.h"

#include <math.h>

// --- Leak ---

enum {
    // Fewer may be the first fill of caches, or of what a garbage collector comes for.
    LEAK_POINTS_MIN = 96,
    LEAK_POINTS = 64, // of the slopes, whose cost is their square
    BLOCKS = 5,
};
// Growth in a block of less than this share of the mean block's is a stand-still.
static const double even_least = 0.3;
// Growth over the stretch that noise of this many deviations does not make.
static const double deviations_least = 4;

struct series {
    double *x, *y;
    ptrdiff_t count;
};

static struct series series_new(struct arena *a, ptrdiff_t count) {
    return (struct series){arena_new(a, double, count + 1), arena_new(a, double, count + 1), 0};
}

static void series_add(struct series *s, double x, double y) {
    if (isnan(y)) return;
    s->x[s->count] = x;
    s->y[s->count++] = y;
}

// Memory over steps where the run tells it, else of the whole GPU over seconds.
static struct series memory_of(const struct trend *t, bool *ret_by_step) {
    const struct trend_stretch *k = t->stretch;
    struct series steps = series_new(t->arena, k->step_count);
    for (ptrdiff_t i = 0; i < k->step_count; i++) {
        series_add(&steps, (double)i, k->steps[i].allocated_bytes);
    }
    *ret_by_step = steps.count >= TREND_POINTS_MIN;
    if (*ret_by_step) return steps;
    struct series card = series_new(t->arena, k->gauge_count);
    for (ptrdiff_t i = 0; i < k->gauge_count; i++) {
        const struct device_gauges *g = &k->gauges[i];
        series_add(&card, trend_seconds(&k->gauges[0], g),
                   g->used_bytes < 0 ? (double)NAN : (double)g->used_bytes);
    }
    return card;
}

static struct series part_of(const struct series *s, ptrdiff_t begin) {
    return (struct series){s->x + begin, s->y + begin, s->count - begin};
}

static struct series thinned(struct arena *a, const struct series *s, ptrdiff_t most) {
    struct series thin = series_new(a, most + 1);
    for (ptrdiff_t i = 0; i < most && s->count > 0; i++) {
        ptrdiff_t at = s->count <= most ? i : i * (s->count - 1) / (most - 1);
        if (at < s->count) series_add(&thin, s->x[at], s->y[at]);
    }
    return thin;
}

static double least_of(const struct series *s, ptrdiff_t begin, ptrdiff_t end) {
    double least = s->y[begin];
    for (ptrdiff_t i = begin; i < end; i++) least = fmin(least, s->y[i]);
    return least;
}

// The floor rises from block to block, by much the same each time. Noise has no direction, the
// floor of a sawtooth stays, a jump is in one block only, a cache that is full stands still at the
// end.
static bool floor_rises(const struct series *s, double least_growth, double *ret_last_floor) {
    double floors[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        floors[i] = least_of(s, s->count * i / BLOCKS, s->count * (i + 1) / BLOCKS);
    }
    double growth = floors[BLOCKS - 1] - floors[0];
    if (growth < least_growth * (BLOCKS - 1) / BLOCKS) return false;
    for (int i = 1; i < BLOCKS; i++) {
        if (floors[i] - floors[i - 1] < even_least * growth / (BLOCKS - 1)) return false;
    }
    *ret_last_floor = floors[BLOCKS - 1];
    return true;
}

// How far the values are from the line, as a deviation (1.4826 x the median distance).
static double scatter_of(struct arena *a, const struct series *s, double slope) {
    double *rest = arena_new(a, double, s->count + 1);
    for (ptrdiff_t i = 0; i < s->count; i++) rest[i] = s->y[i] - slope * s->x[i];
    double middle = stats_median(rest, s->count);
    for (ptrdiff_t i = 0; i < s->count; i++) rest[i] = fabs(rest[i] - middle);
    return 1.4826 * stats_median(rest, s->count);
}

struct leak {
    struct stats_slope slope;
    double span;
};

// What was allocated before the stretch without harm is no growth: the long sawtooth of a garbage
// collector.
static bool find_leak(const struct trend *t, const struct series *s, bool by_step,
                      struct leak *ret_leak) {
    // What the driver shows of a GPU moves in segments of 2 MiB and 20 MiB, and others use it,
    // too.
    double least = (by_step ? 8.0 : 64.0) * (double)UNIT_MIB, last_floor = 0;
    // A run's first steps fill caches.
    struct series all = part_of(s, t->stretch->steps_before > 0 ? 0 : s->count / 5);
    if (!floor_rises(&all, least, &last_floor)) return false;
    if (by_step && last_floor <= t->stretch->earlier_most_bytes) return false;
    struct series end = part_of(&all, all.count * 2 / 3);
    struct series few = thinned(t->arena, &all, LEAK_POINTS);
    struct series few_end = thinned(t->arena, &end, LEAK_POINTS / 2);
    struct stats_slope slope = stats_find_slope(few.x, few.y, few.count, 0.95);
    struct stats_slope last = stats_find_slope(few_end.x, few_end.y, few_end.count, 0.95);
    double span = all.x[all.count - 1] - all.x[0], growth = slope.slope * span;
    *ret_leak = (struct leak){slope, span};
    return slope.interval.low > 0 && last.interval.low > 0 &&
           last.slope >= even_least * slope.slope && growth >= least &&
           growth >= deviations_least * scatter_of(t->arena, &few, slope.slope);
}

bool trend_leak(const struct trend *t, struct finding *f) {
    bool by_step;
    struct leak leak;
    struct series s = memory_of(t, &by_step);
    if (s.count < LEAK_POINTS_MIN) return false;
    if (!find_leak(t, &s, by_step, &leak)) {
        return finding_tell(t->arena, f, FINDING_OK, STR("steady"), NULL,
                            "%td readings, no lasting growth", s.count);
    }
    const char *unit = by_step ? "step" : "s";
    const struct stats_slope *slope = &leak.slope;
    struct str value = str_format(t->arena, "%.*s a %s",
                                  STR_ARG(unit_bytes(t->arena, (int64_t)slope->slope)), unit);
    struct buf b = buf_new(t->arena);
    buf_format(&b, "memory grows by %.*s (95 %%: %.*s to %.*s) over %.0f %s", STR_ARG(value),
               STR_ARG(unit_bytes(t->arena, (int64_t)slope->interval.low)),
               STR_ARG(unit_bytes(t->arena, (int64_t)slope->interval.high)), leak.span,
               by_step ? "steps" : "s");
    const struct trend_stretch *k = t->stretch;
    int64_t free = k->gauge_count ? k->gauges[k->gauge_count - 1].free_bytes : -1;
    if (free >= 0) {
        buf_format(&b, "; full in about %.0f more %s", (double)free / slope->slope,
                   by_step ? "steps" : "s");
    }
    return finding_say(f, FINDING_WARNING, value, buf_str(&b),
                       "look for losses or outputs kept with their graph (use .item() or "
                       ".detach()), for lists that grow, and for inputs that get longer");
}

// --- Spill ---------------------------------------------------------------------------------------

// Less than 2 % is free.
static bool is_full(const struct device_gauges *g) {
    return g->total_bytes > 0 && g->free_bytes >= 0 && g->free_bytes < g->total_bytes / 50;
}

// When the GPU became full and stayed so; -1: it is not.
static int64_t full_since_ns(const struct trend_stretch *k) {
    int64_t since = -1;
    for (ptrdiff_t i = k->gauge_count - 1; i >= 0 && is_full(&k->gauges[i]); i--) {
        since = k->gauges[i].at_ns;
    }
    return since;
}

static double step_median(const struct trend *t, int64_t from_ns, int64_t to_ns) {
    const struct trend_stretch *k = t->stretch;
    double *ms = arena_new(t->arena, double, k->step_count + 1);
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < k->step_count; i++) {
        const struct trend_step *s = &k->steps[i];
        if (s->at_ns >= from_ns && s->at_ns < to_ns && s->at_ns > 0)
            ms[count++] = s->times.total_ms;
    }
    return count >= 3 ? stats_median(ms, count) : (double)NAN;
}

// Full alone is what a caching allocator does. Full, and steps many times slower than before it
// was: the driver moves memory to the host and back (managed memory, Windows' fallback).
static bool swaps(const struct trend *t, struct finding *f) {
    double grown = t->stretch->swap_grown_bytes;
    if (!(grown >= 256.0 * (double)UNIT_MIB)) return false;
    struct str value = unit_bytes(t->arena, (int64_t)grown);
    return finding_tell(
        t->arena, f, FINDING_PROBLEM, value,
        "a smaller batch or fewer loader workers; swap is a thousand times slower",
        "GPU and CPU share memory, and %.*s of it was swapped out in the last minute",
        STR_ARG(value));
}

bool trend_spill(const struct trend *t, struct finding *f) {
    if (t->stretch->is_unified) return swaps(t, f);
    int64_t since = full_since_ns(t->stretch);
    if (since < 0 || t->stretch->step_count == 0) return false;
    double before = step_median(t, 1, since), after = step_median(t, since, INT64_MAX);
    if (isnan(before) || isnan(after)) return false;
    struct str evidence = str_format(
        t->arena, "the GPU is full: a step takes %.1f ms, before %.1f ms%s", after, before,
        t->stretch->is_wsl ? "; WSL moves memory to the host without asking" : "");
    struct str value = str_format(t->arena, "%.1f times slower", after / before);
    if (after < 3 * before) return finding_say(f, FINDING_OK, STR("none"), evidence, NULL);
    return finding_say(f, FINDING_PROBLEM, value, evidence,
                       "memory spills to the host: a smaller batch is faster (batchfit fit)");
}

// --- Full, and missed ---

// A caching allocator may fill a GPU without harm. It is at its end when it has to give back what
// it cached, and try again.
bool trend_full(const struct trend *t, struct finding *f) {
    const struct trend_stretch *k = t->stretch;
    const struct device_gauges *g = k->gauge_count ? &k->gauges[k->gauge_count - 1] : NULL;
    if (!g || k->is_unified || k->step_count == 0 || !is_full(g)) return false;
    struct buf b = buf_new(t->arena);
    buf_format(&b, "%.*s of %.*s free", STR_ARG(unit_bytes(t->arena, g->free_bytes)),
               STR_ARG(unit_bytes(t->arena, g->total_bytes)));
    if (k->predicted_peak_bytes > 0) {
        buf_format(&b, "; predicted peak of the run %.*s",
                   STR_ARG(unit_bytes(t->arena, k->predicted_peak_bytes)));
    }
    if (k->peak_bytes > 0) {
        buf_format(&b, ", seen %.*s", STR_ARG(unit_bytes(t->arena, k->peak_bytes)));
    }
    bool retries = k->alloc_retries > 0;
    if (retries) {
        buf_format(&b, "; the allocator freed its cache and retried %lld times",
                   (long long)k->alloc_retries);
    }
    return finding_say(
        f, retries ? FINDING_WARNING : FINDING_NOTE, unit_bytes(t->arena, g->free_bytes),
        buf_str(&b),
        retries ? "a smaller batch with accumulation, or another remedy from `batchfit explain`"
                : NULL);
}

bool trend_missed(const struct trend *t, struct finding *f) {
    const struct trend_stretch *k = t->stretch;
    if (k->peak_bytes <= 0 || k->predicted_upper_bytes <= 0) return false;
    struct str seen = unit_bytes(t->arena, k->peak_bytes);
    struct str upper = unit_bytes(t->arena, k->predicted_upper_bytes);
    struct str evidence =
        str_format(t->arena, "the run holds %.*s of the GPU; predicted at most %.*s", STR_ARG(seen),
                   STR_ARG(upper));
    if (k->peak_bytes <= k->predicted_upper_bytes) {
        return finding_say(f, FINDING_OK, seen, evidence, NULL);
    }
    return finding_say(f, FINDING_WARNING, seen, evidence,
                       "find the batch by trials (batchfit fit -- COMMAND) or use a larger "
                       "--safety-margin; a report improves the prediction");
}
