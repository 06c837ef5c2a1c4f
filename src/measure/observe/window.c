// SPDX-License-Identifier: Apache-2.0
// Counters over time as shares of a window. A counter that goes back was begun again (the driver
// was loaded again): what it shows since then counts. One that is unknown for a while takes that
// while out of its own share only.
#include "measure/observe/observe_int.h"

#include "stats/stats.h"

#include <math.h>

// Throttle counters and energy step about ten times a second (NVML on recent GPUs, ~100 ms): less
// than two seconds are mostly their grain.
static const double seconds_least = 2;
// Power between two readings further apart than this is not known.
static const double gap_most_seconds = 10;
// Below this a low clock is idleness, not loss.
static const double busy_least = 0.5;

static void part_add(struct part *p, double part, double seconds) {
    if (isnan(part)) return;
    p->part += part;
    p->seconds += seconds;
}

static double power_of(const struct device_gauges *g) {
    return isnan(g->power_watts) ? g->power_average_watts : g->power_watts;
}

static void add_counters(struct sums *s, const struct device_gauges *a,
                         const struct device_gauges *b, double seconds) {
    double sw = stats_counted(a->sw_thermal_seconds, b->sw_thermal_seconds, seconds);
    double hw = stats_counted(a->hw_thermal_seconds, b->hw_thermal_seconds, seconds);
    double brake = stats_counted(a->power_brake_seconds, b->power_brake_seconds, seconds);
    bool is_known = !isnan(sw) || !isnan(hw) || !isnan(brake);
    double all = stats_or_0(sw) + stats_or_0(hw) + stats_or_0(brake);
    part_add(&s->throttled, is_known ? all : (double)NAN, seconds);
    part_add(&s->sw_thermal, sw, seconds);
    part_add(&s->hw_thermal, hw, seconds);
    part_add(&s->power_brake, brake, seconds);
    part_add(&s->power_cap, stats_counted(a->power_cap_seconds, b->power_cap_seconds, seconds),
             seconds);
    part_add(&s->sync_boost, stats_counted(a->sync_boost_seconds, b->sync_boost_seconds, seconds),
             seconds);
}

static void add_energy(struct sums *s, const struct device_gauges *a, const struct device_gauges *b,
                       double seconds) {
    double joules = stats_counted(a->energy_joules, b->energy_joules, INFINITY);
    double watts = (power_of(a) + power_of(b)) / 2;
    if (isnan(joules)) {
        s->uncounted++;
    } else {
        s->counted_joules += joules;
        s->counted++;
    }
    if (isnan(watts) || seconds > gap_most_seconds) return;
    s->integrated_joules += watts * seconds;
    s->integrated++;
}

void observe_sums_add(struct sums *s, const struct device_gauges *before,
                      const struct device_gauges *now) {
    double seconds = (double)(now->at_ns - before->at_ns) * 1e-9;
    if (!(seconds > 0)) return;
    s->seconds += seconds;
    add_counters(s, before, now, seconds);
    add_energy(s, before, now, seconds);
    double watts = power_of(now);
    if (!isnan(watts)) s->power_watts += watts, s->powers++;
    if (!isnan(now->utilisation)) s->utilisation += now->utilisation, s->utilisations++;
    if (!(now->utilisation >= busy_least) || isnan(now->sm_clock_mhz)) return;
    s->clock_mhz += now->sm_clock_mhz;
    s->clocks++;
}

// Held to the whole, not reading by reading: a counter may move in lumps, two seconds' worth in one
// of two readings.
static double share_of(struct part p) {
    return p.seconds >= seconds_least ? fmin(p.part / p.seconds, 1) : (double)NAN;
}

static double mean_of(double sum, int64_t count) {
    return count > 0 ? sum / (double)count : (double)NAN;
}

struct observe_window observe_sums_window(const struct sums *s, double sm_clock_max_mhz) {
    double clock = mean_of(s->clock_mhz, s->clocks);
    bool is_counted = s->counted > 0 && s->uncounted == 0;
    bool is_integrated = !is_counted && s->integrated > 0;
    return (struct observe_window){
        .seconds = s->seconds,
        .throttled_share = share_of(s->throttled),
        .power_cap_share = share_of(s->power_cap),
        .sync_boost_share = share_of(s->sync_boost),
        .sw_thermal_share = share_of(s->sw_thermal),
        .hw_thermal_share = share_of(s->hw_thermal),
        .power_brake_share = share_of(s->power_brake),
        .clock_lost_share =
            sm_clock_max_mhz > 0 ? fmax(1 - clock / sm_clock_max_mhz, 0 * clock) : (double)NAN,
        .utilisation_mean = mean_of(s->utilisation, s->utilisations),
        .power_mean_watts = mean_of(s->power_watts, s->powers),
        .energy_joules = is_counted      ? s->counted_joules
                         : is_integrated ? s->integrated_joules
                                         : (double)NAN,
        .energy_is_integrated = is_integrated,
    };
}

struct observe_window observe_window_of(const struct device_gauges *items, ptrdiff_t count,
                                        double seconds, double sm_clock_max_mhz) {
    struct sums sums = {0};
    int64_t from_ns = count ? items[count - 1].at_ns - (int64_t)(seconds * 1e9) : 0;
    ptrdiff_t begin = count;
    while (begin > 0 && items[begin - 1].at_ns >= from_ns) begin--;
    for (ptrdiff_t i = begin + 1; i < count; i++) observe_sums_add(&sums, &items[i - 1], &items[i]);
    return observe_sums_window(&sums, sm_clock_max_mhz);
}
