// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "stats/stats.h"

#include <math.h>

static void random_numbers_are_splitmix64(void **state) {
    (void)state;
    // The sequence that implementations of SplitMix64 are usually checked with.
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317), UINT64_C(3203168211198807973), UINT64_C(9817491932198370423),
        UINT64_C(4593380528125082431), UINT64_C(16408922859458223821)};
    struct stats_random r = {1234567};
    for (int i = 0; i < 5; i++) assert_true(stats_next(&r) == expected[i]);
}

static void uniform_and_normal_have_their_moments(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    struct stats_random r = {1};
    double sum = 0, normal_sum = 0, squares = 0, within = 0;
    for (int i = 0; i < COUNT; i++) {
        double u = stats_uniform(&r), n = stats_normal(&r);
        assert_true(u >= 0 && u < 1);
        sum += u;
        normal_sum += n;
        squares += n * n;
        within += fabs(n) < 1.96;
    }
    assert_true(fabs(sum / COUNT - 0.5) < 0.005);
    assert_true(fabs(normal_sum / COUNT) < 0.015);
    assert_true(fabs(squares / COUNT - 1) < 0.02);
    assert_true(fabs(within / COUNT - 0.95) < 0.005);
}

static void quantiles_are_of_type_7(void **state) {
    (void)state;
    // R: quantile(c(7, 1, 3, 2), c(0, .1, .25, .5, .9, 1)) is 1 1.3 1.75 2.5 5.8 7
    static const double values[] = {7, 1, 3, 2};
    static const double q[] = {0, .1, .25, .5, .9, 1}, expected[] = {1, 1.3, 1.75, 2.5, 5.8, 7};
    for (int i = 0; i < 6; i++) {
        assert_true(fabs(stats_quantile(values, 4, q[i]) - expected[i]) < 1e-12);
    }
    assert_true(values[0] == 7 && values[3] == 2);
    assert_true(stats_median(values, 3) == 3);
    assert_true(stats_mean(values, 4) == 3.25);
}

static void what_was_not_measured_is_left_out(void **state) {
    (void)state;
    static const double values[] = {NAN, 4, NAN, 2};
    assert_true(stats_mean(values, 4) == 3);
    assert_true(stats_median(values, 4) == 3);
    assert_true(isnan(stats_mean(values, 1)) && isnan(stats_median(values, 0)));
    assert_true(isnan(stats_mean_interval(values, 3, 0.95, 1).low)); // one value has no interval
    struct stats_interval i = stats_median_interval(values, 4, 0.95, 1);
    assert_true(i.low == 2 && i.high == 4);
    static const double endless[] = {1, INFINITY, INFINITY};
    assert_true(isinf(stats_median(endless, 3)));
}

typedef struct stats_interval interval_of(const double *, ptrdiff_t, double, uint64_t);

static double coverage(interval_of *interval, double level, double *ret_width) {
    enum { RUNS = 400, COUNT = 30 };
    struct stats_random r = {7};
    int holds = 0;
    *ret_width = 0;
    for (int run = 0; run < RUNS; run++) {
        double values[COUNT];
        for (int i = 0; i < COUNT; i++) values[i] = 5 + 2 * stats_normal(&r);
        struct stats_interval found = interval(values, COUNT, level, (uint64_t)run);
        holds += found.low <= 5 && 5 <= found.high;
        *ret_width += (found.high - found.low) / RUNS;
    }
    return (double)holds / RUNS;
}

static void intervals_hold_as_often_as_they_say(void **state) {
    (void)state;
    double width;
    // The percentile interval is a little short for 30 values: about 94 of 100.
    double held = coverage(stats_mean_interval, 0.95, &width);
    assert_true(held > 0.91 && held < 0.98);
    assert_true(fabs(width - 2 * 1.96 * 2 / sqrt(30)) < 0.12);
    held = coverage(stats_mean_interval, 0.5, &width);
    assert_true(held > 0.42 && held < 0.57);
    held = coverage(stats_median_interval, 0.95, &width);
    assert_true(held > 0.91 && held < 0.99);
    assert_true(fabs(width - 2 * 1.96 * 2 * 1.2533 / sqrt(30)) < 0.25);
}

static void the_same_seed_gives_the_same_interval(void **state) {
    (void)state;
    static const double values[] = {1.5, 2.5, 2, 9, 4, 3};
    struct stats_interval a = stats_mean_interval(values, 6, 0.95, 3);
    struct stats_interval b = stats_mean_interval(values, 6, 0.95, 3);
    struct stats_interval c = stats_mean_interval(values, 6, 0.95, 4);
    assert_true(a.low == b.low && a.high == b.high);
    assert_true(a.low != c.low || a.high != c.high);
}

enum { SIZES = 7, STEPS_MOST = 200 };

// Batches 8 … 512 whose step takes 1 + batch: throughput rises as batch / (1 + batch) does. Within
// 2 % of the best are 64 and more.
static struct stats_knee knee_of(uint64_t seed, double noise, int steps) {
    static double seconds[SIZES][STEPS_MOST];
    struct stats_setting settings[SIZES];
    struct stats_random r = {seed};
    for (int i = 0; i < SIZES; i++) {
        int64_t size = INT64_C(8) << i;
        for (int j = 0; j < steps; j++) {
            seconds[i][j] = (1 + 1 / (double)size) * exp(noise * stats_normal(&r));
        }
        settings[i] = (struct stats_setting){size, seconds[i], steps};
    }
    return stats_find_knee(settings, SIZES, 0.02, 0.95, seed);
}

static void the_knee_is_where_the_curve_has_it(void **state) {
    (void)state;
    int right = 0, certain = 0, certain_and_wrong = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct stats_knee k = knee_of(seed, 0.01, 100);
        assert_true(k.best >= 3);
        right += k.knee == 3;
        certain += k.is_certain;
        certain_and_wrong += k.is_certain && k.knee != 3;
        if (k.knee != k.best) assert_true(k.ratio.low >= 0.98 && k.ratio.high < 1.01);
    }
    assert_true(right >= 57);
    assert_true(certain >= 54);
    assert_true(certain_and_wrong <= 2);
}

static void noise_takes_the_certainty(void **state) {
    (void)state;
    int certain = 0;
    for (uint64_t seed = 0; seed < 60; seed++) certain += knee_of(seed, 0.3, 10).is_certain;
    assert_true(certain <= 6);
}

static void a_flat_curve_has_its_knee_at_the_smallest(void **state) {
    (void)state;
    static const double same[] = {2, 2, 2, 2}, faster[] = {1.99, 1.99, 1.99};
    const struct stats_setting settings[] = {{64, faster, 3}, {8, same, 4}, {16, same, 4}};
    struct stats_knee k = stats_find_knee(settings, 3, 0.02, 0.95, 1);
    assert_int_equal(k.best, 0);
    assert_int_equal(k.knee, 1);
    assert_true(k.is_certain);
    assert_true(fabs(k.ratio.low - 1.99 / 2) < 1e-9);
}

static void one_step_shows_nothing(void **state) {
    (void)state;
    static const double seconds[] = {1, 1};
    const struct stats_setting settings[] = {{8, seconds, 1}, {16, seconds, 2}, {32, NULL, 0}};
    struct stats_knee k = stats_find_knee(settings, 3, 0.02, 0.95, 1);
    assert_int_equal(k.best, 0); // as fast, and smaller
    assert_false(k.is_certain);
    k = stats_find_knee(settings + 2, 1, 0.02, 0.95, 1);
    assert_int_equal(k.best, -1);
    k = stats_find_knee(settings + 1, 1, 0.02, 0.95, 1);
    assert_int_equal(k.knee, 0);
    assert_true(k.is_certain); // the only one there is
}

static struct stats_slope slope_of(uint64_t seed, ptrdiff_t count, double slope, double noise) {
    struct stats_random r = {seed};
    double x[2000], y[2000];
    for (ptrdiff_t i = 0; i < count; i++) {
        x[i] = (double)i;
        y[i] = 100 + slope * (double)i + noise * stats_normal(&r);
    }
    return stats_find_slope(x, y, count, 0.95);
}

static void a_slope_is_found_with_its_interval(void **state) {
    (void)state;
    struct stats_slope s = slope_of(1, 50, 2, 0);
    assert_true(fabs(s.slope - 2) < 1e-9 && fabs(s.interval.low - 2) < 1e-9);
    // At 95 % the interval holds the truth, and excludes 0 where there is nothing, as often as it
    // says.
    int holds = 0, alarms = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        s = slope_of(seed, 60, 0.1, 1);
        holds += s.interval.low <= 0.1 && s.interval.high >= 0.1;
        s = slope_of(seed, 60, 0, 1);
        alarms += s.interval.low > 0 || s.interval.high < 0;
    }
    assert_true(holds >= 368 && holds <= 396); // 380 expected, deviation 4.4
    assert_true(alarms <= 32);                 // 20 expected
    s = slope_of(3, 2000, 0.01, 1);            // thinned
    assert_true(s.interval.low <= 0.01 && s.interval.high >= 0.01 && s.interval.low > 0.009);
}

static void outliers_do_not_move_a_slope(void **state) {
    (void)state;
    double x[40], y[40];
    for (int i = 0; i < 40; i++) {
        x[i] = i;
        y[i] = i % 8 == 7 ? 1e6 : 3 * i;
    }
    y[20] = (double)NAN;
    assert_true(fabs(stats_find_slope(x, y, 40, 0.95).slope - 3) < 1e-9);
    assert_true(isnan(stats_find_slope(x, y, 1, 0.95).slope));
    assert_true(isinf(stats_find_slope(x, y, 3, 0.95).interval.high));
    const double same[] = {1, 1, 1};
    assert_true(isnan(stats_find_slope(same, y, 3, 0.95).slope));
}

static void counters_that_go_back_were_begun_anew(void **state) {
    (void)state;
    assert_true(stats_counted(10, 12.5, 1) == 2.5); // they move in lumps: no bound here
    assert_true(stats_counted(10, 0.25, 1) == 0.25);
    assert_true(stats_counted(1000, 500, 1) == 1);
    assert_true(stats_counted(1000, 500, (double)INFINITY) == 500);
    assert_true(isnan(stats_counted((double)NAN, 5, 1)) && isnan(stats_counted(5, (double)NAN, 1)));
    assert_true(stats_or_0((double)NAN) == 0 && stats_or_0(-2) == -2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_numbers_are_splitmix64),
        cmocka_unit_test(uniform_and_normal_have_their_moments),
        cmocka_unit_test(quantiles_are_of_type_7),
        cmocka_unit_test(what_was_not_measured_is_left_out),
        cmocka_unit_test(intervals_hold_as_often_as_they_say),
        cmocka_unit_test(the_same_seed_gives_the_same_interval),
        cmocka_unit_test(the_knee_is_where_the_curve_has_it),
        cmocka_unit_test(noise_takes_the_certainty),
        cmocka_unit_test(a_flat_curve_has_its_knee_at_the_smallest),
        cmocka_unit_test(one_step_shows_nothing),
        cmocka_unit_test(a_slope_is_found_with_its_interval),
        cmocka_unit_test(counters_that_go_back_were_begun_anew),
        cmocka_unit_test(outliers_do_not_move_a_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
