// SPDX-License-Identifier: Apache-2.0
// Memory along the tape, for a chart. Each point covers an equal share of the events and shows
// their highest moment, so that no peak is lost by thinning out.
#include "predict/sim/sim_int.h"

#include <string.h>

struct course {
    struct sim *sim;
    struct sim_timeline *out;
    struct sim_point now;
    int64_t *held; // by slot: bytes of its block
    int32_t per_point;
};

static void note(struct course *c, int32_t event) {
    c->now.allocated_bytes = c->sim->cache.allocated;
    c->now.reserved_bytes = c->sim->cache.reserved;
    int32_t at = event / c->per_point;
    struct sim_point *p = &c->out->points[at];
    if (at == c->out->count) { // the first event of this point
        *p = c->now;
        c->out->count = at + 1;
    }
    int64_t reserved =
        p->reserved_bytes > c->now.reserved_bytes ? p->reserved_bytes : c->now.reserved_bytes;
    if (c->now.allocated_bytes > p->allocated_bytes) *p = c->now;
    p->reserved_bytes = reserved;
    p->event = event;
}

// A sim_watcher: the replay has changed the cache, this changes the sums by tag.
static void follow(void *context, int32_t event) {
    struct course *c = context;
    const struct tape *t = c->sim->tape;
    const struct tape_event *e = &t->events[event];
    int32_t slot = (int32_t)(c->sim->todo[event] >> 2);
    if (e->kind == TAPE_ALLOC) {
        int32_t block = c->sim->blocks[slot];
        c->held[slot] = block ? c->sim->cache.blocks[block].size : 0;
        c->now.tags[t->allocs[e->index].tag] += c->held[slot];
    } else if (e->kind == TAPE_FREE) {
        c->now.tags[t->allocs[e->index].tag] -= c->held[slot];
    }
    note(c, event);
}

void sim_timeline(struct arena *a, struct sim *s, int64_t batch, int64_t classes,
                  int64_t capacity_bytes, int points, struct sim_timeline *ret) {
    ARENA_AUTO scratch = {.escape = a->escape};
    int32_t events = s->tape->event_count;
    *ret = (struct sim_timeline){0};
    if (events == 0 || points < 1) return;
    struct course c = {.sim = s, .out = ret};
    c.per_point = (events + points - 1) / points;
    c.held = arena_new(&scratch, int64_t, s->slot_count);
    ret->points = arena_new(a, struct sim_point, points);
    struct sim_result r;
    sim_size_for(s, batch, classes);
    sim_run(s, capacity_bytes, events, follow, &c, &r);
    ret->oom = r.oom;
    ret->phase_count = r.phase_count;
    ret->phases = arena_new(a, struct sim_phase, r.phase_count);
    memcpy(ret->phases, r.phases, (size_t)r.phase_count * sizeof *ret->phases);
}
