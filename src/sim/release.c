// SPDX-License-Identifier: Apache-2.0
// How segments go back to the driver: all that is free, just enough for an oversize request, or the
// oldest ones when a threshold is crossed.
#include "sim/cache.h"
#include "sim/set.h"

static bool is_whole(const struct cache *c, int32_t block) {
    return c->blocks[block].prev == 0 && c->blocks[block].next == 0;
}

static void release_at(struct cache *c, struct cache_set *set, int32_t at) {
    c->reserved -= set->sizes[at];
    cache_block_drop(c, set->blocks[at]);
    set_remove(set, at);
}

static void release_whole(struct cache *c, struct cache_set *set) {
    int32_t kept = 0;
    for (int32_t i = 0; i < set->count; i++) {
        int32_t block = set->blocks[i];
        if (is_whole(c, block)) {
            c->reserved -= set->sizes[i];
            cache_block_drop(c, block);
        } else {
            set->sizes[kept] = set->sizes[i];
            set->blocks[kept++] = block;
        }
    }
    set->count = kept;
}

// What is left of a block after unmapping has no whole page, and is put back lower in the set: one
// step up again, and nothing is missed.
static void unmap_all(struct cache *c, const struct cache_set *set) {
    for (int32_t at = set->count - 1; at >= 0;) {
        bool unmapped = cache_unmap(c, set->blocks[at]);
        at += unmapped ? 1 : -1;
        if (at >= set->count) at = set->count - 1;
    }
}

void cache_release_all(struct cache *c) {
    for (int small = 0; small < 2; small++) {
        for (int32_t i = small; i < c->pool_count; i += 2) {
            if (c->options.expandable_segments)
                unmap_all(c, &c->pools[i].free);
            else
                release_whole(c, &c->pools[i].free);
        }
    }
}

// release_available_cached_blocks. Blocks of max_split_size and more are never split, so each of
// them is a segment.
bool cache_release_available(struct cache *c, struct cache_pool *pool, int64_t size) {
    int64_t least = c->options.max_split_bytes, key = size > least ? size : least;
    struct cache_set *set = &pool->free;
    if (least == SIM_UNLIMITED || c->options.expandable_segments) return false;
    int32_t at = set_lower(set, key);
    if (at < set->count) {
        if (!is_whole(c, set->blocks[at])) return false;
        release_at(c, set, at);
        return true;
    }
    int64_t released = 0;
    while (released < key && set->count > 0 && set->sizes[set->count - 1] >= least &&
           is_whole(c, set->blocks[set->count - 1])) {
        released += set->sizes[set->count - 1];
        release_at(c, set, set->count - 1);
    }
    return released >= key;
}

// Over the large pools of all streams: free segments that are whole, their number and total age.
static int64_t count_old(const struct cache *c, double *ret_age) {
    int64_t count = 0;
    *ret_age = 0;
    for (int32_t i = 0; i < c->pool_count; i += 2) {
        const struct cache_set *set = &c->pools[i].free;
        for (int32_t k = 0; k < set->count; k++) {
            if (!is_whole(c, set->blocks[k])) continue;
            *ret_age += (double)(c->calls[0] - c->ages[set->blocks[k]]);
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
        for (int32_t k = 0; k < set->count;) {
            double age = (double)(c->calls[0] - c->ages[set->blocks[k]]);
            if (!is_whole(c, set->blocks[k]) || age < threshold) {
                k++;
                continue;
            }
            release_at(c, set, k);
            *total -= age;
            --*count;
            any = true;
        }
    }
    return any;
}

void cache_collect(struct cache *c) {
    if (c->options.expandable_segments || cache_within(c, c->reserved, CACHE_GC)) return;
    double total;
    int64_t count = count_old(c, &total);
    // The target is what is held above the limit: it is reached when no more than that is held.
    while (count > 0 && !cache_within(c, c->reserved, CACHE_GC)) {
        if (!collect_round(c, total / (double)count, &count, &total)) break;
    }
}
