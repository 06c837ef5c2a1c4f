// SPDX-License-Identifier: Apache-2.0
// The time that a view tells, on a machine so busy that another process has the CPU whenever the
// wall clock is read: it is the time of the reading all the same.
#include "observe_open.h"

#include "base/os.h"

#include <math.h>
#include <time.h>

enum { PAUSE_US = 20000, EACH = 3 };

static int wall_reads;
static int64_t set_by_s; // what somebody set the wall clock by

// The linker puts it in the place of clock_gettime.
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __real_clock_gettime(clockid_t id, struct timespec *now);

int __wrap_clock_gettime(clockid_t id, struct timespec *now) {
    if (id == CLOCK_REALTIME && ++wall_reads % EACH) usleep(PAUSE_US);
    int rc = __real_clock_gettime(id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += set_by_s;
    return rc;
}

static int64_t of(clockid_t id) {
    struct timespec t;
    __real_clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Of several tries the one that was interrupted least.
static int64_t true_ahead_ns(void) {
    int64_t ahead_ns = 0, least_ns = INT64_MAX;
    for (int i = 0; i < 100; i++) {
        int64_t before_ns = of(CLOCK_MONOTONIC), wall_ns = of(CLOCK_REALTIME);
        int64_t took_ns = of(CLOCK_MONOTONIC) - before_ns;
        if (took_ns < least_ns) ahead_ns = wall_ns - before_ns;
        if (took_ns < least_ns) least_ns = took_ns;
    }
    return ahead_ns;
}

static void both_clocks_are_of_one_moment(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_true(llabs(os_wall_ahead_ns() - true_ahead_ns()) < 3000000);
    }
}

static void a_view_has_the_time_of_its_reading(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = make_machine(&a, "{\"machine\": 1, \"devices\": [{\"name\": \"A\"}]}");
    const struct observe_options options = {.machine = folder, .interval_ms = 10};
    struct watch *w = open_watch(&a, &options);
    int64_t last_ms = 0;
    for (int i = 0; i < 20; i++) {
        const struct observe_view *v = watch_for(w, 10);
        int64_t wanted_ms = (v->at_ns + true_ahead_ns()) / 1000000;
        assert_true(llabs(v->at_ms - wanted_ms) <= 5);
        assert_true(v->at_ms >= last_ms);
        last_ms = v->at_ms;
    }
    observe_close(w);
    assert_int_equal(remove_all(folder), 0);
}

// A finding is as old as it was, whatever the clock was set to meanwhile.
static void a_clock_that_is_set_makes_nothing_older(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = make_machine(
        &a,
        "{\"machine\": 1, \"devices\": [{\"name\": \"A\", \"calls\": {\"*\": {\"code\": 15}}}]}");
    const struct observe_options options = {.machine = folder, .interval_ms = 10};
    struct watch *w = open_watch(&a, &options);
    const struct observe_view *v = watch_for(w, 10);
    for (int i = 0; i < 1000 && v->findings.count == 0; i++) v = watch_for(w, 10);
    assert_true(v->findings.count > 0);
    const int64_t began_ms = v->at_ms;
    for (int64_t set = -7200; set <= 7200; set += 14400) {
        set_by_s = set;
        int turns = 0;
        while (turns++ < 1200 && llabs(v->at_ms - began_ms - set * 1000) > 60000)
            v = watch_for(w, 10);
        // The next verdict, some seconds later, tells since when it holds.
        int64_t since_ms = 0;
        for (turns = 0; turns < 1200; turns++) {
            v = watch_for(w, 10);
            since_ms = v->findings.count > 0 ? v->findings.items[0].since_ms : 0;
            if (since_ms <= v->at_ms && v->at_ms - since_ms < 60000) break;
        }
        assert_true(since_ms <= v->at_ms && v->at_ms - since_ms < 60000);
    }
    set_by_s = 0;
    observe_close(w);
    assert_int_equal(remove_all(folder), 0);
}

// The summary of a night: what is over, and what was lost, in spite of a clock that jumps.
static void a_night_is_as_long_as_it_was(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = make_machine(
        &a, "{\"machine\": 1, \"devices\": [{\"name\": \"A\", \"gauges\": {\"temperature_c\": 90, "
            "\"gpu_percent\": 0}, "
            "\"samples\": [{\"at_ms\": 240000, \"gauges\": {\"temperature_c\": 40}}]}]}");
    // Two minutes a second: hot for four, and over before the rules have their second turn.
    const struct observe_options options = {.machine = folder,
                                            .interval_ms = 10,
                                            .speed = 120,
                                            .minutes = 60,
                                            .no_runs = true,
                                            .alerts = "temperature=83"};
    struct watch *w = open_watch(&a, &options);
    const struct observe_view *v = watch_for(w, 10);
    for (int i = 0; i < 2000 && v->resolved_count == 0; i++) v = watch_for(w, 10);
    assert_int_equal(v->resolved_count, 1);
    const int64_t lasted_ms = v->resolved[0].until_ms - v->resolved[0].since_ms;
    const int64_t ago_ms = v->at_ms - v->resolved[0].until_ms;
    assert_true(lasted_ms > 0 && ago_ms >= 0);
    for (int64_t set = -7200; set <= 7200; set += 14400) {
        const int64_t began_ms = v->at_ms;
        const int64_t by_ms = (set - set_by_s) * 1000;
        set_by_s = set;
        int turns = 0;
        while (turns++ < 1200 && llabs(v->at_ms - began_ms - by_ms) > 60000) v = watch_for(w, 10);
        assert_true(llabs(v->at_ms - began_ms - by_ms) <= 60000);
        assert_int_equal(v->resolved_count, 1);
        assert_int_equal(v->resolved[0].until_ms - v->resolved[0].since_ms, lasted_ms);
        assert_true(v->at_ms >= v->resolved[0].until_ms &&
                    v->at_ms - v->resolved[0].until_ms < ago_ms + 60000);
    }
    // Minutes are of what was watched: no hours came in, and none went.
    struct observe_day day = observe_day_of(&v->cards[0]);
    double watched_s = (double)(v->at_ns - v->started_ns) / 1e9; // of the recording's time
    assert_true(day.seconds > 60 && day.seconds <= watched_s);
    assert_true(fabs(day.idle_seconds - day.seconds) < 1);
    set_by_s = 0;
    observe_close(w);
    assert_int_equal(remove_all(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_clocks_are_of_one_moment),
        cmocka_unit_test(a_view_has_the_time_of_its_reading),
        cmocka_unit_test(a_clock_that_is_set_makes_nothing_older),
        cmocka_unit_test(a_night_is_as_long_as_it_was),
    };
    return cmocka_run_group_tests_name("watch_clock", tests, NULL, NULL);
}
