// SPDX-License-Identifier: Apache-2.0
// A scan over capacities replays one tape many times, and each replay differs from the one before
// it only from the event on at which the lower capacity did not do: so that is where a place is
// kept; and one where the lowest capacity first did not do, for none differs before it, which the
// first replay comes near to. Not where garbage is collected, which looks at ages.
#include "predict/sim/sim_int.h"

#include <string.h>

enum { WORTH_EVENTS = 100 }; // copying a state costs about as much as so many events
enum { FIRST_PARTS = 8 };    // of a replay of which nothing is known yet

static bool serves(const struct saved_place *p, int64_t capacity) {
    return p->course.event > 0 && p->cache.same_from <= capacity && capacity < p->cache.same_below;
}

// The last place that serves the capacity; NULL: none.
static struct saved_place *last_for(struct sim_saved *saved, int64_t capacity) {
    struct saved_place *best = NULL;
    for (int i = 0; i < SAVED_MOST; i++) {
        struct saved_place *p = &saved->places[i];
        if (serves(p, capacity) && (!best || p->course.event > best->course.event)) best = p;
    }
    return best;
}

// One that does not serve, or the last: the earlier ones serve for longer.
static struct saved_place *place_for(struct sim_saved *saved, int64_t capacity) {
    for (int i = 0; i < SAVED_MOST; i++) {
        if (!serves(&saved->places[i], capacity)) return &saved->places[i];
    }
    return last_for(saved, capacity);
}

static bool can_be_kept(const struct sim *s) {
    return !(s->cache.options.garbage_collection_threshold > 0);
}

static void make_room(struct sim_saved *saved, struct saved_place *p, const struct sim *s) {
    struct arena *a = saved->arena;
    if (!p->pools) {
        p->pools = arena_new(a, struct cache_pool, s->cache.pool_count);
        p->slots = arena_new_raw(a, int32_t, s->slot_count);
        p->phases = arena_new_raw(a, struct sim_phase, s->phase_most);
    }
    if (p->capacity < s->cache.block_count) {
        p->capacity = s->cache.block_capacity;
        p->blocks = arena_new_raw(a, struct cache_block, p->capacity);
    }
    for (int i = 0; i < s->cache.pool_count; i++) {
        struct cache_pool *pool = &p->pools[i];
        if (pool->unmapped_capacity >= s->cache.pools[i].unmapped_count) continue;
        pool->unmapped_capacity = s->cache.pools[i].unmapped_capacity;
        pool->unmapped = arena_new_raw(a, int32_t, pool->unmapped_capacity);
    }
}

static void copy_set(struct cache_set *to, const struct cache_set *from) {
    to->octaves = from->octaves;
    memcpy(to->subs, from->subs, sizeof to->subs);
    for (uint64_t left = from->octaves; left; left &= left - 1) {
        const int octave = __builtin_ctzll(left);
        memcpy(&to->bins[octave * SET_SUBS], &from->bins[octave * SET_SUBS],
               SET_SUBS * sizeof *to->bins);
    }
}

// `to` has the room.
static void copy_pool(struct cache_pool *to, const struct cache_pool *from) {
    copy_set(&to->free, &from->free);
    to->unmapped_count = from->unmapped_count;
    if (from->unmapped_count > 0)
        memcpy(to->unmapped, from->unmapped, (size_t)from->unmapped_count * sizeof *to->unmapped);
}

static void save(struct sim_saved *saved, struct saved_place *p, const struct sim_course *r) {
    const struct sim *s = r->sim;
    const struct cache *c = &s->cache;
    make_room(saved, p, s);
    p->course = *r;
    p->result = *r->result;
    p->cache = *c;
    memcpy(p->blocks, c->blocks, (size_t)c->block_count * sizeof *p->blocks);
    memcpy(p->slots, s->blocks, (size_t)s->slot_count * sizeof *p->slots);
    memcpy(p->phases, s->phases, (size_t)r->result->phase_count * sizeof *p->phases);
    for (int i = 0; i < c->pool_count; i++) copy_pool(&p->pools[i], &c->pools[i]);
}

// The cache has its own memory, limits and capacity; the figures are the place's.
static void go_on(const struct saved_place *p, struct sim_course *r) {
    struct sim *s = r->sim;
    struct cache *c = &s->cache;
    struct sim_result *result = r->result;
    *r = p->course;
    r->result = result;
    *result = p->result;
    c->block_count = p->cache.block_count;
    c->spare = p->cache.spare;
    c->segment_serial = p->cache.segment_serial;
    c->allocated = p->cache.allocated;
    c->reserved = p->cache.reserved;
    c->retries = p->cache.retries;
    c->segments = p->cache.segments;
    c->failed_bytes = p->cache.failed_bytes;
    c->same_from = p->cache.same_from;
    c->same_below = p->cache.same_below;
    memcpy(c->blocks, p->blocks, (size_t)c->block_count * sizeof *p->blocks);
    memcpy(s->blocks, p->slots, (size_t)s->slot_count * sizeof *p->slots);
    memcpy(s->phases, p->phases, (size_t)result->phase_count * sizeof *p->phases);
    for (int i = 0; i < c->pool_count; i++) copy_pool(&c->pools[i], &p->pools[i]);
}

// As far as a place that is worth to be kept, which is kept. False: out of memory before it.
static bool run_to(struct sim_saved *saved, struct sim_course *r, int32_t event) {
    if (!can_be_kept(r->sim) || event - r->event < WORTH_EVENTS) return true;
    if (!sim_course_run(r, event)) return false;
    save(saved, place_for(saved, r->sim->cache.capacity), r);
    return true;
}

// As long as it meets no limit: where it first does is not known yet, so that one place goes along.
static bool run_first(struct sim_saved *saved, struct sim_course *r) {
    const int32_t part = r->sim->tape->event_count / FIRST_PARTS;
    if (!can_be_kept(r->sim) || part < WORTH_EVENTS) return true;
    while (r->first < 0 && r->event + part < r->sim->tape->event_count) {
        if (!sim_course_run(r, r->event + part)) return false;
        if (r->first < 0) save(saved, &saved->places[0], r);
    }
    return true;
}

void sim_saved_replay(struct sim_saved *saved, struct sim *s, int64_t capacity,
                      struct sim_result *ret) {
    struct sim_course r = {.result = ret};
    sim_course_begin(&r, s, capacity);
    const struct saved_place *from = last_for(saved, capacity);
    if (from) go_on(from, &r);
    bool is_first = saved->first == 0 && capacity < SIM_UNLIMITED && !from;
    if (is_first ? run_first(saved, &r)
                 : run_to(saved, &r, saved->first) && run_to(saved, &r, saved->turn))
        sim_course_run(&r, s->tape->event_count);
    saved->turn = r.turn;
    if (saved->first == 0 && r.first > 0) saved->first = r.first;
    sim_course_end(&r);
}
