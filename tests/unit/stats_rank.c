// SPDX-License-Identifier: Apache-2.0
// The rank test against counting every way to deal the values, and how often a comparison of pairs
// is right in 1,000 made-up experiments (bench/pairs.h).
#include "unit.h"

#include "../../bench/pairs.h"

#include <stdlib.h>

enum { EXPERIMENTS = 1000, SEED = 20261122 };

static void assert_near(double got, double wanted, double tolerance) {
    if (!(fabs(got - wanted) <= tolerance)) fail_msg("%.9g is not %.9g", got, wanted);
}

// --- Against counting ----------------------------------------------------------------------------

static double u_of(const double *a, int n, const double *b, int m) {
    double u = 0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < m; j++) u += a[i] < b[j] ? 1 : a[i] == b[j] ? 0.5 : 0;
    }
    return u;
}

// Every choice of which of the values are b's: the share that is as far from the middle.
static double counted_p(const double *a, int n, const double *b, int m) {
    double all[16], x[16], y[16], seen = fabs(u_of(a, n, b, m) - n * m / 2.0);
    int far = 0, ways = 0;
    memcpy(all, a, (size_t)n * sizeof *a);
    memcpy(all + n, b, (size_t)m * sizeof *b);
    for (unsigned choice = 0; choice < 1u << (n + m); choice++) {
        if (__builtin_popcount(choice) != m) continue;
        int in_x = 0, in_y = 0;
        for (int i = 0; i < n + m; i++) {
            if (choice & (1u << i))
                y[in_y++] = all[i];
            else
                x[in_x++] = all[i];
        }
        ways++;
        far += fabs(u_of(x, n, y, m) - n * m / 2.0) >= seen - 1e-9;
    }
    return (double)far / ways;
}

static void p_is_that_of_counting(void **state) {
    (void)state;
    struct stats_random r = {7};
    for (int round = 0; round < 60; round++) {
        double a[8], b[8];
        int n = 1 + round % 6, m = 1 + round / 6 % 6;
        // Every other round has many ties.
        for (int i = 0; i < n; i++)
            a[i] = round % 2 ? floor(4 * stats_uniform(&r)) : stats_uniform(&r);
        for (int i = 0; i < m; i++)
            b[i] = round % 2 ? floor(4 * stats_uniform(&r)) : stats_uniform(&r);
        struct stats_rank rank = stats_find_rank(a, n, b, m);
        assert_true(rank.is_exact);
        assert_near(rank.u, u_of(a, n, b, m), 0);
        assert_near(rank.p, counted_p(a, n, b, m), 1e-12);
    }
}

static void far_apart_is_two_of_all_ways(void **state) {
    (void)state;
    const double a[] = {1, 2, 3, 4, 5}, b[] = {6, 7, 8, 9, 10};
    struct stats_rank rank = stats_find_rank(a, 5, b, 5);
    assert_near(rank.p, 2.0 / 252, 1e-15);
}

// The two sides of the border agree.
static void the_approximation_meets_the_exact(void **state) {
    (void)state;
    double a[20], b[21];
    for (int shift = 4; shift < 10; shift++) {
        for (int i = 0; i < 20; i++) {
            a[i] = i;
            b[i] = i + shift + 0.5;
        }
        struct stats_rank exact = stats_find_rank(a, 20, b, 20);
        double off = fabs(exact.u - 200) - 0.5;
        assert_true(exact.is_exact);
        assert_near(exact.p, erfc(off / sqrt(2 * 20 * 20 * 41 / 12.0)), 0.0015);
        b[20] = 200;
        assert_false(stats_find_rank(a, 20, b, 21).is_exact);
    }
}

static void ties_count_in_the_approximation(void **state) {
    (void)state;
    double a[60], b[60];
    for (int i = 0; i < 60; i++) {
        a[i] = i % 3;
        b[i] = i % 3 + (i % 5 == 0);
    }
    // By hand: values 0, 1, 2, 3 occur 36, 40, 40, 4 times; u counted as it is defined.
    double u = u_of(a, 60, b, 60), ties = 0;
    const double groups[] = {36, 40, 40, 4};
    for (int i = 0; i < 4; i++) ties += pow(groups[i], 3) - groups[i];
    double variance = 60 * 60 / 12.0 * (121 - ties / (120 * 119));
    assert_near(stats_find_rank(a, 60, b, 60).p, erfc((fabs(u - 1800) - 0.5) / sqrt(2 * variance)),
                1e-9);
}

static void nothing_to_compare_is_no_difference(void **state) {
    (void)state;
    const double a[] = {1, (double)NAN}, none[] = {(double)NAN};
    assert_near(stats_find_rank(a, 2, none, 1).p, 1, 0);
    const double same[50] = {0};
    assert_near(stats_find_rank(same, 5, same, 5).p, 1, 0);
    assert_near(stats_find_rank(same, 50, same, 50).p, 1, 0);
    struct stats_ratio one = stats_find_ratio(a, a, 2, 0.95, 1);
    assert_int_equal(one.pairs, 1);
    assert_true(isnan(one.interval.low));
    assert_int_equal(one.verdict, STATS_SAME);
    assert_true(isnan(stats_find_ratio(none, none, 1, 0.95, 1).ratio));
}

// --- How often it is right -----------------------------------------------------------------------

static void what_is_alike_is_seldom_told_apart(void **state) {
    (void)state;
    const struct pairs_scene scenes[] = {
        {"steps", 10, 0.02, 0, 0, 0},   {"drift", 10, 0.02, 0, 0.03, 0},
        {"trials", 10, 0, 0.02, 0, 0},  {"few", 4, 0.02, 0, 0, 0},
        {"many", 25, 0.02, 0.01, 0, 0},
    };
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        int found = pairs_play(&scenes[i], EXPERIMENTS, SEED).found;
        if (found > EXPERIMENTS * 5 / 100) fail_msg("%s: %d found", scenes[i].name, found);
    }
}

static void two_per_cent_are_found_with_ten_pairs(void **state) {
    (void)state;
    struct pairs_scene scene = {"steps", 10, 0.02, 0, 0, 0.02};
    struct pairs_tally tally = pairs_play(&scene, EXPERIMENTS, SEED);
    assert_in_range(tally.found, EXPERIMENTS * 90 / 100, EXPERIMENTS);
    assert_in_range(tally.held, EXPERIMENTS * 92 / 100, EXPERIMENTS);
    double a[PAIRS_MOST], b[PAIRS_MOST];
    struct stats_random r = {SEED};
    pairs_make(&scene, &r, a, b);
    assert_int_equal(stats_find_ratio(a, b, 10, 0.95, 1).verdict, STATS_B_LARGER);
    assert_int_equal(stats_find_ratio(b, a, 10, 0.95, 1).verdict, STATS_B_SMALLER);
}

static void as_many_pairs_as_it_asks_for_find_it(void **state) {
    (void)state;
    const double asked[][2] = {{0.02, 0.02}, {0.05, 0.02}, {-0.03, 0.02}};
    for (int i = 0; i < 3; i++) {
        struct pairs_scene scene = {.trial_noise = asked[i][1], .difference = asked[i][0]};
        scene.pairs = (int)stats_pairs_needed(asked[i][0], asked[i][1], 0.95, 0.9);
        assert_in_range(pairs_play(&scene, 400, SEED).found, 400 * 85 / 100, 400);
        scene.pairs /= 2; // and it doesn't ask for many more than it takes
        assert_in_range(pairs_play(&scene, 400, SEED).found, 0, 400 * 80 / 100);
    }
    assert_int_equal(stats_pairs_needed(1, 0.001, 0.95, 0.9), 4); // 2 / (8 over 4) <= 0.05
    assert_int_equal(stats_pairs_needed(0, 0.02, 0.95, 0.9), PTRDIFF_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p_is_that_of_counting),
        cmocka_unit_test(far_apart_is_two_of_all_ways),
        cmocka_unit_test(the_approximation_meets_the_exact),
        cmocka_unit_test(ties_count_in_the_approximation),
        cmocka_unit_test(nothing_to_compare_is_no_difference),
        cmocka_unit_test(what_is_alike_is_seldom_told_apart),
        cmocka_unit_test(two_per_cent_are_found_with_ten_pairs),
        cmocka_unit_test(as_many_pairs_as_it_asks_for_find_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
