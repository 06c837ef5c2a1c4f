// SPDX-License-Identifier: Apache-2.0
// Corrections from made histories: never less safe on few data.
#include "unit.h"

#include "stats/stats.h"

#include <math.h>

static struct stats_correction of(const double *ratios, ptrdiff_t count) {
    return stats_find_correction(ratios, count);
}

static void assert_near(double got, double wanted) {
    if (!(fabs(got - wanted) < 1e-9)) fail_msg("%.9g is not %.9g", got, wanted);
}

static void two_runs_change_nothing(void **state) {
    (void)state;
    const double ratios[] = {1.3, 1.3, (double)NAN, 0, -1, (double)INFINITY};
    struct stats_correction c = of(ratios, 6);
    assert_int_equal(c.count, 0);
    assert_near(c.factor, 1);
    assert_near(c.fit_factor, 1);
    assert_near(c.upper_factor, 1);
}

static void three_runs_raise(void **state) {
    (void)state;
    const double ratios[] = {1.02, 1.05, 1.03};
    struct stats_correction c = of(ratios, 3);
    assert_int_equal(c.count, 3);
    assert_near(c.factor, 1.03);
    assert_near(c.fit_factor, 1.03);
    assert_true(c.upper_factor >= 1.05);
}

static void few_runs_do_not_lower(void **state) {
    (void)state;
    const double ratios[] = {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9};
    for (ptrdiff_t n = 3; n < 8; n++) {
        assert_near(of(ratios, n).factor, 0.9); // shown
        assert_near(of(ratios, n).fit_factor, 1);
    }
    assert_near(of(ratios, 8).fit_factor, 0.909);
}

static void lowering_stays_above_every_run(void **state) {
    (void)state;
    const double ratios[] = {0.80, 0.82, 0.81, 0.83, 0.79, 0.80, 0.97, 0.81, 0.80};
    struct stats_correction c = of(ratios, 9);
    assert_near(c.factor, 0.81);
    assert_in_range((int)(1000 * c.fit_factor), 970, 1000);
    const double wild[] = {0.5, 1.2, 0.7, 0.9, 0.6, 0.9, 0.8, 0.9};
    assert_near(of(wild, 8).fit_factor, 1);
    const double other[] = {0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3};
    assert_near(of(other, 8).fit_factor, 0.7);
}

static void one_outlier_moves_the_band_and_not_the_point(void **state) {
    (void)state;
    const double ratios[] = {1.01, 1.02, 1.02, 1.02, 1.6};
    struct stats_correction c = of(ratios, 5);
    assert_near(c.factor, 1.02);
    assert_true(c.upper_factor >= 1.6);
}

// Where the next run lies, in made histories of a known spread: the band holds it as often as it
// says, and what decides is never lower than the uncorrected figure for good reason only.
static void the_next_run_is_in_the_band(void **state) {
    (void)state;
    struct stats_random r = {20261122};
    for (ptrdiff_t n = 3; n <= 24; n *= 2) {
        int held = 0;
        for (int i = 0; i < 4000; i++) {
            double ratios[24];
            for (ptrdiff_t k = 0; k < n; k++) ratios[k] = exp(-0.05 + 0.03 * stats_normal(&r));
            held += exp(-0.05 + 0.03 * stats_normal(&r)) <= of(ratios, n).upper_factor;
        }
        if (held < 4000 * 96 / 100) fail_msg("%td runs: %d of 4000", n, held);
    }
}

static void deciding_low_is_rarely_too_low(void **state) {
    (void)state;
    struct stats_random r = {7};
    int low = 0, all = 0;
    for (int i = 0; i < 4000; i++) {
        double ratios[8];
        for (int k = 0; k < 8; k++) ratios[k] = exp(-0.08 + 0.03 * stats_normal(&r));
        struct stats_correction c = of(ratios, 8);
        all += c.fit_factor < 1;
        low += c.fit_factor < 1 && exp(-0.08 + 0.03 * stats_normal(&r)) > c.fit_factor;
    }
    assert_in_range(all, 100, 4000);
    assert_in_range(low, 0, all * 5 / 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_runs_change_nothing),
        cmocka_unit_test(three_runs_raise),
        cmocka_unit_test(few_runs_do_not_lower),
        cmocka_unit_test(lowering_stays_above_every_run),
        cmocka_unit_test(one_outlier_moves_the_band_and_not_the_point),
        cmocka_unit_test(the_next_run_is_in_the_band),
        cmocka_unit_test(deciding_low_is_rarely_too_low),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
