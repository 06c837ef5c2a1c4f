// SPDX-License-Identifier: Apache-2.0
// What the measured steps of a trial cost in energy. The counters move about ten times a second, so
// a short window says little: one under two seconds, or under twenty moves, is refused.
#include "measure/launch/launch_int.h"

#include "base/os.h"
#include "machine/device/device.h"

#include <math.h>

enum { CHANGES_LEAST = 20, LOOK_NS = 50000000 };
static const double seconds_least = 2;

// The GPU's, at the sampler's last look; or the CPU's now.
static double counter_of(struct launch *l, int64_t *ret_at_ns) {
    if (l->place.sampler) {
        struct device_gauges sample = device_sampler_read(l->place.sampler);
        *ret_at_ns = sample.at_ns;
        return sample.energy_joules;
    }
    struct device_cpu_gauges gauges = {.energy_joules = (double)NAN};
    if (l->processor) device_cpu_look(l->processor, &gauges);
    *ret_at_ns = gauges.at_ns;
    return gauges.energy_joules;
}

static double samples_of(const struct steps *steps) {
    double samples = 0;
    for (ptrdiff_t i = 0; i < steps->count; i++) {
        if (steps->items[i].samples > 0) samples += (double)steps->items[i].samples;
    }
    return samples;
}

void launch_energy_look(struct launch_energy *e, struct launch *l, const struct steps *steps) {
    int64_t made = steps_of_slowest(steps, 0), warmup = launch_warmup(l->options),
            now = os_now_ns();
    bool is_measured = made >= warmup && made <= warmup + launch_steps(l->options);
    if (!is_measured || now - e->looked_ns < LOOK_NS) return;
    e->looked_ns = now;
    struct launch_energy_point point = {.samples = samples_of(steps)};
    point.joules = counter_of(l, &point.at_ns);
    if (isnan(point.joules)) return;
    e->is_there = true;
    if (e->first.at_ns == 0) e->first = e->last = point;
    if (point.joules < e->last.joules) e->fell_back = true;
    if (point.joules != e->last.joules) e->changes++;
    e->last = point;
}

static bool has_counter(const struct launch_energy *e, struct launch *l) {
    int64_t at_ns = 0;
    return e->is_there || (e->looked_ns == 0 && !isnan(counter_of(l, &at_ns)));
}

void launch_energy_read(const struct launch_energy *e, struct launch *l, struct launch_result *r) {
    double seconds = (double)(e->last.at_ns - e->first.at_ns) / 1e9;
    double samples = e->last.samples - e->first.samples;
    r->joules_per_sample = r->energy_joules = (double)NAN;
    if (!has_counter(e, l)) {
        r->energy_why = l->place.sampler ? STR("the GPU's driver has no energy counter")
                                         : STR("the CPU's energy counter (RAPL) cannot be read");
    } else if (e->looked_ns == 0) {
        r->energy_why = STR("too short: it ended before the counter could be read");
    } else if (e->fell_back) {
        r->energy_why = STR("the counter was reset during the run");
    } else if (seconds < seconds_least || e->changes < CHANGES_LEAST || samples <= 0) {
        r->energy_why =
            STR("too short: the counter needs measured steps of 2 seconds or more (--steps)");
    } else {
        r->joules_per_sample = (e->last.joules - e->first.joules) / samples;
        r->energy_joules =
            r->joules_per_sample * r->samples_per_s * r->times.total_ms / 1e3 * (double)r->steps;
    }
}
