// SPDX-License-Identifier: Apache-2.0
// The table of the rules, and those about clocks that are limited.
#include "machine/trend/trend_int.h"
#include "stats/stats.h"

#include <math.h>

// Counters step about ten times a second; a share of less than two seconds is mostly their grain.
enum { SECONDS_MIN = 2 };

// --- Throttled -----------------------------------------------------------------------------------

struct shares {
    double heat, power_cap, brake; // of the time; NaN: unknown
    double seconds;
};

static struct shares shares_of(const struct trend_stretch *s) {
    struct shares shares = {NAN, NAN, NAN, 0};
    double heat = 0, cap = 0, braked = 0;
    bool has_heat = false, has_cap = false, has_brake = false;
    for (ptrdiff_t i = 1; i < s->gauge_count; i++) {
        const struct device_gauges *a = &s->gauges[i - 1], *b = &s->gauges[i];
        double seconds = trend_seconds(a, b);
        double sw = stats_counted(a->sw_thermal_seconds, b->sw_thermal_seconds, seconds);
        double hw = stats_counted(a->hw_thermal_seconds, b->hw_thermal_seconds, seconds);
        double brake = stats_counted(a->power_brake_seconds, b->power_brake_seconds, seconds);
        double power = stats_counted(a->power_cap_seconds, b->power_cap_seconds, seconds);
        has_heat |= !isnan(sw) || !isnan(hw) || !isnan(brake);
        has_cap |= !isnan(power);
        has_brake |= !isnan(brake);
        braked += stats_or_0(brake);
        heat += stats_or_0(sw) + stats_or_0(hw) + stats_or_0(brake);
        cap += stats_or_0(power);
        shares.seconds += seconds;
    }
    if (has_heat && shares.seconds > 0) shares.heat = fmin(heat / shares.seconds, 1);
    if (has_brake && shares.seconds > 0) shares.brake = fmin(braked / shares.seconds, 1);
    if (has_cap && shares.seconds > 0) shares.power_cap = fmin(cap / shares.seconds, 1);
    return shares;
}

// How far the clock was below its maximum while the GPU was busy; NaN: unknown.
static double clock_lost(const struct trend_stretch *s) {
    double sum = 0;
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < s->gauge_count; i++) {
        const struct device_gauges *g = &s->gauges[i];
        if (!(g->utilisation >= 0.5) || isnan(g->sm_clock_mhz)) continue;
        sum += g->sm_clock_mhz;
        count++;
    }
    bool is_known = count > 0 && s->sm_clock_max_mhz > 0;
    return is_known ? fmax(1 - sum / (double)count / s->sm_clock_max_mhz, 0) : (double)NAN;
}

static bool throttled(const struct trend *t, struct finding *f) {
    struct shares s = shares_of(t->stretch);
    double lost = clock_lost(t->stretch);
    if (s.seconds < SECONDS_MIN || (isnan(s.heat) && isnan(s.power_cap))) return false;
    struct buf b = buf_new(t->arena);
    if (!isnan(s.heat))
        buf_format(&b, "heat or power brake %.1f %% of %.0f s", 100 * s.heat, s.seconds);
    if (!isnan(s.power_cap)) {
        buf_format(&b, "%spower limit %.1f %%", b.count ? ", " : "", 100 * s.power_cap);
    }
    if (!isnan(lost)) buf_format(&b, "; clock %.0f %% below its maximum while busy", 100 * lost);
    struct str value = str_format(t->arena, "%.1f %%", 100 * stats_or_0(s.heat));
    // Not more than the time in which heat was in the way: the highest clock is not always reached.
    double hours = 24 * fmin(lost, s.heat);
    if (s.heat >= 0.01 && hours >= 0.1) buf_format(&b, "; that costs %.1f h a day", hours);
    if (s.heat >= 0.01) {
        return finding_say(f, FINDING_WARNING, value, buf_str(&b),
                           "improve cooling and power supply, or lower the power limit: a steady "
                           "clock is better than a sawtooth");
    }
    return finding_say(f, s.power_cap >= 0.5 ? FINDING_NOTE : FINDING_OK, value, buf_str(&b), NULL);
}

// Said only where there is one: the GPU's power connector tells it to slow down.
static bool brake(const struct trend *t, struct finding *f) {
    struct shares s = shares_of(t->stretch);
    if (s.seconds < SECONDS_MIN || !(s.brake >= 0.001)) return false;
    return finding_tell(t->arena, f, FINDING_PROBLEM,
                        str_format(t->arena, "%.1f %%", 100 * s.brake),
                        "check the power supply, its cables and its other loads; meanwhile lower "
                        "the power limit (nvidia-smi -pl)",
                        "the power brake limited the clocks for %.1f %% of %.0f s: the machine "
                        "cannot power the GPU",
                        100 * s.brake, s.seconds);
}

static const struct {
    const char *id, *what;
    trend_rule *judge;
} rules[] = {
    {"trend.state", "the GPU", trend_state},
    {"trend.throttled", "time throttled", throttled},
    {"trend.brake", "power brake", brake},
    {"trend.xid", "GPU error", trend_xid},
    {"trend.ecc", "memory errors", trend_ecc},
    {"trend.replays", "PCIe link", trend_replays},
    {"trend.leak", "memory leak", trend_leak},
    {"trend.spill", "memory spilled to the host", trend_spill},
    {"trend.full", "memory nearly full", trend_full},
    {"trend.missed", "predicted memory", trend_missed},
    {"trend.starved", "GPU starved", trend_starved},
};

void trend_judge(struct arena *a, const struct trend_stretch *stretch, int card,
                 struct findings *findings) {
    const struct trend t = {a, stretch};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct finding f = {.id = rules[i].id, .what = rules[i].what, .card = card};
        if (!rules[i].judge(&t, &f)) continue;
        *arena_push(a, &findings->items, &findings->count, &findings->capacity) = f;
    }
}
