// SPDX-License-Identifier: Apache-2.0
// What all files of the machine need: refusing, and memory that is counted.
#include "predict/snapshot/snapshot_int.h"

#include <stdio.h>
#include <stdlib.h>

int snapshot_pickle_refuse(struct pickle *m, const char *format, ...) {
    struct fail *why = m->why;
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fail_set(why, FAIL_INPUT, "%.*s: byte %lld: %s", STR_ARG(m->out->name),
                    (long long)input_at(&m->in), text);
}

bool snapshot_pickle_room(struct pickle *m, int64_t bytes) {
    // No opcode makes more than two dozen bytes of ours from one of its own.
    int64_t most = (INT64_C(16) << 20) + 64 * input_at(&m->in);
    m->room += bytes;
    if (m->room <= SNAPSHOT_ROOM_MOST && m->room <= most) return true;
    snapshot_pickle_refuse(m, "its contents need more memory than a snapshot of this size may use");
    return false;
}

bool snapshot_pickle_grow(struct pickle *m, void **items, ptrdiff_t size, ptrdiff_t *capacity) {
    ptrdiff_t more = *capacity > 0 ? *capacity * 2 : 4; // most lists are short
    if (!snapshot_pickle_room(m, (more - *capacity) * size)) return false;
    void *larger = realloc(*items, (size_t)(more * size));
    if (!larger) {
        fail_set(m->why, FAIL_MACHINE, "%.*s: not enough memory to read it", STR_ARG(m->out->name));
        return false;
    }
    *items = larger;
    *capacity = more;
    return true;
}

void snapshot_pickle_end(struct pickle *m) {
    for (ptrdiff_t i = 0; i < m->list_count; i++) free(m->lists[i].items);
    void *const all[] = {m->stack, m->memo,   m->marks,  m->objects, m->lists,
                         m->reals, m->events, m->blocks, m->segments};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}
