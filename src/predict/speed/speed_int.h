// SPDX-License-Identifier: Apache-2.0
// What the two time models share.
#pragma once

#include "predict/speed/speed.h"

// Whether a GPU's key is in a list with commas.
bool speed_names_card(struct str list, struct str key);
// Share of the boost clock that the power limit leaves, 0 to 1.
double speed_clock_share(const struct gpu *g);
