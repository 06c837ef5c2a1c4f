// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "predict/search/search.h"

struct world {
    int64_t works[3]; // the values that work
    int64_t bound;
    int tested;
};

static int works(void *context, int64_t value, struct fail *why) {
    struct world *w = context;
    w->tested++;
    if (value == 13) return fail_set(why, FAIL_BUG, "13");
    return value == w->works[0] || value == w->works[1] || value == w->works[2];
}

static bool within(void *context, int64_t value) {
    return value <= ((const struct world *)context)->bound;
}

static const int64_t falling[] = {64, 32, 16, 13, 8, 4};

static void the_largest_wins_though_smaller_ones_fail(void **state) {
    (void)state;
    int64_t value = 0;
    struct world w = {.works = {64, 4}};
    assert_int_equal(search_largest(falling, 6, NULL, works, &w, &value, NULL), 1);
    assert_int_equal(value, 64);
}

static void the_bound_skips_the_head_untested(void **state) {
    (void)state;
    int64_t value = 0;
    struct world w = {.works = {64, 8, 4}, .bound = 8};
    assert_int_equal(search_largest(falling, 6, within, works, &w, &value, NULL), 1);
    assert_int_equal(value, 8);
    assert_int_equal(w.tested, 1);
}

static void nothing_works_and_errors_end_the_walk(void **state) {
    (void)state;
    int64_t value = 7;
    struct fail why = {0};
    struct world w = {.bound = 8};
    assert_int_equal(search_largest(falling, 6, within, works, &w, &value, &why), 0);
    assert_int_equal(search_largest(falling, 6, NULL, works, &w, &value, &why), FAIL_BUG);
    assert_int_equal(value, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_wins_though_smaller_ones_fail),
        cmocka_unit_test(the_bound_skips_the_head_untested),
        cmocka_unit_test(nothing_works_and_errors_end_the_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
