// SPDX-License-Identifier: Apache-2.0
// The CPU of a machine that is a folder: its counters are written by the test.
#include "device_machines.h"

#include "base/os.h"
#include "machine/device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char root[64];

static int make_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/batchfit-unit-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state) {
    (void)state;
    return remove_all(root);
}

static void nothing_is_known_of_an_empty_machine(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct device_cpu_watch *w = device_cpu_open(&a, root);
    struct device_cpu_gauges g;
    for (int i = 0; i < 2; i++) {
        device_cpu_look(w, &g);
        assert_true(isnan(g.utilisation) && isnan(g.io_wait) && isnan(g.load));
        assert_true(isnan(g.group_cpus) && isnan(g.group_used_cpus) && isnan(g.group_throttled));
        assert_true(isnan(g.energy_joules) && isnan(g.power_watts));
        assert_true(isnan(g.temperature_celsius) && isnan(g.memory_stalled));
        assert_int_equal(g.total_bytes, -1);
        assert_int_equal(g.swap_used_bytes, -1);
        usleep(2000);
    }
}

static void shares_are_of_the_time_between(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct device_cpu_gauges g;
    put_file(&a, root, "proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3\n");
    put_file(&a, root, "proc/loadavg", "3.50 2.00 1.00 2/345 6789\n");
    put_file(&a, root, "proc/pressure/memory",
             "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0\n");
    put_file(&a, root, "proc/meminfo",
             "MemTotal: 1000 kB\nMemAvailable: 400 kB\nSwapTotal: 100 kB\nSwapFree: 75 kB\n");
    struct device_cpu_watch *w = device_cpu_open(&a, root);
    device_cpu_look(w, &g);
    assert_true(isnan(g.utilisation));
    assert_float_equal(g.load, 3.5, 1e-9);
    assert_float_equal(g.memory_stalled, 0.125, 1e-9);
    assert_int_equal(g.total_bytes, 1024000);
    assert_int_equal(g.swap_total_bytes, 102400);
    assert_int_equal(g.swap_used_bytes, 25600);
    put_file(&a, root, "proc/stat",
             "cpu  130 10 110 840 10 0 0 0 0 0\n"); // 50 busy, 40 idle, 10 wait
    usleep(2000);
    device_cpu_look(w, &g);
    assert_float_equal(g.utilisation, 0.5, 1e-9);
    assert_float_equal(g.io_wait, 0.1, 1e-9);
}

static void the_control_group_is_seen(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct device_cpu_gauges g;
    put_file(&a, root, "sys/fs/cgroup/cpu.max", "250000 100000\n");
    put_file(&a, root, "sys/fs/cgroup/cpu.stat",
             "usage_usec 1000\nuser_usec 1\nthrottled_usec 50\n");
    put_file(&a, root, "proc/meminfo", "MemTotal: 4000 kB\nMemAvailable: 3000 kB\n");
    put_file(&a, root, "sys/fs/cgroup/memory.max", "1024000\n");
    put_file(&a, root, "sys/fs/cgroup/memory.current", "24000\n");
    struct device_cpu_watch *w = device_cpu_open(&a, root);
    device_cpu_look(w, &g);
    int64_t first_ns = g.at_ns;
    assert_float_equal(g.group_cpus, 2.5, 1e-9);
    assert_int_equal(g.total_bytes, 1024000);
    assert_int_equal(g.available_bytes, 1000000);
    struct device_cpu cpu;
    device_cpu_read(&a, root, &cpu);
    assert_float_equal(cpu.quota_cores, 2.5, 1e-9);
    assert_int_equal(cpu.total_bytes, 1024000);
    assert_int_equal(cpu.machine.total_bytes, 4096000); // whatever the group allows
    assert_int_equal(cpu.machine.available_bytes, 3072000);
    assert_int_equal(cpu.machine.swap_total_bytes, -1);
    usleep(2000);
    put_file(&a, root, "sys/fs/cgroup/cpu.stat", "usage_usec 5000\nthrottled_usec 1050\n");
    device_cpu_look(w, &g);
    double us = (double)(g.at_ns - first_ns) / 1e3;
    assert_true(fabs(g.group_used_cpus - 4000 / us) < 1e-9);
    assert_true(fabs(g.group_throttled - fmin(1000 / us, 1)) < 1e-9);
    put_file(&a, root, "sys/fs/cgroup/cpu.max", "max 100000\n");
    device_cpu_look(w, &g);
    assert_true(isnan(g.group_cpus));
    assert_int_equal(remove(str_format(&a, "%s/sys/fs/cgroup/cpu.max", root).p), 0);
    put_file(&a, root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
    put_file(&a, root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    device_cpu_look(w, &g);
    assert_float_equal(g.group_cpus, 1.5, 1e-9);
    put_file(&a, root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    device_cpu_look(w, &g);
    assert_true(isnan(g.group_cpus));
}

static void put_zone(struct arena *a, const char *zone, const char *name, const char *uj) {
    put_file(a, root, str_format(a, "sys/class/powercap/%s/name", zone).p, name);
    put_file(a, root, str_format(a, "sys/class/powercap/%s/energy_uj", zone).p, uj);
    put_file(a, root, str_format(a, "sys/class/powercap/%s/max_energy_range_uj", zone).p,
             "10000000\n");
}

// Package and memory count, the cores within the package do not; the package's counter wraps.
static void energy_is_counted_over_the_wrap(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct device_cpu_gauges g;
    put_zone(&a, "intel-rapl:0", "package-0\n", "9000000\n");
    put_zone(&a, "intel-rapl:0:0", "core\n", "1\n");
    put_zone(&a, "intel-rapl:0:1", "dram\n", "500000\n");
    put_zone(&a, "intel-rapl:1", "psys\n", "1\n");
    put_zone(&a, "dtpm", "package-0\n", "1\n");
    struct device_cpu_watch *w = device_cpu_open(&a, root);
    device_cpu_look(w, &g);
    int64_t first_ns = g.at_ns;
    assert_float_equal(g.energy_joules, 0, 1e-9);
    put_zone(&a, "intel-rapl:0", "package-0\n", "2000000\n"); // 3 J on, over 10 J
    put_zone(&a, "intel-rapl:0:0", "core\n", "9999999\n");
    put_zone(&a, "intel-rapl:0:1", "dram\n", "1000000\n"); // 0.5 J on
    usleep(2000);
    device_cpu_look(w, &g);
    assert_float_equal(g.energy_joules, 3.5, 1e-9);
    assert_true(fabs(g.power_watts * (double)(g.at_ns - first_ns) / 1e9 - 3.5) < 1e-6);
}

static void the_hottest_package_is_told(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct device_cpu_gauges g;
    put_file(&a, root, "sys/class/thermal/thermal_zone0/type", "acpitz\n");
    put_file(&a, root, "sys/class/thermal/thermal_zone0/temp", "99000\n");
    put_file(&a, root, "sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
    put_file(&a, root, "sys/class/thermal/thermal_zone1/temp", "61000\n");
    put_file(&a, root, "sys/class/thermal/thermal_zone2/type", "x86_pkg_temp\n");
    put_file(&a, root, "sys/class/thermal/thermal_zone2/temp", "64500\n");
    device_cpu_look(device_cpu_open(&a, root), &g);
    assert_float_equal(g.temperature_celsius, 64.5, 1e-9);
}

static void this_machine_answers(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct device_cpu_gauges g;
    device_cpu_look(device_cpu_open(&a, ""), &g);
    assert_true(g.cores >= 1 && g.total_bytes > 0 && g.load >= 0);
}

#define IN_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, drop_root)
int main(void) {
    const struct CMUnitTest tests[] = {
        IN_ROOT(nothing_is_known_of_an_empty_machine),
        IN_ROOT(shares_are_of_the_time_between),
        IN_ROOT(the_control_group_is_seen),
        IN_ROOT(energy_is_counted_over_the_wrap),
        IN_ROOT(the_hottest_package_is_told),
        cmocka_unit_test(this_machine_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
