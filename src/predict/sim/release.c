// SPDX-License-Identifier: Apache-2.0
// How segments go back to the driver: all that is free, just enough for an oversize request, or the
// oldest ones when a threshold is crossed.
#include "predict/sim/cache.h"

static bool is_whole(const struct cache *c, int32_t block) {
    return c->blocks[block].prev == 0 && c->blocks[block].next == 0;
}

static void release(struct cache *c, struct cache_set *set, int32_t block) {
    c->reserved -= c->blocks[block].size;
    set_remove(set, c->blocks, block);
    cache_block_drop(c, block);
}

// No segment is smaller than 2 MiB, or 10 MiB in a large pool: only free blocks from there on can
// be whole ones.
static void release_whole(struct cache *c, struct cache_pool *pool) {
    struct cache_set *set = &pool->free;
    int64_t least = pool->small ? CACHE_SMALL_SEGMENT : CACHE_MIN_LARGE;
    for (int32_t block = set_lower(set, c->blocks, least), next; block; block = next) {
        next = set_next(set, c->blocks, block);
        if (is_whole(c, block)) release(c, set, block);
    }
}

// What is left of a block after unmapping has no whole page and is put back in front of it.
static void unmap_all(struct cache *c, const struct cache_pool *pool) {
    const struct cache_set *set = &pool->free;
    for (int32_t block = set_lower(set, c->blocks, pool->page), next; block; block = next) {
        next = set_next(set, c->blocks, block);
        sim_cache_unmap(c, block);
    }
}

void sim_cache_release_all(struct cache *c) {
    for (int small = 0; small < 2; small++) {
        for (int32_t i = small; i < c->pool_count; i += 2) {
            if (c->options.expandable_segments)
                unmap_all(c, &c->pools[i]);
            else
                release_whole(c, &c->pools[i]);
        }
    }
}

// The largest block; of equal ones the one at the highest address.
static int32_t last(const struct cache *c, const struct cache_set *set) {
    if (!set->octaves) return 0;
    int32_t octave = 63 - __builtin_clzll(set->octaves);
    int32_t block = set->bins[octave * SET_SUBS + 31 - __builtin_clz(set->subs[octave])].head;
    while (c->blocks[block].after) block = c->blocks[block].after;
    return block;
}

// release_available_cached_blocks. Blocks of max_split_size and more are never split, so each of
// them is a segment.
bool sim_cache_release_available(struct cache *c, struct cache_pool *pool, int64_t size) {
    int64_t least = c->options.max_split_bytes, key = size > least ? size : least;
    struct cache_set *set = &pool->free;
    if (least == SIM_UNLIMITED || c->options.expandable_segments) return false;
    int32_t block = set_lower(set, c->blocks, key);
    if (block) {
        if (!is_whole(c, block)) return false;
        release(c, set, block);
        return true;
    }
    int64_t released = 0;
    while (released < key && (block = last(c, set)) != 0) {
        if (c->blocks[block].size < least || !is_whole(c, block)) break;
        released += c->blocks[block].size;
        release(c, set, block);
    }
    return released >= key;
}

static double age_of(const struct cache *c, int32_t block) {
    return (double)(c->calls[0] - c->ages[block]);
}

// Over the large pools of all streams: free segments that are whole, their number and total age.
static int64_t count_old(const struct cache *c, double *ret_age) {
    int64_t count = 0;
    *ret_age = 0;
    for (int32_t i = 0; i < c->pool_count; i += 2) {
        const struct cache_set *set = &c->pools[i].free;
        for (int32_t b = set_first(set); b; b = set_next(set, c->blocks, b)) {
            if (!is_whole(c, b)) continue;
            *ret_age += age_of(c, b);
            count++;
        }
    }
    return count;
}

// One round; updates count and total age as blocks go.
static bool collect_round(struct cache *c, double threshold, int64_t *count, double *total) {
    bool any = false;
    for (int32_t i = 0; i < c->pool_count; i += 2) {
        struct cache_set *set = &c->pools[i].free;
        for (int32_t b = set_first(set), next; b; b = next) {
            next = set_next(set, c->blocks, b);
            if (!is_whole(c, b) || age_of(c, b) < threshold) continue;
            *total -= age_of(c, b);
            --*count;
            any = true;
            release(c, set, b);
        }
    }
    return any;
}

void sim_cache_collect(struct cache *c) {
    if (c->options.expandable_segments || cache_within(c, c->reserved, CACHE_GC)) return;
    double total;
    int64_t count = count_old(c, &total);
    // The target is what is held above the limit: it is reached when no more than that is held.
    while (count > 0 && !cache_within(c, c->reserved, CACHE_GC)) {
        if (!collect_round(c, total / (double)count, &count, &total)) break;
    }
}
