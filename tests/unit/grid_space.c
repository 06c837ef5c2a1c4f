// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "job/grid/grid.h"

static void numbers_rise_and_stand_once(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_numbers n;
    struct fail why = {0};
    assert_int_equal(grid_read_numbers(&a, "--x", STR("4096,1024, 2048,1024"), 1, &n, &why), 0);
    assert_int_equal(n.count, 3);
    assert_int_equal(n.items[0], 1024);
    assert_int_equal(n.items[1], 2048);
    assert_int_equal(n.items[2], 4096);
}

static void what_is_no_number_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",   "a", "1,",  "1,,2",
                                      "-1", "0", "1.5", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ARENA_AUTO a = {0};
        struct grid_numbers n;
        struct fail why = {0};
        assert_int_equal(grid_read_numbers(&a, "--batch-sizes", str_of(bad[i]), 1, &n, &why),
                         FAIL_USAGE);
        assert_non_null(strstr(why.message, "--batch-sizes"));
    }
}

static void zero_workers_are_a_number(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_numbers n;
    assert_int_equal(grid_read_numbers(&a, "--num-workers", STR("2,0"), 0, &n, NULL), 0);
    assert_int_equal(n.items[0], 0);
}

static void switches(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_numbers n;
    struct fail why = {0};
    assert_int_equal(grid_read_switch(&a, "--amp", STR("both"), &n, NULL), 0);
    assert_int_equal(n.count, 2);
    assert_int_equal(n.items[0], 0);
    assert_int_equal(grid_read_switch(&a, "--amp", STR("on"), &n, NULL), 0);
    assert_int_equal(n.count, 1);
    assert_int_equal(n.items[0], 1);
    assert_int_equal(grid_read_switch(&a, "--amp", STR("maybe"), &n, &why), FAIL_USAGE);
    assert_int_equal(grid_read_precisions(&a, STR("amp-bf16,fp32"), &n, NULL), 0);
    assert_int_equal(n.items[0], PLAN_FP32);
    assert_int_equal(grid_read_precisions(&a, STR("fp33"), &n, &why), FAIL_USAGE);
    assert_non_null(strstr(why.hint, "fp32"));
}

static void axes(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_space g = {0};
    assert_int_equal(grid_read_axes(&a, "bucket_mb=10,25,25\nalgo=Ring,Tree", &g, NULL), 0);
    assert_int_equal(g.axis_count, 2);
    assert_int_equal(g.axes[0].count, 2);
    assert_str(g.axes[1].values[1], "Tree");
}

static void bad_axes_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *lines, *says;
    } bad[] = {
        {"=1,2", "a name consists of letters"},
        {"2x=1", "a name consists of letters"},
        {"a b=1", "a name consists of letters"},
        {"x", "has no values"},
        {"x=", "has no values"},
        {"x=1\nx=2", "given twice"},
        {"batch=1,2", "the name is reserved"},
        {"scratch=a", "the name is reserved"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ARENA_AUTO a = {0};
        struct grid_space g = {0};
        struct fail why = {0};
        assert_int_equal(grid_read_axes(&a, bad[i].lines, &g, &why), FAIL_USAGE);
        if (!strstr(why.message, bad[i].says)) fail_msg("%s: %s", bad[i].lines, why.message);
    }
}

// Every combination with every batch once; within a combination the batches rise.
static void the_grid_is_complete_and_rises(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_space g = {0};
    struct grid_setting *s;
    for (int64_t n = 1; n <= 4; n *= 2) grid_add_number(&a, &g.batches, n);
    grid_add_number(&a, &g.workers, 0);
    grid_add_number(&a, &g.workers, 4);
    grid_read_switch(&a, "--pin-memory", STR("both"), &g.pins, NULL);
    grid_read_precisions(&a, STR("fp32,amp-fp16"), &g.precisions, NULL);
    grid_read_axes(&a, "algo=Ring,Tree,Auto", &g, NULL);
    ptrdiff_t count = grid_settings(&a, &g, &s);
    assert_int_equal(count, 3 * 2 * 2 * 2 * 3);
    for (ptrdiff_t i = 0; i < count; i++) {
        if (i % 3 > 0) {
            assert_int_equal(s[i].combination, s[i - 1].combination);
            assert_true(s[i].batch > s[i - 1].batch);
        }
        assert_int_equal(s[i].combination, i / 3);
        assert_int_equal(s[i].compile, -1);
        for (ptrdiff_t j = 0; j < i; j++) {
            bool is_same = s[i].batch == s[j].batch && s[i].workers == s[j].workers &&
                           s[i].pin_memory == s[j].pin_memory && s[i].precision == s[j].precision &&
                           str_equal(s[i].axes[0], s[j].axes[0]);
            assert_false(is_same);
        }
    }
    assert_str(grid_setting_text(&a, &g, &s[0], true),
               "batch 1, workers 0, fp32, not pinned, algo Ring");
    assert_str(grid_setting_text(&a, &g, &s[count - 1], false),
               "workers 4, amp-fp16, pinned, algo Auto");
}

static void an_empty_grid_is_the_command_itself(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_space g = {0};
    struct grid_setting *s;
    assert_int_equal(grid_settings(&a, &g, &s), 1);
    assert_int_equal(s[0].batch, 0);
    assert_int_equal(s[0].workers, -1);
    assert_int_equal(s[0].precision, PLAN_PRECISION_UNKNOWN);
    assert_str(grid_setting_text(&a, &g, &s[0], true), "the command as given");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_rise_and_stand_once),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(zero_workers_are_a_number),
        cmocka_unit_test(switches),
        cmocka_unit_test(axes),
        cmocka_unit_test(bad_axes_are_refused),
        cmocka_unit_test(the_grid_is_complete_and_rises),
        cmocka_unit_test(an_empty_grid_is_the_command_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
