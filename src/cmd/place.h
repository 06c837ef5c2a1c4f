// SPDX-License-Identifier: Apache-2.0
#ifndef CMD_PLACE_H
#define CMD_PLACE_H

#include "cmd/launch.h"

// Finds the device that the options ask for. FAIL_USAGE: no such word or card; FAIL_MACHINE: no
// card although one was asked for.
int place_open(struct arena *a, const struct launch_options *o, struct launch_place *ret_place,
               struct fail *why);
void place_close(struct launch_place *place);

#endif
