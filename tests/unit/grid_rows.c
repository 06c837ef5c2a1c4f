// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "job/grid/grid.h"

#include "base/unit.h"

#include <math.h>

enum { STEPS = 40 };

// A trial of `batch` whose steps take `ms`, up to `noise` more or less.
static struct grid_trial trial_of(struct arena *a, int64_t batch, double ms, double noise,
                                  int64_t bytes) {
    struct grid_trial t = {
        .status = LAUNCH_OK,
        .steps = STEPS,
        .seen_batch = batch,
        .peak_bytes = bytes,
        .charged_bytes = bytes,
        .times.ms = {0.1 * ms, 0.02 * ms, 0.3 * ms, 0.5 * ms, 0.05 * ms, 0.03 * ms, ms},
        .device_share = (double)NAN,
        .seconds_per_sample = arena_new(a, double, STEPS),
        .sample_count = STEPS,
    };
    for (int i = 0; i < STEPS; i++) {
        double share = 1 + noise * (i % 2 ? 1 : -1) * (double)(i % 5) / 4;
        t.seconds_per_sample[i] = ms * share / 1e3 / (double)batch;
    }
    return t;
}

struct made {
    int64_t batch;
    double ms;
    int64_t bytes;
    enum launch_status status;
};

static struct grid_rows rows_of(struct arena *a, const struct made *made, ptrdiff_t count,
                                double noise) {
    struct grid_rows rows = {arena_new(a, struct grid_row, count), count};
    for (ptrdiff_t i = 0; i < count; i++) {
        struct grid_trial t = trial_of(a, made[i].batch, made[i].ms, noise, made[i].bytes);
        t.status = made[i].status;
        if (t.status == LAUNCH_OOM) t.sample_count = 0, t.reason = STR("CUDA out of memory.");
        rows.items[i].setting = (struct grid_setting){.batch = made[i].batch,
                                                      .workers = 4,
                                                      .precision = PLAN_FP32,
                                                      .pin_memory = -1,
                                                      .compile = -1};
        grid_row_add(a, &rows.items[i], &t);
    }
    return rows;
}

static void the_latency_of_a_batch(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_row row = {.setting = {.batch = 8}};
    struct grid_trial t = trial_of(&a, 8, 16, 0.1, UNIT_GIB);
    assert_true(isnan(grid_batch_ms(&row, 0.5)));
    grid_row_add(&a, &row, &t);
    assert_true(fabs(grid_batch_ms(&row, 0.5) - 16) < 0.5);
    assert_true(fabs(grid_batch_ms(&row, 1) - 17.6) < 1e-9);
    struct stats_interval median = grid_median_ms(&row);
    assert_true(median.low <= grid_batch_ms(&row, 0.5) && median.high >= median.low);
    assert_true(isnan(grid_p99_ms(&row))); // of 40 batches
    grid_row_add(&a, &row, &t);
    grid_row_add(&a, &row, &t);
    assert_true(grid_p99_ms(&row) > 17);
}

static void wrong_outputs_are_never_the_best(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_rows rows = {arena_new(&a, struct grid_row, 3), 3};
    struct grid_trial wrong = trial_of(&a, 8, 10, 0, UNIT_GIB);
    struct grid_trial right = trial_of(&a, 8, 20, 0, UNIT_GIB), absent = {.status = LAUNCH_FAILED};
    wrong.differs = absent.is_absent = true;
    wrong.outputs = (struct steps_outputs){.is_said = true, .max_rel = 0.5};
    grid_row_add(&a, &rows.items[0], &wrong);
    grid_row_add(&a, &rows.items[1], &right);
    grid_row_add(&a, &rows.items[2], &absent);
    for (int i = 0; i < 3; i++) rows.items[i].setting.combination = i;
    assert_int_equal(rows.items[0].status, GRID_DIFFERS);
    assert_int_equal(rows.items[2].status, GRID_ABSENT);
    struct grid_best best = grid_pick(&a, &rows, 10 * UNIT_GIB);
    assert_int_equal(best.throughput, 1);
    assert_int_equal(best.efficiency, 1);
    assert_int_equal(best.recommended, 1);
    // Of several trials the worst difference is told.
    wrong.outputs.max_rel = 0.25;
    grid_row_add(&a, &rows.items[0], &wrong);
    assert_true(rows.items[0].outputs.max_rel == 0.5);
}

static void of_inference_only_some_rules_speak(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct made made[] = {{8, 100, 10 * UNIT_GIB, LAUNCH_OK}};
    struct grid_rows rows = rows_of(&a, made, 1, 0);
    struct grid_findings trained = {0}, inferred = {0};
    grid_diagnose(&a, &rows, 0, 10 * UNIT_GIB + UNIT_GIB / 2, false, &trained);
    grid_diagnose(&a, &rows, 0, 10 * UNIT_GIB + UNIT_GIB / 2, true, &inferred);
    assert_int_equal(trained.count, 2);
    assert_int_equal(inferred.count, 1);
    assert_string_equal(inferred.items[0].id, "memory-full");
}

static void repeats_are_pooled(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_row row = {.setting = {.batch = 32}};
    struct grid_trial slow = trial_of(&a, 32, 120, 0.01, UNIT_GIB);
    struct grid_trial fast = trial_of(&a, 32, 80, 0.01, 2 * UNIT_GIB);
    grid_row_add(&a, &row, &slow);
    assert_true(fabs(row.samples_per_s - 32 / 0.12) < 1e-6);
    grid_row_add(&a, &row, &fast);
    assert_int_equal(row.steps, 2 * STEPS);
    assert_int_equal(row.sample_count, 2 * STEPS);
    assert_int_equal(row.peak_bytes, 2 * UNIT_GIB);
    assert_true(fabs(row.times.total_ms - 100) < 1e-6);
    assert_true(fabs(row.samples_per_s - 320) < 1e-6);
    assert_true(row.samples_per_s_ci.low < 320 && row.samples_per_s_ci.high > 320);
    double sum = 0;
    for (int i = 0; i < STEP_PART_COUNT; i++) sum += row.times.ms[i];
    assert_true(fabs(sum - row.times.total_ms) < 1e-9);
}

static void a_row_is_as_bad_as_its_worst_trial(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_row row = {.setting = {.batch = 32}};
    struct grid_trial t = trial_of(&a, 32, 100, 0, UNIT_GIB);
    t.status = LAUNCH_ALMOST;
    t.reason = STR("retried");
    grid_row_add(&a, &row, &t);
    assert_int_equal(row.status, LAUNCH_OK);
    assert_true(row.is_almost_out);
    t.status = LAUNCH_OOM;
    t.sample_count = 0;
    t.reason = STR("out");
    grid_row_add(&a, &row, &t);
    assert_int_equal(row.status, LAUNCH_OOM);
    assert_str(row.reason, "out");
    assert_int_equal(row.steps, STEPS);
}

// As the sample table of the scripts has it: throughput grows to the end.
static void the_fastest_is_recommended_when_nothing_smaller_is_as_fast(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct made made[] = {
        {1024, 287.35, 7450000000, LAUNCH_OK},
        {2048, 499.91, 14250000000, LAUNCH_OK},
        {4096, 921.01, 27850000000, LAUNCH_OK},
        {8192, 0, -1, LAUNCH_OOM},
    };
    struct grid_rows rows = rows_of(&a, made, 4, 0.005);
    struct grid_best best = grid_pick(&a, &rows, 80 * UNIT_GIB);
    assert_int_equal(best.throughput, 2);
    assert_int_equal(best.recommended, 2);
    assert_int_equal(best.efficiency, 0); // 1024: 478 samples/s/GB
    assert_true(best.is_safe && best.is_certain);
    assert_int_equal(rows.items[3].status, LAUNCH_OOM);
}

static void the_knee_is_recommended(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct made made[] = {
        {8, 20, UNIT_GIB, LAUNCH_OK},
        {16, 25, 2 * UNIT_GIB, LAUNCH_OK},
        {32, 49.8, 4 * UNIT_GIB, LAUNCH_OK},
        {64, 99.4, 8 * UNIT_GIB, LAUNCH_OK},
    };
    struct grid_rows rows = rows_of(&a, made, 4, 0.002);
    struct grid_best best = grid_pick(&a, &rows, 24 * UNIT_GIB);
    assert_int_equal(best.throughput, 3);
    assert_int_equal(best.recommended, 1);
    assert_true(best.is_certain);
}

static void more_than_85_percent_is_not_recommended(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct made made[] = {
        {8, 20, 4 * UNIT_GIB, LAUNCH_OK},
        {16, 30, 8 * UNIT_GIB, LAUNCH_OK},
        {32, 40, 9 * UNIT_GIB, LAUNCH_OK},
    };
    struct grid_rows rows = rows_of(&a, made, 3, 0.002);
    struct grid_best best = grid_pick(&a, &rows, 10 * UNIT_GIB);
    assert_int_equal(best.throughput, 2);
    assert_int_equal(best.recommended, 1);
    assert_true(best.is_safe);
    best = grid_pick(&a, &rows, 4 * UNIT_GIB);
    assert_int_equal(best.recommended, 0);
    assert_false(best.is_safe);
    rows.items[1].is_almost_out = true;
    best = grid_pick(&a, &rows, 10 * UNIT_GIB);
    assert_int_equal(best.recommended, 0);
}

static void nothing_ran(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct made made[] = {{1, 0, -1, LAUNCH_OOM}};
    struct grid_rows rows = rows_of(&a, made, 1, 0);
    struct grid_best best = grid_pick(&a, &rows, UNIT_GIB);
    assert_int_equal(best.throughput, -1);
    assert_int_equal(best.efficiency, -1);
    assert_int_equal(best.recommended, -1);
}

static void unknown_memory_recommends_by_time_alone(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct made made[] = {{8, 20, -1, LAUNCH_OK}, {16, 21, -1, LAUNCH_OK}};
    struct grid_rows rows = rows_of(&a, made, 2, 0.002);
    struct grid_best best = grid_pick(&a, &rows, 8 * UNIT_GIB);
    assert_int_equal(best.recommended, 1);
    assert_int_equal(best.efficiency, -1);
}

static void a_spill_is_no_candidate(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct made made[] = {
        {8, 20, 4 * UNIT_GIB, LAUNCH_OK},
        {16, 38, 8 * UNIT_GIB, LAUNCH_OK},
        {20, 700, 8 * UNIT_GIB, LAUNCH_OK},
    };
    struct grid_rows rows = rows_of(&a, made, 3, 0.002);
    grid_mark_spills(&a, &rows, 8 * UNIT_GIB);
    assert_int_equal(rows.items[0].status, LAUNCH_OK);
    assert_int_equal(rows.items[1].status, LAUNCH_OK);
    assert_int_equal(rows.items[2].status, LAUNCH_SPILLS);
}

static bool has_finding(const struct grid_findings *f, const char *id) {
    for (ptrdiff_t i = 0; i < f->count; i++) {
        if (strcmp(f->items[i].id, id) == 0) return true;
    }
    return false;
}

// One row with these figures; which rules hold.
static void each_rule_by_its_own_figure(void **state) {
    (void)state;
    static const struct {
        double io, forward, backward, optimizer, other, device;
        int64_t gib;
        const char *holds, *does_not;
    } cases[] = {
        {40, 30, 25, 3, 2, 0.9, 7, "io-bound", "io-slow"},
        {29, 30, 35, 4, 2, 0.9, 7, NULL, "io-bound"},
        {31, 400, 500, 50, 19, 0.9, 7, "io-slow", "io-bound"},
        {2, 40, 55, 2, 1, 0.9, 7, "compute-bound", "io-bound"},
        {20, 25, 35, 15, 5, 0.9, 7, NULL, "compute-bound"},
        {2, 40, 55, 2, 1, 0.69, 7, "low-utilisation", "io-bound"},
        {2, 40, 55, 2, 1, (double)NAN, 7, NULL, "low-utilisation"},
        {2, 40, 55, 2, 1, 0.9, 5, "low-memory", "high-memory"},
        {2, 40, 55, 2, 1, 0.9, 7, NULL, "low-memory"},
        {2, 40, 55, 2, 1, 0.9, 9, "high-memory", "memory-full"},
        {2, 40, 55, 2, 1, 0.9, 10, "memory-full", "high-memory"},
        {2, 30, 40, 27, 1, 0.9, 7, "optimizer-heavy", "other-heavy"},
        {2, 30, 40, 2, 26, 0.9, 7, "other-heavy", "optimizer-heavy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct grid_trial t = trial_of(&a, 32, 100, 0.001, cases[i].gib * UNIT_GIB);
        double times[] = {cases[i].io,       (double)NAN,        cases[i].forward,
                          cases[i].backward, cases[i].optimizer, cases[i].other};
        t.times.total_ms = 0;
        for (int j = 0; j < STEP_PART_COUNT; j++) {
            t.times.ms[j] = times[j];
            t.times.total_ms += isnan(times[j]) ? 0 : times[j];
        }
        t.device_share = cases[i].device;
        struct grid_row row = {.setting = {.batch = 32}};
        grid_row_add(&a, &row, &t);
        struct grid_rows rows = {&row, 1};
        struct grid_findings found = {0};
        grid_diagnose(&a, &rows, 0, 10 * UNIT_GIB + UNIT_GIB / 2, false, &found);
        if (cases[i].holds && !has_finding(&found, cases[i].holds)) fail_msg("case %zu", i);
        if (has_finding(&found, cases[i].does_not)) fail_msg("case %zu: %s", i, cases[i].does_not);
    }
}

static void the_batch_cannot_grow_where_a_larger_one_was_tried(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct made made[] = {{8, 20, UNIT_GIB, LAUNCH_OK},
                                       {16, 41, 2 * UNIT_GIB, LAUNCH_OK}};
    struct grid_rows rows = rows_of(&a, made, 2, 0.002);
    struct grid_findings small = {0}, large = {0};
    grid_diagnose(&a, &rows, 0, 10 * UNIT_GIB, false, &small);
    grid_diagnose(&a, &rows, 1, 10 * UNIT_GIB, false, &large);
    assert_false(has_finding(&small, "low-memory"));
    assert_true(has_finding(&large, "low-memory"));
}

// What was tried already is no advice.
static void amp_is_a_remedy_until_it_was_tried(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct made made[] = {{8, 20, UNIT_GIB, LAUNCH_OK}, {8, 21, UNIT_GIB, LAUNCH_OK}};
    struct grid_rows rows = rows_of(&a, made, 2, 0.002);
    struct grid_findings before = {0}, after = {0};
    grid_diagnose(&a, &rows, 0, -1, false, &before);
    rows.items[1].setting.precision = PLAN_AMP_BF16;
    grid_diagnose(&a, &rows, 0, -1, false, &after);
    assert_string_equal(before.items[0].id, "compute-bound");
    assert_string_equal(after.items[0].id, "compute-bound");
    assert_non_null(strstr(before.items[0].remedy, "mixed precision"));
    assert_null(strstr(after.items[0].remedy, "mixed precision"));
}

static void noise_is_said(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct made made[] = {{8, 20, UNIT_GIB, LAUNCH_OK}};
    struct grid_rows quiet = rows_of(&a, made, 1, 0.01), loud = rows_of(&a, made, 1, 0.9);
    struct grid_findings found = {0}, none = {0};
    grid_diagnose(&a, &quiet, 0, -1, false, &none);
    grid_diagnose(&a, &loud, 0, -1, false, &found);
    assert_false(has_finding(&none, "noisy"));
    assert_true(has_finding(&found, "noisy"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latency_of_a_batch),
        cmocka_unit_test(wrong_outputs_are_never_the_best),
        cmocka_unit_test(of_inference_only_some_rules_speak),
        cmocka_unit_test(repeats_are_pooled),
        cmocka_unit_test(a_row_is_as_bad_as_its_worst_trial),
        cmocka_unit_test(the_fastest_is_recommended_when_nothing_smaller_is_as_fast),
        cmocka_unit_test(the_knee_is_recommended),
        cmocka_unit_test(more_than_85_percent_is_not_recommended),
        cmocka_unit_test(nothing_ran),
        cmocka_unit_test(unknown_memory_recommends_by_time_alone),
        cmocka_unit_test(a_spill_is_no_candidate),
        cmocka_unit_test(each_rule_by_its_own_figure),
        cmocka_unit_test(the_batch_cannot_grow_where_a_larger_one_was_tried),
        cmocka_unit_test(amp_is_a_remedy_until_it_was_tried),
        cmocka_unit_test(noise_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
