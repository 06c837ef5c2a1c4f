// SPDX-License-Identifier: Apache-2.0
// A block of the caching allocator: got, given back, put among the free ones and taken from them;
// and the limits that it is held against. Inline: a replay does little else.
#pragma once

#include "predict/sim/cache.h"
#include "predict/sim/set.h"

#include <string.h>

static inline int64_t cache_share(double share, int64_t bytes) {
    return (int64_t)(share * (double)bytes);
}

static inline int64_t cache_limit_at(const struct sim_options *o, enum cache_limit limit,
                                     int64_t capacity) {
    if (limit == CACHE_CAPACITY) return capacity;
    if (!(o->memory_fraction > 0)) return SIM_UNLIMITED;
    int64_t device = o->device_bytes > 0 ? o->device_bytes : capacity;
    int64_t allowed = cache_share(o->memory_fraction, device);
    return limit == CACHE_ALLOWED ? allowed : cache_share(o->garbage_collection_threshold, allowed);
}

// The least capacity at which the limit is not below `bytes`; INT64_MAX: it does not depend on it.
static inline int64_t cache_capacity_for(const struct cache *c, int64_t bytes,
                                         enum cache_limit limit) {
    const struct sim_options *o = &c->options;
    if (limit == CACHE_CAPACITY) return bytes;
    if (!(o->memory_fraction > 0) || o->device_bytes > 0) return INT64_MAX;
    int64_t low = 0, high = SIM_UNLIMITED;
    if (cache_limit_at(o, limit, high) < bytes) return high;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (cache_limit_at(o, limit, middle) >= bytes)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Every comparison with something that depends on the capacity goes through here, and leaves
// behind between which capacities it has the same outcome (see sim_needed).
static inline bool cache_within(struct cache *c, int64_t bytes, enum cache_limit limit) {
    bool within = bytes <= c->limits[limit];
    int64_t at = cache_capacity_for(c, bytes, limit);
    if (within && at != INT64_MAX && at > c->same_from) c->same_from = at;
    if (!within && at < c->same_below) c->same_below = at;
    return within;
}

// Its fields are not set; may move the blocks.
static inline int32_t cache_block_new(struct cache *c) {
    int32_t number = c->spare;
    if (number > 0) {
        c->spare = c->blocks[number].next;
        return number;
    }
    (void)arena_push(c->arena, &c->blocks, &c->block_count, &c->block_capacity);
    return (int32_t)c->block_count - 1;
}

static inline void cache_block_drop(struct cache *c, int32_t block) {
    c->blocks[block].state = CACHE_GONE;
    c->blocks[block].next = c->spare;
    c->spare = block;
}

static inline void cache_note_age(struct cache *c, int32_t block) {
    if (c->age_capacity < c->block_capacity) {
        uint64_t *ages = arena_new(c->arena, uint64_t, c->block_capacity);
        if (c->age_capacity > 0) memcpy(ages, c->ages, (size_t)c->age_capacity * sizeof *ages);
        c->ages = ages;
        c->age_capacity = c->block_capacity;
    }
    c->ages[block] = c->calls[c->pools[c->blocks[block].pool].small];
}

// Into its pool's set, and out of it.
static inline void cache_put(struct cache *c, int32_t block) {
    if (!c->plain) cache_note_age(c, block);
    set_insert(&c->pools[c->blocks[block].pool].free, c->blocks, block);
}

static inline void cache_take(struct cache *c, int32_t block) {
    set_remove(&c->pools[c->blocks[block].pool].free, c->blocks, block);
}
