// SPDX-License-Identifier: Apache-2.0
// A day of one GPU in means of a minute, for charts of hours: what is kept does not grow with the
// time that is watched, and 1440 minutes take less than a hundred kilobytes.
#include "measure/observe/observe_int.h"

#include <math.h>
#include <string.h>

#define MINUTE_NS INT64_C(60000000000)

// A mean each, of the readings in which it is known.
static const struct {
    size_t from, to;
    bool is_whole;
} means[MINUTES_MEANS] = {
#define G(member, whole) \
    { offsetof(struct device_gauges, member), offsetof(struct observe_minute, member), whole }
    G(utilisation, false),         G(used_bytes, true),    G(power_watts, false),
    G(temperature_celsius, false), G(sm_clock_mhz, false), G(memory_utilisation, false),
#undef G
};

struct minutes observe_minutes_new(struct arena *a, int most) {
    ptrdiff_t capacity = most > 0 ? most + most / 8 + 1 : 0;
    return (struct minutes){.items = arena_new(a, struct observe_minute, capacity + 1),
                            .most = most,
                            .capacity = capacity};
}

const struct observe_minute *observe_minutes_items(const struct minutes *m) {
    return m->items + m->begin;
}

static void append(struct minutes *m, const struct observe_minute *minute) {
    if (m->count == m->most) {
        m->begin++;
        m->count--;
    }
    if (m->begin + m->count == m->capacity) {
        memmove(m->items, m->items + m->begin, (size_t)m->count * sizeof *m->items);
        m->begin = 0;
    }
    m->items[m->begin + m->count++] = *minute;
}

static void finish(struct minutes *m) {
    struct observe_minute minute = {.at_ns = (m->number + 1) * MINUTE_NS, .ours_bytes = -1};
    struct observe_window w = observe_sums_window(&m->sums, (double)NAN);
    for (int i = 0; i < MINUTES_MEANS; i++) {
        double mean = m->counts[i] ? m->totals[i] / (double)m->counts[i] : (double)NAN;
        memcpy((char *)&minute + means[i].to, &mean, sizeof mean);
    }
    if (m->ours_count) minute.ours_bytes = m->ours / (double)m->ours_count;
    minute.throttled = w.throttled_share;
    minute.power_cap = w.power_cap_share;
    minute.energy_joules = w.energy_joules;
    minute.seconds = m->sums.seconds;
    append(m, &minute);
    m->sums = (struct sums){0};
    memset(m->counts, 0, sizeof m->counts);
    memset(m->totals, 0, sizeof m->totals);
    m->ours = 0;
    m->ours_count = 0;
}

void observe_minutes_add(struct minutes *m, const struct device_gauges *before,
                         const struct device_gauges *now, int64_t ours_bytes) {
    int64_t number = now->at_ns / MINUTE_NS;
    if (m->most == 0) return;
    if (m->has_begun && number != m->number) finish(m);
    m->number = number;
    m->has_begun = true;
    if (before) observe_sums_add(&m->sums, before, now);
    for (int i = 0; i < MINUTES_MEANS; i++) {
        const char *at = (const char *)now + means[i].from;
        double value;
        int64_t whole;
        memcpy(means[i].is_whole ? (void *)&whole : (void *)&value, at, sizeof value);
        if (means[i].is_whole) value = whole >= 0 ? (double)whole : (double)NAN;
        if (isnan(value)) continue;
        m->totals[i] += value;
        m->counts[i]++;
    }
    if (ours_bytes < 0) return;
    m->ours += (double)ours_bytes;
    m->ours_count++;
}
