// SPDX-License-Identifier: Apache-2.0
// Inside the room only: places in a replay from which others go on, instead of from its beginning.
// A place serves every capacity at which the course up to it is the same.
#pragma once

#include "predict/sim/sim_int.h"

enum { SAVED_MOST = 4 };
struct sim_saved {
    struct arena *arena;
    struct saved_place {
        struct sim_course course; // its event is 0: no place
        struct sim_result result;
        struct cache cache; // its figures
        struct cache_block *blocks;
        ptrdiff_t capacity; // of blocks
        struct cache_set *sets;
        int32_t *slots;
        struct sim_phase *phases;
    } places[SAVED_MOST];
    int32_t turn;  // of the last replay: the next one with a capacity above passes here
    int32_t first; // of the first replay that met its limit: all with a capacity above pass here
};

// As sim_replay, for the sizes that are set.
void sim_saved_replay(struct sim_saved *saved, struct sim *s, int64_t capacity,
                      struct sim_result *ret);
