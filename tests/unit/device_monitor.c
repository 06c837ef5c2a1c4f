// SPDX-License-Identifier: Apache-2.0
// With the stand-in driver in LD_LIBRARY_PATH. The argument chooses what is tested: "new", and
// "hang", drivers that hang, in a process of its own because a hanging thread stays behind with the
// machine it plays.
#include "device_machines.h"

#include "device/device_int.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000 }; // for what must happen soon, on a machine that is busy

static const char *play(struct arena *a, const char *json) {
    const char *folder = make_machine(a, json);
    setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
    return folder;
}

// The thread ends a little later; the next test wants another machine, so it waits for the driver's
// library to be gone.
static void wait_for_driver_to_go(void) {
    int64_t begin = os_now_ns();
    void *library;
    while ((library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD))) {
        dlclose(library);
        assert_true(os_now_ns() - begin < PATIENCE_MS * (int64_t)1000000);
        usleep(1000);
    }
}

static struct device_snapshot look(struct arena *a, const char *machine) {
    struct device_snapshot snapshot;
    struct fail why = {0};
    if (device_snapshot_take(a, machine, &snapshot, &why)) fail_msg("%s", why.message);
    wait_for_driver_to_go();
    return snapshot;
}

static void assert_same_card(const struct device_card *a, const struct device_card *b) {
    assert_int_equal(a->index, b->index);
    assert_int_equal(a->is_mig, b->is_mig);
    assert_int_equal(a->is_unified, b->is_unified);
    assert_string_equal(device_state_name(a->state), device_state_name(b->state));
    assert_string_equal(a->reason, b->reason);
    assert_string_equal(a->facts.name, b->facts.name);
    assert_string_equal(a->facts.uuid, b->facts.uuid);
    for (int i = 0; i < device_field_count; i++) {
        double x = device_field_value(a, &device_fields[i]);
        double y = device_field_value(b, &device_fields[i]);
        if (isnan(x) && isnan(y)) continue;
        if (!(fabs(x - y) <= 1e-12 * fabs(x))) {
            fail_msg("%s: %s %g, %g", a->facts.name, device_fields[i].key, x, y);
        }
    }
}

// By the driver and from the recording, the figures are the same.
static void both_ways_agree(void **state) {
    (void)state;
    for (int m = 0; m < MACHINES; m++) {
        ARENA_AUTO a = {0};
        if (strcmp(machines[m], "wedged") == 0) continue; // below
        const char *folder = machine_folder(&a, machines[m]);
        setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
        struct device_snapshot played = look(&a, NULL), recorded = look(&a, folder);
        assert_true(played.standin.len > 0 && recorded.standin.len == 0);
        assert_int_equal(played.count, recorded.count);
        assert_string_equal(str_z(&a, played.driver_version), str_z(&a, recorded.driver_version));
        assert_string_equal(str_z(&a, played.left_out), str_z(&a, recorded.left_out));
        assert_string_equal(str_z(&a, played.why_none), str_z(&a, recorded.why_none));
        assert_int_equal(played.state, DEVICE_ANSWERS);
        assert_int_equal(recorded.state, DEVICE_ANSWERS);
        for (int i = 0; i < played.count; i++) {
            assert_same_card(&played.cards[i], &recorded.cards[i]);
        }
    }
}

static void no_driver_is_an_answer(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = play(&a, "{\"machine\":1,\"calls\":{\"nvmlInit_v2\":{\"code\":9}}}");
    for (int i = 0; i < 2; i++) {
        struct device_snapshot s = look(&a, i ? folder : NULL);
        assert_int_equal(s.count, 0);
        assert_int_equal(s.state, DEVICE_ANSWERS);
        assert_true(str_starts(s.why_none, STR("the NVIDIA kernel driver is not loaded")));
    }
    drop_machine(&a, folder);
}

static void a_broken_recording_is_refused(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct device_monitor *m = NULL;
    assert_int_equal(device_monitor_open(&a, "/no/such/machine", NULL, &m, &why), FAIL_INPUT);
    assert_null(m);
    assert_string_equal(why.message, "/no/such/machine/devices.json: No such file or directory");
}

// The first card hangs for 20 s: it is said to hang, the second one is still asked, and nobody
// waits.
static void a_hanging_card_leaves_the_others_alone(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct device_monitor *m = NULL;
    const char *folder =
        play(&a, "{\"devices\":[{\"name\":\"x\",\"calls\":{\"nvmlDeviceGetUtilizationRates\":"
                 "{\"hang_ms\":20000}}},{\"name\":\"y\",\"gauges\":{\"gpu_percent\":50}}]}");
    struct device_watching how = {.interval_ms = 1};
    int64_t begin = os_now_ns();
    assert_int_equal(device_monitor_open_within(&a, 100, NULL, &how, &m, &why), 0);
    struct device_snapshot s = {0};
    while (s.count < 2 || s.cards[1].state != DEVICE_ANSWERS) {
        device_monitor_read(&a, m, &s);
        if (os_now_ns() - begin > 10 * (int64_t)1000000000) fail_msg("the second one waits");
        usleep(1000);
    }
    assert_int_equal(s.cards[0].state, DEVICE_HANGS);
    assert_true(strstr(s.cards[0].reason, "did not answer") != NULL);
    assert_float_equal(s.cards[1].now.utilisation, 0.5, 1e-9);
    device_monitor_close(m);
    device_monitor_close(m); // a second time does nothing
    drop_machine(&a, folder);
}

static void a_hanging_driver_is_said(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct device_monitor *m = NULL;
    const char *folder = play(&a, "{\"calls\":{\"nvmlInit_v2\":{\"hang_ms\":20000}}}");
    assert_int_equal(device_monitor_open_within(&a, 50, NULL, NULL, &m, &why), 0);
    struct device_snapshot s;
    device_monitor_read(&a, m, &s);
    assert_int_equal(s.state, DEVICE_HANGS);
    assert_int_equal(s.count, 0);
    assert_true(str_starts(s.why_none, STR("the NVIDIA driver did not answer")));
    device_monitor_close(m);
    drop_machine(&a, folder);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_agree),
        cmocka_unit_test(no_driver_is_an_answer),
        cmocka_unit_test(a_broken_recording_is_refused),
    };
    const struct CMUnitTest hang[] = {cmocka_unit_test(a_hanging_card_leaves_the_others_alone)};
    const struct CMUnitTest hang_init[] = {cmocka_unit_test(a_hanging_driver_is_said)};
    const char *what = argc > 1 ? argv[1] : "new";
    if (strcmp(what, "hang") == 0) return cmocka_run_group_tests(hang, NULL, NULL);
    if (strcmp(what, "hang_init") == 0) return cmocka_run_group_tests(hang_init, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
