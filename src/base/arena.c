// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ARENA_CHUNK_BYTES = 1 << 16 };
// What malloc does not ask the system for a second time: below, a page that one step of an answer
// gives back is the next one's. The heap's first part is in large pages: a language model's answer
// touches eight thousand small ones.
enum { ARENA_RESERVE_BYTES = 4 << 20, ARENA_HEAP_BYTES = 32 << 20, ARENA_LARGE_PAGE = 2 << 20 };

struct arena_chunk {
    struct arena_chunk *older;
    max_align_t data[];
};

static _Noreturn void arena_exhausted(struct arena *a) {
    if (a->escape) longjmp(*a->escape, 1);
    abort();
}

// A large one is zero already: of an array that is never filled the system gives no page.
static bool arena_is_large(ptrdiff_t bytes) {
    return bytes > ARENA_CHUNK_BYTES;
}

static void arena_add_chunk(struct arena *a, ptrdiff_t bytes, bool is_zero) {
    size_t size = (size_t)(arena_is_large(bytes) ? bytes : ARENA_CHUNK_BYTES);
    struct arena_chunk *chunk =
        is_zero ? calloc(1, sizeof *chunk + size) : malloc(sizeof *chunk + size);
    if (!chunk) arena_exhausted(a);
    chunk->older = a->chunks;
    a->chunks = chunk;
    a->next = (char *)chunk->data;
    a->end = a->next + size;
}

static void *arena_take(struct arena *a, ptrdiff_t size, ptrdiff_t align, ptrdiff_t count,
                        bool is_zero) {
    if (count < 0 || (count > 0 && size > (PTRDIFF_MAX - 4096) / count)) arena_exhausted(a);
    ptrdiff_t bytes = size * count;
    ptrdiff_t pad = a->next ? (ptrdiff_t)(-(uintptr_t)a->next & (uintptr_t)(align - 1)) : 0;
    bool is_fresh = !a->next || bytes > a->end - a->next - pad;
    bool comes_zero = is_zero && is_fresh && arena_is_large(bytes);
    if (is_fresh) {
        arena_add_chunk(a, bytes, comes_zero);
        pad = 0;
    }
    char *p = a->next + pad;
    a->next = p + bytes;
    return is_zero && !comes_zero ? memset(p, 0, (size_t)bytes) : p;
}

void *arena_alloc(struct arena *a, ptrdiff_t size, ptrdiff_t align, ptrdiff_t count) {
    return arena_take(a, size, align, count, true);
}

void *arena_alloc_raw(struct arena *a, ptrdiff_t size, ptrdiff_t align, ptrdiff_t count) {
    return arena_take(a, size, align, count, false);
}

void *arena_grow(struct arena *a, void *items, ptrdiff_t size, ptrdiff_t align, ptrdiff_t count,
                 ptrdiff_t *capacity) {
    ptrdiff_t bigger = *capacity > 0 ? *capacity * 2 : 16;
    void *copy = arena_alloc(a, size, align, bigger);
    if (count > 0) memcpy(copy, items, (size_t)(count * size));
    *capacity = bigger;
    return copy;
}

// mallopt(3): what is freed at the heap's end stays there below the threshold, and the heap grows
// by so much more at once, which costs nothing until it is touched; madvise(2). What lies before
// the first large page is taken and never touched, so that the heap goes on in that page.
void arena_reserve(void) {
    static void *gap;
    mallopt(M_MMAP_THRESHOLD, 2 * ARENA_RESERVE_BYTES);
    mallopt(M_TRIM_THRESHOLD, 2 * ARENA_HEAP_BYTES);
    mallopt(M_TOP_PAD, ARENA_HEAP_BYTES);
    char *at = malloc(ARENA_RESERVE_BYTES);
    if (!at) return;
    uintptr_t from = ((uintptr_t)at + ARENA_LARGE_PAGE - 1) / ARENA_LARGE_PAGE * ARENA_LARGE_PAGE;
    uintptr_t end = (uintptr_t)at + ARENA_HEAP_BYTES;
    (void)madvise((void *)from, (end - from) / ARENA_LARGE_PAGE * ARENA_LARGE_PAGE, MADV_HUGEPAGE);
    free(at);
    if (!gap) gap = malloc(from - (uintptr_t)at);
}

struct arena_mark arena_mark(const struct arena *a) {
    return (struct arena_mark){a->chunks, a->next, a->end};
}

void arena_rewind(struct arena *a, struct arena_mark mark) {
    while (a->chunks != mark.chunks) {
        struct arena_chunk *chunk = a->chunks;
        a->chunks = chunk->older;
        free(chunk);
    }
    a->next = mark.next;
    a->end = mark.end;
}

void arena_clear(struct arena *a) {
    arena_rewind(a, (struct arena_mark){0});
}
