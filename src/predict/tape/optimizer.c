// SPDX-License-Identifier: Apache-2.0
// What an optimizer does with a weight is a list of blocks that it takes and gives back. Gradient
// clipping comes before the first state and stays as it is; the rest of an update is made again.
// tests/unit/tape_optimizer.c holds it against recordings.
#include "predict/tape/optimizer.h"

#include "predict/tape/edit.h"

#include <string.h>

// The size of a block: of the weight itself, of the same in fp32 or in bytes, of a factor for every
// 256 values, of a matrix's one side and its `hidden` one in fp32, of a number.
enum size { WEIGHT, FP32, BYTES, FACTORS, SIDE, HIDDEN, NUMBER };
// Of which weights; any: in two bytes an element, matrices, others, up to 4095 elements, more.
enum of { ANY, HALVES, MATRICES, VECTORS, SMALL, LARGE };
enum { SMALL_MOST = 4095, FACTOR_OF = 256 };
// A state is made at the first update and stays; a slot holds what is taken until it is given back.
// For a time: all weights of a group take it, one after the other, before it is given back.
enum what { END, STATE, TAKE, GIVE, FOR_A_TIME };
enum slot { GRADIENT, SQUARE, SUM, ROWS, COLUMNS, UPDATE, NORM, SCALE, SLOTS };
struct move {
    uint8_t what, of, size, slot;
    const char *op;
};

// torch/optim/adamw.py with fused=True: the steps are on the GPU, too, and nothing is taken for a
// time.
static const struct move fused[] = {{STATE, ANY, WEIGHT, 0, "zeros_like"},
                                    {STATE, ANY, WEIGHT, 0, "zeros_like"},
                                    {STATE, ANY, NUMBER, 0, "zeros"},
                                    {END}};
// The same with foreach=True, torch's default on a GPU: the square roots of all second moments of a
// group are there at once (_multi_tensor_adam); the steps are on the CPU.
static const struct move foreach[] = {{STATE, ANY, WEIGHT, 0, "zeros_like"},
                                      {STATE, ANY, WEIGHT, 0, "zeros_like"},
                                      {FOR_A_TIME, ANY, WEIGHT, 0, "_foreach_sqrt"},
                                      {END}};
// torch/optim/sgd.py with momentum: a copy of the first gradient, then in place.
static const struct move sgd[] = {{STATE, ANY, WEIGHT, 0, "clone"}, {END}};
// A momentum, and the sign of what is added.
static const struct move lion[] = {{STATE, ANY, WEIGHT, 0, "zeros_like"},
                                   {TAKE, ANY, WEIGHT, UPDATE, "clone"},
                                   {GIVE, ANY, 0, UPDATE},
                                   {END}};
// bitsandbytes/optim/optimizer.py: small weights keep fp32 states, and so do embeddings where the
// Trainer asks for it (transformers/trainer.py registers optim_bits 32 for each nn.Embedding).
static const struct move adamw8bit[] = {{STATE, SMALL, FP32, 0, "zeros_like"},
                                        {STATE, SMALL, FP32, 0, "zeros_like"},
                                        {STATE, LARGE, BYTES, 0, "zeros_like"},
                                        {STATE, LARGE, FACTORS, 0, "zeros"},
                                        {STATE, LARGE, BYTES, 0, "zeros_like"},
                                        {STATE, LARGE, FACTORS, 0, "zeros"},
                                        {END}};
// The same with optim_bits 32: fp32 whatever the weights are in (init_state).
static const struct move adamw32bit[] = {
    {STATE, ANY, FP32, 0, "zeros_like"}, {STATE, ANY, FP32, 0, "zeros_like"}, {END}};
static const struct move lion32bit[] = {{STATE, ANY, FP32, 0, "zeros_like"}, {END}};
// transformers/optimization.py without a first moment.
static const struct move adafactor[] = {
    {TAKE, HALVES, FP32, GRADIENT, "_to_copy"},
    {STATE, MATRICES, SIDE, 0, "zeros"},
    {STATE, MATRICES, HIDDEN, 0, "zeros"},
    {STATE, VECTORS, FP32, 0, "zeros_like"},
    {TAKE, ANY, FP32, SQUARE, "pow"},
    {TAKE, ANY, FP32, SUM, "add"},
    {GIVE, ANY, 0, SQUARE},
    {TAKE, MATRICES, SIDE, ROWS, "mean"},
    {GIVE, MATRICES, 0, ROWS},
    {TAKE, MATRICES, HIDDEN, COLUMNS, "mean"},
    {GIVE, MATRICES, 0, COLUMNS},
    {TAKE, MATRICES, NUMBER, NORM, "mean"},
    {TAKE, MATRICES, SIDE, ROWS, "div"},
    {GIVE, MATRICES, 0, NORM},
    {TAKE, MATRICES, HIDDEN, COLUMNS, "rsqrt"},
    {TAKE, MATRICES, FP32, UPDATE, "mul"},
    {GIVE, MATRICES, 0, COLUMNS},
    {TAKE, VECTORS, FP32, UPDATE, "rsqrt"},
    {GIVE, ANY, 0, SUM},
    {TAKE, ANY, NUMBER, NORM, "linalg_vector_norm"},
    {TAKE, ANY, NUMBER, SCALE, "div"},
    {GIVE, ANY, 0, NORM},
    {GIVE, ANY, 0, SCALE},
    {TAKE, ANY, FP32, SUM, "neg"},
    {GIVE, ANY, 0, SUM},
    {GIVE, HALVES, 0, GRADIENT},
    {GIVE, ANY, 0, UPDATE},
    {GIVE, MATRICES, 0, ROWS},
    {END},
};
enum { MOVES_MOST = sizeof adafactor / sizeof *adafactor };

const char *const tape_optimizers[] = {
    TAPE_FUSED_ADAMW,   TAPE_FOREACH_ADAMW, "sgd",       "lion",      "adamw8bit",
    TAPE_TRAINERS_8BIT, "adamw32bit",       "lion32bit", "adafactor", NULL};
static const struct move *const moves[] = {fused,     foreach,    sgd,       lion,     adamw8bit,
                                           adamw8bit, adamw32bit, lion32bit, adafactor};

struct maker {
    const struct tape *from;
    struct tape *to;
    const struct move *moves;
    int64_t hidden, bytes;
    int32_t *now;     // of every allocation of `from` its copy; -1: it has none
    int32_t *weights; // what is trained, in the optimizer's order: AdamW's first state of each
    int32_t weight_count, matrix_count; // matrices come first
    bool *is_in_full;                   // of each: its states are fp32, however large it is
    int32_t clipping;                   // events of an update before the first state
    int32_t first_op;
    int32_t slots[SLOTS];
    int32_t *for_a_time; // of each weight
};

// --- What there is -------------------------------------------------------------------------------

static int32_t update_at(const struct tape *t, int32_t from) {
    while (from < t->event_count &&
           !(t->events[from].kind == TAPE_MARK && t->events[from].phase == TAPE_OPTIMIZER))
        from++;
    return from;
}

// The two equal states of each weight, numbers aside.
static bool find_weights(struct maker *m) {
    const struct tape *t = m->from;
    int32_t begin = update_at(t, 0) + 1, end = tape_end_of_phase(t, begin), states = 0;
    for (int32_t i = begin; i < end; i++) {
        const struct tape_event *e = &t->events[i];
        const struct tape_alloc *x = &t->allocs[e->index];
        if (e->kind != TAPE_ALLOC || x->tag != TAPE_OPTIMIZER_STATE) continue;
        if (m->clipping < 0) m->clipping = i - begin;
        if (!str_is(t->strings[x->op], "zeros_like")) continue;
        if (states++ % 2 == 0)
            m->weights[m->weight_count++] = e->index;
        else if (x->c != t->allocs[m->weights[m->weight_count - 1]].c)
            return false;
    }
    return states > 0 && states % 2 == 0;
}

static bool is_embedding(const struct tape *t, int32_t param) {
    static const char *const others[] = {"wte", "wpe", "shared", "relative_attention_bias", NULL};
    struct str last = str_last(t->strings[t->allocs[param].module], '.');
    return str_find(last, STR("embed")) >= 0 || str_is_one_of(last, others);
}

// Norms and biases are a group of their own, behind the matrices (transformers.Trainer).
static void count_matrices(struct maker *m, bool keeps_embeddings) {
    const struct tape *t = m->from;
    for (int32_t i = 0; i < t->alloc_count && t->allocs[i].tag != TAPE_INPUT_DATA; i++) {
        if (t->allocs[i].tag != TAPE_PARAM || !tape_param_decays(t, i)) continue;
        m->is_in_full[m->matrix_count++] = keeps_embeddings && is_embedding(t, i);
    }
}

// --- An update -----------------------------------------------------------------------------------

static int64_t size_of(const struct maker *m, enum size size, int64_t count) {
    const int64_t sizes[] = {
        [WEIGHT] = count * m->bytes,
        [FP32] = count * 4,
        [BYTES] = count,
        [FACTORS] = (count + FACTOR_OF - 1) / FACTOR_OF * 4,
        [SIDE] = count / m->hidden * 4,
        [HIDDEN] = m->hidden * 4,
        [NUMBER] = 4,
    };
    return sizes[size];
}

static bool is_of(const struct maker *m, enum of of, int32_t weight, int64_t count) {
    const bool is_small = count <= SMALL_MOST || m->is_in_full[weight];
    const bool of_it[] = {
        [ANY] = true,
        [HALVES] = m->bytes < 4,
        [MATRICES] = weight < m->matrix_count,
        [VECTORS] = weight >= m->matrix_count,
        [SMALL] = is_small,
        [LARGE] = !is_small,
    };
    return of_it[of];
}

static int64_t count_of(const struct maker *m, int32_t weight) {
    return m->from->allocs[m->weights[weight]].c / m->bytes;
}

static void update_weight(struct maker *m, int32_t weight, bool is_first) {
    int64_t count = count_of(m, weight);
    for (int i = 0; m->moves[i].what != END; i++) {
        const struct move *v = &m->moves[i];
        if (!is_of(m, v->of, weight, count) || (v->what == STATE && !is_first)) continue;
        if (v->what == FOR_A_TIME) continue; // take_for_a_time
        if (v->what == GIVE) {
            tape_drop(m->to, m->slots[v->slot]);
            continue;
        }
        bool is_state = v->what == STATE;
        int32_t copy = tape_put_alloc(
            m->to, (struct tape_alloc){.c = size_of(m, v->size, count),
                                       .op = m->first_op + i,
                                       .tag = is_state ? TAPE_OPTIMIZER_STATE : TAPE_TEMPORARY});
        if (!is_state) m->slots[v->slot] = copy;
    }
}

static void take_for_a_time(struct maker *m, int32_t begin, int32_t end) {
    for (int i = 0; m->moves[i].what != END; i++) {
        if (m->moves[i].what != FOR_A_TIME) continue;
        for (int32_t w = begin; w < end; w++)
            m->for_a_time[w] = tape_put_alloc(
                m->to, (struct tape_alloc){.c = size_of(m, m->moves[i].size, count_of(m, w)),
                                           .op = m->first_op + i,
                                           .tag = TAPE_TEMPORARY});
        for (int32_t w = end; w-- > begin;) tape_drop(m->to, m->for_a_time[w]);
    }
}

// Weights of a group are updated one after the other, or together.
static void update_group(struct maker *m, int32_t begin, int32_t end, bool is_first) {
    for (int32_t w = begin; w < end; w++) update_weight(m, w, is_first);
    take_for_a_time(m, begin, end);
}

// --- The whole -----------------------------------------------------------------------------------

static void copy_event(struct maker *m, const struct tape_event *e) {
    if (e->kind == TAPE_ALLOC)
        m->now[e->index] = tape_put_alloc(m->to, m->from->allocs[e->index]);
    else if (e->kind == TAPE_FREE)
        tape_drop(m->to, m->now[e->index]);
    else
        tape_put_event(m->to, *e);
}

// Clipping; then what AdamW takes for itself is left out, and the new one's follows.
static int32_t copy_update(struct maker *m, int32_t begin, bool is_first) {
    int32_t end = tape_end_of_phase(m->from, begin + 1);
    for (int32_t i = begin; i < end; i++) {
        const struct tape_event *e = &m->from->events[i];
        bool is_ours = i <= begin + m->clipping || e->kind != TAPE_ALLOC;
        if (is_ours) copy_event(m, e);
    }
    const int32_t matrices = m->matrix_count < m->weight_count ? m->matrix_count : m->weight_count;
    update_group(m, 0, matrices, is_first);
    update_group(m, matrices, m->weight_count, is_first);
    return end;
}

static void copy_all(struct maker *m) {
    int32_t updates = 0, next = update_at(m->from, 0);
    for (int32_t i = 0; i < m->from->event_count;) {
        if (i == next) {
            i = copy_update(m, i, updates++ == 0);
            next = update_at(m->from, i);
        } else {
            copy_event(m, &m->from->events[i++]);
        }
    }
}

static void add_ops(struct arena *a, struct maker *m) {
    const char *names[MOVES_MOST];
    int count = 0;
    for (; m->moves[count].what != END; count++)
        names[count] = m->moves[count].op ? m->moves[count].op : "";
    m->first_op = tape_add_ops(a, m->from, m->to, names, count);
}

bool tape_optimizer(struct arena *a, const struct tape *t, struct str optimizer, int64_t hidden,
                    int64_t bytes, struct tape *ret) {
    ARENA_AUTO scratch = {.escape = a->escape};
    struct maker m = {.from = t, .to = ret, .hidden = hidden, .bytes = bytes, .clipping = -1};
    int which = 0;
    while (tape_optimizers[which] && !str_is(optimizer, tape_optimizers[which])) which++;
    if (!tape_optimizers[which]) return false;
    m.moves = moves[which];
    m.weights = arena_new(&scratch, int32_t, t->alloc_count);
    m.is_in_full = arena_new(&scratch, bool, t->alloc_count);
    m.now = arena_new(&scratch, int32_t, t->alloc_count);
    m.for_a_time = arena_new(&scratch, int32_t, t->alloc_count);
    memset(m.now, 0xff, sizeof *m.now * (size_t)t->alloc_count);
    if (!find_weights(&m)) return false;
    count_matrices(&m, str_is(optimizer, TAPE_TRAINERS_8BIT));
    *ret = *t;
    int32_t updates = 0;
    for (int32_t i = update_at(t, 0); i < t->event_count; i = update_at(t, i + 1)) updates++;
    ptrdiff_t more = (ptrdiff_t)m.weight_count * updates * MOVES_MOST;
    ret->events = arena_new(a, struct tape_event, t->event_count + more);
    ret->allocs = arena_new(a, struct tape_alloc, t->alloc_count + more);
    ret->event_count = ret->alloc_count = 0;
    add_ops(a, &m);
    copy_all(&m);
    if (!str_starts(optimizer, STR("adamw:")))
        ret->header.optimizer = str_of(tape_optimizers[which]);
    return true;
}
