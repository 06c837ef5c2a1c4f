// SPDX-License-Identifier: Apache-2.0
#include "predict/tape/generate.h"

#include "predict/tape/edit.h"
#include "predict/tape/scores.h"

// Of a token of a prompt: gate or product, up and activation at a time; the residual, the norm's
// input and output, and what attention gave.
enum { FFN_BLOCKS = 3, HIDDEN_BLOCKS = 4 };
// Of a sequence and word, in fp32: a copy of the logits, the scores by temperature and their
// probabilities, which are held until the next are there; and the noise that chooses
// (aten/src/ATen/ native/Distributions.cpp, multinomial).
enum { SCORES_BYTES = 4 + 4 + 4, NOISE_BYTES = 4 };
enum { SCORE_TENSORS = 4 }; // of the completions' tokens: the reference's, and what its share keeps

enum op { CACHE, PASS, SAMPLE, COPY, OPS };
static const char *const ops[OPS] = {"cat", "linear", "softmax", "empty"};

struct maker {
    const struct tape *from;
    struct tape *to;
    const struct tape_generation *how;
    int32_t *now;   // of every allocation of `from` its copy
    int32_t *cache; // keys and values of each layer
    int32_t first_op;
    int64_t casts;
};

// Of each sequence so many bytes.
static int32_t put(struct maker *m, enum op op, int64_t bytes) {
    struct tape_alloc x = {.tag = TAPE_TEMPORARY, .op = m->first_op + (int32_t)op};
    if (m->how->sequences > 0)
        x.c = m->how->sequences * bytes;
    else
        x.k = bytes;
    return tape_put_alloc(m->to, x);
}

// The most that weights in the compute type take at a time in the first forward pass, which a pass
// without gradients makes as well (aten/src/ATen/autocast_mode.cpp, cached_cast).
static int64_t most_casts(const struct tape *t) {
    int64_t now = 0, most = 0;
    bool is_forward = false;
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (e->kind == TAPE_MARK && is_forward) break;
        if (e->kind == TAPE_MARK) is_forward = e->phase == TAPE_FORWARD;
        if (!is_forward || (e->kind != TAPE_ALLOC && e->kind != TAPE_FREE)) continue;
        const struct tape_alloc *x = &t->allocs[e->index];
        if (x->tag != TAPE_CAST || x->k != 0) continue;
        now += e->kind == TAPE_ALLOC ? x->c : -x->c;
        if (now > most) most = now;
    }
    return most;
}

static void pass_over_prompts(struct maker *m) {
    const struct tape_generation *g = m->how;
    const int64_t made = g->whole > 0 ? g->held : g->bytes; // bitsandbytes gives its input's type
    int32_t blocks[FFN_BLOCKS + HIDDEN_BLOCKS + 1], count = 0;
    if (g->scored > 0)
        tape_drop(m->to, put(m, PASS, g->scored * g->prompt * g->prompt * TAPE_SCORE_MOST));
    for (int i = 0; i < FFN_BLOCKS; i++) blocks[count++] = put(m, PASS, g->prompt * g->ffn * made);
    for (int i = 0; i < HIDDEN_BLOCKS; i++)
        blocks[count++] = put(m, PASS, g->prompt * g->hidden * g->held);
    blocks[count++] = put(m, PASS, g->prompt * g->prompt);
    while (count > 0) tape_drop(m->to, blocks[--count]);
}

static int32_t put_cast(struct maker *m, int64_t bytes) {
    if (bytes <= 0) return -1;
    return tape_put_alloc(
        m->to, (struct tape_alloc){.c = bytes, .tag = TAPE_CAST, .op = m->first_op + COPY});
}

// Tokens that keys, or values, of a layer are kept of at the end.
static int64_t kept(const struct tape_generation *g, int64_t i) {
    const int64_t tokens = g->prompt + g->completion;
    return i < 2 * g->windowed && g->window < tokens ? g->window : tokens;
}

static void generate(struct maker *m) {
    const struct tape_generation *g = m->how;
    const int64_t token = g->cached * g->held;
    int64_t of_head = g->vocabulary * g->hidden * g->bytes; // the last that is made
    if (of_head > m->casts) of_head = 0;
    int32_t casts = put_cast(m, m->casts - of_head), made = put_cast(m, g->whole * g->bytes);
    for (int64_t i = 0; i < 2 * g->layers; i++) m->cache[i] = put(m, CACHE, g->prompt * token);
    pass_over_prompts(m);
    int32_t scores = put(m, SAMPLE, g->vocabulary * SCORES_BYTES);
    for (int64_t i = 0; i < 2 * g->layers; i++) {
        int32_t longer = put(m, CACHE, kept(g, i) * token);
        tape_drop(m->to, m->cache[i]);
        m->cache[i] = longer;
    }
    tape_drop(m->to, put(m, CACHE, kept(g, 2 * g->layers - 1) * token));
    int32_t head = put_cast(m, of_head);
    tape_drop(m->to, put(m, SAMPLE, g->vocabulary * g->bytes));
    tape_drop(m->to, head);
    tape_drop(m->to, made);
    tape_drop(m->to, casts);
    const int64_t logits = (g->is_autocast ? 4 : g->bytes) + NOISE_BYTES;
    tape_drop(m->to, put(m, SAMPLE, g->vocabulary * logits));
    tape_drop(m->to, scores);
    for (int64_t i = 0; i < 2 * g->layers; i++) tape_drop(m->to, m->cache[i]);
    tape_put_event(m->to, (struct tape_event){.kind = TAPE_EMPTY_CACHE});
}

// Weights and buffers once more, and the scores, which stay.
static void refer(struct maker *m, int32_t end_of_init) {
    const struct tape_alloc scores = {.k = SCORE_TENSORS * 4 * m->how->completion,
                                      .tag = TAPE_INPUT_DATA,
                                      .op = m->first_op + COPY};
    for (int32_t i = 0; i < end_of_init && m->how->has_reference; i++) {
        const struct tape_event *e = &m->from->events[i];
        if (e->kind != TAPE_ALLOC) continue;
        struct tape_alloc x = m->from->allocs[e->index];
        if (x.tag != TAPE_PARAM && x.tag != TAPE_BUFFER) continue;
        x.tag = TAPE_REFERENCE;
        tape_put_alloc(m->to, x);
    }
    if (m->how->has_reference_scores) tape_put_alloc(m->to, scores);
}

void tape_generate(struct arena *a, const struct tape *t, const struct tape_generation *how,
                   struct tape *ret) {
    ARENA_AUTO scratch = {.escape = a->escape};
    struct maker m = {.from = t, .to = ret, .how = how, .casts = most_casts(t)};
    int32_t step = -1;
    const int64_t a_step = 2 * 2 * how->layers + FFN_BLOCKS + HIDDEN_BLOCKS + 9;
    const int64_t more = t->alloc_count + 1 + a_step * (t->header.steps > 0 ? t->header.steps : 2);
    *ret = *t;
    m.now = arena_new(&scratch, int32_t, t->alloc_count);
    m.cache = arena_new(&scratch, int32_t, 2 * how->layers);
    ret->events = arena_new(a, struct tape_event, t->event_count + 2 * more);
    ret->allocs = arena_new(a, struct tape_alloc, t->alloc_count + more);
    ret->event_count = ret->alloc_count = 0;
    m.first_op = tape_add_ops(a, t, ret, ops, OPS);
    for (int32_t i = 0; i < t->event_count && !(how->is_all && step >= 0); i++) {
        const struct tape_event *e = &t->events[i];
        bool is_input = e->kind == TAPE_MARK && e->phase == TAPE_INPUT && e->index != step;
        if (is_input && step < 0) refer(&m, i);
        if (e->kind == TAPE_ALLOC)
            m.now[e->index] = tape_put_alloc(ret, t->allocs[e->index]);
        else if (e->kind == TAPE_FREE)
            tape_drop(ret, m.now[e->index]);
        else
            tape_put_event(ret, *e);
        if (is_input && !how->is_elsewhere) generate(&m);
        if (is_input) step = e->index;
    }
}
