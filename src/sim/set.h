// SPDX-License-Identifier: Apache-2.0
// Inside the room only: the ordered set of free blocks as sorted arrays. A training step keeps at
// most a few hundred free blocks, where moving some hundred bytes beats any tree.
#ifndef SIM_SET_H
#define SIM_SET_H

#include "sim/cache.h"

#include <string.h>

// Position of the first block that is not smaller.
static inline int32_t set_lower(const struct cache_set *s, int64_t size) {
    const int64_t *base = s->sizes;
    int32_t n = s->count;
    while (n > 1) {
        int32_t half = n / 2;
        base += base[half - 1] < size ? half : 0;
        n -= half;
    }
    return (int32_t)(base - s->sizes) + (n == 1 && *base < size);
}

static inline bool block_before(const struct cache_block *a, const struct cache_block *b) {
    return a->segment != b->segment ? a->segment < b->segment : a->offset < b->offset;
}

// Position of a block that is in the set, or where it belongs.
static inline int32_t set_position(const struct cache_set *s, const struct cache_block *blocks,
                                   const struct cache_block *b) {
    int32_t at = set_lower(s, b->size);
    while (at < s->count && s->sizes[at] == b->size && block_before(&blocks[s->blocks[at]], b)) {
        at++;
    }
    return at;
}

static inline void set_shift(struct cache_set *s, int32_t to, int32_t from, int32_t count) {
    memmove(s->sizes + to, s->sizes + from, (size_t)count * sizeof *s->sizes);
    memmove(s->blocks + to, s->blocks + from, (size_t)count * sizeof *s->blocks);
}

static inline void set_remove(struct cache_set *s, int32_t at) {
    set_shift(s, at, at + 1, s->count - at - 1);
    s->count--;
}

void set_grow(struct cache_set *s, struct arena *a);

static inline void set_insert(struct cache_set *s, struct arena *a,
                              const struct cache_block *blocks, int32_t block) {
    if (s->count == s->capacity) set_grow(s, a);
    int32_t at = set_position(s, blocks, &blocks[block]);
    set_shift(s, at + 1, at, s->count - at);
    s->sizes[at] = blocks[block].size;
    s->blocks[at] = block;
    s->count++;
}

// The block at `at` goes and another one comes: one move instead of two.
static inline void set_replace(struct cache_set *s, const struct cache_block *blocks, int32_t at,
                               int32_t block) {
    int32_t to = set_position(s, blocks, &blocks[block]);
    if (to > at) {
        to--;
        set_shift(s, at, at + 1, to - at);
    } else {
        set_shift(s, to + 1, to, at - to);
    }
    s->sizes[to] = blocks[block].size;
    s->blocks[to] = block;
}

#endif
