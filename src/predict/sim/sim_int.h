// SPDX-License-Identifier: Apache-2.0
// Inside the room only: a tape made ready for replaying.
#pragma once

#include "predict/sim/cache.h"

// One tape event in 32 bits: what to do in the low two, for what in the others.
enum sim_do { SIM_DO_ALLOC, SIM_DO_FREE, SIM_DO_ALLOC_SIDE, SIM_DO_OTHER };

struct sim {
    struct arena *arena;
    const struct tape *tape;
    struct cache cache;
    uint32_t *todo;     // by event: slot << 2 | enum sim_do
    int32_t *blocks;    // by slot: its block; 0: a request of no bytes
    int32_t slot_count; // as many as allocations live at once; a free slot is used again
    int64_t *c, *k;     // by allocation, as on the tape
    int32_t *sloped;    // those that depend on the number of classes
    int32_t sloped_count;
    int64_t c_most, k_most;
    int64_t *sizes; // by allocation, rounded, for:
    int64_t batch, classes;
    int32_t *changes; // of sim_live_peak
    int32_t change_count;
    struct sim_known { // peaks of live bytes at the two batches asked for last
        int64_t batch, peak;
    } known[2];
    int32_t known_count;
    int64_t known_classes;
    struct sim_phase *phases;
    int32_t phase_most;
    struct sim_result last; // for these sizes, as long as its events are not 0; without phases
};

bool sim_rounds_to_512(const struct sim_options *o);
// Nearly always: sizes are small enough to be multiplied without care.
bool sim_sizes_are_affine(const struct sim *s, int64_t batch);
// Rounded sizes for a batch, kept until another one is asked for.
void sim_size_for(struct sim *s, int64_t batch, int64_t classes);
// Called after each event that was done.
typedef void sim_watcher(void *context, int32_t event);
// Replays events 0 … stop - 1; sizes must be there (sim_size_for). Blocks and cache stay as they
// are after the last one. `each` may be NULL.
void sim_run(struct sim *s, int64_t capacity, int32_t stop, sim_watcher *each, void *context,
             struct sim_result *ret);

// What a replay keeps count of besides the cache. Peaks are taken by phase and added up at its end.
struct sim_course {
    struct sim *sim;
    struct sim_result *result;
    struct sim_phase *phase;
    int32_t allocated_event, reserved_event; // of the phase's peaks
    int32_t event;                           // the next one
    int32_t turn;     // where same_below_bytes was last lowered: the course with that capacity is
                      // the same up to here; -1: nowhere
    int32_t first;    // where it first was: the same with every higher capacity; -1: nowhere
    ptrdiff_t allocs; // so many allocations came before `event`
};
void sim_course_begin(struct sim_course *r, struct sim *s, int64_t capacity); // r->result is set
bool sim_course_run(struct sim_course *r, int32_t stop); // false: out of memory before it
void sim_course_end(struct sim_course *r);

// Inside the room only: places in a replay from which others go on, instead of from its beginning.
// A place serves every capacity at which the course up to it is the same.

enum { SAVED_MOST = 4 };
struct sim_saved {
    struct arena *arena;
    struct saved_place {
        struct sim_course course; // its event is 0: no place
        struct sim_result result;
        struct cache cache; // its figures
        struct cache_block *blocks;
        ptrdiff_t capacity; // of blocks
        struct cache_pool *pools;
        int32_t *slots;
        struct sim_phase *phases;
    } places[SAVED_MOST];
    int32_t turn;  // of the last replay: the next one with a capacity above passes here
    int32_t first; // of the first replay that met its limit: all with a capacity above pass here
};

// As sim_replay, for the sizes that are set.
void sim_saved_replay(struct sim_saved *saved, struct sim *s, int64_t capacity,
                      struct sim_result *ret);
