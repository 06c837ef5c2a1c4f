// SPDX-License-Identifier: Apache-2.0
// With the fake driver in LD_LIBRARY_PATH. The argument chooses what is tested: "new", and
// "hang", drivers that hang, in a process of its own because a hanging thread stays behind with the
// machine it plays.
#include "device_look.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *play(struct arena *a, const char *json) {
    const char *folder = make_machine(a, json);
    setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
    return folder;
}

static void assert_same_processes(const struct device_card *a, const struct device_card *b) {
    assert_int_equal(a->has_processes, b->has_processes);
    assert_int_equal(a->process_count, b->process_count);
    assert_int_equal(a->processes_unlisted, b->processes_unlisted);
    for (int i = 0; i < a->process_count; i++) {
        assert_int_equal(a->processes[i].pid, b->processes[i].pid);
        assert_int_equal(a->processes[i].used_bytes, b->processes[i].used_bytes);
        assert_int_equal(a->processes[i].kinds, b->processes[i].kinds);
        assert_string_equal(a->processes[i].name, b->processes[i].name);
        double x = a->processes[i].utilisation, y = b->processes[i].utilisation;
        assert_true(x == y || (isnan(x) && isnan(y)));
    }
}

static void assert_same_card(const struct device_card *a, const struct device_card *b) {
    assert_int_equal(a->index, b->index);
    assert_int_equal(a->is_mig, b->is_mig);
    assert_int_equal(a->is_unified, b->is_unified);
    assert_string_equal(device_state_name(a->state), device_state_name(b->state));
    assert_string_equal(a->reason, b->reason);
    assert_string_equal(a->facts.name, b->facts.name);
    assert_string_equal(a->facts.uuid, b->facts.uuid);
    assert_string_equal(a->facts.pci_bus_id, b->facts.pci_bus_id);
    assert_string_equal(a->facts.vbios, b->facts.vbios);
    assert_same_processes(a, b);
    for (int i = 0; i < device_field_count; i++) {
        double x = device_field_value(a, &device_fields[i]);
        double y = device_field_value(b, &device_fields[i]);
        if (isnan(x) && isnan(y)) continue;
        // Counters go on between the two looks, by at most 1 % of what these machines begin with.
        bool is_counter =
            strstr(device_fields[i].key, "_ns") || strstr(device_fields[i].key, "_mj");
        if (!(fabs(x - y) <= (is_counter ? 0.01 : 1e-12) * fabs(x))) {
            fail_msg("%s: %s %g, %g", a->facts.name, device_fields[i].key, x, y);
        }
    }
}

static void assert_same_topology(const struct device_topology *x, const struct device_topology *y) {
    assert_int_equal(x->count, y->count);
    for (int i = 0; i < x->count; i++) {
        const struct device_spot *s = &x->spots[i], *t = &y->spots[i];
        assert_int_equal(s->index, t->index);
        assert_int_equal(s->numa_node, t->numa_node);
        assert_string_equal(s->cpus, t->cpus);
        assert_memory_equal(s->nvlinks, t->nvlinks, sizeof s->nvlinks);
        for (int j = 0; j < x->count; j++) {
            assert_int_equal(x->pairs[i][j].path, y->pairs[i][j].path);
            assert_int_equal(x->pairs[i][j].access, y->pairs[i][j].access);
        }
    }
}

static void assert_same_snapshot(struct arena *a, const struct device_snapshot *x,
                                 const struct device_snapshot *y) {
    assert_int_equal(x->state, y->state);
    assert_int_equal(x->count, y->count);
    assert_string_equal(str_z(a, x->driver_version), str_z(a, y->driver_version));
    assert_string_equal(str_z(a, x->cuda_version), str_z(a, y->cuda_version));
    assert_string_equal(str_z(a, x->left_out), str_z(a, y->left_out));
    assert_string_equal(str_z(a, x->why_none), str_z(a, y->why_none));
    for (int i = 0; i < x->count; i++) assert_same_card(&x->cards[i], &y->cards[i]);
    assert_same_topology(&x->topology, &y->topology);
}

static void remove_folder(const char *folder) {
    assert_int_equal(remove_all(folder), 0);
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
        assert_same_snapshot(&a, &played, &recorded);
    }
}

// What was recorded plays as the machine that it was recorded of.
static void a_recording_is_what_was_seen(void **state) {
    (void)state;
    static const char *const more[] = {"laptop-asleep", "wedged"};
    for (int m = 0; m < MACHINES + 1; m++) {
        ARENA_AUTO a = {0};
        struct fail why = {0};
        const char *name = m < MACHINES ? machines[m] : more[0];
        bool is_wedged = strcmp(name, more[1]) == 0; // the driver would cost 60 s
        const char *folder = machine_folder(&a, name), *seen = is_wedged ? folder : NULL;
        setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
        char copy[] = "/tmp/batchfit-unit-XXXXXX";
        assert_non_null(mkdtemp(copy));
        if (device_record(&a, seen, copy, 0, 10, &why)) fail_msg("%s: %s", name, why.message);
        wait_for_driver_to_go();
        struct device_snapshot then = look(&a, folder), now = look(&a, copy);
        assert_same_snapshot(&a, &then, &now);
        struct device_list list;
        assert_int_equal(device_list(&a, copy, &list, &why), 0);
        if (m < MACHINES) assert_machine(&a, name, &list);
        remove_folder(copy);
    }
}

// 300 ms of a machine that changes; nothing in it names the GPU.
static void a_recording_plays_over_time(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct str text;
    const char *folder =
        play(&a, "{\"machine\":1,\"driver_version\":\"550.1\",\"devices\":[{\"name\":\"x\","
                 "\"uuid\":\"GPU-secret\",\"gauges\":{\"gpu_percent\":20,\"power_mw\":50000},"
                 "\"samples\":[{\"at_ms\":150,\"gauges\":{\"gpu_percent\":90,\"power_mw\":null}}]}"
                 "]}");
    char copy[] = "/tmp/batchfit-unit-XXXXXX";
    assert_non_null(mkdtemp(copy));
    assert_int_equal(device_record(&a, NULL, copy, 600, 20, &why), 0);
    wait_for_driver_to_go();
    assert_int_equal(
        os_read(&a, str_format(&a, "%s/devices.json", copy).p, 1 << 20, &text, NULL, &why), 0);
    assert_true(str_find(text, STR("secret")) < 0);
    struct device_monitor *m;
    struct device_watching how = {.interval_ms = 1};
    struct device_snapshot s;
    assert_int_equal(device_monitor_open(&a, copy, &how, &m, &why), 0);
    device_monitor_read(&a, m, &s);
    assert_int_equal(s.count, 1);
    int64_t begin = os_now_ns();
    while (s.cards[0].now.utilisation < 0.85) {
        assert_true(os_now_ns() - begin < PATIENCE_MS * (int64_t)MS);
        device_monitor_read(&a, m, &s);
        usleep(1000);
    }
    assert_float_equal(s.cards[0].now.utilisation, 0.9, 1e-9);
    assert_true(isnan(s.cards[0].now.power_watts));
    device_monitor_close(m);
    remove_folder(copy);
    drop_machine(&a, folder);
}

// Every figure of one machine, by hand: units, limits and the call that each comes from.
static void figures_are_in_our_units(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    setenv("BATCHFIT_STANDIN_MACHINE", machine_folder(&a, "h100x8"), 1);
    struct device_snapshot s = look(&a, NULL);
    assert_int_equal(s.count, 8);
    assert_string_equal(str_z(&a, s.cuda_version), "12.4");
    const struct device_card *c = &s.cards[2];
    assert_int_equal(c->facts.compute_major, 9);
    assert_int_equal(c->facts.compute_minor, 0);
    assert_string_equal(c->facts.pci_bus_id, "00000000:52:00.0");
    assert_float_equal(c->facts.power_limit_min_watts, 200, 1e-9);
    assert_float_equal(c->facts.memory_clock_max_mhz, 2619, 1e-9);
    assert_float_equal(c->facts.slowdown_celsius, 87, 1e-9);
    assert_int_equal(c->facts.ecc_mode, 1);
    assert_float_equal(c->now.power_average_watts, 642, 1e-9);
    assert_float_equal(c->now.power_instant_watts, 658, 1e-9);
    assert_float_equal(c->now.memory_temperature_celsius, 72, 1e-9);
    assert_true(c->now.energy_joules > 812347678.0 && c->now.energy_joules < 812400000.0);
    assert_int_equal(c->now.ecc_corrected, 2);
    assert_int_equal(c->now.remapped_rows, 1);
    assert_int_equal(c->now.recovery_action, 0);
    assert_true(isnan(c->now.fan) && isnan(c->now.pcie_rx_bytes_s));
    assert_int_equal(c->now.xid, -1);
    assert_int_equal(s.cards[5].now.event_reasons, DEVICE_REASON_HW_THERMAL);
    assert_true(s.cards[5].now.hw_thermal_seconds >= 900);
    assert_int_equal(s.cards[7].now.pcie_width, 8);
    assert_int_equal(c->process_count, 1);
    assert_string_equal(c->processes[0].name, "python");
}

// By /proc: whose it is, since when, what it was started with, without its secrets.
static void processes_are_described(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    setenv("BATCHFIT_STANDIN_MACHINE", machine_folder(&a, "rtx4090"), 1);
    struct device_snapshot s = look(&a, NULL);
    const struct device_process *p = &s.cards[0].processes[0], *hidden = &s.cards[0].processes[1];
    assert_int_equal(p->pid, 4242);
    assert_string_equal(p->user, "1000");
    assert_string_equal(p->command,
                        "python3 train.py --model resnet50 --token '***' --batch-size 64");
    assert_float_equal(p->utilisation, 0.96, 1e-9);
    assert_int_equal(p->host_bytes, 1572864 * sysconf(_SC_PAGESIZE));
    assert_true(fabs(p->age_s - 186400 + 18144000.0 / (double)sysconf(_SC_CLK_TCK)) < 1e-6);
    assert_int_equal(p->start_ticks, 18144000);
    assert_string_equal(hidden->command, "");
    assert_true(isnan(hidden->age_s) && hidden->host_bytes == -1 && hidden->start_ticks == -1);
    assert_float_equal(hidden->utilisation, 0.02, 1e-9);
}

// Entries of 32 bytes (530 to 535.86) and of 24: the same three processes.
static void both_process_layouts_are_read(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    setenv("BATCHFIT_STANDIN_MACHINE", machine_folder(&a, "driver-535.54"), 1);
    struct device_snapshot s = look(&a, NULL);
    assert_int_equal(s.cards[0].process_count, 3);
    assert_int_equal(s.cards[0].processes[2].pid, 2103);
    assert_int_equal(s.cards[0].processes[2].used_bytes, (int64_t)1024 << 20);
    const char *folder = play(
        &a, "{\"driver_version\":\"535.98\",\"devices\":[{\"name\":\"x\",\"processes\":[{\"pid\":7,"
            "\"used_bytes\":5},{\"pid\":8,\"used_bytes\":6},{\"pid\":9,\"type\":\"graphics\"}]}]}");
    s = look(&a, NULL);
    drop_machine(&a, folder);
    assert_int_equal(s.cards[0].process_count, 3);
    assert_int_equal(s.cards[0].processes[0].pid, 8);
    assert_int_equal(s.cards[0].processes[2].used_bytes, -1); // 2^64-1 is not 16 EiB
    assert_int_equal(s.cards[0].processes[2].kinds, DEVICE_GRAPHICS);
}

// By the driver, which says that there was too little room for 10,000, and by a recording.
static void only_the_largest_processes_are_kept(void **state) {
    enum { MANY = 10000, PRIME = 10007 };
    (void)state;
    ARENA_AUTO a = {0};
    struct buf b = buf_new(&a);
    buf_format(&b,
               "{\"machine\":1,\"driver_version\":\"550.1\",\"devices\":[{\"name\":\"x\",\"uuid\":"
               "\"GPU-00000000-0000-0000-0000-000000000001\",\"processes\":[");
    for (int i = 1; i <= MANY; i++) {
        buf_format(&b, "%s{\"pid\":%d,\"used_bytes\":%d}", i > 1 ? "," : "", i, i * 37 % PRIME);
    }
    buf_format(&b, "]}]}");
    const char *folder = play(&a, buf_z(&b));
    for (int recorded = 0; recorded < 2; recorded++) {
        struct device_snapshot s = look(&a, recorded ? folder : NULL);
        assert_int_equal(s.cards[0].process_count, DEVICE_PROCESSES);
        assert_int_equal(s.cards[0].processes_unlisted, MANY - DEVICE_PROCESSES);
        int64_t largest = PRIME, pid = 0;
        for (int i = 0; i < DEVICE_PROCESSES; i++) { // no process has some of the numbers
            pid = s.cards[0].processes[i].pid;
            assert_true(s.cards[0].processes[i].used_bytes == pid * 37 % PRIME);
            assert_true(s.cards[0].processes[i].used_bytes < largest);
            largest = s.cards[0].processes[i].used_bytes;
        }
        assert_true(largest > PRIME - 2 * DEVICE_PROCESSES);
    }
    drop_machine(&a, folder);
}

// Marks for "not available" in place of values, and a code for every call.
static void what_is_not_told_is_unknown(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder =
        play(&a, "{\"devices\":[{\"name\":\"x\",\"facts\":{\"compute_major\":4294967295,\"compute_"
                 "minor\":4294967295},\"gauges\":{"
                 "\"energy_mj\":9223372036854775794,\"memory_temperature_c\":4294967295,"
                 "\"power_cap_ns\":9223372036854775807,\"fan_percent\":4294967295,"
                 "\"ecc_corrected\":9223372036854775807,\"temperature_c\":44}}]}");
    struct device_snapshot s = look(&a, NULL);
    drop_machine(&a, folder);
    for (int i = 0; i < device_field_count; i++) {
        if (strcmp(device_fields[i].key, "temperature_c") == 0) continue;
        double value = device_field_value(&s.cards[0], &device_fields[i]);
        if (!isnan(value)) fail_msg("%s is %g", device_fields[i].key, value);
    }
    assert_float_equal(s.cards[0].now.temperature_celsius, 44, 1e-9);
    assert_false(s.cards[0].has_processes);
}

// A driver that hands out 3 (not supported), 4 (no permission) or 13 for one call after the other
// loses that figure and no other.
static void one_call_that_fails_costs_one_figure(void **state) {
    (void)state;
    static const struct {
        const char *function, *key;
    } cases[] = {
        {"nvmlDeviceGetPowerUsage", "power_mw"},
        {"nvmlDeviceGetFanSpeed", "fan_percent"},
        {"nvmlDeviceGetTotalEnergyConsumption", "energy_mj"},
        {"nvmlDeviceGetEnforcedPowerLimit", "power_limit_mw"},
        {"nvmlDeviceGetCurrPcieLinkWidth", "pcie_width"},
        {"nvmlDeviceGetMemoryBusWidth", "memory_bus_bits"},
    };
    static const int codes[] = {3, 4, 13, 999};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        const char *folder = play(
            &a, str_format(
                    &a,
                    "{\"devices\":[{\"name\":\"x\",\"calls\":{\"%s\":{\"code\":%d}},"
                    "\"facts\":{\"memory_bus_bits\":384},\"gauges\":{\"power_mw\":1000,"
                    "\"fan_percent\":1,\"energy_mj\":1,\"power_limit_mw\":1,\"pcie_width\":1}}]}",
                    cases[i].function, codes[i % 4])
                    .p);
        struct device_snapshot s = look(&a, NULL);
        drop_machine(&a, folder);
        assert_int_equal(s.cards[0].state, DEVICE_ANSWERS);
        int known = 0;
        for (int f = 0; f < device_field_count; f++) {
            double value = device_field_value(&s.cards[0], &device_fields[f]);
            if (strcmp(device_fields[f].key, cases[i].key) == 0) assert_true(isnan(value));
            known += !isnan(value);
        }
        assert_int_equal(known, 5);
    }
}

static void a_sleeping_card_is_left_asleep(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = machine_folder(&a, "laptop-asleep");
    setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
    for (int i = 0; i < 2; i++) {
        struct device_snapshot s = look(&a, i ? folder : NULL);
        assert_int_equal(s.count, 1);
        assert_int_equal(s.cards[0].state, DEVICE_ASLEEP);
        assert_string_equal(s.cards[0].facts.name, "NVIDIA GeForce RTX 4060 Laptop GPU");
        assert_str(s.driver_version, "555.42.06");
        assert_int_equal(s.cards[0].now.total_bytes, -1); // the driver would have told
    }
}

// It is lost after 150 ms: its XID stays, what it had does not; the other goes on.
static void a_lost_card_is_told(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    const char *folder = play(
        &a, "{\"machine\":1,\"devices\":[{\"name\":\"x\",\"memory\":{\"total_bytes\":8,"
            "\"used_bytes\":4,\"reserved_bytes\":0,\"free_bytes\":4},\"gauges\":{\"gpu_percent\":"
            "9},\"samples\":[{\"at_ms\":150,\"calls\":{\"*\":{\"code\":15}}}]},"
            "{\"name\":\"y\",\"gauges\":{\"gpu_percent\":8}}]}");
    const char *const ways[] = {NULL, folder};
    for (int i = 0; i < 2; i++) {
        struct device_monitor *m;
        struct device_watching how = {.interval_ms = 5};
        struct device_snapshot s;
        int64_t begin = os_now_ns();
        assert_int_equal(device_monitor_open(&a, ways[i], &how, &m, &why), 0);
        do {
            device_monitor_read(&a, m, &s);
            usleep(1000);
            assert_true(os_now_ns() - begin < PATIENCE_MS * (int64_t)MS);
        } while (s.cards[0].state != DEVICE_LOST);
        device_monitor_close(m);
        wait_for_driver_to_go();
        assert_true(str_starts(str_of(s.cards[0].reason), STR("the driver lost it")));
        assert_true(isnan(s.cards[0].now.utilisation) && s.cards[0].now.total_bytes == -1);
        assert_int_equal(s.cards[1].state, DEVICE_ANSWERS);
        assert_float_equal(s.cards[1].now.utilisation, 0.08, 1e-9);
    }
    drop_machine(&a, folder);
}

// A folder in which everything is like the files of amdgpu: an RX 7900 XTX, and a CPU's own
// graphics, which are no GPU to train on.
static const char *make_amd(struct arena *a) {
    static const struct {
        const char *path, *text;
    } files[] = {
        {"vendor", "0x1002\n"},
        {"device", "0x744c\n"},
        {"uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n"},
        {"mem_info_vram_total", "25753026560\n"},
        {"mem_info_vram_used", "8589934592\n"},
        {"gpu_busy_percent", "97\n"},
        {"current_link_speed", "16.0 GT/s PCIe\n"},
        {"current_link_width", "8\n"},
        {"max_link_speed", "32.0 GT/s PCIe\n"},
        {"max_link_width", "16\n"},
        {"vbios_version", "113-D70401\n"},
        {"hwmon/hwmon4/power1_average", "287000000\n"},
        {"hwmon/hwmon4/power1_cap", "339000000\n"},
        {"hwmon/hwmon4/temp1_input", "61000\n"},
        {"hwmon/hwmon4/temp3_input", "82000\n"},
        {"hwmon/hwmon4/freq1_input", "2304000000\n"},
        {"hwmon/hwmon4/pwm1", "51\n"},
    };
    const char *root = play(a, "{\"machine\":1,\"devices\":[]}");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        put_file(a, root, str_format(a, "sys/class/drm/card1/device/%s", files[i].path).p,
                 files[i].text);
    }
    put_file(a, root, "sys/class/drm/card0/device/vendor", "0x1002\n");
    put_file(a, root, "sys/class/drm/card0/device/mem_info_vram_total", "536870912\n");
    put_file(a, root, "sys/class/drm/card1-DP-1/device/vendor", "0x1002\n");
    put_file(a, root, "proc/77/comm", "python3\n");
    put_file(a, root, "proc/77/fdinfo/5",
             "drm-driver: amdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t9\n"
             "drm-memory-vram:\t1024 KiB\n");
    put_file(a, root, "proc/77/fdinfo/6", // the same client once more
             "drm-driver: amdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t9\n"
             "drm-memory-vram:\t1024 KiB\n");
    put_file(a, root, "proc/78/fdinfo/5", "drm-pdev:\t0000:0a:00.0\ndrm-memory-vram:\t7 KiB\n");
    return root;
}

static void amd_cards_are_read_from_sysfs(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *root = make_amd(&a);
    struct device_snapshot s = look(&a, NULL);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.why_none.len, 0);
    const struct device_card *c = &s.cards[0];
    assert_int_equal(c->state, DEVICE_ANSWERS);
    assert_string_equal(c->facts.name, "AMD GPU 0x744c");
    assert_string_equal(c->facts.pci_bus_id, "0000:03:00.0");
    assert_string_equal(c->facts.vbios, "113-D70401");
    assert_int_equal(c->now.total_bytes, 25753026560);
    assert_int_equal(c->now.used_bytes, 8589934592);
    assert_int_equal(c->now.free_bytes, 25753026560 - 8589934592);
    assert_float_equal(c->now.utilisation, 0.97, 1e-9);
    assert_true(isnan(c->now.memory_utilisation) && isnan(c->now.energy_joules));
    assert_float_equal(c->now.power_watts, 287, 1e-9);
    assert_float_equal(c->now.power_limit_watts, 339, 1e-9);
    assert_float_equal(c->now.temperature_celsius, 61, 1e-9);
    assert_float_equal(c->now.memory_temperature_celsius, 82, 1e-9);
    assert_float_equal(c->now.sm_clock_mhz, 2304, 1e-9);
    assert_float_equal(c->now.fan, 0.2, 1e-6);
    assert_int_equal(c->now.pcie_generation, 4);
    assert_int_equal(c->facts.pcie_generation_max, 5);
    assert_int_equal(c->now.pcie_width, 8);
    assert_int_equal(c->process_count, 1);
    assert_int_equal(c->processes[0].pid, 77);
    assert_int_equal(c->processes[0].used_bytes, 1 << 20);
    assert_string_equal(c->processes[0].name, "python3");
    put_file(&a, root, "sys/class/drm/card1/device/power/runtime_status", "suspended\n");
    s = look(&a, NULL);
    assert_int_equal(s.cards[0].state, DEVICE_ASLEEP);
    assert_int_equal(s.cards[0].now.total_bytes, -1);
    remove_folder(root);
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

// The first GPU hangs for 20 s: it is said to hang, the second one is still asked, and nobody
// waits.
static void a_hanging_card_leaves_the_others_alone(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct device_monitor *m = NULL;
    const char *folder =
        play(&a, "{\"devices\":[{\"name\":\"x\",\"calls\":{\"nvmlDeviceGetUtilizationRates\":"
                 "{\"hang_ms\":20000}}},{\"name\":\"y\",\"gauges\":{\"gpu_percent\":50}}]}");
    struct device_watching how = {.interval_ms = 1, .deadline_ms = 100};
    int64_t begin = os_now_ns();
    assert_int_equal(device_monitor_open(&a, NULL, &how, &m, &why), 0);
    struct device_snapshot s = {0};
    while (s.count < 2 || s.cards[1].state != DEVICE_ANSWERS) {
        device_monitor_read(&a, m, &s);
        if (os_now_ns() - begin > 10 * (int64_t)1000 * MS) fail_msg("the second one waits");
        usleep(1000);
    }
    assert_int_equal(s.cards[0].state, DEVICE_HANGS);
    assert_true(strstr(s.cards[0].reason, "no answer within") != NULL);
    assert_float_equal(s.cards[1].now.utilisation, 0.5, 1e-9);
    device_monitor_close(m);
    device_monitor_close(m); // a second time does nothing
    drop_machine(&a, folder);
}

// Reads a GPU whose driver takes a third of the deadline for each answer, and never less.
static int watch_a_slow_driver(int seconds) {
    ARENA_AUTO a = {0};
    struct device_monitor *m = NULL;
    struct fail why = {0};
    struct device_snapshot s = {0};
    struct device_watching how = {.interval_ms = 1, .deadline_ms = 300};
    int64_t begin = os_now_ns();
    int hung = 0;
    if (device_monitor_open(&a, NULL, &how, &m, &why)) return -1;
    while (os_now_ns() - begin < seconds * (int64_t)1000 * MS) {
        device_monitor_read(&a, m, &s);
        hung += s.cards[0].state != DEVICE_ANSWERS;
        usleep(1000);
    }
    return hung != 0;
}

// Stopped for longer than the deadline, as by Ctrl-Z: after it nobody has hung.
static void who_was_stopped_blames_no_card(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder =
        play(&a, "{\"devices\":[{\"name\":\"x\",\"calls\":{\"nvmlDeviceGetUtilizationRates\":"
                 "{\"hang_ms\":100}}}]}");
    pid_t child = fork();
    if (child == 0) _exit(watch_a_slow_driver(6));
    sleep(1);
    for (int i = 0; i < 5; i++) {
        kill(child, SIGSTOP);
        usleep(400000);
        kill(child, SIGCONT);
        usleep(300000);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    drop_machine(&a, folder);
}

static void a_hanging_driver_is_said(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct device_monitor *m = NULL;
    const char *folder = play(&a, "{\"calls\":{\"nvmlInit_v2\":{\"hang_ms\":20000}}}");
    assert_int_equal(
        device_monitor_open(&a, NULL, &(struct device_watching){.deadline_ms = 50}, &m, &why), 0);
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
        cmocka_unit_test(a_recording_is_what_was_seen),
        cmocka_unit_test(a_recording_plays_over_time),
        cmocka_unit_test(figures_are_in_our_units),
        cmocka_unit_test(processes_are_described),
        cmocka_unit_test(both_process_layouts_are_read),
        cmocka_unit_test(only_the_largest_processes_are_kept),
        cmocka_unit_test(what_is_not_told_is_unknown),
        cmocka_unit_test(one_call_that_fails_costs_one_figure),
        cmocka_unit_test(a_sleeping_card_is_left_asleep),
        cmocka_unit_test(a_lost_card_is_told),
        cmocka_unit_test(amd_cards_are_read_from_sysfs),
        cmocka_unit_test(no_driver_is_an_answer),
        cmocka_unit_test(a_broken_recording_is_refused),
    };
    const struct CMUnitTest hang[] = {cmocka_unit_test(a_hanging_card_leaves_the_others_alone)};
    const struct CMUnitTest hang_init[] = {cmocka_unit_test(a_hanging_driver_is_said)};
    const struct CMUnitTest stopped[] = {cmocka_unit_test(who_was_stopped_blames_no_card)};
    const char *what = argc > 1 ? argv[1] : "new";
    if (strcmp(what, "stopped") == 0) return cmocka_run_group_tests(stopped, NULL, NULL);
    if (strcmp(what, "hang") == 0) return cmocka_run_group_tests(hang, NULL, NULL);
    if (strcmp(what, "hang_init") == 0) return cmocka_run_group_tests(hang_init, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
