// SPDX-License-Identifier: Apache-2.0
// Inside the room only: the ordered set of free blocks. Sizes are sorted into bins, 32 for each
// power of two (below 16 KiB a bin has one size only); a bin is a list through its blocks in order
// of size and address, and bit maps find the next bin that is not empty. In training tapes a bin
// rarely holds more than three blocks, a block leaves without a search, and no branch depends on a
// binary search.
#pragma once

#include "predict/sim/cache.h"

enum { SET_SUB_BITS = 5, SET_SUBS = 1 << SET_SUB_BITS };

// Which bin a size (a multiple of 512) belongs to: octave * 32 + the five bits after the first.
static inline int32_t set_bin(int64_t size) {
    uint64_t units = (uint64_t)size / CACHE_MIN_BLOCK;
    int shift = 63 - SET_SUB_BITS - __builtin_clzll(units | (SET_SUBS - 1));
    if (shift < 0) shift = 0;
    // From 32 units on the first bit adds one octave: 32 → bin 32 of octave 1.
    return (int32_t)((uint64_t)(shift << SET_SUB_BITS) + (units >> shift));
}

static inline bool block_before(const struct cache_block *a, const struct cache_block *b) {
    if (a->size != b->size) return a->size < b->size;
    return a->segment != b->segment ? a->segment < b->segment : a->offset < b->offset;
}

static inline bool set_has_bin(const struct cache_set *s, int32_t bin) {
    int32_t octave = bin >> SET_SUB_BITS;
    return (s->octaves >> octave & 1) && (s->subs[octave] >> (bin & (SET_SUBS - 1)) & 1);
}

// The first bin from `bin` on that is not empty; -1: none.
static inline int32_t set_bin_from(const struct cache_set *s, int32_t bin) {
    int32_t octave = bin >> SET_SUB_BITS;
    uint64_t octaves = s->octaves >> octave;
    if (octaves & 1) {
        uint32_t subs = s->subs[octave] >> (bin & (SET_SUBS - 1));
        if (subs) return bin + __builtin_ctz(subs);
    }
    octaves &= ~UINT64_C(1);
    if (!octaves) return -1;
    octave += __builtin_ctzll(octaves);
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
    if (!(s->octaves >> octave & 1)) s->subs[octave] = 0; // left over from an earlier replay
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
