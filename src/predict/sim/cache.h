// SPDX-License-Identifier: Apache-2.0
// Inside the room only (and for its tests): the caching allocator itself. Blocks are numbered; 0 is
// no block and counts as used, so that a neighbour can be looked at without asking whether it is.
#pragma once

#include "predict/sim/sim.h"

#include <string.h>

// c10/cuda/CUDACachingAllocator.cpp, the same from 1.7 to 2.9.
#define CACHE_MIN_BLOCK INT64_C(512)
#define CACHE_SMALL_MAX (INT64_C(1) << 20) // a rounded size up to this is served by the small pool
#define CACHE_SMALL_SEGMENT (INT64_C(2) << 20)
#define CACHE_LARGE_SEGMENT (INT64_C(20) << 20)
#define CACHE_MIN_LARGE (INT64_C(10) << 20) // from this on a request gets a segment of its own
#define CACHE_ROUND_LARGE (INT64_C(2) << 20)

enum cache_state { CACHE_USED, CACHE_FREE, CACHE_UNMAPPED, CACHE_GONE };

struct cache_block {
    int64_t size;
    int64_t offset;        // in its segment
    int32_t segment;       // serial number: a later segment has a higher address
    int32_t prev, next;    // in the segment
    int32_t before, after; // in the bin of its set, while it is free
    uint16_t bin;
    uint8_t state;
    uint8_t pool; // number in pools
};

// Free blocks of one stream and kind, smallest first, ties by address.
enum { CACHE_OCTAVES = 56, CACHE_BINS = CACHE_OCTAVES * 32 };
struct cache_bin {
    int32_t head, tail; // first and last block
};
struct cache_set {
    uint64_t octaves;                  // which octaves have a bin that is not empty
    uint32_t subs[CACHE_OCTAVES];      // which bins; 0 where the octave's bit is not set
    struct cache_bin bins[CACHE_BINS]; // valid where the bin's bit is set
};
struct cache_pool {
    struct cache_set free;
    int32_t *unmapped; // by address
    ptrdiff_t unmapped_count, unmapped_capacity;
    int64_t page; // of expandable segments
    bool small;
};

// Limits a figure is compared with. Each grows with the capacity or is a constant.
enum cache_limit { CACHE_CAPACITY, CACHE_ALLOWED, CACHE_GC, CACHE_LIMIT_COUNT };

struct cache {
    struct arena *arena;
    struct sim_options options;
    bool plain;             // none of the options that look at more than the best fit
    int64_t split_least[2]; // a rest of at least so many bytes is split off: large, small
    struct cache_block *blocks;
    uint64_t *ages; // by block, garbage collection only: calls[] when it was put in
    ptrdiff_t block_count, block_capacity, age_capacity;
    int32_t spare;            // first of the numbers to use again, linked by next
    struct cache_pool *pools; // stream * 2 + small
    int32_t pool_count, segment_serial;
    uint64_t calls[2];
    int64_t limits[CACHE_LIMIT_COUNT];
    int64_t capacity;
    int64_t allocated, reserved;
    int32_t retries, segments;
    int64_t failed_bytes;          // of the last request that failed: what the driver was asked for
    int64_t same_from, same_below; // see struct sim_result
};

void sim_cache_init(struct cache *c, struct arena *a, const struct sim_options *options,
                    int streams);
// Empty again, with this capacity.
void sim_cache_reset(struct cache *c, int64_t capacity);
int64_t sim_cache_round_size(const struct sim_options *options, int64_t bytes); // 0 stays 0
// `size` is rounded already and not 0. Returns the block; 0: out of memory.
int32_t sim_cache_malloc(struct cache *c, int64_t size, int32_t stream);
void sim_cache_free(struct cache *c, int32_t block);
void sim_cache_empty(struct cache *c); // torch.cuda.empty_cache()

// Between the files of the allocator.
int32_t sim_cache_expand(struct cache *c, struct cache_pool *pool, int64_t size);
bool sim_cache_unmap(struct cache *c, int32_t block); // false: it has no whole page
void sim_cache_release_all(struct cache *c);
bool sim_cache_release_available(struct cache *c, struct cache_pool *pool, int64_t size);
void sim_cache_collect(struct cache *c);

// Inside the room only: the ordered set of free blocks. Sizes are sorted into bins, 32 for each
// power of two (below 16 KiB a bin has one size only); a bin is a list through its blocks in order
// of size and address, and bit maps find the next bin that is not empty. In training tapes a bin
// rarely holds more than three blocks, a block leaves without a search, and no branch depends on a
// binary search.

enum { SET_SUB_BITS = 5, SET_SUBS = 1 << SET_SUB_BITS };

// Which bin a size (a multiple of 512) belongs to: octave * 32 + the five bits after the first.
static inline int32_t set_bin(int64_t size) {
    uint64_t units = (uint64_t)size / CACHE_MIN_BLOCK;
    int shift = 63 - SET_SUB_BITS - __builtin_clzll(units | SET_SUBS);
    // From 32 units on the first bit adds one octave: 32 → bin 32 of octave 1.
    return (int32_t)((uint64_t)(shift << SET_SUB_BITS) + (units >> shift));
}

static inline bool block_before(const struct cache_block *a, const struct cache_block *b) {
    if (a->size != b->size) return a->size < b->size;
    return a->segment != b->segment ? a->segment < b->segment : a->offset < b->offset;
}

static inline bool set_has_bin(const struct cache_set *s, int32_t bin) {
    return s->subs[bin >> SET_SUB_BITS] >> (bin & (SET_SUBS - 1)) & 1;
}

// The first bin from `bin` on that is not empty; -1: none.
static inline int32_t set_bin_from(const struct cache_set *s, int32_t bin) {
    int32_t octave = bin >> SET_SUB_BITS;
    uint32_t subs = s->subs[octave] >> (bin & (SET_SUBS - 1));
    if (subs) return bin + __builtin_ctz(subs);
    uint64_t octaves = s->octaves >> octave >> 1;
    if (!octaves) return -1;
    octave += 1 + __builtin_ctzll(octaves);
    return (octave << SET_SUB_BITS) + __builtin_ctz(s->subs[octave]);
}

// The first block, smallest size and lowest address; 0: the set is empty.
static inline int32_t set_first(const struct cache_set *s) {
    int32_t bin = set_bin_from(s, 0);
    return bin < 0 ? 0 : s->bins[bin].head;
}

static inline int32_t set_next(const struct cache_set *s, const struct cache_block *blocks,
                               int32_t block) {
    if (blocks[block].after) return blocks[block].after;
    int32_t bin = set_bin_from(s, blocks[block].bin + 1);
    return bin < 0 ? 0 : s->bins[bin].head;
}

// The first block that is not smaller; 0: none.
static inline int32_t set_lower(const struct cache_set *s, const struct cache_block *blocks,
                                int64_t size) {
    int32_t bin = set_bin_from(s, set_bin(size));
    if (bin < 0) return 0;
    int32_t block = s->bins[bin].head;
    while (blocks[block].size < size) { // only in the size's own bin
        if (!blocks[block].after) return set_next(s, blocks, block);
        block = blocks[block].after;
    }
    return block;
}

static inline void set_remove(struct cache_set *s, struct cache_block *blocks, int32_t block) {
    const struct cache_block *b = &blocks[block];
    if (b->after)
        blocks[b->after].before = b->before;
    else
        s->bins[b->bin].tail = b->before;
    if (b->before) {
        blocks[b->before].after = b->after;
        return;
    }
    s->bins[b->bin].head = b->after;
    if (b->after) return;
    int32_t octave = b->bin >> SET_SUB_BITS;
    s->subs[octave] &= ~(1U << (b->bin & (SET_SUBS - 1)));
    if (!s->subs[octave]) s->octaves &= ~(UINT64_C(1) << octave);
}

static inline void set_open_bin(struct cache_set *s, int32_t bin, int32_t block) {
    int32_t octave = bin >> SET_SUB_BITS;
    s->octaves |= UINT64_C(1) << octave;
    s->subs[octave] |= 1U << (bin & (SET_SUBS - 1));
    s->bins[bin] = (struct cache_bin){block, block};
}

// Long bins hold blocks of one size that are freed in order of address, up or down: both ends are
// looked at before walking.
static inline void set_insert(struct cache_set *s, struct cache_block *blocks, int32_t block) {
    struct cache_block *b = &blocks[block];
    int32_t bin = set_bin(b->size), after, before;
    b->bin = (uint16_t)bin;
    b->before = b->after = 0;
    if (!set_has_bin(s, bin)) {
        set_open_bin(s, bin, block);
        return;
    }
    before = s->bins[bin].tail;
    if (block_before(&blocks[before], b)) {
        blocks[before].after = block;
        b->before = before;
        s->bins[bin].tail = block;
        return;
    }
    for (after = s->bins[bin].head; block_before(&blocks[after], b);) after = blocks[after].after;
    before = blocks[after].before;
    b->before = before;
    b->after = after;
    blocks[after].before = block;
    if (before)
        blocks[before].after = block;
    else
        s->bins[bin].head = block;
}

// A block of the caching allocator: got, given back, put among the free ones and taken from them;
// and the limits that it is held against. Inline: a replay does little else.

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
