// SPDX-License-Identifier: Apache-2.0
// A starved GPU, and what it waits for.
#include "machine/trend/trend_int.h"

#include "stats/stats.h"

#include <math.h>

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
    return t->stretch->steps[i].times.total_ms;
}
static double other_share_at(const struct trend *t, ptrdiff_t i) {
    return t->stretch->steps[i].times.other_ms / t->stretch->steps[i].times.total_ms;
}
static double io_share_at(const struct trend *t, ptrdiff_t i) {
    return t->stretch->steps[i].times.io_ms / t->stretch->steps[i].times.total_ms;
}

struct seen {
    double busy, step_ms, io, other; // medians; io and other are shares of a step
    double cpus;
};

// Each cause with what shows it and what helps; the first that holds is said.
static bool waits_for_data(const struct trend *t, const struct seen *s, struct finding *f) {
    if (!(s->io >= 0.3)) return false;
    struct str evidence = str_format(
        t->arena, "%.0f %% of a step of %.1f ms is spent waiting for data: %.1f h of a day",
        100 * s->io, s->step_ms, 24 * s->io);
    return finding_say(
        f, FINDING_WARNING, f->value, evidence,
        "more loader workers, data preprocessed ahead or on a faster disk, pin_memory");
}

static bool synchronises(const struct trend *t, const struct seen *s, struct finding *f) {
    if (!(s->other >= 0.3)) return false;
    struct buf b = buf_new(t->arena);
    buf_format(&b, "%.0f %% of a step of %.1f ms is neither data, model nor optimizer",
               100 * s->other, s->step_ms);
    if (s->cpus >= 0.9 && s->cpus < 1.5) {
        buf_format(&b, "; the process keeps %.1f CPUs busy: one thread is the bottleneck", s->cpus);
    }
    return finding_say(
        f, FINDING_WARNING, f->value, buf_str(&b),
        "look for .item(), .cpu(), prints and metrics in the loop, which wait for the GPU, and "
        "for logging or checkpoints at every step");
}

// Some hundred kernels of 10 us launch time each: below 20 ms the CPU is the pace.
static bool is_small(const struct trend *t, const struct seen *s, struct finding *f) {
    if (s->step_ms >= 20) return false;
    struct str evidence = str_format(t->arena,
                                     "a step takes %.1f ms: the CPU launches kernels no "
                                     "faster than the GPU runs them",
                                     s->step_ms);
    return finding_say(f, FINDING_WARNING, f->value, evidence,
                       "a larger batch (`batchfit bench` finds the knee), torch.compile, or CUDA "
                       "graphs");
}

static bool waits_for_something(const struct trend *t, const struct seen *s, struct finding *f) {
    return finding_tell(
        t->arena, f, FINDING_WARNING, f->value,
        "look for .item(), .cpu() and prints in the loop, which wait for the GPU, and for work on "
        "the CPU between steps",
        "steps of %.1f ms without waiting for data", s->step_ms);
}

static bool (*const causes[])(const struct trend *, const struct seen *, struct finding *) = {
    waits_for_data, synchronises, is_small, waits_for_something};

// Of less than 70 % the team's guide says that the GPU is not well used.
bool trend_starved(const struct trend *t, struct finding *f) {
    const struct trend_stretch *k = t->stretch;
    if (k->gauge_count < TREND_POINTS_MIN || k->step_count < 3) return false;
    struct seen s = {
        .busy = median_of(t, utilisation_at, k->gauge_count),
        .step_ms = median_of(t, step_at, k->step_count),
        .io = median_of(t, io_share_at, k->step_count),
        .other = median_of(t, other_share_at, k->step_count),
        .cpus = k->process_cpus,
    };
    if (isnan(s.busy) || isnan(s.step_ms)) return false;
    f->value = str_format(t->arena, "%.0f %% busy", 100 * s.busy);
    if (s.busy >= 0.7) {
        return finding_say(f, FINDING_OK, f->value, STR("the GPU is busy"), NULL);
    }
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        if (causes[i](t, &s, f)) return true;
    }
    return false;
}
