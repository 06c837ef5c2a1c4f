// SPDX-License-Identifier: Apache-2.0
#include "insight/trend.h"

#include "base/unit.h"
#include "insight/insight_int.h"
#include "stats/stats.h"

#include <math.h>

struct trend {
    struct arena *arena;
    const struct insight_stretch *stretch;
};

// Counters step about ten times a second; a share of less than two seconds is mostly their grain.
enum { SECONDS_MIN = 2, POINTS_MIN = 20 };

static double seconds_between(const struct device_gauges *a, const struct device_gauges *b) {
    return (double)(b->at_ns - a->at_ns) * 1e-9;
}

// --- Throttled
// -------------------------------------------------------------------------------------

// A counter that went back: the driver was loaded anew, and it counts from 0.
static double grown(double before, double after) {
    return isnan(before) || isnan(after) ? (double)NAN : after >= before ? after - before : after;
}

static double known_or_0(double value) {
    return isnan(value) ? 0 : value;
}

struct shares {
    double heat, power_cap; // of the time; NaN: unknown
    double seconds;
};

static struct shares shares_of(const struct insight_stretch *s) {
    struct shares shares = {NAN, NAN, 0};
    double heat = 0, cap = 0;
    bool has_heat = false, has_cap = false;
    for (ptrdiff_t i = 1; i < s->gauge_count; i++) {
        const struct device_gauges *a = &s->gauges[i - 1], *b = &s->gauges[i];
        double sw = grown(a->sw_thermal_seconds, b->sw_thermal_seconds);
        double hw = grown(a->hw_thermal_seconds, b->hw_thermal_seconds);
        double brake = grown(a->power_brake_seconds, b->power_brake_seconds);
        double power = grown(a->power_cap_seconds, b->power_cap_seconds);
        has_heat |= !isnan(sw) || !isnan(hw) || !isnan(brake);
        has_cap |= !isnan(power);
        // Two reasons may hold at once; together they are no more than the time that passed.
        heat += fmin(known_or_0(sw) + known_or_0(hw) + known_or_0(brake), seconds_between(a, b));
        cap += known_or_0(power);
        shares.seconds += seconds_between(a, b);
    }
    if (has_heat && shares.seconds > 0) shares.heat = fmin(heat / shares.seconds, 1);
    if (has_cap && shares.seconds > 0) shares.power_cap = fmin(cap / shares.seconds, 1);
    return shares;
}

// How far the clock was below its maximum while the card was busy; NaN: unknown.
static double clock_lost(const struct insight_stretch *s) {
    double sum = 0;
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < s->gauge_count; i++) {
        const struct device_gauges *g = &s->gauges[i];
        if (!(g->utilisation >= 0.5) || isnan(g->sm_clock_mhz)) continue;
        sum += g->sm_clock_mhz;
        count++;
    }
    bool is_known = count > 0 && s->sm_clock_max_mhz > 0;
    return is_known ? fmax(1 - sum / (double)count / s->sm_clock_max_mhz, 0) : (double)NAN;
}

static bool throttled(const struct trend *t, struct insight_finding *f) {
    struct shares s = shares_of(t->stretch);
    double lost = clock_lost(t->stretch);
    if (s.seconds < SECONDS_MIN || (isnan(s.heat) && isnan(s.power_cap))) return false;
    struct buf b = buf_new(t->arena);
    if (!isnan(s.heat))
        buf_format(&b, "heat or power brake %.1f %% of %.0f s", 100 * s.heat, s.seconds);
    if (!isnan(s.power_cap)) {
        buf_format(&b, "%spower limit %.1f %%", b.count ? ", " : "", 100 * s.power_cap);
    }
    if (!isnan(lost)) buf_format(&b, "; clock %.0f %% below its maximum while busy", 100 * lost);
    struct str value = str_format(t->arena, "%.1f %%", 100 * known_or_0(s.heat));
    if (s.heat >= 0.01) {
        return insight_say(
            f, INSIGHT_WARNING, value, buf_str(&b),
            "see to the air and the power supply, or lower the power limit: a steady "
            "clock is better than a sawtooth");
    }
    return insight_say(f, s.power_cap >= 0.5 ? INSIGHT_NOTE : INSIGHT_OK, value, buf_str(&b), NULL);
}

// --- Leak
// --------------------------------------------------------------------------------------------

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

// Memory over steps where the run tells it, else of the whole card over seconds.
static struct series memory_of(const struct trend *t, bool *ret_by_step) {
    const struct insight_stretch *k = t->stretch;
    struct series steps = series_new(t->arena, k->step_count);
    struct series card = series_new(t->arena, k->gauge_count);
    for (ptrdiff_t i = 0; i < k->step_count; i++) {
        series_add(&steps, (double)i, k->steps[i].allocated_bytes);
    }
    for (ptrdiff_t i = 0; i < k->gauge_count; i++) {
        const struct device_gauges *g = &k->gauges[i];
        series_add(&card, seconds_between(&k->gauges[0], g),
                   g->used_bytes < 0 ? (double)NAN : (double)g->used_bytes);
    }
    *ret_by_step = steps.count >= POINTS_MIN;
    return *ret_by_step ? steps : card;
}

// A cache that fills rises and then stands, a step that appears once is no slope: growth counts
// only when the stretch without its first fifth, and the last half of it alone, both rise.
static bool leak(const struct trend *t, struct insight_finding *f) {
    bool by_step;
    struct series s = memory_of(t, &by_step);
    if (s.count < POINTS_MIN) return false;
    ptrdiff_t begin = s.count / 5, half = s.count / 2;
    struct stats_slope all = stats_find_slope(s.x + begin, s.y + begin, s.count - begin, 0.95);
    struct stats_slope last = stats_find_slope(s.x + half, s.y + half, s.count - half, 0.95);
    double span = s.x[s.count - 1] - s.x[begin], growth = all.slope * span;
    const char *unit = by_step ? "step" : "s";
    // What the driver shows of a card moves in segments of 2 MiB and 20 MiB, and others use it,
    // too.
    double least = by_step ? 8.0 * (double)UNIT_MIB : 64.0 * (double)UNIT_MIB;
    bool grows = all.interval.low > 0 && last.interval.low > 0 && growth >= least;
    if (!grows) {
        return insight_say(f, INSIGHT_OK, STR("steady"),
                           str_format(t->arena, "%td readings, no lasting growth", s.count), NULL);
    }
    int64_t low = (int64_t)all.interval.low, high = (int64_t)all.interval.high;
    struct str value =
        str_format(t->arena, "%.*s a %s", STR_ARG(unit_bytes(t->arena, (int64_t)all.slope)), unit);
    struct buf b = buf_new(t->arena);
    buf_format(&b, "memory grows by %.*s (95 %%: %.*s to %.*s) over %.0f %ss", STR_ARG(value),
               STR_ARG(unit_bytes(t->arena, low)), STR_ARG(unit_bytes(t->arena, high)), span, unit);
    const struct insight_stretch *k = t->stretch;
    int64_t free = k->gauge_count ? k->gauges[k->gauge_count - 1].free_bytes : -1;
    if (free >= 0) buf_format(&b, "; full in about %.0f more", (double)free / all.slope);
    return insight_say(f, INSIGHT_WARNING, value, buf_str(&b),
                       "look for losses or outputs that are kept with their graph (use .item() or "
                       ".detach()), for lists that grow, and for inputs that get longer");
}

// --- Spill
// -------------------------------------------------------------------------------------------

static bool is_full(const struct device_gauges *g) {
    return g->total_bytes > 0 && g->free_bytes >= 0 && g->free_bytes < g->total_bytes / 50;
}

// When the card became full and stayed so; -1: it is not.
static int64_t full_since_ns(const struct insight_stretch *k) {
    int64_t since = -1;
    for (ptrdiff_t i = k->gauge_count - 1; i >= 0 && is_full(&k->gauges[i]); i--) {
        since = k->gauges[i].at_ns;
    }
    return since;
}

static double step_median(const struct trend *t, int64_t from_ns, int64_t to_ns) {
    const struct insight_stretch *k = t->stretch;
    double *ms = arena_new(t->arena, double, k->step_count + 1);
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < k->step_count; i++) {
        const struct insight_step *s = &k->steps[i];
        if (s->at_ns >= from_ns && s->at_ns < to_ns && s->at_ns > 0) ms[count++] = s->total_ms;
    }
    return count >= 3 ? stats_median(ms, count) : (double)NAN;
}

// Full alone is what a caching allocator does. Full, and steps many times slower than before it
// was: the driver moves memory to the host and back (managed memory, Windows' fallback).
static bool spill(const struct trend *t, struct insight_finding *f) {
    int64_t since = full_since_ns(t->stretch);
    if (since < 0 || t->stretch->step_count == 0) return false;
    double before = step_median(t, 1, since), after = step_median(t, since, INT64_MAX);
    if (isnan(before) || isnan(after)) return false;
    struct str evidence = str_format(t->arena,
                                     "the card is full, and steps take %.1f ms, before it was "
                                     "full %.1f ms",
                                     after, before);
    struct str value = str_format(t->arena, "%.1f times slower", after / before);
    if (after < 3 * before) return insight_say(f, INSIGHT_OK, STR("none"), evidence, NULL);
    return insight_say(
        f, INSIGHT_PROBLEM, value, evidence,
        "memory goes to the host and back: a smaller batch is faster (batchfit fit)");
}

// --- Starved
// -----------------------------------------------------------------------------------------

static double median_of(const struct trend *t, double (*value)(const struct trend *, ptrdiff_t),
                        ptrdiff_t count) {
    double *values = arena_new(t->arena, double, count + 1);
    for (ptrdiff_t i = 0; i < count; i++) values[i] = value(t, i);
    return stats_median(values, count);
}

static double utilisation_at(const struct trend *t, ptrdiff_t i) {
    return t->stretch->gauges[i].utilisation;
}
static double step_at(const struct trend *t, ptrdiff_t i) {
    return t->stretch->steps[i].total_ms;
}
static double io_share_at(const struct trend *t, ptrdiff_t i) {
    return t->stretch->steps[i].io_ms / t->stretch->steps[i].total_ms;
}

// Of less than 70 % the team's guide says that the card is not well used.
static bool starved(const struct trend *t, struct insight_finding *f) {
    const struct insight_stretch *k = t->stretch;
    double busy = median_of(t, utilisation_at, k->gauge_count);
    double step = median_of(t, step_at, k->step_count);
    double io = median_of(t, io_share_at, k->step_count);
    if (k->gauge_count < POINTS_MIN || k->step_count < 3 || isnan(busy) || isnan(step))
        return false;
    struct str value = str_format(t->arena, "%.0f %% busy", 100 * busy);
    if (busy >= 0.7) return insight_say(f, INSIGHT_OK, value, STR("the card is well used"), NULL);
    if (io >= 0.3) {
        return insight_say(
            f, INSIGHT_WARNING, value,
            str_format(t->arena, "%.0f %% of a step of %.1f ms waits for data", 100 * io, step),
            "more loader workers, data prepared beforehand or on a faster disk, "
            "pin_memory");
    }
    // Some hundred kernels of 10 us launch time each: below this the processor is the pace.
    if (step < 20) {
        return insight_say(f, INSIGHT_WARNING, value,
                           str_format(t->arena,
                                      "a step takes %.1f ms: the processor launches kernels no "
                                      "faster than the card runs them",
                                      step),
                           "a larger batch, torch.compile, or CUDA graphs");
    }
    return insight_say(
        f, INSIGHT_WARNING, value,
        str_format(t->arena, "steps of %.1f ms without waiting for data", step),
        "look for .item(), .cpu() and prints in the loop, which wait for the card, and "
        "for work on the processor between steps");
}

static const struct {
    const char *id, *what;
    bool (*judge)(const struct trend *t, struct insight_finding *f);
} rules[] = {
    {"trend.throttled", "time throttled", throttled},
    {"trend.leak", "memory that grows", leak},
    {"trend.spill", "memory spilled to the host", spill},
    {"trend.starved", "card that waits", starved},
};

void insight_trend(struct arena *a, const struct insight_stretch *stretch, int card,
                   struct insight_findings *findings) {
    const struct trend t = {a, stretch};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct insight_finding f = {.id = rules[i].id, .what = rules[i].what, .card = card};
        if (!rules[i].judge(&t, &f)) continue;
        *arena_push(a, &findings->items, &findings->count, &findings->capacity) = f;
    }
}
