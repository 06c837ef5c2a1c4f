// SPDX-License-Identifier: Apache-2.0
// What a GPU lost in the minutes that were kept, at most a day: time under limited clocks, time in
// which nothing ran on it, and the energy that it took.
#include "measure/observe/observe_int.h"

#include <math.h>

static void add(double *sum, double value) {
    if (isnan(value)) return;
    *sum = isnan(*sum) ? value : *sum + value;
}

struct observe_day observe_day_of(const struct observe_card *card) {
    struct observe_day day = {.throttled_seconds = (double)NAN,
                              .idle_seconds = (double)NAN,
                              .energy_joules = (double)NAN};
    for (ptrdiff_t i = 0; i < card->minute_count; i++) {
        const struct observe_minute *m = &card->minutes[i];
        day.seconds += m->seconds;
        add(&day.throttled_seconds, m->throttled * m->seconds);
        add(&day.idle_seconds, (1 - m->utilisation) * m->seconds);
        add(&day.energy_joules, m->energy_joules);
    }
    return day;
}
