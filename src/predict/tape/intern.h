// SPDX-License-Identifier: Apache-2.0
// Shared by the files of this room only: equal texts and equal ids get one number.
#pragma once

#include "base/str.h"

struct id_slot {
    int64_t id;
    int32_t number; // from 1 on; 0: free
};
struct id_map {
    struct id_slot *slots;
    uint64_t mask;
};
struct id_map tape_id_map_new(struct arena *a, ptrdiff_t items); // never more than `items` ids
// The slot of the id, or the free one where it belongs.
struct id_slot *tape_id_map_at(struct id_map *m, int64_t id);

struct text_map {
    struct arena *keep, *scratch;
    struct str *texts; // in keep; [0] is empty
    ptrdiff_t count, capacity;
    int32_t *numbers; // in scratch
    ptrdiff_t size;
};
struct text_map tape_text_map_new(struct arena *keep, struct arena *scratch);
// The text is not copied.
int32_t tape_text_map_number(struct text_map *m, struct str text, bool *ret_new);
