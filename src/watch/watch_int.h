// SPDX-License-Identifier: Apache-2.0
// The parts of a watch: readings kept (ring.c), counters turned into shares (window.c).
#ifndef WATCH_WATCH_INT_H
#define WATCH_WATCH_INT_H

#include "watch/watch.h"

// The newest readings of one card, always in one piece: they move to the front of a buffer that is
// an eighth longer when its end is reached.
struct ring {
    struct device_gauges *items;
    ptrdiff_t begin, count, most, capacity;
};
struct ring ring_new(struct arena *a, ptrdiff_t most);
void ring_add(struct ring *r, const struct device_gauges *g);
const struct device_gauges *ring_items(const struct ring *r);
const struct device_gauges *ring_newest(const struct ring *r); // NULL: none

// A share is of the time in which its counter was known.
struct part {
    double part, seconds;
};
// What adds up over pairs of readings that follow each other.
struct sums {
    double seconds;
    struct part throttled, power_cap, sync_boost, sw_thermal, hw_thermal, power_brake;
    double clock_mhz, power_watts, utilisation;
    int64_t clocks, powers, utilisations; // readings that are in the three above
    double counted_joules, integrated_joules;
    int64_t counted, uncounted, integrated; // pairs
};
void sums_add(struct sums *s, const struct device_gauges *before, const struct device_gauges *now);
struct watch_window sums_window(const struct sums *s, double sm_clock_max_mhz);
// Of the readings of the last `seconds`.
struct watch_window window_of(const struct device_gauges *items, ptrdiff_t count, double seconds,
                              double sm_clock_max_mhz);

#endif
