// SPDX-License-Identifier: Apache-2.0
// The caching allocator: best fit in ordered sets, split, merge, segments from a driver that has a
// limit. After c10/cuda/CUDACachingAllocator.cpp as read in 1.13.1 and a version of 2.5 age. Left
// out: record_stream, CUDA graphs and private pools, cudaMallocAsync.
#include "predict/sim/cache.h"

int64_t sim_cache_segment_size(const struct sim_options *options, int64_t size) {
    if (size <= CACHE_SMALL_MAX) return CACHE_SMALL_SEGMENT;
    if (size < CACHE_MIN_LARGE) return options->large_segment_bytes;
    return (size + CACHE_ROUND_LARGE - 1) / CACHE_ROUND_LARGE * CACHE_ROUND_LARGE;
}

static int log2_floor(int64_t n) {
    return 63 - __builtin_clzll((unsigned long long)n);
}

int64_t sim_cache_round_size(const struct sim_options *options, int64_t bytes) {
    if (bytes <= 0) return 0;
    if (bytes < CACHE_MIN_BLOCK) return CACHE_MIN_BLOCK;
    int log = log2_floor(bytes), interval = log - 20;
    interval = interval < 0 ? 0 : interval > 15 ? 15 : interval;
    int64_t divisions = options->roundup_divisions[interval];
    if (divisions > 1 && bytes <= options->roundup_bypass_bytes &&
        (bytes - 1) / CACHE_MIN_BLOCK >= divisions) {
        int64_t step = (INT64_C(1) << log) / divisions;
        return (bytes + step - 1) / step * step;
    }
    return (bytes + CACHE_MIN_BLOCK - 1) / CACHE_MIN_BLOCK * CACHE_MIN_BLOCK;
}

void sim_cache_init(struct cache *c, struct arena *a, const struct sim_options *options,
                    int streams) {
    *c = (struct cache){.arena = a, .options = *options};
    c->plain = !options->expandable_segments && options->max_split_bytes == SIM_UNLIMITED &&
               !(options->garbage_collection_threshold > 0);
    // CUDACachingAllocator.cpp, should_split: at least 512 bytes, or more than 1 MiB.
    c->split_least[1] = CACHE_MIN_BLOCK;
    c->split_least[0] = options->expandable_segments ? CACHE_MIN_BLOCK : CACHE_SMALL_MAX + 1;
    c->pool_count = streams * 2;
    c->pools = arena_new(a, struct cache_pool, c->pool_count);
    for (int i = 0; i < c->pool_count; i++) {
        c->pools[i].small = i % 2 == 1;
        c->pools[i].page = i % 2 == 1 ? CACHE_SMALL_SEGMENT : options->large_segment_bytes;
    }
    sim_cache_reset(c, SIM_UNLIMITED);
}

void sim_cache_reset(struct cache *c, int64_t capacity) {
    c->capacity = capacity < SIM_UNLIMITED ? capacity : SIM_UNLIMITED;
    for (int i = 0; i < CACHE_LIMIT_COUNT; i++) {
        c->limits[i] = cache_limit_at(&c->options, (enum cache_limit)i, c->capacity);
    }
    for (int i = 0; i < c->pool_count; i++) {
        struct cache_set *set = &c->pools[i].free;
        set->octaves = 0;
        memset(set->subs, 0, sizeof set->subs);
        c->pools[i].unmapped_count = 0;
    }
    c->block_count = 0;
    c->spare = 0;
    cache_block_new(c);
    c->blocks[0] = (struct cache_block){.state = CACHE_USED};
    c->segment_serial = 0;
    c->calls[0] = c->calls[1] = 0;
    c->allocated = c->reserved = c->failed_bytes = 0;
    c->retries = c->segments = 0;
    c->same_from = 0;
    c->same_below = INT64_MAX;
}

// Size of a block with the unmapped range behind it, into which it could grow.
static int64_t expandable_size(const struct cache *c, int32_t block) {
    const struct cache_block *b = &c->blocks[block], *next = &c->blocks[b->next];
    return b->size + (next->state == CACHE_UNMAPPED ? next->size : 0);
}

// get_free_block: only one candidate is examined, whatever the options say about it. 0: none.
static int32_t find(struct cache *c, struct cache_pool *pool, int64_t size) {
    const struct sim_options *o = &c->options;
    int32_t block = set_lower(&pool->free, c->blocks, size);
    if (c->plain) return block;
    c->calls[pool->small]++;
    if (!block) return 0;
    if (o->expandable_segments) {
        for (int32_t next; (next = set_next(&pool->free, c->blocks, block)) != 0; block = next) {
            if (expandable_size(c, next) >= expandable_size(c, block)) break;
        }
    }
    int64_t found = c->blocks[block].size;
    if (size < o->max_split_bytes && found >= o->max_split_bytes) return 0;
    if (size >= o->max_split_bytes && found >= size + o->max_non_split_rounding_bytes) return 0;
    return block;
}

// alloc_block: a segment from the driver, or 0. The block is in no set.
static int32_t grow(struct cache *c, struct cache_pool *pool, int64_t size) {
    int64_t bytes = sim_cache_segment_size(&c->options, size);
    c->failed_bytes = bytes;
    if (c->options.memory_fraction > 0 && !cache_within(c, c->reserved + bytes, CACHE_ALLOWED)) {
        return 0;
    }
    if (c->options.expandable_segments) return sim_cache_expand(c, pool, size);
    if (!cache_within(c, c->reserved + bytes, CACHE_CAPACITY)) return 0;
    c->reserved += bytes;
    c->segments++;
    int32_t block = cache_block_new(c);
    c->blocks[block] = (struct cache_block){
        .size = bytes, .segment = ++c->segment_serial, .pool = (uint8_t)(pool - c->pools)};
    return block;
}

static int32_t grow_or_release(struct cache *c, struct cache_pool *pool, int64_t size) {
    const struct sim_options *o = &c->options;
    if (o->memory_fraction > 0 && o->garbage_collection_threshold > 0) sim_cache_collect(c);
    int32_t block = grow(c, pool, size);
    if (!block && sim_cache_release_available(c, pool, size)) block = grow(c, pool, size);
    if (!block) {
        sim_cache_release_all(c);
        c->retries++;
        block = grow(c, pool, size);
    }
    return block;
}

// The front of the block is handed out; returns the rest as a new block that is in no set.
static int32_t split(struct cache *c, int32_t block, int64_t size) {
    int32_t number = cache_block_new(c);
    struct cache_block *b = &c->blocks[block], *rest = &c->blocks[number];
    rest->size = b->size - size;
    rest->offset = b->offset + size;
    rest->segment = b->segment;
    rest->prev = block;
    rest->next = b->next;
    rest->state = CACHE_FREE;
    rest->pool = b->pool;
    c->blocks[b->next].prev = number; // block 0 takes what nobody reads
    b->next = number;
    b->size = size;
    return number;
}

static bool should_split(const struct cache *c, const struct cache_pool *pool, int64_t rest,
                         int64_t size) {
    if (rest < c->split_least[pool->small]) return false;
    return pool->small || c->options.expandable_segments || size < c->options.max_split_bytes;
}

int32_t sim_cache_malloc(struct cache *c, int64_t size, int32_t stream) {
    struct cache_pool *pool = &c->pools[stream * 2 + (size <= CACHE_SMALL_MAX)];
    if (size >= TAPE_SIZE_MAX) {
        c->failed_bytes = size;
        return 0;
    }
    int32_t block = find(c, pool, size);
    if (block)
        set_remove(&pool->free, c->blocks, block);
    else
        block = grow_or_release(c, pool, size);
    if (!block) return 0;
    if (should_split(c, pool, c->blocks[block].size - size, size)) {
        cache_put(c, split(c, block, size));
    }
    c->blocks[block].state = CACHE_USED;
    c->allocated += c->blocks[block].size;
    return block;
}

void sim_cache_free(struct cache *c, int32_t block) {
    struct cache_block *blocks = c->blocks, *b = &blocks[block];
    struct cache_set *set = &c->pools[b->pool].free;
    c->allocated -= b->size;
    b->state = CACHE_FREE;
    int32_t prev = b->prev, next = b->next;
    if (blocks[prev].state == CACHE_FREE) {
        set_remove(set, blocks, prev);
        b->size += blocks[prev].size;
        b->offset = blocks[prev].offset;
        b->prev = blocks[prev].prev;
        blocks[b->prev].next = block;
        cache_block_drop(c, prev);
    }
    if (blocks[next].state == CACHE_FREE) {
        set_remove(set, blocks, next);
        b->size += blocks[next].size;
        b->next = blocks[next].next;
        blocks[b->next].prev = block;
        cache_block_drop(c, next);
    }
    cache_put(c, block);
}

void sim_cache_empty(struct cache *c) {
    sim_cache_release_all(c);
}
