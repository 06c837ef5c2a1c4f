// SPDX-License-Identifier: Apache-2.0
// What exists on which GPU: every way in which a gauge is not there, from the recording and by the
// fake driver in LD_LIBRARY_PATH; and what is only there over time: the performance monitor,
// values that repeat, a GPU that wakes up.
#include "device_look.h"

#include <math.h>
#include <unistd.h>

// All that can be asked for, at the second look: the first cannot know everything.
static struct device_snapshot look_twice(struct arena *a, const char *machine) {
    struct device_watching how = {
        .interval_ms = 110, .wants_pcie_throughput = true, .wants_profile = true};
    struct device_monitor *m;
    struct device_snapshot first, s;
    struct fail why = {0};
    int64_t begin = os_now_ns();
    if (device_monitor_open(a, machine, &how, &m, &why)) fail_msg("%s", why.message);
    device_monitor_read(a, m, &first);
    do {
        usleep(5000);
        device_monitor_read(a, m, &s);
        assert_true(os_now_ns() - begin < PATIENCE_MS * (int64_t)MS);
    } while (s.count && s.cards[s.count - 1].now.at_ns == first.cards[s.count - 1].now.at_ns);
    device_monitor_close(m);
    wait_for_driver_to_go();
    return s;
}

// By the table of what exists where: consumer GPUs, servers', WSL, MIG, memory shared with the
// CPU, Jetson. A row is a machine, what it does not have and some of what it does.
static const struct {
    const char *machine;
    int place;
    const char *absent, *present;
} rows[] = {
    {"gtx1080", 0,
     "energy_mj power_average_mw power_instant_mw memory_temperature_c ecc_corrected "
     "ecc_uncorrected remapped_rows ecc_mode sm_active_permille",
     "gpu_percent fan_percent power_mw power_cap_ns"},
    {"rtx2080s", 0,
     "power_average_mw power_instant_mw memory_temperature_c ecc_corrected ecc_uncorrected "
     "remapped_rows ecc_mode sm_active_permille sm_occupancy_permille tensor_active_permille "
     "dram_active_permille",
     "gpu_percent fan_percent power_mw energy_mj power_cap_ns event_reasons pcie_rx_kb_s "
     "used_bytes"},
    {"rtx4090", 0, "memory_temperature_c ecc_corrected remapped_rows ecc_mode sm_active_permille",
     "power_average_mw power_instant_mw fan_percent energy_mj pcie_tx_kb_s"},
    {"l40s", 0, "fan_percent memory_temperature_c sm_active_permille tensor_active_permille",
     "power_average_mw ecc_corrected remapped_rows energy_mj power_cap_ns gpu_percent"},
    {"h100x8", 2, "fan_percent",
     "memory_temperature_c ecc_corrected remapped_rows power_average_mw energy_mj "
     "sm_active_permille sm_occupancy_permille tensor_active_permille dram_active_permille "
     "pcie_tx_kb_s pcie_rx_kb_s"},
    {"wsl", 0,
     "power_average_mw memory_temperature_c ecc_corrected remapped_rows sw_thermal_ns "
     "sm_active_permille persistence_mode",
     "gpu_percent power_cap_ns energy_mj used_bytes"},
    {"a100-mig", 0,
     "gpu_percent memory_percent encoder_percent decoder_percent fan_percent "
     "sm_active_permille",
     "power_mw energy_mj memory_temperature_c ecc_corrected used_bytes sms"},
    {"gb10", 0,
     "fan_percent energy_mj power_cap_ns memory_temperature_c ecc_corrected "
     "power_average_mw sm_active_permille",
     "gpu_percent power_mw total_bytes used_bytes free_bytes"},
    {"jetson", 0,
     "gpu_percent memory_percent power_mw power_limit_mw energy_mj temperature_c "
     "fan_percent sm_clock_mhz event_reasons power_cap_ns sw_thermal_ns pcie_width pcie_tx_kb_s "
     "ecc_corrected compute_major sm_active_permille",
     "total_bytes used_bytes free_bytes"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static double value_of(const struct device_card *card, struct str key) {
    for (int i = 0; i < device_field_count; i++) {
        if (!str_is(key, device_fields[i].key)) continue;
        return device_field_value(card, &device_fields[i]);
    }
    fail_msg("there is no field %.*s", STR_ARG(key));
    return 0;
}

static void assert_known(const struct device_card *card, const char *keys, bool is_known,
                         const char *machine, const char *way) {
    struct str rest = str_of(keys);
    while (rest.len > 0) {
        struct str key = str_cut(&rest, ' ');
        double value = value_of(card, key);
        if (isnan(value) != is_known) continue;
        fail_msg("%s, %s: %.*s is %g", machine, way, STR_ARG(key), value);
    }
}

static void what_a_card_lacks_is_unknown(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        ARENA_AUTO a = {0};
        const char *folder = machine_folder(&a, rows[i].machine);
        setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
        const char *const ways[] = {NULL, folder};
        for (int w = 0; w < 2; w++) {
            struct device_snapshot s = look_twice(&a, ways[w]);
            const char *way = w ? "recording" : "fake driver";
            assert_true(rows[i].place < s.count);
            const struct device_card *card = &s.cards[rows[i].place];
            assert_known(card, rows[i].absent, false, rows[i].machine, way);
            assert_known(card, rows[i].present, true, rows[i].machine, way);
        }
    }
}

// The second look of both ways is the same, but for what goes on between the looks.
static void the_monitor_of_performance_is_read(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = make_machine(
        &a, "{\"machine\":1,\"driver_version\":\"570.1\",\"devices\":[{\"name\":\"x\",\"gauges\":{"
            "\"sm_active_permille\":871,\"tensor_active_permille\":4,\"dram_active_permille\":0,"
            "\"pcie_rx_kb_s\":2500000}},{\"name\":\"y\",\"gauges\":{\"pcie_rx_kb_s\":7}},"
            "{\"name\":\"z\",\"mig\":[{\"name\":\"z MIG 1\"},{\"name\":\"z MIG 2\",\"gauges\":{"
            "\"sm_active_permille\":250}}]}]}");
    setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
    const char *const ways[] = {NULL, folder};
    for (int w = 0; w < 2; w++) {
        struct device_snapshot s = look_twice(&a, ways[w]);
        assert_int_equal(s.count, 4);
        assert_float_equal(s.cards[0].now.sm_active, 0.871, 1e-9);
        assert_float_equal(s.cards[0].now.tensor_active, 0.004, 1e-9);
        assert_float_equal(s.cards[0].now.dram_active, 0, 1e-12);
        assert_true(isnan(s.cards[0].now.sm_occupancy));
        assert_float_equal(s.cards[0].now.pcie_rx_bytes_s, 2.5e9, 1);
        assert_true(isnan(s.cards[1].now.sm_active));
        assert_float_equal(s.cards[1].now.pcie_rx_bytes_s, 7000, 1e-6);
        assert_true(isnan(s.cards[2].now.sm_active));
        assert_float_equal(s.cards[3].now.sm_active, 0.25, 1e-9);
    }
    drop_machine(&a, folder);
}

// Without being asked for neither the calls that block nor the monitor are made: here they hang.
static void what_costs_is_left_alone(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = make_machine(
        &a, "{\"machine\":1,\"devices\":[{\"name\":\"x\",\"gauges\":{\"sm_active_permille\":871,"
            "\"pcie_rx_kb_s\":25,\"power_mw\":5000},\"calls\":{\"nvmlDeviceGetPcieThroughput\":{"
            "\"hang_ms\":60000},\"nvmlGpmQueryDeviceSupport\":{\"hang_ms\":60000}}}]}");
    setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
    const char *const ways[] = {NULL, folder};
    for (int w = 0; w < 2; w++) {
        struct device_snapshot s;
        struct fail why = {0};
        assert_int_equal(device_snapshot_take(&a, ways[w], &s, &why), 0);
        wait_for_driver_to_go();
        assert_int_equal(s.cards[0].state, DEVICE_ANSWERS);
        assert_float_equal(s.cards[0].now.power_watts, 5, 1e-9);
        assert_true(isnan(s.cards[0].now.sm_active) && isnan(s.cards[0].now.pcie_rx_bytes_s));
    }
    drop_machine(&a, folder);
}

// The driver blocks 20 ms for each direction: two GPUs cost 80 ms a round.
static void throughput_of_the_link_takes_its_time(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = make_machine(
        &a, "{\"machine\":1,\"devices\":[{\"name\":\"x\",\"gauges\":{\"pcie_rx_kb_s\":25,"
            "\"pcie_tx_kb_s\":3}},{\"name\":\"y\",\"gauges\":{\"pcie_rx_kb_s\":7}}]}");
    setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
    struct device_watching how = {.interval_ms = 1000, .wants_pcie_throughput = true};
    struct device_monitor *m;
    struct device_snapshot s;
    struct fail why = {0};
    int64_t begin = os_now_ns();
    assert_int_equal(device_monitor_open(&a, NULL, &how, &m, &why), 0);
    assert_true(os_now_ns() - begin >= 80 * (int64_t)MS);
    device_monitor_read(&a, m, &s);
    device_monitor_close(m);
    wait_for_driver_to_go();
    drop_machine(&a, folder);
    assert_float_equal(s.cards[0].now.pcie_rx_bytes_s, 25000, 1e-6);
    assert_float_equal(s.cards[0].now.pcie_tx_bytes_s, 3000, 1e-6);
    assert_true(isnan(s.cards[1].now.pcie_tx_bytes_s));
}

// A counter of samples that begin again goes on, and never back.
static void counters_outlive_a_round(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = make_machine(
        &a, "{\"machine\":1,\"devices\":[{\"name\":\"x\",\"gauges\":{\"energy_mj\":1000,"
            "\"gpu_percent\":10},\"samples\":[{\"at_ms\":60,\"gauges\":{\"energy_mj\":3000,"
            "\"gpu_percent\":90}}],\"repeat_ms\":120,\"per_round\":{\"energy_mj\":5000}}]}");
    setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
    const char *const ways[] = {NULL, folder};
    for (int w = 0; w < 2; w++) {
        struct device_watching how = {.interval_ms = 7};
        struct device_monitor *m;
        struct device_snapshot s;
        struct fail why = {0};
        int lows = 0, highs = 0;
        double energy = 0;
        int64_t begin = os_now_ns();
        assert_int_equal(device_monitor_open(&a, ways[w], &how, &m, &why), 0);
        do {
            device_monitor_read(&a, m, &s);
            const struct device_gauges *now = &s.cards[0].now;
            assert_true(now->energy_joules >= energy);
            // 1 + 5 a round in its first half, 3 + 5 a round in its second.
            double rest = fmod(now->energy_joules - 1, 5);
            bool is_whole = fabs(rest) < 1e-6 || fabs(rest - 2) < 1e-6 || fabs(rest - 5) < 1e-6;
            if (!is_whole) fail_msg("energy is %g", now->energy_joules);
            energy = now->energy_joules;
            lows += now->utilisation < 0.5;
            highs += now->utilisation > 0.5;
            usleep(3000);
            assert_true(os_now_ns() - begin < PATIENCE_MS * (int64_t)MS);
        } while (energy < 21);
        assert_true(lows > 0 && highs > 0);
        device_monitor_close(m);
        wait_for_driver_to_go();
    }
    drop_machine(&a, folder);
}

static enum device_state wait_for(struct device_monitor *m, enum device_state state) {
    struct device_snapshot s;
    int64_t begin = os_now_ns();
    do {
        ARENA_AUTO a = {0};
        device_monitor_read(&a, m, &s);
        enum device_state now = s.cards[0].state;
        if (now == state) return now;
        usleep(2000);
    } while (os_now_ns() - begin < PATIENCE_MS * (int64_t)MS);
    return DEVICE_WAITS;
}

// The driver is started when somebody else has woken the GPU, and the GPU may sleep again.
static void a_card_that_wakes_up_is_asked(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const char status[] = "sys/bus/pci/devices/0000:01:00.0/power/runtime_status";
    const char *root = make_machine(
        &a, "{\"machine\":1,\"driver_version\":\"555.1\",\"devices\":[{\"name\":\"x\",\"facts\":{"
            "\"pci_bus_id\":\"00000000:01:00.0\"},\"memory\":{\"total_bytes\":8,\"used_bytes\":4,"
            "\"reserved_bytes\":0,\"free_bytes\":4},\"gauges\":{\"power_mw\":5000}}]}");
    put_file(&a, root, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    put_file(&a, root, "sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n");
    put_file(&a, root, status, "suspended\n");
    put_file(&a, root, "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t x\n");
    put_file(&a, root, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX  555.1\n");
    setenv("BATCHFIT_STANDIN_MACHINE", root, 1);
    struct device_watching how = {.interval_ms = 5};
    struct device_monitor *m;
    struct device_snapshot s;
    struct fail why = {0};
    assert_int_equal(device_monitor_open(&a, NULL, &how, &m, &why), 0);
    assert_int_equal(wait_for(m, DEVICE_ASLEEP), DEVICE_ASLEEP);
    device_monitor_read(&a, m, &s);
    assert_true(isnan(s.cards[0].now.power_watts));
    put_file(&a, root, status, "active\n");
    assert_int_equal(wait_for(m, DEVICE_ANSWERS), DEVICE_ANSWERS);
    device_monitor_read(&a, m, &s);
    assert_float_equal(s.cards[0].now.power_watts, 5, 1e-9);
    put_file(&a, root, status, "suspended\n");
    assert_int_equal(wait_for(m, DEVICE_ASLEEP), DEVICE_ASLEEP);
    device_monitor_close(m);
    wait_for_driver_to_go();
    assert_int_equal(remove_all(root), 0);
}

// Without a library, with one that may not, and with one of another version: three different
// things, of which one alone is "no driver".
static void an_absent_driver_is_a_state(void **state) {
    (void)state;
    static const struct {
        const char *machine;
        bool is_absent;
    } cases[] = {{"no-driver", true},
                 {"no-permission", false},
                 {"driver-mismatch", false},
                 {"driver-535.54", false},
                 {"wedged", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct fail why = {0};
        struct device_list list;
        struct device_snapshot s;
        const char *folder = machine_folder(&a, cases[i].machine);
        assert_int_equal(device_list(&a, folder, &list, &why), 0);
        assert_int_equal(list.driver_is_absent, cases[i].is_absent);
        assert_int_equal(device_snapshot_take(&a, folder, &s, &why), 0);
        assert_int_equal(s.driver_is_absent, cases[i].is_absent);
        if (strcmp(cases[i].machine, "wedged") == 0) continue; // would hang a minute
        setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
        assert_int_equal(device_list(&a, NULL, &list, &why), 0);
        wait_for_driver_to_go();
        assert_int_equal(list.driver_is_absent, cases[i].is_absent);
        assert_int_equal(device_snapshot_take(&a, NULL, &s, &why), 0);
        wait_for_driver_to_go();
        assert_int_equal(s.driver_is_absent, cases[i].is_absent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_card_lacks_is_unknown),
        cmocka_unit_test(the_monitor_of_performance_is_read),
        cmocka_unit_test(what_costs_is_left_alone),
        cmocka_unit_test(throughput_of_the_link_takes_its_time),
        cmocka_unit_test(counters_outlive_a_round),
        cmocka_unit_test(a_card_that_wakes_up_is_asked),
        cmocka_unit_test(an_absent_driver_is_a_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
