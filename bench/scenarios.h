// SPDX-License-Identifier: Apache-2.0
// Made-up trainings for the search with trials: seeded, so that everybody gets the same ones. The
// peak is a line over the batch, with noise from launch to launch, and some ranges of batches where
// another kernel needs much more or much less. Rough ones lie on steps about the line, as what a
// CPU's allocator holds does. bench/search measures on them, a unit test asserts.
#ifndef BENCH_SCENARIOS_H
#define BENCH_SCENARIOS_H

#include "predict/search/search.h"
#include "stats/stats.h"

#include <math.h>

// What a real training had at most, in MiB: the example of ultralytics (yolo11n, 64 px, torch 1.13,
// one thread) on a CPU, the larger of resident and data, one launch of three steps a batch
// and the mean where there were more (they differed by up to 9 MiB).
static const struct {
    int64_t batch;
    double mib;
} scenario_measured[] = {
    {1, 410},  {2, 442},  {3, 444},   {4, 446},   {6, 451},   {8, 457},  {10, 461}, {12, 466},
    {14, 472}, {16, 527}, {18, 530},  {20, 534},  {22, 540},  {24, 547}, {26, 609}, {28, 610},
    {30, 585}, {32, 631}, {34, 688},  {36, 698},  {38, 661},  {40, 665}, {42, 668}, {43, 727},
    {44, 725}, {46, 726}, {48, 734},  {50, 738},  {52, 741},  {54, 742}, {56, 744}, {58, 715},
    {60, 723}, {62, 725}, {64, 726},  {66, 786},  {68, 794},  {72, 811}, {76, 807}, {80, 816},
    {88, 836}, {96, 850}, {104, 868}, {112, 878}, {128, 899},
};
enum { SCENARIO_MEASUREMENTS = sizeof scenario_measured / sizeof *scenario_measured };

enum { SCENARIO_LARGEST = 2048 }; // the list of values; limits are at most 1024
static const double scenario_budget = 8e9;

struct scenario {
    double fixed, limit; // shares of the budget: fixed + (1 - fixed) · batch / limit
    uint64_t ranges;     // seed of the ranges that need more or less
    double odd_share;    // of such ranges
    double rough;        // ranges lie this much, at most, above or below the line
    double noise;        // of one launch's peak and of its reading: 0.01
    double measured_mib; // the budget, where the peaks are the measured ones; 0: they are not
    bool spills;         // instead of running out of memory
    double spill_times, time_noise, step_cost; // step: (step_cost + batch) · 1 ms
    double error, fixed_error, item_error;     // of the prediction
    struct stats_random random;                // of the launches
};

enum scenario_kind {
    SCENARIO_CLEAN,
    SCENARIO_SPILLS,
    SCENARIO_STEPS,
    SCENARIO_NOISY,
    SCENARIO_REAL
};

static inline double scenario_between(struct stats_random *r, double low, double high) {
    return low + (high - low) * stats_uniform(r);
}

static inline struct scenario scenario_make(uint64_t seed, enum scenario_kind kind) {
    struct stats_random r = {seed * 1000003 + 17};
    struct scenario s = {.odd_share = 0.025, .noise = 0.01, .spills = kind == SCENARIO_SPILLS};
    s.limit = exp(scenario_between(&r, 0, log(1025)));
    s.fixed = scenario_between(&r, 0.05, 0.60);
    s.ranges = stats_next(&r);
    s.spill_times = stats_uniform(&r) < 1 / 3. ? 4 : scenario_between(&r, 10, 20);
    s.time_noise = scenario_between(&r, 0.01, 0.10);
    s.step_cost = s.limit * exp(scenario_between(&r, log(0.01), 0));
    s.error = scenario_between(&r, -0.05, 0.05);
    s.fixed_error = 0.02 * stats_normal(&r);
    s.item_error = 0.01 * stats_normal(&r);
    s.random.state = stats_next(&r);
    s.rough = kind == SCENARIO_STEPS ? scenario_between(&r, 0.02, 0.10) : 0;
    if (kind == SCENARIO_NOISY) s.noise = 0.03;
    if (kind == SCENARIO_REAL) {
        s.measured_mib = scenario_between(&r, 560, 880);
        s.noise = 0.005;
    }
    return s;
}

// Six ranges to a doubling; what an odd one's items need is 0.6 to 0.9 or 1.15 to 1.6 times the
// rest's.
static inline double scenario_oddity(const struct scenario *s, int64_t value) {
    struct stats_random r = {s->ranges + (uint64_t)(6 * log2((double)value))};
    if (stats_uniform(&r) >= s->odd_share) return 1;
    return stats_uniform(&r) < 0.5 ? scenario_between(&r, 0.6, 0.9)
                                   : scenario_between(&r, 1.15, 1.6);
}

// Six steps to a doubling, between the edges of the odd ranges.
static inline double scenario_step(const struct scenario *s, int64_t value) {
    if (s->rough == 0) return 0;
    struct stats_random r = {~s->ranges + (uint64_t)(6 * log2((double)value) + 0.5)};
    return scenario_between(&r, -s->rough, s->rough);
}

// Lines between the measured batches, and on beyond them.
static inline double scenario_measured_mib(int64_t value) {
    int i = 1;
    while (i < SCENARIO_MEASUREMENTS - 1 && scenario_measured[i].batch < value) i++;
    int64_t batch = scenario_measured[i - 1].batch;
    double mib = scenario_measured[i - 1].mib;
    double apart = (double)(scenario_measured[i].batch - batch);
    return mib + (scenario_measured[i].mib - mib) * (double)(value - batch) / apart;
}

static inline double scenario_peak(const struct scenario *s, int64_t value) {
    if (s->measured_mib > 0) {
        return scenario_budget * scenario_measured_mib(value) / s->measured_mib;
    }
    double items = (1 - s->fixed) * (double)value / s->limit;
    double line = s->fixed + items * scenario_oddity(s, value);
    return scenario_budget * line * (1 + scenario_step(s, value));
}

static inline double scenario_predict(void *context, int64_t value) {
    const struct scenario *s = context;
    double items = (1 - s->fixed) * (double)value / s->limit;
    return scenario_budget * (1 + s->error) *
           (s->fixed * (1 + s->fixed_error) + items * (1 + s->item_error));
}

// The largest value of the list whose peak is within the budget but for the noise; 0: none.
static inline int64_t scenario_truth(const struct scenario *s, const int64_t *rising,
                                     ptrdiff_t count) {
    for (ptrdiff_t i = count; i-- > 0;) {
        if (scenario_peak(s, rising[i]) <= scenario_budget) return rising[i];
    }
    return 0;
}

// A launch. The GPU has just the budget; half of the messages say how much was needed at least.
static inline struct search_seen scenario_launch(struct scenario *s, int64_t value) {
    struct stats_random *r = &s->random;
    double peak = scenario_peak(s, value) * (1 + s->noise * stats_normal(r));
    double read = scenario_peak(s, value) * (1 + s->noise * stats_normal(r));
    struct search_seen seen = {value, SEARCH_FITS, fmin(read, scenario_budget), NAN};
    double seconds = 1e-3 * (s->step_cost + (double)value) / (double)value;
    seen.seconds_per_item = seconds * exp(s->time_noise * stats_normal(r));
    if (peak <= scenario_budget) return seen;
    if (s->spills) {
        seen.seconds_per_item *= s->spill_times;
        seen.bytes = scenario_budget * scenario_between(r, 0.97, 1);
        return seen;
    }
    bool is_told = stats_uniform(r) < 0.5;
    return (struct search_seen){value, SEARCH_OUT,
                                is_told ? scenario_between(r, scenario_budget, peak) : NAN, NAN};
}

#endif
