// SPDX-License-Identifier: Apache-2.0
// What the CPU does over time: differences of the counters in /proc/stat, the control group's
// cpu.stat and the energy counters of powercap (RAPL). The energy counters wrap, at
// max_energy_range_uj; only root may read them on most systems (since Linux 5.10), which makes them
// unknown. A virtual machine has none.
#include "machine/device/device.h"

#include "base/os.h"

#include <math.h>
#include <sched.h>

enum { ZONES = 64, MIN_NS = 1000000 };

struct counters {
    double busy, idle, wait; // of /proc/stat, in its ticks
    double group_used_us, group_throttled_us;
};

struct device_cpu_watch {
    const char *root;
    struct counters before;
    int64_t before_ns; // 0: nothing was read yet
    double joules;     // NaN: no zone can be read
    double joules_before;
    int zone_count;
    struct zone {
        const char *path;
        double uj, range_uj;
    } zones[ZONES];
};

static double number_in(struct arena *a, const char *root, const char *path) {
    double number;
    return str_to_double(str_trim(os_read_small(a, root, path)), &number) ? number : (double)NAN;
}

// "KEY 123", one a line.
static double number_behind(struct str text, const char *key) {
    while (text.p) {
        struct str line = str_line(&text);
        double number;
        if (!str_is(str_cut(&line, ' '), key)) continue;
        line = str_trim(line);
        if (str_to_double(str_trim(str_cut(&line, ' ')), &number)) return number;
    }
    return (double)NAN;
}

// "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; the guests' time is in
// user's, too (proc(5)).
static void read_stat(struct arena *a, const char *root, struct counters *c) {
    struct str text = os_read_small(a, root, "/proc/stat"), line = str_line(&text);
    double n[8];
    int found = 0;
    struct str name = str_cut(&line, ' ');
    while (str_is(name, "cpu") && line.p && found < 8) {
        struct str word = str_cut(&line, ' ');
        if (word.len == 0) continue; // two blanks stand behind the name
        if (!str_to_double(word, &n[found])) break;
        found++;
    }
    c->busy = c->idle = c->wait = (double)NAN;
    if (found < 8) return;
    c->busy = n[0] + n[1] + n[2] + n[5] + n[6] + n[7];
    c->idle = n[3];
    c->wait = n[4];
}

static struct counters read_counters(struct arena *a, const char *root) {
    struct counters c;
    struct str group = os_read_small(a, root, "/sys/fs/cgroup/cpu.stat");
    read_stat(a, root, &c);
    c.group_used_us = number_behind(group, "usage_usec");
    c.group_throttled_us = number_behind(group, "throttled_usec");
    return c;
}

// The packages and their memory ("dram"); cores and uncore are parts of the package, and psys
// counts all of them once more.
static bool counts(struct arena *a, const char *root, const char *path) {
    struct str name = str_trim(os_read_small(a, root, str_format(a, "%s/name", path).p));
    return str_starts(name, STR("package")) || str_is(name, "dram");
}

static void find_zones(struct arena *a, struct device_cpu_watch *w) {
    struct str *names;
    ptrdiff_t count = 0;
    const char *all = str_format(a, "%s/sys/class/powercap", w->root).p;
    if (os_list(a, all, "", &names, &count, NULL)) return;
    for (ptrdiff_t i = 0; i < count && w->zone_count < ZONES; i++) {
        const char *path = str_format(a, "/sys/class/powercap/%.*s", STR_ARG(names[i])).p;
        if (!str_starts(names[i], STR("intel-rapl:")) || !counts(a, w->root, path)) continue;
        struct zone *zone = &w->zones[w->zone_count];
        zone->path = str_format(a, "%s/energy_uj", path).p;
        zone->uj = number_in(a, w->root, zone->path);
        zone->range_uj = number_in(a, w->root, str_format(a, "%s/max_energy_range_uj", path).p);
        if (!isnan(zone->uj)) w->zone_count++;
    }
    w->joules = w->zone_count ? 0 : (double)NAN;
}

static void count_energy(struct arena *a, struct device_cpu_watch *w) {
    for (int i = 0; i < w->zone_count; i++) {
        struct zone *zone = &w->zones[i];
        double now = number_in(a, w->root, zone->path), more = now - zone->uj;
        if (isnan(now)) continue;
        if (more < 0) more = isnan(zone->range_uj) ? 0 : more + zone->range_uj; // it wrapped
        if (more > 0) w->joules += more / 1e6;
        zone->uj = now;
    }
}

static double temperature_of(struct arena *a, const char *root) {
    struct str *names;
    ptrdiff_t count = 0;
    double hottest = (double)NAN;
    if (os_list(a, str_format(a, "%s/sys/class/thermal", root).p, "", &names, &count, NULL)) {
        return hottest;
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        const char *path = str_format(a, "/sys/class/thermal/%.*s", STR_ARG(names[i])).p;
        struct str type = str_trim(os_read_small(a, root, str_format(a, "%s/type", path).p));
        if (!str_is(type, "x86_pkg_temp") && !str_starts(type, STR("cpu-thermal"))) continue;
        double celsius = number_in(a, root, str_format(a, "%s/temp", path).p) / 1000;
        if (isnan(hottest) || celsius > hottest) hottest = celsius;
    }
    return hottest;
}

static void read_memory(struct arena *a, const char *root, struct device_cpu_gauges *g) {
    struct device_cpu cpu;
    device_cpu_read(a, root, &cpu);
    const struct device_meminfo *m = &cpu.machine;
    bool is_known = m->swap_free_bytes >= 0 && m->swap_free_bytes <= m->swap_total_bytes;
    g->cores = cpu.cores;
    g->total_bytes = cpu.total_bytes;
    g->available_bytes = cpu.available_bytes;
    g->group_cpus = cpu.quota_cores;
    g->swap_total_bytes = is_known ? m->swap_total_bytes : -1;
    g->swap_used_bytes = is_known ? m->swap_total_bytes - m->swap_free_bytes : -1;
}

static double load_of(struct arena *a, const char *root) {
    struct str text = os_read_small(a, root, "/proc/loadavg");
    double load;
    return str_to_double(str_cut(&text, ' '), &load) ? load : (double)NAN;
}

// "some avg10=1.23 avg60=..."
static double stalled_of(struct arena *a, const char *root) {
    struct str text = os_read_small(a, root, "/proc/pressure/memory");
    double percent;
    if (!str_is(str_cut(&text, ' '), "some") || !str_is(str_cut(&text, '='), "avg10")) {
        return (double)NAN;
    }
    return str_to_double(str_cut(&text, ' '), &percent) ? percent / 100 : (double)NAN;
}

static double share(double part, double whole) {
    return whole > 0 && part >= 0 ? part / whole : (double)NAN; // NaN stays NaN
}

// What is a difference to the look before.
static void read_rates(struct device_cpu_watch *w, const struct counters *now,
                       struct device_cpu_gauges *g) {
    const struct counters *before = &w->before;
    double busy = now->busy - before->busy, wait = now->wait - before->wait;
    double all = busy + wait + now->idle - before->idle;
    double us = (double)(g->at_ns - w->before_ns) / 1e3;
    g->utilisation = share(busy, all);
    g->io_wait = share(wait, all);
    g->group_used_cpus = share(now->group_used_us - before->group_used_us, us);
    g->group_throttled = share(now->group_throttled_us - before->group_throttled_us, us);
    if (g->group_throttled > 1) g->group_throttled = 1; // it counts every CPU's
    g->power_watts = share(w->joules - w->joules_before, us / 1e6);
}

void device_cpu_look(struct device_cpu_watch *w, struct device_cpu_gauges *ret_gauges) {
    ARENA_AUTO a = {0};
    struct device_cpu_gauges g = {
        .at_ns = os_now_ns(),
        .utilisation = (double)NAN,
        .io_wait = (double)NAN,
        .group_used_cpus = (double)NAN,
        .group_throttled = (double)NAN,
        .power_watts = (double)NAN,
    };
    struct counters now = read_counters(&a, w->root);
    count_energy(&a, w);
    read_memory(&a, w->root, &g);
    g.load = load_of(&a, w->root);
    g.temperature_celsius = temperature_of(&a, w->root);
    g.memory_stalled = stalled_of(&a, w->root);
    g.energy_joules = w->joules;
    bool is_rate = w->before_ns && g.at_ns - w->before_ns >= MIN_NS;
    if (is_rate) read_rates(w, &now, &g);
    if (is_rate || !w->before_ns) {
        w->before = now;
        w->before_ns = g.at_ns;
        w->joules_before = w->joules;
    }
    *ret_gauges = g;
}

struct device_cpu_watch *device_cpu_open(struct arena *a, const char *root) {
    struct device_cpu_watch *w = arena_new(a, struct device_cpu_watch, 1);
    w->root = str_z(a, str_of(root));
    find_zones(a, w);
    return w;
}
