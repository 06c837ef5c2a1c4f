// SPDX-License-Identifier: Apache-2.0
// expandable_segments:True (2.1 on): one virtual range for each stream and kind, mapped from the
// front in pages of 2 MiB (small) or 20 MiB (large). The part not mapped is a block too.
#include "predict/sim/cache.h"

static bool is_lower(const struct cache_block *a, const struct cache_block *b) {
    return a->segment != b->segment ? a->segment < b->segment : a->offset < b->offset;
}

static void unmapped_add(struct cache *c, int32_t block) {
    struct cache_pool *p = &c->pools[c->blocks[block].pool];
    *arena_push(c->arena, &p->unmapped, &p->unmapped_count, &p->unmapped_capacity) = block;
    ptrdiff_t at = p->unmapped_count - 1;
    while (at > 0 && is_lower(&c->blocks[block], &c->blocks[p->unmapped[at - 1]])) {
        p->unmapped[at] = p->unmapped[at - 1];
        p->unmapped[--at] = block;
    }
}

static void unmapped_remove(struct cache *c, int32_t block) {
    struct cache_pool *p = &c->pools[c->blocks[block].pool];
    ptrdiff_t at = 0;
    while (p->unmapped[at] != block) at++;
    for (p->unmapped_count--; at < p->unmapped_count; at++) p->unmapped[at] = p->unmapped[at + 1];
}

// Merges with the neighbours of the same state, which leave their sets.
static void join(struct cache *c, int32_t block) {
    const int32_t sides[2] = {c->blocks[block].prev, c->blocks[block].next};
    for (int i = 0; i < 2; i++) {
        int32_t side = sides[i];
        struct cache_block *b = &c->blocks[block], *s = &c->blocks[side];
        if (!side || s->state != b->state) continue;
        if (s->state == CACHE_FREE)
            cache_take(c, side);
        else
            unmapped_remove(c, side);
        b->size += s->size;
        if (i == 0) {
            b->offset = s->offset;
            b->prev = s->prev;
            if (s->prev) c->blocks[s->prev].next = block;
        } else {
            b->next = s->next;
            if (s->next) c->blocks[s->next].prev = block;
        }
        cache_block_drop(c, side);
    }
}

// Cuts `size` bytes off the front; the rest becomes a block of its own, in no set.
static int32_t cut(struct cache *c, int32_t block, int64_t size) {
    struct cache_block rest = c->blocks[block];
    rest.size -= size;
    rest.offset += size;
    rest.prev = block;
    int32_t number = cache_block_new(c);
    c->blocks[number] = rest;
    c->blocks[block].next = number;
    c->blocks[block].size = size;
    if (rest.next) c->blocks[rest.next].prev = number;
    return number;
}

// Maps the front of an unmapped block; the result, with its free neighbours, is in the free set.
static bool map_front(struct cache *c, struct cache_pool *pool, int32_t block, int64_t bytes) {
    int64_t mapped = (bytes + pool->page - 1) / pool->page * pool->page;
    if (!cache_within(c, c->reserved + mapped, CACHE_CAPACITY)) return false;
    unmapped_remove(c, block);
    if (mapped < c->blocks[block].size) unmapped_add(c, cut(c, block, mapped));
    c->blocks[block].state = CACHE_FREE;
    join(c, block);
    cache_put(c, block);
    c->reserved += mapped;
    c->segments++;
    return true;
}

static bool has_space(const struct cache *c, int32_t block, int64_t size) {
    int64_t bytes = 0;
    while (bytes < size && block && c->blocks[block].state != CACHE_USED) {
        bytes += c->blocks[block].size;
        block = c->blocks[block].next;
    }
    return bytes >= size;
}

// A range of 9/8 of the GPU, in whole pages; without a known GPU it has no end to speak of.
static int32_t new_range(struct cache *c, struct cache_pool *pool, int64_t size) {
    int64_t device = c->options.device_bytes;
    int64_t bytes = device > 0 ? device + device / 8 : SIM_UNLIMITED / 2;
    bytes = (bytes + pool->page - 1) / pool->page * pool->page;
    if (bytes < size) return 0;
    int32_t block = cache_block_new(c);
    c->blocks[block] = (struct cache_block){.size = bytes,
                                            .segment = ++c->segment_serial,
                                            .state = CACHE_UNMAPPED,
                                            .pool = (uint8_t)(pool - c->pools)};
    unmapped_add(c, block);
    return block;
}

// The lowest place with room: an unmapped block, or the free block right before it.
static int32_t find_place(struct cache *c, struct cache_pool *pool, int64_t size) {
    for (ptrdiff_t i = 0; i < pool->unmapped_count; i++) {
        int32_t block = pool->unmapped[i], prev = c->blocks[block].prev;
        if (prev && c->blocks[prev].state == CACHE_FREE) block = prev;
        if (has_space(c, block, size)) return block;
    }
    return new_range(c, pool, size);
}

// try_allocate_expandable_block. What was mapped before a later page fails stays mapped and free.
int32_t sim_cache_expand(struct cache *c, struct cache_pool *pool, int64_t size) {
    int32_t block = find_place(c, pool, size);
    if (!block) return 0;
    if (c->blocks[block].state == CACHE_UNMAPPED) {
        int64_t room = c->blocks[block].size;
        if (!map_front(c, pool, block, room < size ? room : size)) return 0;
    }
    while (c->blocks[block].size < size) {
        int32_t next = c->blocks[block].next;
        int64_t rest = size - c->blocks[block].size, room = c->blocks[next].size;
        if (!map_front(c, pool, next, room < rest ? room : rest)) return 0;
        block = next;
    }
    cache_take(c, block);
    return block;
}

// Unmaps the whole pages inside a free block.
bool sim_cache_unmap(struct cache *c, int32_t block) {
    const struct cache_block b = c->blocks[block];
    int64_t page = c->pools[b.pool].page;
    int64_t begin = (b.offset + page - 1) / page * page, end = (b.offset + b.size) / page * page;
    if (begin >= end) return false;
    cache_take(c, block);
    if (begin > b.offset) {
        int32_t inner = cut(c, block, begin - b.offset);
        cache_put(c, block);
        block = inner;
    }
    if (end < b.offset + b.size) cache_put(c, cut(c, block, end - begin));
    c->blocks[block].state = CACHE_UNMAPPED;
    join(c, block);
    unmapped_add(c, block);
    c->reserved -= end - begin;
    return true;
}
