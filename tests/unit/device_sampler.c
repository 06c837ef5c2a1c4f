// SPDX-License-Identifier: Apache-2.0
// With the fake driver in LD_LIBRARY_PATH. The argument chooses what is tested: "new" and "old"
// drivers, "none", and drivers that hang, each in a process of its own because a hanging thread
// stays behind with the machine it plays.
#include "device_machines.h"

#include "machine/device/device_int.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

#define MEMORY                                                                     \
    "\"memory\":{\"total_bytes\":8000,\"used_bytes\":1000,\"reserved_bytes\":500," \
    "\"free_bytes\":6500}"
#define GAUGES                                                                  \
    "\"gauges\":{\"gpu_percent\":80,\"memory_percent\":35,\"power_mw\":215500," \
    "\"temperature_c\":61,\"sm_clock_mhz\":1905}"

enum { PATIENCE_MS = 20000 }; // for what must happen soon, on a machine that is busy

static const struct device_watching often = {.interval_ms = 1};

static const char *play(struct arena *a, const char *json) {
    const char *folder = make_machine(a, json);
    setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
    return folder;
}

static struct device_monitor *open_card(struct arena *a, const char *machine, int interval_ms) {
    struct device_monitor *s = NULL;
    struct fail why = {0};
    if (device_sampler_open(a, machine, 0, &(struct device_watching){.interval_ms = interval_ms},
                            &s, &why))
        fail_msg("%s", why.message);
    return s;
}

// The thread ends a little later, also where nothing could be opened; the next test wants another
// machine, so it waits for the driver's library to be gone.
static void wait_for_the_end(void) {
    int64_t begin = os_now_ns();
    void *library;
    while ((library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD))) {
        dlclose(library);
        assert_true(os_now_ns() - begin < PATIENCE_MS * (int64_t)1000000);
        usleep(1000);
    }
}

static void close_card(struct device_monitor *s) {
    device_monitor_close(s);
    wait_for_the_end();
}

static void wait_for_used(const struct device_monitor *s, int64_t bytes) {
    int64_t begin = os_now_ns();
    while (device_sampler_read(s).used_bytes != bytes) {
        if (os_now_ns() - begin > PATIENCE_MS * (int64_t)1000000)
            fail_msg("never %lld", (long long)bytes);
        usleep(1000);
    }
}

static void assert_values(const struct device_gauges *now, int64_t used_bytes) {
    assert_true(now->at_ns > 0 && now->at_ns <= os_now_ns());
    assert_int_equal(now->used_bytes, used_bytes);
    assert_int_equal(now->total_bytes, 8000);
    assert_int_equal(now->free_bytes, 6500);
    assert_float_equal(now->utilisation, 0.80, 1e-9);
    assert_float_equal(now->memory_utilisation, 0.35, 1e-9);
    assert_float_equal(now->power_watts, 215.5, 1e-9);
    assert_float_equal(now->temperature_celsius, 61, 1e-9);
    assert_float_equal(now->sm_clock_mhz, 1905, 1e-9);
}

// The first sample is there when open returns. An old driver's used includes the reserve, and its
// temperature comes from the older call.
static void values_of(const char *machine, int64_t used_bytes) {
    ARENA_AUTO a = {0};
    const char *folder =
        play(&a, "{\"machine\":1,\"devices\":[{\"name\":\"x\"," MEMORY "," GAUGES "}]}");
    struct device_monitor *s = open_card(&a, machine ? folder : NULL, 3600000);
    struct device_gauges now = device_sampler_read(s);
    struct device_peaks peaks = device_sampler_peaks(s);
    close_card(s);
    drop_machine(&a, folder);
    assert_values(&now, used_bytes);
    assert_int_equal(peaks.samples, 1);
    assert_int_equal(peaks.used_bytes, used_bytes);
    assert_float_equal(peaks.utilisation_mean, 0.80, 1e-9);
}

static void values_are_in_our_units(void **state) {
    (void)state;
    values_of(NULL, 1000);
    values_of("recording", 1000);
}

static void an_old_driver_gives_what_it_has(void **state) {
    (void)state;
    values_of(NULL, 1500);
}

static void assert_unknown(struct arena *a, const char *machine) {
    struct device_monitor *s = open_card(a, machine, 1);
    struct device_gauges now = device_sampler_read(s);
    struct device_peaks peaks = device_sampler_peaks(s);
    close_card(s);
    assert_true(now.at_ns > 0);
    assert_int_equal(now.used_bytes, -1);
    assert_int_equal(now.total_bytes, -1);
    assert_int_equal(now.free_bytes, -1);
    assert_true(isnan(now.utilisation) && isnan(now.memory_utilisation) && isnan(now.power_watts));
    assert_true(isnan(now.temperature_celsius) && isnan(now.sm_clock_mhz));
    assert_true(peaks.samples >= 1);
    assert_int_equal(peaks.used_bytes, -1);
    assert_true(isnan(peaks.utilisation_mean));
}

// A GPU like Jetson's, whose driver answers nothing; a call that fails; a value that cannot be.
static void what_is_not_known_is_not_zero(void **state) {
    (void)state;
    static const char *const machines_without[] = {
        "{\"machine\":1,\"devices\":[{\"name\":\"x\"}]}",
        "{\"machine\":1,\"devices\":[{\"name\":\"x\",\"memory\":{\"total_bytes\":null},"
        "\"gauges\":{\"gpu_percent\":null}}]}",
    };
    for (int i = 0; i < 2; i++) {
        ARENA_AUTO a = {0};
        const char *folder = play(&a, machines_without[i]);
        assert_unknown(&a, NULL);
        assert_unknown(&a, folder);
        drop_machine(&a, folder);
    }
    ARENA_AUTO a = {0};
    const char *folder =
        play(&a, "{\"devices\":[{\"name\":\"x\"," MEMORY ",\"gauges\":{\"gpu_percent\":65535,"
                 "\"memory_percent\":7,\"power_mw\":1000},"
                 "\"calls\":{\"nvmlDeviceGetPowerUsage\":{\"code\":15}}}]}");
    struct device_monitor *s = open_card(&a, NULL, 1);
    struct device_gauges now = device_sampler_read(s);
    close_card(s);
    drop_machine(&a, folder);
    assert_true(isnan(now.utilisation) && isnan(now.power_watts));
    assert_float_equal(now.memory_utilisation, 0.07, 1e-9);
    assert_int_equal(now.used_bytes, 1000);
}

static void use_bytes(struct arena *a, const char *path, const char *bytes) {
    struct fail why = {0};
    assert_int_equal(os_replace(a, path, str_of(bytes), NULL, &why), 0);
}

static void the_peak_is_kept_until_the_reset(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = play(&a, "{\"devices\":[{\"name\":\"x\"," MEMORY "}]}");
    const char *path = str_format(&a, "%s/used", folder).p;
    setenv("BATCHFIT_STANDIN_USED", path, 1);
    struct device_monitor *s = open_card(&a, NULL, 1);
    wait_for_used(s, 1000); // the file is not there yet
    use_bytes(&a, path, "4000\n");
    wait_for_used(s, 5000);
    assert_int_equal(device_sampler_read(s).free_bytes, 2500);
    use_bytes(&a, path, "250");
    wait_for_used(s, 1250);
    assert_int_equal(device_sampler_peaks(s).used_bytes, 5000);
    device_sampler_reset(s);
    int64_t begin = os_now_ns();
    while (device_sampler_peaks(s).samples == 0) {
        assert_true(os_now_ns() - begin < PATIENCE_MS * (int64_t)1000000);
    }
    assert_int_equal(device_sampler_peaks(s).used_bytes, 1250);
    use_bytes(&a, path, "999999");
    wait_for_used(s, 7500); // no more than there is
    close_card(s);
    unsetenv("BATCHFIT_STANDIN_USED");
    assert_int_equal(remove(path), 0);
    drop_machine(&a, folder);
}

// From 20 to 100 per cent and 1000 to 3000 bytes; the driver and the recording play the same.
static void values_change_over_time(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = play(
        &a, "{\"machine\":1,\"devices\":[{\"name\":\"x\"," MEMORY ",\"gauges\":"
            "{\"gpu_percent\":20,\"power_mw\":50000},\"samples\":["
            "{\"at_ms\":150,\"gauges\":{\"gpu_percent\":100},\"memory\":{\"used_bytes\":3000}},"
            "{\"at_ms\":300,\"gauges\":{\"power_mw\":null},\"memory\":{\"used_bytes\":2000}}]}]}");
    const char *const played[] = {NULL, folder};
    for (int i = 0; i < 2; i++) {
        struct device_monitor *s = open_card(&a, played[i], 1);
        wait_for_used(s, 2000);
        struct device_gauges now = device_sampler_read(s);
        struct device_peaks peaks = device_sampler_peaks(s);
        close_card(s);
        assert_float_equal(now.utilisation, 1.0, 1e-9);
        assert_true(isnan(now.power_watts));
        assert_true(peaks.used_bytes >= 2000);
        assert_true(peaks.utilisation_mean > 0.199 && peaks.utilisation_mean <= 1);
    }
    drop_machine(&a, folder);
}

static void what_cannot_be_watched_is_told(void **state) {
    (void)state;
    static const struct {
        const char *json, *text;
        int card;
    } cases[] = {
        {"{\"devices\":[]}", "the NVIDIA driver found no GPU", 0},
        {"{\"devices\":[{\"name\":\"x\"}]}", "no GPU 1: this machine has 1", 1},
        {"{\"devices\":[{\"name\":\"x\"}]}", "no GPU -1: this machine has 1", -1},
        {"{\"calls\":{\"nvmlInit_v2\":{\"code\":9}}}", "the NVIDIA kernel driver is not loaded", 0},
        {"{\"devices\":[{\"name\":\"x\",\"calls\":"
         "{\"nvmlDeviceGetHandleByIndex_v2\":{\"code\":15}}}]}",
         "GPU 0: the driver lost it", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct fail why = {0};
        struct device_monitor *s = NULL;
        const char *folder = play(&a, cases[i].json);
        assert_int_equal(device_sampler_open(&a, NULL, cases[i].card, &often, &s, &why),
                         FAIL_MACHINE);
        wait_for_the_end();
        drop_machine(&a, folder);
        assert_null(s);
        if (!strstr(why.message, cases[i].text)) assert_string_equal(why.message, cases[i].text);
    }
}

static void broken_values_over_time_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *card, *text;
    } cases[] = {
        {"\"samples\":{}", "\"samples\" is not a list"},
        {"\"samples\":[{\"at_ms\":9},{\"at_ms\":8}]", "sample 1: \"at_ms\" is out of range: 8"},
        {"\"samples\":[{\"at_ms\":\"1\"}]", "sample 0: \"at_ms\" is not a whole number"},
        {"\"gauges\":{\"power_mw\":1.5}", "\"power_mw\" is not a whole number"},
        {"\"samples\":[{\"memory\":{\"used_bytes\":-2}}]", "\"used_bytes\" is out of range: -2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct fail why = {0};
        struct device_monitor *s = NULL;
        const char *json =
            str_format(&a, "{\"machine\":1,\"devices\":[{\"name\":\"x\",%s}]}", cases[i].card).p;
        const char *folder = make_machine(&a, json);
        assert_int_equal(device_sampler_open(&a, folder, 0, &often, &s, &why), FAIL_INPUT);
        drop_machine(&a, folder);
        if (!strstr(why.message, cases[i].text)) assert_string_equal(why.message, cases[i].text);
    }
}

// Opening and closing many times leaves no user of the driver behind: each machine is the new one.
static void it_opens_again(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        ARENA_AUTO a = {0};
        const char *folder = play(&a, "{\"devices\":[{\"name\":\"x\"," MEMORY "}]}");
        struct device_monitor *s = open_card(&a, NULL, 1);
        device_sampler_reset(s);
        assert_int_equal(device_sampler_read(s).used_bytes, 1000);
        close_card(s);
        device_monitor_close(s); // a second time does nothing
        drop_machine(&a, folder);
    }
}

static double seconds_since(int64_t begin_ns) {
    return (double)(os_now_ns() - begin_ns) / 1e9;
}

// The driver hangs for 20 s at its first gauge: neither reading nor closing waits for it.
static void a_hanging_card_blocks_nobody(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct device_monitor *s = NULL;
    const char *folder = play(&a, "{\"devices\":[{\"name\":\"x\"," MEMORY ",\"calls\":"
                                  "{\"nvmlDeviceGetUtilizationRates\":{\"hang_ms\":20000}}}]}");
    int64_t begin = os_now_ns();
    assert_int_equal(
        device_sampler_open(
            &a, NULL, 0, &(struct device_watching){.interval_ms = 1, .deadline_ms = 100}, &s, &why),
        0);
    for (int i = 0; i < 1000; i++) assert_int_equal(device_sampler_read(s).at_ns, 0);
    assert_int_equal(device_sampler_read(s).used_bytes, -1);
    assert_int_equal(device_sampler_peaks(s).samples, 0);
    device_sampler_reset(s);
    device_monitor_close(s);
    assert_true(seconds_since(begin) < 10);
    drop_machine(&a, folder);
}

// It hangs before there is anything to read.
static void a_hanging_driver_is_told_in_time(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct device_monitor *s = NULL;
    const char *folder = play(&a, "{\"calls\":{\"nvmlInit_v2\":{\"hang_ms\":20000}}}");
    int64_t begin = os_now_ns();
    assert_int_equal(device_sampler_open(&a, NULL, 0, &often, &s, &why), FAIL_MACHINE);
    assert_true(seconds_since(begin) >= 2.9 && seconds_since(begin) < 10);
    assert_true(str_starts(str_of(why.message), STR("the NVIDIA driver did not answer")));
    assert_null(s);
    drop_machine(&a, folder);
}

// It answers after we have given up and after we have closed: nothing of ours may be touched then.
static void a_late_answer_is_dropped(void **state) {
    (void)state;
    static const char *const functions[] = {"nvmlDeviceGetName", "nvmlDeviceGetPowerUsage"};
    for (int i = 0; i < 2; i++) {
        ARENA_AUTO a = {0};
        struct fail why = {0};
        struct device_monitor *s = NULL;
        const char *json = str_format(&a,
                                      "{\"devices\":[{\"name\":\"x\",\"calls\":{\"%s\":"
                                      "{\"hang_ms\":200}}}]}",
                                      functions[i])
                               .p;
        const char *folder = play(&a, json);
        int failed = device_sampler_open(
            &a, NULL, 0, &(struct device_watching){.interval_ms = 1, .deadline_ms = 20}, &s, &why);
        if (!failed) device_monitor_close(s);
        usleep(600000);
        drop_machine(&a, folder);
    }
}

static void without_a_driver_it_says_so(void **state) {
    (void)state;
    if (dlopen("libnvidia-ml.so.1", RTLD_LAZY) || os_exists("/proc/driver/nvidia/version")) skip();
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct device_monitor *s = NULL;
    assert_int_equal(device_sampler_open(&a, NULL, 0, &often, &s, &why), FAIL_MACHINE);
    assert_string_equal(why.message,
                        "no NVIDIA driver library (libnvidia-ml.so.1) on this machine");
    assert_int_equal(device_sampler_open(&a, "/no/such/machine", 0, &often, &s, &why), FAIL_INPUT);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_in_our_units),
        cmocka_unit_test(what_is_not_known_is_not_zero),
        cmocka_unit_test(the_peak_is_kept_until_the_reset),
        cmocka_unit_test(values_change_over_time),
        cmocka_unit_test(what_cannot_be_watched_is_told),
        cmocka_unit_test(broken_values_over_time_are_refused),
        cmocka_unit_test(it_opens_again),
    };
    const struct CMUnitTest old[] = {cmocka_unit_test(an_old_driver_gives_what_it_has)};
    const struct CMUnitTest none[] = {cmocka_unit_test(without_a_driver_it_says_so)};
    const struct CMUnitTest hang[] = {cmocka_unit_test(a_hanging_card_blocks_nobody)};
    const struct CMUnitTest hang_init[] = {cmocka_unit_test(a_hanging_driver_is_told_in_time)};
    const struct CMUnitTest late[] = {cmocka_unit_test(a_late_answer_is_dropped)};
    const char *what = argc > 1 ? argv[1] : "new";
    if (strcmp(what, "old") == 0) return cmocka_run_group_tests(old, NULL, NULL);
    if (strcmp(what, "none") == 0) return cmocka_run_group_tests(none, NULL, NULL);
    if (strcmp(what, "hang") == 0) return cmocka_run_group_tests(hang, NULL, NULL);
    if (strcmp(what, "hang_init") == 0) return cmocka_run_group_tests(hang_init, NULL, NULL);
    if (strcmp(what, "late") == 0) return cmocka_run_group_tests(late, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
