// SPDX-License-Identifier: Apache-2.0
// What this machine has: its GPUs and their memory now, asked of the driver, or read from the
// folder of a recorded machine (doc/formats/machine.md). Nothing here needs a driver to be built
// or to run.
#pragma once

#include "base/fail.h"
#include "base/str.h"

// One GPU, or one MIG instance of a GPU that is divided (the GPU itself is then not listed,
// because no program can compute on it). Bytes are -1 where unknown (memory shared with the
// CPU: GB10, Jetson). total = used + reserved + free.
struct device {
    int index;       // the driver's number of the GPU; instances of a GPU share it
    struct str name; // as the driver prints it; see gpu_of_name
    struct str uuid; // empty: unknown
    int64_t total_bytes;
    // What programs hold, ours and others'. Without the driver's reserve, except where the driver
    // is too old to tell it apart: then reserved_bytes is -1 and used_bytes includes it.
    int64_t used_bytes;
    int64_t reserved_bytes;
    int64_t free_bytes;
    bool is_mig;
};

// Texts are one line for people; all are empty when there is nothing to say.
struct device_list {
    struct device *items;
    ptrdiff_t count, capacity;
    struct str driver_version;
    struct str why_none;   // no driver, no permission, …; empty when devices were found
    struct str left_out;   // GPUs that are there but cannot be used: lost, not permitted
    bool driver_is_absent; // there is no library of the driver at all
    struct str standin;    // set: the driver is a fake for tests and demos; every view says so
};

// What to do about a why_none; NULL: nothing is known.
const char *device_code_remedy(struct str why_none);

// The line that every view of such a machine begins with; empty where `standin` is.
struct str device_standin_note(struct arena *a, struct str standin);

// Before the names of other machines, separated by a space, whose servers are asked instead of a
// driver; for a monitor only.
#define DEVICE_REMOTE "http:"

// The devices of this machine, or of the recorded one in the folder `machine` (NULL: this one).
// No driver is an answer (0 devices, why_none), not an error; so is a driver that has not answered
// after 3 s. FAIL_INPUT: the recording is missing or broken. Lives in the arena.
int device_list(struct arena *a, const char *machine, struct device_list *ret_list,
                struct fail *why);
