// SPDX-License-Identifier: Apache-2.0
// The rules over time, on made series: what must be found is found, and clean runs raise no alarm.
#include "unit.h"

#include "base/unit.h"
#include "machine/trend/trend.h"
#include "stats/stats.h"

#include <math.h>

enum { SECONDS = 120, STEPS = 100 };

struct run {
    struct arena arena;
    struct device_gauges gauges[SECONDS];
    struct trend_step steps[STEPS];
    struct trend_stretch stretch;
};

// Two minutes at one reading a second and 100 steps: busy, cool, steady up to noise.
static void set_up(struct run *r, uint64_t seed) {
    struct stats_random random = {seed};
    *r = (struct run){0};
    for (int i = 0; i < SECONDS; i++) {
        struct device_gauges g = device_card_unknown().now;
        g.at_ns = (i + 1) * INT64_C(1000000000);
        g.total_bytes = 24 * UNIT_GIB;
        g.used_bytes = 10 * UNIT_GIB + (int64_t)(1e6 * stats_normal(&random));
        g.free_bytes = g.total_bytes - g.used_bytes;
        g.utilisation = 0.95;
        g.sm_clock_mhz = 2500;
        g.sw_thermal_seconds = 100;
        g.power_cap_seconds = 50 + 0.1 * i;
        r->gauges[i] = g;
    }
    for (int i = 0; i < STEPS; i++) {
        double noise = stats_normal(&random);
        r->steps[i] = (struct trend_step){
            .at_ns = (i + 1) * INT64_C(1200000000),
            .allocated_bytes = 8e9 + 3e6 * stats_normal(&random),
            .times = {.io_ms = 10, .total_ms = 200 + noise},
        };
    }
    r->stretch = (struct trend_stretch){r->gauges, SECONDS, 2700, r->steps, STEPS};
}

static const struct finding *find(struct run *r, const char *id) {
    struct findings *found = arena_new(&r->arena, struct findings, 1);
    trend_judge(&r->arena, &r->stretch, 0, found);
    for (ptrdiff_t i = 0; i < found->count; i++) {
        if (strcmp(found->items[i].id, id) == 0) return &found->items[i];
    }
    return NULL;
}

static bool is(struct run *r, const char *id, enum finding_severity severity,
               const char *evidence) {
    const struct finding *f = find(r, id);
    if (!f) return false;
    if (severity >= FINDING_WARNING && f->remedy.len == 0) return false;
    return f->severity == severity && str_find(f->evidence, str_of(evidence)) >= 0;
}

static void clean_runs_raise_no_alarm(void **state) {
    (void)state;
    static const char *const ids[] = {"trend.throttled", "trend.leak", "trend.starved"};
    int alarms = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct run r;
        set_up(&r, seed);
        for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
            alarms += !is(&r, ids[i], FINDING_OK, "");
        assert_null(find(&r, "trend.spill"));
        r.stretch.step_count = 0; // by the GPU alone
        alarms += !is(&r, "trend.leak", FINDING_OK, "");
        arena_clear(&r.arena);
    }
    assert_int_equal(alarms, 0);
}

static void throttling_is_the_counters_share(void **state) {
    (void)state;
    struct run r;
    set_up(&r, 1);
    for (int i = 0; i < SECONDS; i++) r.gauges[i].sw_thermal_seconds = 100 + 0.25 * i;
    assert_true(is(&r, "trend.throttled", FINDING_WARNING, "power brake 25.0 % of 119 s"));
    assert_true(is(&r, "trend.throttled", FINDING_WARNING, "power limit 10.0 %; clock 7 % below"));
    assert_true(is(&r, "trend.throttled", FINDING_WARNING, "that costs 1.8 h a day")); // 7.4 % of 24 h
    // The driver was loaded again in between: counters begin at 0, nothing is lost or negative.
    for (int i = 60; i < SECONDS; i++) r.gauges[i].sw_thermal_seconds = 0.25 * (i - 60);
    assert_true(is(&r, "trend.throttled", FINDING_WARNING, "power brake 24.8 %"));
    // Nor does what the counter shows afterwards count as all of this time.
    for (int i = 60; i < SECONDS; i++) r.gauges[i].sw_thermal_seconds += 20;
    assert_true(is(&r, "trend.throttled", FINDING_WARNING, "power brake 25.6 %"));
    for (int i = 0; i < SECONDS; i++) {
        r.gauges[i].sw_thermal_seconds = 0;
        r.gauges[i].power_cap_seconds = 0.9 * i;
    }
    assert_true(is(&r, "trend.throttled", FINDING_NOTE, "power limit 90.0 %"));
    r.stretch.gauge_count = 2;
    assert_null(find(&r, "trend.throttled")); // too short
    arena_clear(&r.arena);
}

static void a_leak_is_found_and_a_cache_is_none(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct run r;
        set_up(&r, seed);
        for (int i = 0; i < STEPS; i++) r.steps[i].allocated_bytes += i * (double)UNIT_MIB;
        assert_true(is(&r, "trend.leak", FINDING_WARNING, "a step (95 %: "));
        arena_clear(&r.arena);
        set_up(&r, seed); // fills during the first third, then stands
        for (int i = 0; i < STEPS; i++) {
            r.steps[i].allocated_bytes += fmin(i, 33) * 30.0 * (double)UNIT_MIB;
        }
        assert_true(is(&r, "trend.leak", FINDING_OK, ""));
        r.stretch.step_count = 0;
        for (int i = 0; i < SECONDS; i++) {
            r.gauges[i].used_bytes += i * 4 * UNIT_MIB;
            r.gauges[i].free_bytes -= i * 4 * UNIT_MIB;
        }
        assert_true(is(&r, "trend.leak", FINDING_WARNING, "full in about"));
        arena_clear(&r.arena);
    }
}

// --- A run as watch sees it: its newest steps, judged now and then -------------------------------

enum { KEPT = 256, JUDGED_EVERY = 16, RUN_STEPS = 10000, SEEDS = 20 };

// Bytes at the end of step i; `state` is the series' own memory.
typedef double series_of(int i, struct stats_random *random, double *state);

static double noise(int i, struct stats_random *random, double *state) {
    (void)i;
    (void)state;
    return 8e9 + 200e6 * stats_normal(random); // inputs of all lengths
}
static double cache_fill(int i, struct stats_random *random, double *state) {
    (void)state;
    return 8e9 + 30e6 * fmin(i, 50) + 1e6 * stats_normal(random);
}
static double sawtooth(int i, struct stats_random *random, double *state) {
    (void)state; // a garbage collector that comes every 90 steps
    return 8e9 + (double)UNIT_MIB * (i % 90) + 1e6 * stats_normal(random);
}
static double jumps(int i, struct stats_random *random, double *state) {
    if (i % 2500 == 1300) *state += 500e6; // a validation, a longer input
    return 8e9 + *state + 3e6 * stats_normal(random);
}
static double growing_inputs(int i, struct stats_random *random, double *state) {
    (void)i; // the most so far of something random: rises ever more seldom
    *state = fmax(*state, 100e6 * stats_normal(random));
    return 8e9 + *state;
}
static double constant(int i, struct stats_random *random, double *state) {
    (void)i;
    (void)random;
    (void)state;
    return 8e9;
}
static double leaking(int i, struct stats_random *random, double *state) {
    (void)state;
    return 8e9 + (double)UNIT_MIB * i + 3e6 * stats_normal(random);
}

// The first step at which a leak is said; -1: none within `steps`. `ret_alarms` of `ret_looks`.
static int first_alarm(series_of *series, uint64_t seed, int steps, int *ret_alarms,
                       int *ret_looks) {
    static struct trend_step all[RUN_STEPS];
    struct stats_random random = {seed};
    double state = 0, most = 0;
    int first = -1;
    for (int i = 0; i < steps; i++) {
        all[i] = (struct trend_step){
            .at_ns = (i + 1) * INT64_C(100000000),
            .allocated_bytes = series(i, &random, &state),
            .times = {.io_ms = 1, .other_ms = 1, .total_ms = 100},
        };
    }
    for (int n = JUDGED_EVERY; n <= steps; n += JUDGED_EVERY) {
        ARENA_AUTO a = {0};
        int begin = n > KEPT ? n - KEPT : 0;
        for (int i = begin - JUDGED_EVERY; i < begin; i++) {
            if (i >= 0) most = fmax(most, all[i].allocated_bytes);
        }
        struct trend_stretch stretch = {.steps = all + begin,
                                        .step_count = n - begin,
                                        .steps_before = begin,
                                        .earlier_most_bytes = most};
        struct findings found = {0};
        trend_judge(&a, &stretch, 0, &found);
        ++*ret_looks;
        for (ptrdiff_t i = 0; i < found.count; i++) {
            if (strcmp(found.items[i].id, "trend.leak") != 0) continue;
            if (found.items[i].severity < FINDING_WARNING) continue;
            ++*ret_alarms;
            if (first < 0) first = n;
        }
    }
    return first;
}

static void ten_thousand_clean_steps_raise_no_alarm(void **state) {
    (void)state;
    static const struct {
        const char *name;
        series_of *series;
    } kinds[] = {{"noise", noise}, {"cache fill", cache_fill}, {"sawtooth", sawtooth},
                 {"jumps", jumps}, {"constant", constant},     {"growing inputs", growing_inputs}};
    int all = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int alarms = 0, looks = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            first_alarm(kinds[k].series, seed, RUN_STEPS, &alarms, &looks);
        }
        print_message("# %s: %d alarms in %d looks at %d runs of %d steps\n", kinds[k].name, alarms,
                      looks, SEEDS, RUN_STEPS);
        all += alarms;
    }
    assert_int_equal(all, 0);
}

static void a_leak_of_a_mebibyte_is_found_within_100_steps(void **state) {
    (void)state;
    int latest = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        int alarms = 0, looks = 0, first = first_alarm(leaking, seed, 400, &alarms, &looks);
        assert_true(first > 0 && first <= 100);
        assert_true(alarms == looks - first / JUDGED_EVERY + 1); // and stays
        latest = first > latest ? first : latest;
    }
    print_message("# found in 200 of 200 runs, at the latest after %d steps\n", latest);
}

static void a_spill_is_full_and_slow(void **state) {
    (void)state;
    struct run r;
    set_up(&r, 1);
    for (int i = 60; i < SECONDS; i++) r.gauges[i].free_bytes = 100 * UNIT_MIB;
    assert_true(is(&r, "trend.spill", FINDING_OK, "")); // full, and as fast as before
    for (int i = 0; i < STEPS; i++) {
        if (r.steps[i].at_ns > r.gauges[60].at_ns) r.steps[i].times.total_ms = 1500;
    }
    assert_true(is(&r, "trend.spill", FINDING_PROBLEM, "1500.0 ms, before"));
    r.gauges[SECONDS - 1].free_bytes = 5 * UNIT_GIB;
    assert_null(find(&r, "trend.spill"));
    arena_clear(&r.arena);
}

static void a_card_waits_for_a_reason(void **state) {
    (void)state;
    struct run r;
    set_up(&r, 1);
    for (int i = 0; i < SECONDS; i++) r.gauges[i].utilisation = 0.4;
    assert_true(is(&r, "trend.starved", FINDING_WARNING, "without waiting for data"));
    for (int i = 0; i < STEPS; i++) r.steps[i].times.io_ms = 120;
    assert_true(is(&r, "trend.starved", FINDING_WARNING, "60 % of a step of 200"));
    assert_true(is(&r, "trend.starved", FINDING_WARNING, "14.4 h of a day"));
    for (int i = 0; i < STEPS; i++) r.steps[i].times.io_ms = 5, r.steps[i].times.other_ms = 100;
    r.stretch.process_cpus = 1.02;
    assert_true(is(&r, "trend.starved", FINDING_WARNING, "50 % of a step of 200"));
    assert_true(is(&r, "trend.starved", FINDING_WARNING, "one thread is the bottleneck"));
    for (int i = 0; i < STEPS; i++) r.steps[i].times.other_ms = 0;
    for (int i = 0; i < STEPS; i++) r.steps[i].times.total_ms = 8, r.steps[i].times.io_ms = 0.5;
    assert_true(is(&r, "trend.starved", FINDING_WARNING, "launches kernels"));
    for (int i = 0; i < SECONDS; i++) r.gauges[i].utilisation = (double)NAN;
    assert_null(find(&r, "trend.starved"));
    arena_clear(&r.arena);
}

static void shared_memory_spills_to_swap(void **state) {
    (void)state;
    struct run r;
    set_up(&r, 1);
    r.stretch.is_unified = true;
    assert_null(find(&r, "trend.spill"));
    r.stretch.swap_grown_bytes = 1e9;
    assert_true(is(&r, "trend.spill", FINDING_PROBLEM, "swapped out"));
    arena_clear(&r.arena);
}

static void what_goes_wrong_is_said(void **state) {
    (void)state;
    struct run r;
    set_up(&r, 1);
    static const char *const silent[] = {"trend.state",   "trend.xid",  "trend.ecc",
                                         "trend.replays", "trend.full", "trend.missed",
                                         "trend.brake"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) assert_null(find(&r, silent[i]));
    r.stretch.state = DEVICE_LOST;
    r.stretch.reason = "it fell off the bus";
    assert_true(is(&r, "trend.state", FINDING_PROBLEM, "fell off"));
    r.gauges[SECONDS - 1].xid = 79;
    assert_true(is(&r, "trend.xid", FINDING_PROBLEM, "Xid 79"));
    r.gauges[SECONDS - 1].xid = 13;
    assert_true(is(&r, "trend.xid", FINDING_NOTE, "a kernel failed"));
    r.gauges[SECONDS - 1].xid = 7;
    assert_true(is(&r, "trend.xid", FINDING_WARNING, "Xid 7"));
    for (int i = 0; i < SECONDS; i++) {
        r.gauges[i].ecc_corrected = 5 + (i > 9);
        r.gauges[i].ecc_uncorrected = i < 60 ? 7 : 0; // the driver was loaded again
        r.gauges[i].pcie_replays = i;
        r.gauges[i].power_brake_seconds = 0.05 * i;
    }
    assert_true(is(&r, "trend.ecc", FINDING_NOTE, "1 corrected"));
    r.gauges[SECONDS - 1].ecc_uncorrected = 2;
    assert_true(is(&r, "trend.ecc", FINDING_PROBLEM, "2 uncorrected"));
    assert_true(is(&r, "trend.replays", FINDING_WARNING, "119 packets"));
    assert_true(is(&r, "trend.brake", FINDING_PROBLEM, "5.0 % of 119 s"));
    arena_clear(&r.arena);
}

static void a_prediction_is_compared(void **state) {
    (void)state;
    struct run r;
    set_up(&r, 1);
    r.stretch.predicted_peak_bytes = 10 * UNIT_GIB;
    r.stretch.predicted_upper_bytes = 11 * UNIT_GIB;
    r.stretch.peak_bytes = 10 * UNIT_GIB;
    assert_true(is(&r, "trend.missed", FINDING_OK, "at most 11.0 GiB"));
    r.stretch.peak_bytes = 12 * UNIT_GIB;
    assert_true(is(&r, "trend.missed", FINDING_WARNING, "holds 12.0 GiB"));
    r.gauges[SECONDS - 1].free_bytes = 100 * UNIT_MIB;
    assert_true(
        is(&r, "trend.full", FINDING_NOTE, "predicted peak of the run 10.0 GiB, seen 12.0 GiB"));
    r.stretch.alloc_retries = 3;
    assert_true(is(&r, "trend.full", FINDING_WARNING, "retried 3 times"));
    arena_clear(&r.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clean_runs_raise_no_alarm),
        cmocka_unit_test(throttling_is_the_counters_share),
        cmocka_unit_test(a_leak_is_found_and_a_cache_is_none),
        cmocka_unit_test(ten_thousand_clean_steps_raise_no_alarm),
        cmocka_unit_test(a_leak_of_a_mebibyte_is_found_within_100_steps),
        cmocka_unit_test(a_spill_is_full_and_slow),
        cmocka_unit_test(shared_memory_spills_to_swap),
        cmocka_unit_test(what_goes_wrong_is_said),
        cmocka_unit_test(a_prediction_is_compared),
        cmocka_unit_test(a_card_waits_for_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
