// SPDX-License-Identifier: Apache-2.0
// Counters as shares of a window, reading by reading: what was begun again, what is unknown for a
// while, a GPU that was away, and the ring that the readings are in.
#include "unit.h"

#include "measure/observe/observe_int.h"

#include <math.h>

enum { READINGS = 120 };
#define SECOND INT64_C(1000000000)

static struct device_gauges readings[READINGS];

// One a second; heat for 10 % of the time, the power limit for half of it, 200 W.
static void set_up(void) {
    for (int i = 0; i < READINGS; i++) {
        struct device_gauges g = device_card_unknown().now;
        g.at_ns = (i + 1) * SECOND;
        g.sw_thermal_seconds = 1000 + 0.1 * i;
        g.power_cap_seconds = 0.5 * i;
        g.energy_joules = 1e6 + 200.0 * i;
        g.power_watts = 200;
        g.utilisation = i % 2;
        g.sm_clock_mhz = i % 2 ? 1000 : 300;
        readings[i] = g;
    }
}

static struct observe_window whole(void) {
    return observe_window_of(readings, READINGS, 1000, 2000);
}

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9 * fmax(fabs(b), 1);
}

static void a_window_is_its_end(void **state) {
    (void)state;
    set_up();
    struct observe_window all = whole(), minute = observe_window_of(readings, READINGS, 60, 2000);
    assert_true(near(all.seconds, 119) && near(minute.seconds, 60));
    assert_true(near(all.throttled_share, 0.1) && near(minute.power_cap_share, 0.5));
    assert_true(near(minute.energy_joules, 12000) && !minute.energy_is_integrated);
    assert_true(near(all.clock_lost_share, 0.5)); // of the busy readings only
    assert_true(near(all.power_mean_watts, 200) && isnan(all.hw_thermal_share));
    struct observe_window none = observe_window_of(readings, 0, 60, 2000);
    assert_true(none.seconds == 0 && isnan(none.throttled_share) && isnan(none.energy_joules));
    struct observe_window one =
        observe_window_of(readings, 2, 60, (double)NAN); // a second is too short
    assert_true(near(one.seconds, 1) && isnan(one.throttled_share) && isnan(one.clock_lost_share));
}

// Means and shares of whole minutes; the newest are kept, and what was lost adds up.
static void minutes_are_means(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    set_up();
    struct minutes m = observe_minutes_new(&a, 3);
    const struct device_gauges *before = NULL;
    struct device_gauges g = readings[0];
    for (int i = 0; i < 5 * 60 + 1; i++) {
        g = readings[i % 2];
        g.at_ns = i * SECOND;
        g.sw_thermal_seconds = 0.1 * i;
        g.power_cap_seconds = 0.5 * i;
        g.energy_joules = 200.0 * i;
        g.used_bytes = i < 240 ? 10 : 20;
        static struct device_gauges last;
        observe_minutes_add(&m, before, &g, i < 240 ? -1 : 4);
        last = g;
        before = &last;
    }
    const struct observe_minute *items = observe_minutes_items(&m);
    assert_int_equal(m.count, 3); // of five
    assert_true(items[0].at_ns == 180 * SECOND && items[2].at_ns == 300 * SECOND);
    assert_true(near(items[1].utilisation, 0.5) && near(items[1].throttled, 0.1));
    assert_true(near(items[1].power_cap, 0.5) && near(items[1].energy_joules, 12000));
    assert_true(near(items[1].used_bytes, 10) && near(items[2].used_bytes, 20));
    assert_true(items[1].ours_bytes == -1 && near(items[2].ours_bytes, 4));
    assert_true(near(items[2].seconds, 60) && isnan(items[2].temperature_celsius));
    struct observe_card card = {.minutes = items, .minute_count = m.count};
    struct observe_day day = observe_day_of(&card);
    assert_true(near(day.seconds, 180) && near(day.throttled_seconds, 18));
    assert_true(near(day.idle_seconds, 90) && near(day.energy_joules, 36000));
    assert_true(isnan(observe_day_of(&(struct observe_card){0}).energy_joules));
}

static void counters_that_begin_anew(void **state) {
    (void)state;
    set_up();
    for (int i = 60; i < READINGS; i++) { // the driver was loaded again
        readings[i].sw_thermal_seconds = 0.1 * (i - 60);
        readings[i].energy_joules = 200.0 * (i - 60);
    }
    assert_true(near(whole().throttled_share, 0.1 * 118 / 119));
    assert_true(near(whole().energy_joules, 200.0 * 118));
    // What a counter shows after that cannot be more than the time that passed.
    for (int i = 60; i < READINGS; i++) readings[i].sw_thermal_seconds += 500;
    assert_true(near(whole().sw_thermal_share, (0.1 * 118 + 1) / 119));
}

// Two seconds' worth in every second reading.
static void counters_that_move_in_lumps(void **state) {
    (void)state;
    set_up();
    for (int i = 0; i < READINGS; i++) readings[i].hw_thermal_seconds = 2 * 0.6 * (i / 2);
    assert_true(fabs(whole().hw_thermal_share - 0.6) < 0.01);
}

static void what_is_unknown_for_a_while(void **state) {
    (void)state;
    set_up();
    for (int i = 30; i < 90; i++) {
        readings[i].sw_thermal_seconds = (double)NAN;
        readings[i].energy_joules = (double)NAN;
    }
    assert_true(near(whole().throttled_share, 0.1)); // of the time in which it was known
    assert_true(near(whole().power_cap_share, 0.5));
    assert_true(whole().energy_is_integrated && near(whole().energy_joules, 200.0 * 119));
    for (int i = 0; i < READINGS; i++) {
        readings[i].power_watts = readings[i].utilisation = (double)NAN;
    }
    assert_true(isnan(whole().energy_joules) && !whole().energy_is_integrated);
    assert_true(isnan(whole().power_mean_watts) && isnan(whole().utilisation_mean));
}

// Lost for a minute: its counters say what was meanwhile, its power does not.
static void a_card_that_was_away(void **state) {
    (void)state;
    set_up();
    for (int i = 60; i < READINGS; i++) {
        readings[i].at_ns += 60 * SECOND;
        readings[i].sw_thermal_seconds += 6;
        readings[i].energy_joules += 12000;
    }
    assert_true(near(whole().seconds, 179) && near(whole().throttled_share, 0.1));
    assert_true(near(whole().energy_joules, 200.0 * 179));
    for (int i = 0; i < READINGS; i++) readings[i].energy_joules = (double)NAN;
    assert_true(near(whole().energy_joules, 200.0 * 118) && whole().energy_is_integrated);
}

static void reasons_together_are_no_more_than_the_time(void **state) {
    (void)state;
    set_up();
    for (int i = 0; i < READINGS; i++) {
        readings[i].sw_thermal_seconds = readings[i].hw_thermal_seconds = 0.8 * i;
        readings[i].power_brake_seconds = 0;
    }
    assert_true(near(whole().throttled_share, 1) && near(whole().hw_thermal_share, 0.8));
    assert_true(near(whole().power_brake_share, 0));
}

static void a_ring_stays_in_one_piece(void **state) {
    (void)state;
    for (ptrdiff_t most = 2; most < 40; most += 3) {
        ARENA_AUTO a = {0};
        struct ring r = observe_ring_new(&a, most);
        assert_null(observe_ring_newest(&r));
        for (int i = 1; i < 300; i++) {
            const struct device_gauges g = {.at_ns = i};
            observe_ring_add(&r, &g);
            assert_int_equal(r.count, i < most ? i : most);
            assert_int_equal(observe_ring_newest(&r)->at_ns, i);
            for (ptrdiff_t k = 0; k < r.count; k++) {
                assert_int_equal(observe_ring_items(&r)[k].at_ns, i - r.count + 1 + k);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_its_end),
        cmocka_unit_test(minutes_are_means),
        cmocka_unit_test(counters_that_begin_anew),
        cmocka_unit_test(counters_that_move_in_lumps),
        cmocka_unit_test(what_is_unknown_for_a_while),
        cmocka_unit_test(a_card_that_was_away),
        cmocka_unit_test(reasons_together_are_no_more_than_the_time),
        cmocka_unit_test(a_ring_stays_in_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
