// SPDX-License-Identifier: Apache-2.0
// The file has the segments at its end; those of the moment are found by undoing what came after.
#include "predict/snapshot/snapshot_int.h"

#include <stdlib.h>

struct range {
    int64_t address, bytes;
    bool gone;
};
enum { UNDONE_MOST = 4096 }; // segments that came or went after the moment

struct ranges {
    struct range *items;
    ptrdiff_t count, capacity;
};

static void drop(struct ranges *r, int64_t address) {
    for (ptrdiff_t i = r->count - 1; i >= 0; i--) {
        if (r->items[i].address != address || r->items[i].gone) continue;
        r->items[i].gone = true;
        return;
    }
}

// False: pages came and went, and nobody can tell where.
static bool undo(struct arena *a, struct ranges *r, const struct snapshot_event *e) {
    switch ((enum snapshot_action)e->action) {
    case SNAPSHOT_SEGMENT_ALLOC:
        drop(r, e->address);
        return true;
    case SNAPSHOT_SEGMENT_FREE:
        *arena_push(a, &r->items, &r->count, &r->capacity) =
            (struct range){.address = e->address, .bytes = e->size};
        return true;
    case SNAPSHOT_SEGMENT_MAP:
    case SNAPSHOT_SEGMENT_UNMAP:
        return false;
    default:
        return true;
    }
}

static int by_address(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static struct ranges ranges_of(struct arena *a, const struct snapshot_history *h) {
    struct ranges r = {0};
    for (ptrdiff_t i = 0; i < h->of->segment_count; i++) {
        const struct snapshot_segment *g = &h->of->segments[i];
        if (g->device == h->gpu)
            *arena_push(a, &r.items, &r.count, &r.capacity) =
                (struct range){g->address, g->bytes, false};
    }
    return r;
}

static struct ranges used_of(struct arena *a, const struct snapshot_history *h) {
    struct ranges r = {0};
    for (ptrdiff_t i = 0; i < h->count; i++) {
        const struct snapshot_alloc *x = &h->allocs[i];
        if (snapshot_lives(x, h->moment))
            *arena_push(a, &r.items, &r.count, &r.capacity) =
                (struct range){x->address, x->bytes, false};
    }
    if (r.count > 0) qsort(r.items, (size_t)r.count, sizeof *r.items, by_address);
    return r;
}

static void note(struct snapshot_history *h, int64_t hole) {
    if (hole <= 0) return;
    h->holes += hole;
    if (hole > h->largest_hole) h->largest_hole = hole;
}

// Both sorted by address: what no allocation covers. `at` walks the used ones along.
static void measure(struct snapshot_history *h, const struct ranges *r, const struct ranges *used) {
    ptrdiff_t at = 0;
    for (ptrdiff_t i = 0; i < r->count; i++) {
        const struct range *g = &r->items[i];
        if (g->gone) continue;
        int64_t from = g->address, end = g->address + g->bytes;
        h->reserved += g->bytes;
        while (at < used->count && used->items[at].address < end) {
            const struct range *u = &used->items[at++];
            note(h, (u->address < end ? u->address : end) - from);
            int64_t behind = u->address + u->bytes;
            if (behind > from) from = behind;
        }
        note(h, end - from);
    }
}

void snapshot_find_holes(struct arena *a, struct snapshot_history *h) {
    struct ranges r = ranges_of(a, h), used = used_of(a, h);
    h->reserved = h->holes = h->largest_hole = -1;
    if (r.count == 0) return;
    int undone = 0;
    for (int32_t i = h->event_count - 1; i > h->moment; i--) {
        uint8_t action = h->events[i].action;
        undone += action == SNAPSHOT_SEGMENT_ALLOC || action == SNAPSHOT_SEGMENT_FREE;
        if (undone > UNDONE_MOST || !undo(a, &r, &h->events[i])) return;
    }
    if (r.count > 0) qsort(r.items, (size_t)r.count, sizeof *r.items, by_address);
    h->reserved = h->holes = h->largest_hole = 0;
    measure(h, &r, &used);
}
