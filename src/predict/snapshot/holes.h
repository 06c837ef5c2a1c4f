// SPDX-License-Identifier: Apache-2.0
// Inside the room only: what was reserved at the moment, and what of it was free.
#pragma once

#include "predict/snapshot/history.h"

void snapshot_find_holes(struct arena *a, struct snapshot_history *h);
