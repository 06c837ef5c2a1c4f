// SPDX-License-Identifier: Apache-2.0
// A watched machine as its views see it, by the recording back end: counters become shares, what is
// unknown stays so, the history keeps its length, and the document says it all.
#include "observe_open.h"

#include "base/os.h"
#include "measure/observe/observe.h"

#include <malloc.h>
#include <math.h>
#include <unistd.h>

#define COUNTERS                                                                                \
    "\"gauges\": {\"sw_thermal_ns\": 5000000000, \"hw_thermal_ns\": 0, \"power_brake_ns\": 0, " \
    "\"power_cap_ns\": 1000, \"energy_mj\": 7000000, \"gpu_percent\": 100, \"sm_clock_mhz\": "  \
    "1500, \"power_mw\": 300000}, \"facts\": {\"sm_clock_max_mhz\": 2000}"

// Truth: a quarter of the time too hot, 60 % at the power limit, 300 W.
static void shares_are_the_counters_truth(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = make_machine(
        &a, "{\"machine\": 1, \"devices\": [{\"name\": \"A\", " COUNTERS
            ", \"per_second\": {\"sw_thermal_ns\": 250000000, \"power_cap_ns\": 600000000, "
            "\"energy_mj\": 300000}}, {\"name\": \"B\"}]}");
    const struct observe_options options = {.machine = folder, .interval_ms = 20, .speed = 20};
    struct watch *w = open_watch(&a, &options);
    const struct observe_view *v = watch_for(w, 1000);
    assert_int_equal(v->devices->count, 2);
    const struct observe_window *s = &v->cards[0].since;
    assert_true(s->seconds > 10 && s->seconds < 60);
    assert_true(fabs(s->throttled_share - 0.25) < 0.0025);
    assert_true(fabs(s->sw_thermal_share - 0.25) < 0.0025);
    assert_true(fabs(s->power_cap_share - 0.6) < 0.006);
    assert_true(fabs(s->energy_joules / s->seconds - 300) < 3 && !s->energy_is_integrated);
    assert_true(fabs(s->clock_lost_share - 0.25) < 1e-9);
    assert_true(s->hw_thermal_share == 0 && isnan(s->sync_boost_share));
    const struct observe_window *none = &v->cards[1].since;
    assert_true(none->seconds > 10 && isnan(none->throttled_share) && isnan(none->energy_joules));
    assert_true(isnan(none->clock_lost_share) && isnan(none->utilisation_mean));
    observe_close(w);
    assert_int_equal(remove_all(folder), 0);
}

static void history_keeps_its_length(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = make_machine(
        &a, "{\"machine\": 1, \"devices\": [{\"name\": \"A\", \"gauges\": {\"energy_mj\": 0}, "
            "\"per_second\": {\"energy_mj\": 1000000}}]}");
    const struct observe_options options = {.machine = folder, .interval_ms = 2, .history = 16};
    struct watch *w = open_watch(&a, &options);
    const struct observe_view *v = observe_view(w);
    double last = -1;
    int64_t last_ns = 0;
    for (int i = 0; i < 60; i++) {
        const struct observe_card *c = &v->cards[0];
        for (int tries = 0; tries < 1000; tries++) { // a busy machine reads later
            v = watch_for(w, 10);
            c = &v->cards[0];
            if (c->history_count > 0 && c->history[c->history_count - 1].at_ns > last_ns) break;
        }
        assert_true(c->history_count <= 16);
        for (ptrdiff_t k = 1; k < c->history_count; k++) {
            assert_true(c->history[k].at_ns > c->history[k - 1].at_ns);
            assert_true(c->history[k].energy_joules >= c->history[k - 1].energy_joules);
        }
        assert_true(c->history[c->history_count - 1].energy_joules > last);
        last = c->history[c->history_count - 1].energy_joules;
        last_ns = c->history[c->history_count - 1].at_ns;
    }
    assert_int_equal(v->cards[0].history_count, 16);
    observe_close(w);
    assert_int_equal(remove_all(folder), 0);
}

static void only_the_cards_that_were_asked_for(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = machine_folder(&a, "h100x8");
    struct observe_options options = {.machine = folder, .gpu_ids = "6, 2"};
    struct watch *w = open_watch(&a, &options);
    assert_int_equal(observe_view(w)->devices->count, 2);
    assert_int_equal(observe_view(w)->devices->cards[0].index, 2);
    assert_int_equal(observe_view(w)->devices->cards[1].index, 6);
    observe_close(w);
    static const char *const wrong[] = {"8", "a", "", "1,,2", "-1", "0,1,2,99"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct fail why = {0};
        options.gpu_ids = wrong[i];
        assert_int_equal(observe_open(&a, &options, &w, &why), FAIL_INPUT);
        assert_non_null(strstr(why.message, "--gpu-ids"));
    }
}

// Every machine makes a whole document, in which nothing unknown is a number.
static void every_machine_has_a_document(void **state) {
    (void)state;
    for (int m = 0; m < MACHINES; m++) {
        ARENA_AUTO a = {0};
        const struct observe_options options = {.machine = machine_folder(&a, machines[m])};
        struct watch *w = open_watch(&a, &options);
        const struct observe_view *v = observe_view(w);
        json_t *document = observe_document(v), *history = observe_document_history(v, 60, 10);
        assert_int_equal(json_array_size(json_object_get(document, "cards")), v->devices->count);
        assert_int_equal(json_array_size(json_object_get(history, "cards")), v->devices->count);
        size_t i;
        const json_t *card;
        json_array_foreach(json_object_get(history, "cards"), i, card) {
            assert_int_equal(json_array_size(json_object_get(card, "ours_bytes")),
                             json_array_size(json_object_get(card, "at_ms")));
        }
        char *text = json_dumps(document, 0);
        assert_non_null(text);
        assert_null(strstr(text, "-1,"));
        assert_null(strstr(text, "-1}"));
        free(text);
        json_decref(document);
        json_decref(history);
        observe_close(w);
    }
}

// Eight GPUs, and runs: after the start, what is allocated does not grow.
static void memory_does_not_grow(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct observe_options options = {
        .machine = machine_folder(&a, "h100x8"), .interval_ms = 1, .history = 600};
    struct watch *w = open_watch(&a, &options);
    watch_for(w, 6000); // the verdicts, too, are there
    size_t before = mallinfo2().uordblks;
    int64_t readings = observe_view(w)->readings;
    watch_for(w, 6000);
    size_t after = mallinfo2().uordblks;
    print_message("# %zu bytes allocated, %+zd after %lld more readings\n", before,
                  (ssize_t)(after - before), (long long)(observe_view(w)->readings - readings));
    assert_true(observe_view(w)->readings - readings > 100 && observe_view(w)->findings.count > 0);
    assert_true(after <= before + 4096); // where in a reading the thread is, differs
    observe_close(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_the_counters_truth),
        cmocka_unit_test(history_keeps_its_length),
        cmocka_unit_test(only_the_cards_that_were_asked_for),
        cmocka_unit_test(every_machine_has_a_document),
        cmocka_unit_test(memory_does_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
