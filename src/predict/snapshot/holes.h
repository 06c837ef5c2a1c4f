// SPDX-License-Identifier: Apache-2.0
// Inside the room only: what was reserved at the moment, and what of it was free.
#ifndef SNAPSHOT_HOLES_H
#define SNAPSHOT_HOLES_H

#include "predict/snapshot/history.h"

void snapshot_find_holes(struct arena *a, struct snapshot_history *h);

#endif
