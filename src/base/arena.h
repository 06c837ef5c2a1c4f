// SPDX-License-Identifier: Apache-2.0
// Memory by lifetime. What a function returns lives in the arena it was given; nobody frees single
// results, the owner of the arena drops all of them at once.
#pragma once

#include <setjmp.h>
#include <stddef.h>

struct arena_chunk;

// A zeroed struct is a valid, empty arena. `escape` is where to go when the system has no memory
// left; without one the program aborts.
struct arena {
    struct arena_chunk *chunks;
    char *next, *end;
    jmp_buf *escape;
};

// A place in an arena; see arena_rewind.
struct arena_mark {
    struct arena_chunk *chunks;
    char *next, *end;
};

// Zeroed memory for `count` objects of `size` bytes; never NULL.
void *arena_alloc(struct arena *a, ptrdiff_t size, ptrdiff_t align, ptrdiff_t count);
#define arena_new(a, type, count) \
    ((type *)arena_alloc((a), (ptrdiff_t)sizeof(type), (ptrdiff_t) _Alignof(type), (count)))

// The same with whatever was there: for a large array each item of which is set before it is read.
void *arena_alloc_raw(struct arena *a, ptrdiff_t size, ptrdiff_t align, ptrdiff_t count);
#define arena_new_raw(a, type, count) \
    ((type *)arena_alloc_raw((a), (ptrdiff_t)sizeof(type), (ptrdiff_t) _Alignof(type), (count)))

// Doubles an array that is full; use through arena_push.
void *arena_grow(struct arena *a, void *items, ptrdiff_t size, ptrdiff_t align, ptrdiff_t count,
                 ptrdiff_t *capacity);
// Makes room for one more item in a {type *items; ptrdiff_t count, capacity;} triple and yields its
// address: *arena_push(a, &list->items, &list->count, &list->capacity) = item.
#define arena_push(a, items, count, capacity)                                                      \
    ((*(count) == *(capacity)                                                                      \
          ? (void)(*(items) = arena_grow((a), *(items), (ptrdiff_t)sizeof **(items),               \
                                         (ptrdiff_t) _Alignof(max_align_t), *(count), (capacity))) \
          : (void)0),                                                                              \
     &(*(items))[(*(count))++])

// Room for `most` items of such a triple before the first is pushed: an array that never grows is
// never copied, and of a large one only the pages that are filled exist.
#define arena_expect(a, items, count, capacity, most)                                              \
    (*(count) == 0 && *(capacity) < (most)                                                         \
         ? (void)(*(items) = arena_alloc((a), (ptrdiff_t)sizeof **(items),                         \
                                         (ptrdiff_t) _Alignof(max_align_t), *(capacity) = (most))) \
         : (void)0)

// Forgets everything allocated since the mark, for scratch work inside a loop.
struct arena_mark arena_mark(const struct arena *a);
void arena_rewind(struct arena *a, struct arena_mark mark);

// Before work that will take a few MiB: they come in large pages where the system has some, instead
// of page by page, each of which costs as much as a thousand instructions.
void arena_reserve(void);

// Gives all memory back to the system; the arena is empty and usable again.
void arena_clear(struct arena *a);
#define ARENA_AUTO __attribute__((cleanup(arena_clear))) struct arena
