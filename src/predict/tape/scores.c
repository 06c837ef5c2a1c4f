// SPDX-License-Identifier: Apache-2.0
#include "predict/tape/scores.h"

#include "predict/tape/edit.h"

#include <string.h>

enum op { PRODUCT, SOFTMAX, MASKED, GRADIENT, OPS };
static const char *const ops[OPS] = {"bmm", "_safe_softmax", "eq", "_softmax_backward_data"};
enum { HALF = 2, INPUTS = 3 }; // bytes of an element of the fused kernel's; query, key and value

enum kernel { NONE, FORWARD, BACKWARD };
struct maker {
    struct tape *to;
    const struct tape_scores *how;
    const enum kernel *kernels; // of each string
    int32_t *now, *kept;        // of every allocation: its copy, and the scores that live with it
    int32_t first_op, pending;  // scores of a call of which nothing else is kept yet; -1: none
    enum kernel call;           // whose allocations these are
    int made;
};

static enum kernel kernel_of(struct str op) {
    static const char *const fused[] = {"_scaled_dot_product_flash_attention",
                                        "_scaled_dot_product_efficient_attention",
                                        "_scaled_dot_product_cudnn_attention"};
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++) {
        if (!str_starts(op, str_of(fused[i]))) continue;
        return op.len == (ptrdiff_t)strlen(fused[i]) ? FORWARD : BACKWARD;
    }
    return NONE;
}

// `like` is the kernel's first result: of each query and head as many elements as a head has.
static struct tape_alloc scores_of(const struct maker *m, const struct tape_alloc *like, enum op op,
                                   int64_t bytes) {
    const int64_t tokens = m->how->tokens, size = HALF * m->how->head_size;
    return (struct tape_alloc){.c = like->c / size * tokens * bytes,
                               .k = like->k / size * tokens * bytes,
                               .op = m->first_op + (int32_t)op,
                               .module = like->module,
                               .stream = like->stream,
                               .tag = TAPE_TEMPORARY};
}

static int32_t put(struct maker *m, const struct tape_alloc *like, enum op op, int64_t bytes) {
    return tape_put_alloc(m->to, scores_of(m, like, op, bytes));
}

static void score(struct maker *m, const struct tape_alloc *like) {
    struct tape_alloc kept = scores_of(m, like, SOFTMAX, TAPE_SCORE_BYTES);
    const int32_t products = put(m, like, PRODUCT, TAPE_SCORE_BYTES);
    const int32_t softmax = put(m, like, SOFTMAX, TAPE_SCORE_BYTES);
    const int32_t masked = put(m, like, MASKED, 1);
    kept.tag = TAPE_ACTIVATION;
    kept.c += INPUTS * TAPE_SCORE_BYTES / HALF * like->c;
    kept.k += INPUTS * TAPE_SCORE_BYTES / HALF * like->k;
    m->pending = tape_put_alloc(m->to, kept);
    tape_drop(m->to, masked);
    tape_drop(m->to, softmax);
    tape_drop(m->to, products);
    m->made++;
}

static void unscore(struct maker *m, const struct tape_alloc *like) {
    const int32_t of_softmax = put(m, like, GRADIENT, TAPE_SCORE_BYTES);
    tape_drop(m->to, put(m, like, GRADIENT, TAPE_SCORE_BYTES));
    tape_drop(m->to, of_softmax);
}

// A call's allocations stand together: its result, the sums that the backward pass needs, ...
static void alloc(struct maker *m, const struct tape *t, int32_t index) {
    const struct tape_alloc *x = &t->allocs[index];
    const enum kernel call = m->kernels[x->op];
    const bool is_first = call != m->call;
    if (is_first) tape_drop(m->to, m->pending);
    if (is_first) m->pending = -1;
    if (is_first && call == FORWARD) score(m, x);
    if (is_first && call == BACKWARD) unscore(m, x);
    m->now[index] = tape_put_alloc(m->to, *x);
    if (!is_first && m->pending >= 0) {
        m->kept[index] = m->pending;
        m->pending = -1;
    }
    m->call = call;
}

static void copy(struct maker *m, const struct tape *t) {
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (e->kind == TAPE_ALLOC) {
            alloc(m, t, e->index);
        } else if (e->kind == TAPE_FREE) {
            tape_drop(m->to, m->now[e->index]);
            tape_drop(m->to, m->kept[e->index]);
        } else {
            tape_put_event(m->to, *e);
        }
    }
    tape_drop(m->to, m->pending);
}

bool tape_is_fused(const struct tape *t) {
    int32_t i = 0;
    while (i < t->string_count && kernel_of(t->strings[i]) == NONE) i++;
    return i < t->string_count;
}

bool tape_scores(struct arena *a, const struct tape *t, const struct tape_scores *how,
                 struct tape *ret) {
    enum { A_CALL = 4 };
    ARENA_AUTO scratch = {.escape = a->escape};
    enum kernel *kernels = arena_new(&scratch, enum kernel, t->string_count);
    int32_t calls = 0;
    if (how->tokens <= 0 || how->head_size <= 0) return false;
    for (int32_t i = 0; i < t->string_count; i++) kernels[i] = kernel_of(t->strings[i]);
    for (int32_t i = 0; i < t->alloc_count; i++) calls += kernels[t->allocs[i].op] != NONE;
    struct maker m = {.to = ret, .how = how, .kernels = kernels, .pending = -1};
    m.now = arena_new(&scratch, int32_t, t->alloc_count);
    m.kept = arena_new(&scratch, int32_t, t->alloc_count);
    memset(m.kept, 0xff, sizeof *m.kept * (size_t)t->alloc_count);
    *ret = *t;
    ret->events = arena_new(a, struct tape_event, t->event_count + 2 * A_CALL * calls);
    ret->allocs = arena_new(a, struct tape_alloc, t->alloc_count + A_CALL * calls);
    ret->event_count = ret->alloc_count = 0;
    m.first_op = tape_add_ops(a, t, ret, ops, OPS);
    copy(&m, t);
    return m.made > 0;
}
