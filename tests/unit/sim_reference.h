// SPDX-License-Identifier: Apache-2.0
// A second caching allocator, written for being obviously right and nothing else: one flat array of
// blocks in order of address, searched from end to end. Unit test and fuzz target play the same
// operations on both and compare every step.
#ifndef TESTS_SIM_REFERENCE_H
#define TESTS_SIM_REFERENCE_H

#include "sim_check.h"

#include <string.h>

enum { REF_BLOCKS = 4096 };
enum ref_state { REF_USED, REF_FREE, REF_UNMAPPED };

struct ref_block {
    int segment, pool; // pool: stream * 2 + small
    enum ref_state state;
    int64_t offset, size;
    uint64_t born;
};
struct ref {
    struct sim_options o;
    struct ref_block b[REF_BLOCKS];
    int n, serial, retries;
    int64_t capacity, allowed, gc, reserved, allocated;
    uint64_t calls[2];
};

static void ref_insert(struct ref *r, int at, struct ref_block block) {
    memmove(&r->b[at + 1], &r->b[at], (size_t)(r->n - at) * sizeof *r->b);
    r->b[at] = block;
    r->n++;
}

static void ref_erase(struct ref *r, int at) {
    r->n--;
    memmove(&r->b[at], &r->b[at + 1], (size_t)(r->n - at) * sizeof *r->b);
}

static bool ref_joins(const struct ref *r, int i, int k) {
    return i >= 0 && k < r->n && r->b[i].segment == r->b[k].segment &&
           r->b[i].state == r->b[k].state && r->b[i].state != REF_USED;
}

// Merges block i with equals on both sides; returns its new place.
static int ref_merge(struct ref *r, int i) {
    r->b[i].born = r->calls[r->b[i].pool % 2];
    if (ref_joins(r, i, i + 1)) {
        r->b[i].size += r->b[i + 1].size;
        ref_erase(r, i + 1);
    }
    if (ref_joins(r, i - 1, i)) {
        r->b[i - 1].size += r->b[i].size;
        r->b[i - 1].born = r->b[i].born;
        ref_erase(r, i--);
    }
    return i;
}

static bool ref_alone(const struct ref *r, int i) {
    bool prev = i > 0 && r->b[i - 1].segment == r->b[i].segment;
    bool next = i + 1 < r->n && r->b[i + 1].segment == r->b[i].segment;
    return !prev && !next;
}

// The free block that follows (size, place) in the order of the pool's set; -1: none.
static int ref_after(const struct ref *r, int pool, int64_t size, int place) {
    int best = -1;
    for (int i = 0; i < r->n; i++) {
        const struct ref_block *b = &r->b[i];
        if (b->state != REF_FREE || b->pool != pool) continue;
        if (b->size < size || (b->size == size && i <= place)) continue;
        if (best < 0 || b->size < r->b[best].size) best = i;
    }
    return best;
}

static int64_t ref_could_be(const struct ref *r, int i) {
    bool tail =
        i + 1 < r->n && r->b[i + 1].segment == r->b[i].segment && r->b[i + 1].state == REF_UNMAPPED;
    return r->b[i].size + (tail ? r->b[i + 1].size : 0);
}

static int ref_find(struct ref *r, int pool, int64_t size) {
    int i = ref_after(r, pool, size, -1);
    r->calls[pool % 2]++;
    if (i < 0) return -1;
    if (r->o.expandable_segments) {
        for (int k; (k = ref_after(r, pool, r->b[i].size, i)) >= 0; i = k) {
            if (ref_could_be(r, k) >= ref_could_be(r, i)) break;
        }
    }
    int64_t most = r->o.max_split_bytes, has = r->b[i].size;
    if (size < most && has >= most) return -1;
    if (size >= most && has >= size + r->o.max_non_split_rounding_bytes) return -1;
    return i;
}

static int ref_map(struct ref *r, int i, int64_t bytes) {
    int64_t page = r->b[i].pool % 2 ? INT64_C(2) << 20 : r->o.large_segment_bytes;
    bytes = (bytes + page - 1) / page * page;
    if (r->reserved + bytes > r->capacity) return -1;
    r->reserved += bytes;
    if (bytes < r->b[i].size) {
        struct ref_block rest = r->b[i];
        rest.offset += bytes;
        rest.size -= bytes;
        ref_insert(r, i + 1, rest);
        r->b[i].size = bytes;
    }
    r->b[i].state = REF_FREE;
    return ref_merge(r, i);
}

static int64_t ref_space(const struct ref *r, int i) {
    int64_t sum = 0;
    for (int k = i; k < r->n && r->b[k].segment == r->b[i].segment; k++) {
        if (r->b[k].state == REF_USED) break;
        sum += r->b[k].size;
    }
    return sum;
}

static int ref_place(struct ref *r, int pool, int64_t size) {
    for (int i = 0; i < r->n; i++) {
        if (r->b[i].state != REF_UNMAPPED || r->b[i].pool != pool) continue;
        bool before =
            i > 0 && r->b[i - 1].segment == r->b[i].segment && r->b[i - 1].state == REF_FREE;
        int at = before ? i - 1 : i;
        if (ref_space(r, at) >= size) return at;
    }
    int64_t page = pool % 2 ? INT64_C(2) << 20 : r->o.large_segment_bytes;
    int64_t device = r->o.device_bytes;
    int64_t bytes = device > 0 ? device + device / 8 : SIM_UNLIMITED / 2;
    bytes = (bytes + page - 1) / page * page;
    if (bytes < size) return -1;
    ref_insert(r, r->n,
               (struct ref_block){++r->serial, pool, REF_UNMAPPED, 0, bytes, r->calls[pool % 2]});
    return r->n - 1;
}

static int ref_expand(struct ref *r, int pool, int64_t size) {
    int i = ref_place(r, pool, size);
    if (i < 0) return -1;
    if (r->b[i].state == REF_UNMAPPED) {
        i = ref_map(r, i, r->b[i].size < size ? r->b[i].size : size);
        if (i < 0) return -1;
    }
    while (r->b[i].size < size) {
        int64_t rest = size - r->b[i].size, room = r->b[i + 1].size;
        i = ref_map(r, i + 1, room < rest ? room : rest);
        if (i < 0) return -1;
    }
    return i;
}

static int ref_grow(struct ref *r, int pool, int64_t size) {
    int64_t mib = 1 << 20, bytes = size <= mib       ? 2 * mib
                                   : size < 10 * mib ? r->o.large_segment_bytes
                                                     : (size + 2 * mib - 1) / (2 * mib) * 2 * mib;
    if (r->o.memory_fraction > 0 && r->reserved + bytes > r->allowed) return -1;
    if (r->o.expandable_segments) return ref_expand(r, pool, size);
    if (r->reserved + bytes > r->capacity) return -1;
    r->reserved += bytes;
    ref_insert(r, r->n, (struct ref_block){++r->serial, pool, REF_FREE, 0, bytes, 0});
    return r->n - 1;
}

static void ref_release(struct ref *r, int i) {
    r->reserved -= r->b[i].size;
    ref_erase(r, i);
}

static void ref_unmap(struct ref *r, int i) {
    int64_t page = r->b[i].pool % 2 ? INT64_C(2) << 20 : r->o.large_segment_bytes;
    struct ref_block b = r->b[i], middle = b, tail = b;
    int64_t begin = (b.offset + page - 1) / page * page, end = (b.offset + b.size) / page * page;
    if (begin >= end) return;
    middle.offset = begin;
    middle.size = end - begin;
    middle.state = REF_UNMAPPED;
    tail.offset = end;
    tail.size = b.offset + b.size - end;
    r->b[i].size = begin - b.offset;
    if (tail.size > 0) ref_insert(r, i + 1, tail);
    ref_insert(r, i + 1, middle);
    int at = i + 1;
    if (r->b[i].size == 0) ref_erase(r, at-- - 1);
    ref_merge(r, at);
    r->reserved -= end - begin;
}

static void ref_empty(struct ref *r) {
    for (int i = 0; i < r->n; i++) {
        if (r->b[i].state != REF_FREE) continue;
        if (r->o.expandable_segments) {
            int64_t before = r->reserved;
            ref_unmap(r, i);
            if (r->reserved != before) i = -1; // places have moved: from the start
        } else if (ref_alone(r, i)) {
            ref_release(r, i--);
        }
    }
}

static bool ref_release_some(struct ref *r, int pool, int64_t size) {
    int64_t least = r->o.max_split_bytes, sum = 0;
    if (least == SIM_UNLIMITED || r->o.expandable_segments) return false;
    int64_t key = size > least ? size : least;
    int i = ref_after(r, pool, key, -1);
    if (i >= 0) {
        ref_release(r, i);
        return true;
    }
    while (sum < key) {
        int most = -1;
        for (int k = 0; k < r->n; k++) {
            if (r->b[k].state != REF_FREE || r->b[k].pool != pool || r->b[k].size < least) continue;
            if (most < 0 || r->b[k].size >= r->b[most].size) most = k;
        }
        if (most < 0) return false;
        sum += r->b[most].size;
        ref_release(r, most);
    }
    return true;
}

static void ref_collect(struct ref *r) {
    if (r->o.expandable_segments || r->reserved <= r->gc) return;
    int64_t target = r->reserved - r->gc, freed = 0;
    double total = 0;
    int count = 0;
    for (int i = 0; i < r->n; i++) {
        if (r->b[i].state != REF_FREE || r->b[i].pool % 2 || !ref_alone(r, i)) continue;
        total += (double)(r->calls[0] - r->b[i].born);
        count++;
    }
    for (bool any = true; any && freed < target && count > 0;) {
        double limit = total / count;
        any = false;
        for (int i = 0; i < r->n; i++) {
            double age = (double)(r->calls[0] - r->b[i].born);
            if (r->b[i].state != REF_FREE || r->b[i].pool % 2 || !ref_alone(r, i)) continue;
            if (age < limit) continue;
            any = true;
            freed += r->b[i].size;
            total -= age;
            count--;
            ref_release(r, i--);
        }
    }
}

// The place of the block; -1: out of memory. `size` is rounded.
static int ref_malloc(struct ref *r, int64_t size, int stream) {
    int pool = stream * 2 + (size <= 1 << 20), i = ref_find(r, pool, size);
    if (i < 0) {
        if (r->o.memory_fraction > 0 && r->o.garbage_collection_threshold > 0) ref_collect(r);
        i = ref_grow(r, pool, size);
        if (i < 0 && ref_release_some(r, pool, size)) i = ref_grow(r, pool, size);
        if (i < 0) {
            ref_empty(r);
            r->retries++;
            i = ref_grow(r, pool, size);
        }
        if (i < 0) return -1;
    }
    int64_t rest = r->b[i].size - size;
    bool cut = pool % 2 || r->o.expandable_segments ? rest >= 512
                                                    : size < r->o.max_split_bytes && rest > 1 << 20;
    r->b[i].state = REF_USED;
    if (cut) {
        struct ref_block tail = r->b[i];
        tail.state = REF_FREE;
        tail.offset += size;
        tail.size = rest;
        tail.born = r->calls[pool % 2];
        ref_insert(r, i + 1, tail);
        r->b[i].size = size;
    }
    r->allocated += r->b[i].size;
    return i;
}

static void ref_free(struct ref *r, int segment, int64_t offset) {
    int i = 0;
    while (r->b[i].segment != segment || r->b[i].offset != offset) i++;
    r->allocated -= r->b[i].size;
    r->b[i].state = REF_FREE;
    ref_merge(r, i);
}

static struct ref ref_state;

// Options and capacity from four bytes.
static struct sim_options ref_options(const uint8_t *p) {
    struct sim_options o = sim_options_default();
    static const char *const confs[] = {
        "",
        "expandable_segments:True",
        "max_split_size_mb:20",
        "max_split_size_mb:32,max_non_split_rounding_mb:40",
        "garbage_collection_threshold:0.6,per_process_memory_fraction:0.9",
        "roundup_power2_divisions:[2:2,8:4,>:8]",
        "per_process_memory_fraction:0.7",
        "large_segment_size_mb:12,expandable_segments:True",
        "expandable_segments:True,max_split_size_mb:30",
        "garbage_collection_threshold:0.3,per_process_memory_fraction:0.8,max_split_size_mb:24",
    };
    sim_options_parse(str_of(confs[p[0] % (sizeof confs / sizeof *confs)]), &o, NULL);
    if (p[1] & 1) o.device_bytes = ((int64_t)p[2] + 20) << 20;
    return o;
}

static const char *ref_compare(const struct cache *c, const struct ref *r) {
    if (c->allocated != r->allocated) return "allocated differs from the reference";
    if (c->reserved != r->reserved) return "reserved differs from the reference";
    if (c->retries != r->retries) return "retries differ from the reference";
    return sim_check(c);
}

// Plays what the bytes say on both; NULL when they agree all along.
static const char *ref_play(struct arena *a, const uint8_t *p, size_t len) {
    enum { SLOTS = 64, STREAMS = 2 };
    if (len < 4) return NULL;
    struct ref *r = &ref_state;
    struct cache c;
    int32_t blocks[SLOTS] = {0};
    *r = (struct ref){.o = ref_options(p)};
    r->capacity = p[1] & 2 ? SIM_UNLIMITED : ((int64_t)p[3] + 1) << 20;
    sim_cache_init(&c, a, &r->o, STREAMS);
    sim_cache_reset(&c, r->capacity);
    int64_t device = r->o.device_bytes ? r->o.device_bytes : r->capacity;
    r->allowed = (int64_t)(r->o.memory_fraction * (double)device);
    r->gc = (int64_t)(r->o.garbage_collection_threshold * (double)r->allowed);
    const char *wrong = NULL;
    for (p += 4, len -= 4; len >= 3 && r->n < REF_BLOCKS - 8 && !wrong; p += 3, len -= 3) {
        int32_t *slot = &blocks[p[0] % SLOTS];
        if (*slot) {
            ref_free(r, c.blocks[*slot].segment, c.blocks[*slot].offset);
            sim_cache_free(&c, *slot);
            *slot = 0;
        } else if (p[1] == 255) {
            sim_cache_empty(&c);
            ref_empty(r);
        } else {
            // 1 … 64 units of 256 bytes, 16 KiB, 512 KiB or 1 MiB
            static const int64_t units[4] = {256, 16 << 10, 512 << 10, 1 << 20};
            int64_t size = units[p[1] % 4] * (p[2] % 64 + 1);
            int stream = p[1] / 4 % 8 == 7;
            size = sim_cache_round_size(&r->o, size);
            *slot = sim_cache_malloc(&c, size, stream);
            int at = ref_malloc(r, size, stream);
            if ((at < 0) != (*slot == 0)) return "only one of the two is out of memory";
            if (at >= 0 && (r->b[at].segment != c.blocks[*slot].segment ||
                            r->b[at].offset != c.blocks[*slot].offset)) {
                return "the block is in another place than the reference's";
            }
        }
        wrong = ref_compare(&c, r);
    }
    return wrong;
}

#endif
