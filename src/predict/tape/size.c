// SPDX-License-Identifier: Apache-2.0
// Sizes at a batch. Coefficients are below 2^62 and a batch may be anything, so sums are made in
// 128 bits where they could overflow.
#include "predict/tape/tape_int.h"

static int64_t clamp_size(__int128 bytes) {
    if (bytes <= 0) return 0;
    return bytes < TAPE_SIZE_MAX ? (int64_t)bytes : TAPE_SIZE_MAX;
}

// How many classes more than the header's the caller wants.
static int64_t more_classes(const struct tape *t, int64_t classes) {
    return classes <= 0 || t->header.classes < 0 ? 0 : classes - t->header.classes;
}

static int64_t size_at(const struct tape_alloc *x, int64_t batch, int64_t more) {
    __int128 bytes = x->c + (__int128)x->k * batch;
    // (CN + KN·B)·(n − classes): each factor is cut to 2^63, so that their product stays below
    // 2^127.
    if (more != 0 && (x->cn | x->kn) != 0) {
        __int128 each = x->cn + (__int128)x->kn * batch;
        if (each > INT64_MAX) each = INT64_MAX;
        if (each < INT64_MIN) each = INT64_MIN;
        bytes += each * more;
    }
    return clamp_size(bytes);
}

int64_t tape_size(const struct tape *t, const struct tape_alloc *alloc, int64_t batch,
                  int64_t classes) {
    return size_at(alloc, batch, more_classes(t, classes));
}

void tape_sizes(const struct tape *t, int64_t batch, int64_t classes, int64_t *ret_bytes) {
    int64_t more = more_classes(t, classes);
    for (int32_t i = 0; i < t->alloc_count; i++) {
        ret_bytes[i] = size_at(&t->allocs[i], batch, more);
    }
}

bool tape_counts_classes(const struct tape *t) {
    for (int32_t i = 0; i < t->alloc_count; i++) {
        if ((t->allocs[i].cn | t->allocs[i].kn) != 0) return true;
    }
    return false;
}

int64_t tape_size_wrong_at(const struct tape_header *h, int64_t c, int64_t k) {
    if (k < 0 || c + k < 0) return -1;
    if (c + k > TAPE_SIZE_MAX) return 1;
    for (int i = 0; i < h->batch_count; i++)
        if ((__int128)k * h->batches[i] + c > TAPE_SIZE_MAX) return h->batches[i];
    return 0;
}

int64_t tape_scratch_size(const struct tape_scratch *s, int64_t batch) {
    return clamp_size(s->c + (__int128)s->k * batch);
}

struct str tape_work_value(const struct tape *t, const struct tape_work *w, const char *key) {
    struct str rest = t->strings[w->details];
    while (rest.len > 0) {
        struct str value = str_cut(&rest, ' ');
        if (str_is(str_cut(&value, '='), key)) return value;
    }
    return (struct str){0};
}
