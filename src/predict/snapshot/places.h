// SPDX-License-Identifier: Apache-2.0
// Inside the room only: what a stack says.
#pragma once

#include "predict/snapshot/history.h"

// By stack, in the arena.
uint8_t *snapshot_places(struct arena *a, const struct snapshot *s);
// kinds.c: whose each allocation is that lives at the moment.
void snapshot_tell_kinds(struct arena *a, struct snapshot_history *h);
