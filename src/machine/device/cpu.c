// SPDX-License-Identifier: Apache-2.0
#include "machine/device/device.h"

#include "base/os.h"

#include <math.h>
#include <sched.h>

// The value behind "KEY<blanks>:" or "KEY " of the first line that has it; empty: none.
static struct str value_of(struct str text, struct str key) {
    while (text.p) {
        struct str line = str_line(&text);
        if (!str_starts(line, key)) continue;
        line = str_trim(str_slice(line, key.len, line.len));
        if (str_starts(line, STR(":"))) line = str_trim(str_slice(line, 1, line.len));
        return line;
    }
    return (struct str){0};
}

static int64_t kib_of(struct str meminfo, struct str key) {
    struct str value = value_of(meminfo, key);
    int64_t kib;
    return str_to_i64(str_cut(&value, ' '), &kib) ? kib * 1024 : -1;
}

static int64_t number_in(struct arena *a, const char *root, const char *path) {
    int64_t number;
    return str_to_i64(str_trim(os_read_small(a, root, path)), &number) ? number : -1;
}

// A container sees its own control group at the top of the hierarchy; version 2, then 1. Version 1
// writes "no limit" as a number near 2^63.
static const struct {
    const char *limit, *used;
} groups[] = {
    {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
};

static void stay_in_group(struct arena *a, const char *root, struct device_cpu *cpu) {
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        int64_t limit = number_in(a, root, groups[i].limit);
        int64_t used = number_in(a, root, groups[i].used);
        if (limit <= 0 || (cpu->total_bytes > 0 && limit >= cpu->total_bytes)) continue;
        cpu->total_bytes = limit;
        int64_t left = used >= 0 && used < limit ? limit - used : 0;
        if (used >= 0 && left < cpu->available_bytes) cpu->available_bytes = left;
        return;
    }
}

// "400000 100000": so much of each period; "max": no limit. Version 1 of control groups has two
// files, in which -1 is no limit.
static double quota_of_group(struct arena *a, const char *root) {
    struct str period = str_trim(os_read_small(a, root, "/sys/fs/cgroup/cpu.max")), quota;
    double q, p;
    if (period.len > 0) {
        quota = str_cut(&period, ' ');
    } else {
        quota = str_trim(os_read_small(a, root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"));
        period = str_trim(os_read_small(a, root, "/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
    }
    bool is_limit = str_to_double(quota, &q) && str_to_double(period, &p) && q > 0 && p > 0;
    return is_limit ? q / p : (double)NAN;
}

struct device_meminfo device_meminfo_read(struct arena *a, const char *root) {
    struct str text = os_read_small(a, root, "/proc/meminfo");
    return (struct device_meminfo){kib_of(text, STR("MemTotal")), kib_of(text, STR("MemAvailable")),
                                   kib_of(text, STR("SwapTotal")), kib_of(text, STR("SwapFree"))};
}

void device_cpu_read(struct arena *a, const char *root, struct device_cpu *ret_cpu) {
    struct device_meminfo machine = device_meminfo_read(a, root);
    cpu_set_t set;
    struct device_cpu cpu = {
        .name = value_of(os_read_small(a, root, "/proc/cpuinfo"), STR("model name")),
        .cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1,
        .total_bytes = machine.total_bytes,
        .available_bytes = machine.available_bytes,
        .quota_cores = quota_of_group(a, root),
        .machine = machine,
    };
    if (cpu.name.len == 0) cpu.name = STR("CPU");
    stay_in_group(a, root, &cpu);
    *ret_cpu = cpu;
}
