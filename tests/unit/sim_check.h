// SPDX-License-Identifier: Apache-2.0
// The allocator's invariants.
#ifndef TESTS_SIM_CHECK_H
#define TESTS_SIM_CHECK_H

#include "predict/sim/cache.h"

static const char *check_neighbours(const struct cache *c, int32_t block) {
    const struct cache_block *b = &c->blocks[block], *next = &c->blocks[b->next];
    if (b->size <= 0) return "a block without size";
    if (b->prev == 0 && b->offset != 0) return "the first block is not at the segment's begin";
    if (b->prev && c->blocks[b->prev].next != block) return "neighbours disagree";
    if (b->next == 0) return NULL;
    if (next->prev != block) return "neighbours disagree";
    if (next->offset != b->offset + b->size) return "a gap between neighbours";
    if (next->segment != b->segment || next->pool != b->pool) return "neighbours of two segments";
    if (next->state == b->state && b->state != CACHE_USED) return "two neighbours not merged";
    return NULL;
}

static const char *check_blocks(const struct cache *c, int64_t *ret_counts) {
    int64_t used = 0, mapped = 0;
    for (int32_t i = 1; i < c->block_count; i++) {
        const struct cache_block *b = &c->blocks[i];
        if (b->state == CACHE_GONE) continue;
        const char *wrong = check_neighbours(c, i);
        if (wrong) return wrong;
        ret_counts[b->state]++;
        if (b->state == CACHE_USED) used += b->size;
        if (b->state != CACHE_UNMAPPED) mapped += b->size;
    }
    if (used != c->allocated) return "allocated is not the sum of used blocks";
    if (mapped != c->reserved) return "reserved is not the sum of mapped blocks";
    return NULL;
}

static const char *check_set(const struct cache *c, int32_t pool, int64_t *ret_count) {
    const struct cache_set *s = &c->pools[pool].free;
    int32_t last = 0;
    for (int32_t i = set_first(s); i; i = set_next(s, c->blocks, i)) {
        const struct cache_block *b = &c->blocks[i];
        if (b->state != CACHE_FREE) return "a block in a set is not free";
        if (b->pool != pool) return "a block is in another pool's set";
        if (b->bin != set_bin(b->size)) return "a block is in the wrong bin";
        if (last && !block_before(&c->blocks[last], b)) return "a set is not in order";
        if (b->before != 0 && b->before != last) return "a bin's links disagree";
        last = i;
        ++*ret_count;
    }
    return NULL;
}

// What is wrong with the state, NULL when nothing is.
static const char *sim_check(const struct cache *c) {
    int64_t counts[CACHE_GONE] = {0}, free_count = 0, unmapped_count = 0;
    const char *wrong = check_blocks(c, counts);
    for (int32_t i = 0; i < c->pool_count && !wrong; i++) {
        wrong = check_set(c, i, &free_count);
        unmapped_count += c->pools[i].unmapped_count;
    }
    if (wrong) return wrong;
    if (free_count != counts[CACHE_FREE]) return "a free block is in no set";
    if (unmapped_count != counts[CACHE_UNMAPPED]) return "an unmapped block is in no set";
    if (c->allocated > c->reserved) return "more allocated than reserved";
    if (c->reserved > c->capacity) return "more reserved than the capacity";
    return NULL;
}

#endif
