// SPDX-License-Identifier: Apache-2.0
// A watch with the fake driver in LD_LIBRARY_PATH. The argument chooses the test, each in a
// process of its own: a driver that hangs stays behind with the machine that it plays.
#include "device_machines.h"

#include "measure/observe/observe.h"

#include <math.h>
#include <unistd.h>

static char folder_made[128];

static void play(struct arena *a, const char *json) {
    snprintf(folder_made, sizeof folder_made, "%s", make_machine(a, json));
    setenv("BATCHFIT_STANDIN_MACHINE", folder_made, 1);
}

static struct watch *open_watch(struct arena *a, int interval_ms) {
    const struct observe_options options = {.interval_ms = interval_ms, .no_runs = true};
    struct watch *w = NULL;
    struct fail why = {0};
    if (observe_open(a, &options, &w, &why)) fail_msg("%s", why.message);
    return w;
}

// The longest that one update took, ms.
static double watch_for(struct watch *w, int ms) {
    int64_t end_ns = os_now_ns() + (int64_t)ms * 1000000, longest_ns = 0;
    while (os_now_ns() < end_ns) {
        int64_t begin_ns = os_now_ns();
        observe_update(w);
        int64_t took_ns = os_now_ns() - begin_ns;
        if (took_ns > longest_ns) longest_ns = took_ns;
        usleep(10000);
    }
    return (double)longest_ns / 1e6;
}

// Truth: 23 % of the time too hot, 250 W.
static void the_drivers_counters_are_the_truth(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    play(&a,
         "{\"machine\": 1, \"driver_version\": \"550.54.14\", \"devices\": [{\"name\": \"A\", "
         "\"gauges\": {\"sw_thermal_ns\": 7000000000, \"hw_thermal_ns\": 0, \"power_brake_ns\": "
         "0, \"energy_mj\": 1000}, \"per_second\": {\"sw_thermal_ns\": 230000000, \"energy_mj\": "
         "250000}}]}");
    struct watch *w = open_watch(&a, 50);
    watch_for(w, 4000);
    const struct observe_view *v = observe_view(w);
    const struct observe_window *s = &v->cards[0].since;
    assert_true(v->devices->standin.len > 0);
    assert_true(s->seconds > 3.5);
    print_message("# throttled %.5f of the time, truth 0.23; %.3f W, truth 250\n",
                  s->throttled_share, s->energy_joules / s->seconds);
    assert_true(fabs(s->throttled_share - 0.23) <= 0.01 * 0.23);
    assert_true(fabs(s->energy_joules / s->seconds - 250) <= 2.5);
    observe_close(w);
}

// A GPU that hangs for ten seconds: no update waits for it, the other goes on.
static void nobody_waits_for_a_card_that_hangs(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    play(&a,
         "{\"machine\": 1, \"devices\": [{\"name\": \"A\", \"gauges\": {\"gpu_percent\": 5}, "
         "\"samples\": [{\"at_ms\": 800, \"calls\": {\"*\": {\"hang_ms\": 10000}}}]}, {\"name\": "
         "\"B\", \"gauges\": {\"gpu_percent\": 5}}]}");
    struct watch *w = open_watch(&a, 50);
    const struct observe_view *v = observe_view(w);
    double longest_ms = watch_for(w, 600);
    ptrdiff_t before = v->cards[1].history_count;
    longest_ms = fmax(longest_ms, watch_for(w, 5000));
    print_message("# the longest update took %.2f ms\n", longest_ms);
    assert_true(longest_ms <= 100);
    assert_int_equal(v->devices->cards[0].state, DEVICE_HANGS);
    assert_true(v->devices->cards[0].reason[0] != 0);
    assert_true(v->devices->cards[0].now.utilisation == 0.05); // of before
    assert_true(v->cards[1].history_count > before + 10);
    bool is_said = false;
    for (ptrdiff_t i = 0; i < v->findings.count; i++) {
        is_said |= strcmp(v->findings.items[i].id, "trend.state") == 0;
    }
    assert_true(is_said);
    observe_close(w);
}

static void a_lost_card_is_said(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    play(&a, "{\"machine\": 1, \"devices\": [{\"name\": \"A\", \"gauges\": {\"gpu_percent\": 5}, "
             "\"samples\": [{\"at_ms\": 500, \"calls\": {\"*\": {\"code\": 15}}}]}]}");
    struct watch *w = open_watch(&a, 50);
    watch_for(w, 3500);
    const struct observe_view *v = observe_view(w);
    assert_int_equal(v->devices->cards[0].state, DEVICE_LOST);
    assert_true(v->cards[0].history_count > 3 && isnan(v->devices->cards[0].now.utilisation));
    assert_true(v->findings.count > 0);
    assert_string_equal(v->findings.items[0].id, "trend.state");
    observe_close(w);
}

// Too hot for four seconds, by a limit of the user's: it has a beginning, and then it is over.
static void a_finding_begins_and_ends(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    play(&a,
         "{\"machine\": 1, \"devices\": [{\"name\": \"A\", \"gauges\": {\"temperature_c\": 90}, "
         "\"samples\": [{\"at_ms\": 4000, \"gauges\": {\"temperature_c\": 40}}]}]}");
    const struct observe_options options = {
        .interval_ms = 50, .no_runs = true, .alerts = "temperature=83"};
    struct watch *w = NULL;
    struct fail why = {0};
    if (observe_open(&a, &options, &w, &why)) fail_msg("%s", why.message);
    const struct observe_view *v = observe_view(w);
    int64_t end_ns = os_now_ns() + INT64_C(20000000000);
    while (v->findings.count == 0 && os_now_ns() < end_ns) watch_for(w, 20);
    assert_int_equal(v->findings.count, 1);
    assert_string_equal(v->findings.items[0].id, "alert.temperature");
    assert_int_equal(v->findings.items[0].severity, FINDING_PROBLEM);
    int64_t since_ms = v->findings.items[0].since_ms;
    assert_true(since_ms > 0 && since_ms <= v->at_ms);
    assert_int_equal(v->resolved_count, 0);
    while (v->resolved_count == 0 && os_now_ns() < end_ns) watch_for(w, 20);
    assert_int_equal(v->findings.count, 0);
    assert_int_equal(v->resolved_count, 1);
    assert_string_equal(v->resolved[0].id, "alert.temperature");
    assert_true(v->resolved[0].since_ms == since_ms && v->resolved[0].until_ms > since_ms);
    observe_close(w);
}

int main(int count, char **words) {
    const struct CMUnitTest shares[] = {cmocka_unit_test(the_drivers_counters_are_the_truth)};
    const struct CMUnitTest hang[] = {cmocka_unit_test(nobody_waits_for_a_card_that_hangs)};
    const struct CMUnitTest lost[] = {cmocka_unit_test(a_lost_card_is_said)};
    const struct CMUnitTest ends[] = {cmocka_unit_test(a_finding_begins_and_ends)};
    const char *which = count > 1 ? words[1] : "";
    int failed = strcmp(which, "hang") == 0   ? cmocka_run_group_tests(hang, NULL, NULL)
                 : strcmp(which, "lost") == 0 ? cmocka_run_group_tests(lost, NULL, NULL)
                 : strcmp(which, "ends") == 0 ? cmocka_run_group_tests(ends, NULL, NULL)
                                              : cmocka_run_group_tests(shares, NULL, NULL);
    ARENA_AUTO a = {0};
    drop_machine(&a, folder_made);
    return failed;
}
