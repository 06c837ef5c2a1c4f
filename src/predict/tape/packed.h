// SPDX-License-Identifier: Apache-2.0
// The packed form of a tape's events (doc/formats/tape.md, "Packed"): the same events in an eighth
// of the bytes, read with a quarter of the instructions. Shared by the files of this room.
#pragma once

#include "predict/tape/tape.h"

// One byte an event: one of these, a mark of its phase, or an allocation of its tag.
enum {
    PACKED_FREE,
    PACKED_EMPTY_CACHE,
    PACKED_SCRATCH,
    PACKED_WORK,
    PACKED_MARK,       // + phase
    PACKED_ALLOC = 16, // + tag
    // Added to an allocation:
    PACKED_STREAM = 32, // it is on another stream than the main one
    PACKED_JUMP = 64,   // its id is not the one after the last one's
};
// What the events say besides, each in the order of the events that have it.
enum packed_column {
    PACKED_KINDS,
    PACKED_NUMBERS, // steps, streams, ids, scratch, work
    PACKED_OPS,
    PACKED_MODULES, // less that of the allocation before
    PACKED_SIZES,
    PACKED_FREES, // how many that live were allocated later
    PACKED_COLUMNS,
};
// So many may live at once. To find one takes time in proportion.
enum { PACKED_LIVE_MOST = 1 << 14 };

// What stands behind line 1 of a packed tape, into *t, which has its name and its header.
bool tape_is_packed(struct str body);
int tape_read_packed(struct arena *a, struct str body, struct tape *t, struct fail *why);
