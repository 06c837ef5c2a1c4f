// SPDX-License-Identifier: Apache-2.0
// The rules over time, on made series: what must be found is found, and clean runs raise no alarm.
#include "unit.h"

#include "base/unit.h"
#include "insight/trend.h"
#include "stats/stats.h"

#include <math.h>

enum { SECONDS = 120, STEPS = 100 };

struct run {
    struct arena arena;
    struct device_gauges gauges[SECONDS];
    struct insight_step steps[STEPS];
    struct insight_stretch stretch;
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
        r->steps[i] = (struct insight_step){(i + 1) * INT64_C(1200000000), 200 + noise, 10,
                                            8e9 + 3e6 * stats_normal(&random)};
    }
    r->stretch = (struct insight_stretch){r->gauges, SECONDS, 2700, r->steps, STEPS};
}

static const struct insight_finding *find(struct run *r, const char *id) {
    struct insight_findings *found = arena_new(&r->arena, struct insight_findings, 1);
    insight_trend(&r->arena, &r->stretch, 0, found);
    for (ptrdiff_t i = 0; i < found->count; i++) {
        if (strcmp(found->items[i].id, id) == 0) return &found->items[i];
    }
    return NULL;
}

static bool is(struct run *r, const char *id, enum insight_severity severity,
               const char *evidence) {
    const struct insight_finding *f = find(r, id);
    if (!f) return false;
    if (severity >= INSIGHT_WARNING && f->remedy.len == 0) return false;
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
            alarms += !is(&r, ids[i], INSIGHT_OK, "");
        assert_null(find(&r, "trend.spill"));
        r.stretch.step_count = 0; // by the card alone
        alarms += !is(&r, "trend.leak", INSIGHT_OK, "");
        arena_clear(&r.arena);
    }
    assert_int_equal(alarms, 0);
}

static void throttling_is_the_counters_share(void **state) {
    (void)state;
    struct run r;
    set_up(&r, 1);
    for (int i = 0; i < SECONDS; i++) r.gauges[i].sw_thermal_seconds = 100 + 0.25 * i;
    assert_true(is(&r, "trend.throttled", INSIGHT_WARNING, "power brake 25.0 % of 119 s"));
    assert_true(is(&r, "trend.throttled", INSIGHT_WARNING, "power limit 10.0 %; clock 7 % below"));
    // The driver was loaded anew in between: counters begin at 0, nothing is lost or negative.
    for (int i = 60; i < SECONDS; i++) r.gauges[i].sw_thermal_seconds = 0.25 * (i - 60);
    assert_true(is(&r, "trend.throttled", INSIGHT_WARNING, "power brake 24.8 %"));
    for (int i = 0; i < SECONDS; i++) {
        r.gauges[i].sw_thermal_seconds = 0;
        r.gauges[i].power_cap_seconds = 0.9 * i;
    }
    assert_true(is(&r, "trend.throttled", INSIGHT_NOTE, "power limit 90.0 %"));
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
        assert_true(is(&r, "trend.leak", INSIGHT_WARNING, "a step (95 %: "));
        arena_clear(&r.arena);
        set_up(&r, seed); // fills during the first third, then stands
        for (int i = 0; i < STEPS; i++) {
            r.steps[i].allocated_bytes += fmin(i, 33) * 30.0 * (double)UNIT_MIB;
        }
        assert_true(is(&r, "trend.leak", INSIGHT_OK, ""));
        r.stretch.step_count = 0;
        for (int i = 0; i < SECONDS; i++) {
            r.gauges[i].used_bytes += i * 4 * UNIT_MIB;
            r.gauges[i].free_bytes -= i * 4 * UNIT_MIB;
        }
        assert_true(is(&r, "trend.leak", INSIGHT_WARNING, "full in about"));
        arena_clear(&r.arena);
    }
}

static void a_spill_is_full_and_slow(void **state) {
    (void)state;
    struct run r;
    set_up(&r, 1);
    for (int i = 60; i < SECONDS; i++) r.gauges[i].free_bytes = 100 * UNIT_MIB;
    assert_true(is(&r, "trend.spill", INSIGHT_OK, "")); // full, and as fast as before
    for (int i = 0; i < STEPS; i++) {
        if (r.steps[i].at_ns > r.gauges[60].at_ns) r.steps[i].total_ms = 1500;
    }
    assert_true(is(&r, "trend.spill", INSIGHT_PROBLEM, "1500.0 ms, before it was full"));
    r.gauges[SECONDS - 1].free_bytes = 5 * UNIT_GIB;
    assert_null(find(&r, "trend.spill"));
    arena_clear(&r.arena);
}

static void a_card_waits_for_a_reason(void **state) {
    (void)state;
    struct run r;
    set_up(&r, 1);
    for (int i = 0; i < SECONDS; i++) r.gauges[i].utilisation = 0.4;
    assert_true(is(&r, "trend.starved", INSIGHT_WARNING, "without waiting for data"));
    for (int i = 0; i < STEPS; i++) r.steps[i].io_ms = 120;
    assert_true(is(&r, "trend.starved", INSIGHT_WARNING, "60 % of a step of 200"));
    for (int i = 0; i < STEPS; i++) r.steps[i].total_ms = 8, r.steps[i].io_ms = 0.5;
    assert_true(is(&r, "trend.starved", INSIGHT_WARNING, "launches kernels"));
    for (int i = 0; i < SECONDS; i++) r.gauges[i].utilisation = (double)NAN;
    assert_null(find(&r, "trend.starved"));
    arena_clear(&r.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clean_runs_raise_no_alarm),
        cmocka_unit_test(throttling_is_the_counters_share),
        cmocka_unit_test(a_leak_is_found_and_a_cache_is_none),
        cmocka_unit_test(a_spill_is_full_and_slow),
        cmocka_unit_test(a_card_waits_for_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
