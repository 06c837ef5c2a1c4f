// SPDX-License-Identifier: Apache-2.0
// A recording as its two readers share it: the list (recording.c) and the values over time
// (recording_play.c).
#pragma once

#include "machine/device/device_int.h"

#include <jansson.h>

// A device's object, and its GPU's where it is an instance (else NULL).
struct recorded {
    const json_t *object, *parent;
};

struct reading {
    struct arena *arena;
    struct device_list *list;
    struct recorded *places; // of the listed devices, at the same place
    ptrdiff_t count, capacity;
    bool is_hanging; // the driver
};

// The machine's object, which the caller drops; NULL with *why.
json_t *device_recording_load(struct arena *a, const char *machine, const char **ret_path,
                              struct fail *why);
int device_recording_read(struct reading *r, const json_t *machine, struct fail *why);
// A whole number between low and high; `absent` where the key is missing or null.
int device_json_number(const json_t *object, const char *key, int64_t low, int64_t high,
                       int64_t absent, int64_t *ret, struct fail *why);
// "topology" of a GPU's object: what is between this GPU and the others. Unknown where it is not
// as the format has it.
void device_topology_read(const json_t *object, struct device_topology *t, int at);
json_t *device_topology_write(const struct device_topology *t, int at);
struct str device_json_text(struct arena *a, const json_t *object, const char *key);
