// SPDX-License-Identifier: Apache-2.0
// The energy of a trial's measured steps by the counter of a recorded GPU, which plays in real
// time.
#include "unit.h"

#include "measure/launch/launch_int.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

static struct arena arena;

// Steps of 16 samples, one every 20 ms, looked at after each.
static struct launch_result played(const char *machine, int64_t steps) {
    struct launch_options options = {.steps = steps, .warmup = 2};
    struct launch l = {.arena = &arena, .options = &options};
    struct launch_energy energy = {0};
    struct launch_result result = {.samples_per_s = 800, .times.total_ms = 20, .steps = steps};
    struct steps seen = steps_new(&arena);
    struct fail why = {0};
    const struct timespec nap = {0, 20000000};
    struct str path =
        str_format(&arena, "%s/tests/machines/%s", getenv("BATCHFIT_SOURCE"), machine);
    steps_line(&seen, STR("{\"v\":1,\"event\":\"start\",\"rank\":0,\"world\":1}"));
    if (device_sampler_open(&arena, path.p, 0, &(struct device_watching){.interval_ms = 100},
                            &l.place.sampler, &why) < 0)
        fail_msg("%s", why.message);
    for (int64_t i = 1; i <= steps + 2; i++) {
        nanosleep(&nap, NULL);
        steps_line(&seen, str_format(&arena,
                                     "{\"v\":1,\"event\":\"step\",\"rank\":0,\"step\":%lld,"
                                     "\"samples\":16,\"total_ms\":20}",
                                     (long long)i));
        launch_energy_look(&energy, &l, &seen);
    }
    assert_int_equal(seen.count, steps + 2);
    launch_energy_read(&energy, &l, &result);
    device_monitor_close(l.place.sampler);
    return result;
}

// The recording draws some hundred watts: 16 samples in 20 ms are 800 a second.
static void long_enough_is_joules_for_a_sample(void **state) {
    struct launch_result r = played("rtx4090", 150);
    (void)state;
    if (isnan(r.joules_per_sample)) fail_msg("%.*s", STR_ARG(r.energy_why));
    assert_true(r.joules_per_sample > 20.0 / 800 && r.joules_per_sample < 700.0 / 600);
    assert_true(fabs(r.energy_joules / r.joules_per_sample - 800 * 0.02 * 150) < 1e-6);
}

static void too_short_is_refused(void **state) {
    struct launch_result r = played("rtx4090", 20);
    (void)state;
    assert_true(isnan(r.joules_per_sample) && isnan(r.energy_joules));
    assert_true(str_starts(r.energy_why, STR("too short")));
}

static void a_card_without_a_counter_says_so(void **state) {
    struct launch_result r = played("gtx1080", 20);
    (void)state;
    assert_true(isnan(r.joules_per_sample));
    assert_true(str_find(r.energy_why, STR("no energy counter")) >= 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_enough_is_joules_for_a_sample),
        cmocka_unit_test(too_short_is_refused),
        cmocka_unit_test(a_card_without_a_counter_says_so),
    };
    int failed = cmocka_run_group_tests_name("launch_energy", tests, NULL, NULL);
    arena_clear(&arena);
    return failed;
}
