// SPDX-License-Identifier: Apache-2.0
#include "step/times.h"

#include <math.h>

_Static_assert(sizeof(struct step_times) == STEP_TIME_COUNT * sizeof(double),
               "as many members as the list has words");

#define STEP_TIME(name) #name "_ms"
const char *const step_time_keys[STEP_TIME_COUNT] = {STEP_TIMES(STEP_TIME)};
#undef STEP_TIME

struct step_times step_times_unknown(void) {
    struct step_times t;
    for (int i = 0; i < STEP_TIME_COUNT; i++) t.ms[i] = (double)NAN;
    return t;
}
