// SPDX-License-Identifier: Apache-2.0
// Inside the room only (and for its tests): the caching allocator itself. Blocks are numbered; 0 is
// no block and counts as used, so that a neighbour can be looked at without asking whether it is.
#pragma once

#include "predict/sim/sim.h"

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

// Free blocks of one stream and kind, smallest first, ties by address; see set.h.
enum { CACHE_OCTAVES = 56, CACHE_BINS = CACHE_OCTAVES * 32 };
struct cache_bin {
    int32_t head, tail; // first and last block
};
struct cache_set {
    uint64_t octaves;                  // which octaves have a bin that is not empty
    uint32_t subs[CACHE_OCTAVES];      // which bins; valid where the octave's bit is set
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

// Between the files of the allocator, as block.h.
int32_t sim_cache_expand(struct cache *c, struct cache_pool *pool, int64_t size);
bool sim_cache_unmap(struct cache *c, int32_t block); // false: it has no whole page
void sim_cache_release_all(struct cache *c);
bool sim_cache_release_available(struct cache *c, struct cache_pool *pool, int64_t size);
void sim_cache_collect(struct cache *c);
