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

bool tape_is_by_rows(const struct tape_header *h) {
    return str_starts(h->loss, STR("liger"));
}

bool tape_has_slopes(const struct tape_header *h) {
    return h->classes >= 0 || (h->loss_tokens > 0 && h->loss_parts > 0);
}

struct tape_rows tape_rows(const struct tape_header *h, int64_t batch) {
    if (h->loss_tokens <= 0 || h->loss_parts <= 0 || batch < 1) return (struct tape_rows){0};
    __int128 product = (__int128)h->loss_tokens * batch;
    int64_t tokens = product < TAPE_SIZE_MAX ? (int64_t)product : TAPE_SIZE_MAX;
    int64_t part = (tokens + h->loss_parts - 1) / h->loss_parts, rows = 1;
    while (rows < part) rows *= 2;
    if (rows > tokens) rows = tokens;
    return (struct tape_rows){rows, rows < tokens - rows ? rows : tokens - rows};
}

// CN·(rows of the first chunk) + KN·(rows of the second): each is below 2^62·2^61.
static int64_t size_by_rows(const struct tape_alloc *x, int64_t batch, struct tape_rows rows) {
    __int128 bytes = x->c + (__int128)x->k * batch;
    bytes += (__int128)x->cn * rows.first + (__int128)x->kn * rows.second;
    return clamp_size(bytes);
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
    if (t->header.loss_parts > 0) return size_by_rows(alloc, batch, tape_rows(&t->header, batch));
    return size_at(alloc, batch, more_classes(t, classes));
}

void tape_sizes(const struct tape *t, int64_t batch, int64_t classes, int64_t *ret_bytes) {
    for (int32_t i = 0; i < t->alloc_count; i++)
        ret_bytes[i] = tape_size(t, &t->allocs[i], batch, classes);
}

bool tape_counts_classes(const struct tape *t) {
    if (t->header.classes < 0) return false;
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
