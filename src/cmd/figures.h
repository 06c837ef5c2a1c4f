// SPDX-License-Identifier: Apache-2.0
#ifndef CMD_FIGURES_H
#define CMD_FIGURES_H

#include "cmd/launch.h"

// Fills the result from result->trial: what it came to, the times and the memory. The slowest rank
// and the one that needs most decide.
void figures_read(struct launch *l, struct launch_result *result);

#endif
