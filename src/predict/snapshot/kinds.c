// SPDX-License-Identifier: Apache-2.0
// Whose the bytes are: a table over where an allocation was made, when, and whether its size is
// that of a weight. What no row knows is unknown, and said to be.
#include "predict/snapshot/snapshot_int.h"

#include <stdlib.h>

const struct snapshot_word snapshot_kinds[SNAPSHOT_KIND_COUNT] = {
    [SNAPSHOT_WEIGHTS] = {"weights", "weights"},
    [SNAPSHOT_GRADIENTS] = {"gradients", "gradients"},
    [SNAPSHOT_OPTIMIZER] = {"optimizer", "optimizer state"},
    [SNAPSHOT_ACTIVATIONS] = {"activations", "activations"},
    [SNAPSHOT_PASSING] = {"temporary", "temporaries of backward or the optimizer"},
    [SNAPSHOT_INPUTS] = {"inputs", "inputs and the program's own tensors"},
    [SNAPSHOT_KEPT] = {"kept", "kept from an earlier step"},
    [SNAPSHOT_CACHES] = {"caches", "caches"},
    [SNAPSHOT_WORKSPACES] = {"workspaces", "workspaces of cuBLAS and cuDNN"},
    [SNAPSHOT_BUCKETS] = {"buckets", "communication buffers"},
    [SNAPSHOT_UNKNOWN] = {"unknown", "unknown"},
};

enum age {
    NOW = 1,
    EARLIER = 2,
    BEFORE = 4,
    ANY = 7
}; // relative to the moment's step; before: of the first
enum like { LIKE_WEIGHT = 1, UNLIKE = 2, NOBODY_KNOWS = 4, ALL = 7 };
static const struct {
    uint8_t place, ages, likes, kind;
} rows[] = {
    {SNAPSHOT_LOADING, ANY, ALL, SNAPSHOT_WEIGHTS},
    {SNAPSHOT_STATE, ANY, ALL, SNAPSHOT_OPTIMIZER},
    {SNAPSHOT_STEPPING, EARLIER | BEFORE, ALL, SNAPSHOT_OPTIMIZER},
    {SNAPSHOT_STEPPING, NOW, ALL, SNAPSHOT_PASSING},
    {SNAPSHOT_EXCHANGE, ANY, ALL, SNAPSHOT_BUCKETS},
    {SNAPSHOT_CACHING, ANY, ALL, SNAPSHOT_CACHES},
    {SNAPSHOT_LIBRARY, ANY, ALL, SNAPSHOT_WORKSPACES},
    {SNAPSHOT_BACKWARD, ANY, LIKE_WEIGHT, SNAPSHOT_GRADIENTS},
    {SNAPSHOT_BACKWARD, NOW, UNLIKE, SNAPSHOT_PASSING},
    {SNAPSHOT_BACKWARD, EARLIER, UNLIKE, SNAPSHOT_KEPT},
    {SNAPSHOT_FORWARD, NOW, ALL, SNAPSHOT_ACTIVATIONS},
    {SNAPSHOT_FORWARD, EARLIER, ALL, SNAPSHOT_KEPT},
    {SNAPSHOT_FEEDING, NOW | BEFORE, ALL, SNAPSHOT_INPUTS},
    {SNAPSHOT_FEEDING, EARLIER, ALL, SNAPSHOT_KEPT},
    {SNAPSHOT_PROGRAM, NOW | BEFORE, ALL, SNAPSHOT_INPUTS},
    {SNAPSHOT_PROGRAM, EARLIER, ALL, SNAPSHOT_KEPT},
};

// What cuBLAS takes once for each handle and stream and keeps: 2 x 4096 KiB + 8 x 16 KiB, on
// compute capability 9.0 32 MiB (aten/src/ATen/cuda/CublasHandlePool.cpp, 2.x).
static const int64_t cublas_sizes[] = {8519680, INT64_C(32) << 20};

static bool is_workspace(const struct snapshot_alloc *x, enum age age) {
    for (size_t i = 0; i < sizeof cublas_sizes / sizeof *cublas_sizes; i++) {
        if (x->requested != cublas_sizes[i] || x->died != SNAPSHOT_NEVER) continue;
        // 32 MiB is also a usual size of tensors: only what outlives its step.
        return i == 0 || age != NOW;
    }
    return false;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

struct sizes {
    int64_t *items;
    ptrdiff_t count, capacity;
};
static struct sizes weight_sizes(struct arena *a, const struct snapshot_history *h) {
    struct sizes s = {0};
    for (ptrdiff_t i = 0; i < h->count; i++) {
        const struct snapshot_alloc *x = &h->allocs[i];
        if (x->place == SNAPSHOT_LOADING && snapshot_lives(x, h->moment))
            *arena_push(a, &s.items, &s.count, &s.capacity) = x->requested;
    }
    if (s.count > 0) qsort(s.items, (size_t)s.count, sizeof *s.items, by_size);
    return s;
}

static enum like like_of(const struct sizes *weights, int64_t size) {
    if (weights->count == 0) return NOBODY_KNOWS;
    bool is = bsearch(&size, weights->items, (size_t)weights->count, sizeof size, by_size) != NULL;
    return is ? LIKE_WEIGHT : UNLIKE;
}

static enum age age_of(const struct snapshot_history *h, const struct snapshot_alloc *x) {
    if (x->born != SNAPSHOT_BEFORE && x->step < 0) return BEFORE;
    if (x->born != SNAPSHOT_BEFORE) return x->step < h->step ? EARLIER : NOW;
    // What the history found there is from an earlier step if a step has begun since.
    return h->step > 0 ? BEFORE | EARLIER : BEFORE | NOW;
}

static enum snapshot_kind kind_of(enum snapshot_place place, enum age age, enum like like) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].place == place && rows[i].ages & age && rows[i].likes & like)
            return (enum snapshot_kind)rows[i].kind;
    }
    return SNAPSHOT_UNKNOWN;
}

void snapshot_tell_kinds(struct arena *a, struct snapshot_history *h) {
    struct sizes weights = weight_sizes(a, h);
    for (ptrdiff_t i = 0; i < h->count; i++) {
        struct snapshot_alloc *x = &h->allocs[i];
        // Of what is gone by then only a tape asks: it was of its own time.
        enum age age = snapshot_lives(x, h->moment) ? age_of(h, x) : NOW;
        enum snapshot_kind kind =
            kind_of((enum snapshot_place)x->place, age, like_of(&weights, x->requested));
        x->kind = (uint8_t)(is_workspace(x, age) ? SNAPSHOT_WORKSPACES : kind);
    }
}
