// SPDX-License-Identifier: Apache-2.0
// From a template to a tape: the blocks are run through, every expression gets its value, and what
// comes out is checked as a tape that is read.
#include "predict/tape/template_int.h"

#include "predict/tape/host.h"
#include "predict/tape/intern.h"
#include "predict/tape/tape_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ROOM_MOST = 1 << 18 }; // reserved beforehand; what needs more grows
static const int64_t id_limit = INT64_C(1) << 62;

// A block that is being run through.
struct pass {
    int32_t begin; // its op
    int64_t turn, turns;
};

// An expression of a line, most of which are affine in the iterations, or the same in each: then
// its value is at most three products, whatever it is made of.
struct straight {
    enum { UNSEEN, SAME, STRAIGHT, BENT } state;
    int64_t c, k, by[TAPE_LOOP_DEPTH];
};

// A name that was made last, and in which iteration.
struct made_name {
    int64_t turn;
    int32_t number; // 0: none yet
};

struct builder {
    struct arena *arena, *scratch;
    const struct tape_template *t;
    struct fail *why;
    int64_t values[TAPE_SYMBOLS];
    int64_t batch_least; // at which sizes are checked besides 1
    struct pass passes[TAPE_LOOP_DEPTH];
    int depth;
    int32_t at;      // the op
    int64_t visited; // ops: even blocks without events come to an end
    int64_t turn;    // iterations begun, of all blocks
    bool is_bare;    // without modules
    struct straight *straight_ids, *straight_sizes; // of every op
    struct straight *straight_pieces;               // of every name's numbers
    struct made_name *made_names;                   // of every name
    struct id_map ids;
    ptrdiff_t id_room;
    struct text_map texts;
    struct tape_event *events;
    struct tape_alloc *allocs;
    struct tape_scratch *scratches;
    struct tape_work *works;
    ptrdiff_t event_count, event_capacity, alloc_count, alloc_capacity, scratch_count,
        scratch_capacity, work_count, work_capacity;
    int32_t stream_count;
};

__attribute__((format(printf, 2, 3))) static int bad(const struct builder *b, const char *format,
                                                     ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fail_set(b->why, FAIL_INPUT, "%.*s:%d: %s", STR_ARG(b->t->name), b->at + 2, text);
}

static int value_of(const struct builder *b, struct tape_expr e, int64_t *ret_c, int64_t *ret_k) {
    const char *wrong = tape_expr_value(&b->t->pool, e, b->values, ret_c, ret_k);
    return wrong ? bad(b, "a value cannot be used: %s", wrong) : 0;
}

static int powers_rounded(const struct tape_pool *pool, const struct tape_ceil *c, int symbol) {
    int power = 0;
    for (int32_t i = c->part; i < c->part + c->count; i++) power += pool->parts[i].powers[symbol];
    return power;
}

// The iterations that it depends on, bit by bit; -1: in another way than affinely.
static int iterations_of(const struct tape_pool *pool, struct tape_expr e) {
    int seen = 0;
    for (int32_t i = e.term; i < e.term + e.count; i++) {
        const struct tape_term *t = &pool->terms[i];
        int turns = 0;
        for (int n = 0; n < TAPE_LOOP_DEPTH; n++) {
            int power = t->product.powers[TAPE_DIM_COUNT + n];
            for (int32_t j = t->ceil; j < t->ceil + t->ceil_count; j++)
                power += 2 * powers_rounded(pool, &pool->ceils[j], TAPE_DIM_COUNT + n);
            turns += power;
            seen |= (power > 0) << n;
        }
        if (turns > 1 || (turns == 1 && t->product.powers[TAPE_DIM_BATCH] > 0)) return -1;
    }
    return seen;
}

// What is beyond the limits in an iteration that need not come is for value_of to say.
static void straighten(struct builder *b, struct tape_expr e, struct straight *s) {
    const struct tape_pool *pool = &b->t->pool;
    int64_t values[TAPE_SYMBOLS], c, k;
    int seen = iterations_of(pool, e);
    s->state = BENT;
    memcpy(values, b->values, sizeof values);
    memset(values + TAPE_DIM_COUNT, 0, TAPE_LOOP_DEPTH * sizeof *values);
    if (seen < 0 || tape_expr_value(pool, e, values, &s->c, &s->k)) return;
    for (int i = 0; i < TAPE_LOOP_DEPTH; i++) {
        if (!(seen >> i & 1)) continue;
        values[TAPE_DIM_COUNT + i] = 1;
        if (tape_expr_value(pool, e, values, &c, &k)) return;
        s->by[i] = c - s->c;
        values[TAPE_DIM_COUNT + i] = 0;
    }
    bool is_same = s->c > -id_limit && s->c < id_limit;
    for (int i = 0; i < TAPE_LOOP_DEPTH; i++) is_same &= s->by[i] == 0;
    s->state = is_same ? SAME : STRAIGHT;
}

static int turn_value(struct builder *b, struct tape_expr e, struct straight *s, int64_t *ret_c,
                      int64_t *ret_k) {
    if (s->state == UNSEEN) straighten(b, e, s);
    __int128 sum = s->c;
    for (int i = 0; i < b->depth; i++) sum += (__int128)s->by[i] * b->values[TAPE_DIM_COUNT + i];
    if (s->state == BENT || sum >= id_limit || sum <= -id_limit)
        return value_of(b, e, ret_c, ret_k);
    *ret_c = (int64_t)sum;
    *ret_k = s->k;
    return 0;
}

// The same as value_of, faster.
static inline int line_value(struct builder *b, struct tape_expr e, struct straight *s,
                             int64_t *ret_c, int64_t *ret_k) {
    if (s->state != SAME) return turn_value(b, e, s, ret_c, ret_k);
    *ret_c = s->c;
    *ret_k = s->k;
    return 0;
}

static int size_of(struct builder *b, const struct tape_op *op, int64_t *ret_c, int64_t *ret_k) {
    int code = line_value(b, op->size, &b->straight_sizes[b->at], ret_c, ret_k);
    if (code < 0) return code;
    if (*ret_k < 0 || *ret_c + *ret_k < 0) return bad(b, "a size is negative");
    if ((__int128)*ret_k * b->batch_least + *ret_c > TAPE_SIZE_MAX) {
        return bad(b, "a size is above 2^60 bytes");
    }
    return 0;
}

static int id_of(struct builder *b, const struct tape_op *op, int64_t *ret) {
    int64_t none;
    struct tape_expr e = b->t->ops[op->id_op].id;
    int code = line_value(b, e, &b->straight_ids[op->id_op], ret, &none);
    if (code < 0) return code;
    *ret += op->id_more;
    return *ret < 0 || *ret >= id_limit ? bad(b, "an id is not within 0 and 2^62") : 0;
}

static struct tape_event *add_event(struct builder *b, enum tape_kind kind, ptrdiff_t index) {
    struct tape_event *e = arena_push(b->arena, &b->events, &b->event_count, &b->event_capacity);
    *e = (struct tape_event){.kind = (uint8_t)kind, .index = (int32_t)index};
    return e;
}

// The name's number among the tape's strings.
static int name_number(struct builder *b, int32_t name, int32_t *ret) {
    const struct tape_name *n = &b->t->names[name];
    bool fresh;
    *ret = 0;
    if (n->count == 0) return 0;
    const struct tape_piece *pieces = &b->t->pieces[n->piece];
    struct made_name *made = &b->made_names[name];
    const bool is_plain = n->count == 1 && !pieces[0].is_value; // the same in each iteration
    if (made->number > 0 && (is_plain || made->turn == b->turn)) {
        *ret = made->number;
        return 0;
    }
    const struct arena_mark mark = arena_mark(b->arena);
    struct str whole = pieces[0].text;
    if (!is_plain) {
        struct buf text = buf_new(b->arena);
        for (int32_t i = 0; i < n->count; i++) {
            int64_t value = 0, none;
            struct straight *s = &b->straight_pieces[n->piece + i];
            int code = pieces[i].is_value ? line_value(b, pieces[i].value, s, &value, &none) : 0;
            if (code < 0) return code;
            if (pieces[i].is_value) tape_put_number(&text, value);
            buf_add(&text, pieces[i].text);
        }
        whole = buf_str(&text);
    }
    made->number = *ret = tape_text_map_number(&b->texts, whole, &fresh);
    if (!fresh) arena_rewind(b->arena, mark);
    made->turn = b->turn;
    return 0;
}

static void grow_ids(struct builder *b) {
    b->id_room *= 2;
    b->ids = tape_id_map_new(b->scratch, b->id_room);
    for (ptrdiff_t i = 0; i < b->alloc_count; i++) {
        *tape_id_map_at(&b->ids, b->allocs[i].id) =
            (struct id_slot){b->allocs[i].id, (int32_t)i + 1};
    }
}

static int run_alloc(struct builder *b, const struct tape_op *op) {
    int64_t none;
    struct tape_alloc x = {
        .event = (int32_t)b->event_count, .free_event = -1, .stream = op->stream, .tag = op->tag};
    int code = id_of(b, op, &x.id);
    if (code == 0) code = size_of(b, op, &x.c, &x.k);
    if (code == 0) code = name_number(b, op->op, &x.op);
    if (code == 0 && !b->is_bare) code = name_number(b, op->module, &x.module);
    if (code == 0 && op->more.count > 0) code = value_of(b, op->more, &x.cn, &x.kn);
    if (code == 0 && op->second.count > 0) code = value_of(b, op->second, &x.kn, &none);
    if (code < 0) return code;
    if (x.tag >= TAPE_TAG_COUNT && x.k != 0)
        return bad(b, "something of the host depends on the batch");
    if (b->alloc_count == b->id_room) grow_ids(b);
    struct id_slot *slot = tape_id_map_at(&b->ids, x.id);
    if (slot->number > 0) return bad(b, "id %lld is used twice", (long long)x.id);
    add_event(b, TAPE_ALLOC, b->alloc_count);
    *arena_push(b->arena, &b->allocs, &b->alloc_count, &b->alloc_capacity) = x;
    *slot = (struct id_slot){x.id, (int32_t)b->alloc_count};
    if (x.stream >= b->stream_count) b->stream_count = x.stream + 1;
    return 0;
}

static int run_free(struct builder *b, const struct tape_op *op) {
    int64_t id;
    int code = id_of(b, op, &id);
    if (code < 0) return code;
    const struct id_slot *slot = tape_id_map_at(&b->ids, id);
    if (slot->number == 0) return bad(b, "expected a live id; %lld is unknown", (long long)id);
    struct tape_alloc *x = &b->allocs[slot->number - 1];
    if (x->free_event >= 0) return bad(b, "expected a live id; %lld is freed", (long long)id);
    x->free_event = (int32_t)b->event_count;
    add_event(b, TAPE_FREE, slot->number - 1);
    return 0;
}

static int run_mark(struct builder *b, const struct tape_op *op) {
    add_event(b, TAPE_MARK, op->step)->phase = op->phase;
    return 0;
}

static int run_empty_cache(struct builder *b, const struct tape_op *op) {
    (void)op;
    add_event(b, TAPE_EMPTY_CACHE, 0);
    return 0;
}

static int run_scratch(struct builder *b, const struct tape_op *op) {
    struct tape_scratch s;
    int code = size_of(b, op, &s.c, &s.k);
    if (code < 0) return code;
    add_event(b, TAPE_SCRATCH, b->scratch_count);
    *arena_push(b->arena, &b->scratches, &b->scratch_count, &b->scratch_capacity) = s;
    return 0;
}

static int run_work(struct builder *b, const struct tape_op *op) {
    struct tape_work w = {.class_ = op->tag};
    int64_t none;
    int code = value_of(b, op->size, &w.flops_c, &w.flops_k);
    if (code == 0) code = value_of(b, op->more, &w.bytes_c, &w.bytes_k);
    if (code == 0) code = value_of(b, op->id, &w.count, &none);
    if (code == 0) code = name_number(b, op->module, &w.details);
    if (code < 0) return code;
    if (w.count < 1) return bad(b, "a number of kernels is below 1");
    add_event(b, TAPE_WORK, b->work_count);
    *arena_push(b->arena, &b->works, &b->work_count, &b->work_capacity) = w;
    return 0;
}

static int run_loop(struct builder *b, const struct tape_op *op) {
    int64_t turns, none;
    int code = value_of(b, op->id, &turns, &none);
    if (code < 0) return code;
    if (turns < 0) return bad(b, "a block is repeated %lld times", (long long)turns);
    if (turns == 0) {
        b->at = op->other; // its end
        return 0;
    }
    b->passes[b->depth++] = (struct pass){.begin = b->at, .turns = turns};
    b->values[op->symbol] = 0;
    b->turn++;
    return 0;
}

static int run_loop_end(struct builder *b, const struct tape_op *op) {
    struct pass *p = &b->passes[b->depth - 1];
    if (++p->turn < p->turns) {
        b->values[b->t->ops[op->other].symbol] = p->turn;
        b->at = p->begin;
        b->turn++;
    } else {
        b->depth--;
    }
    return 0;
}

static int (*const run[])(struct builder *, const struct tape_op *) = {
    [TAPE_MARK] = run_mark,         [TAPE_ALLOC] = run_alloc,
    [TAPE_FREE] = run_free,         [TAPE_EMPTY_CACHE] = run_empty_cache,
    [TAPE_SCRATCH] = run_scratch,   [TAPE_LOOP] = run_loop,
    [TAPE_LOOP_END] = run_loop_end, [TAPE_WORK] = run_work};

static int run_ops(struct builder *b) {
    for (b->at = 0; b->at < b->t->op_count; b->at++) {
        const struct tape_op *op = &b->t->ops[b->at];
        if (++b->visited > TAPE_INSTANCE_EVENTS_MAX) {
            return bad(b, "expected at most %d events", TAPE_INSTANCE_EVENTS_MAX);
        }
        int code = run[op->kind](b, op);
        if (code < 0) return code;
    }
    return 0;
}

bool tape_bound_holds(const struct tape_bound *b, int64_t value) {
    return b->most > 0 && value >= b->least && value <= b->most && value % b->step == 0;
}

static int bad_value(const struct tape_template *t, int dim, int64_t value, struct fail *why) {
    const struct tape_bound *x = &t->bounds[dim];
    const char *name = tape_dim_words[dim].name;
    if (x->most == 0) {
        return fail_set(why, FAIL_INPUT, "%.*s: this template has no %s but 1", STR_ARG(t->name),
                        name);
    }
    if (value == 0) {
        return fail_set(why, FAIL_INPUT, "%.*s: this template needs %s", STR_ARG(t->name), name);
    }
    if (value >= x->least && value <= x->most) {
        return fail_set(why, FAIL_INPUT, "%.*s: %s %lld is not a multiple of %lld",
                        STR_ARG(t->name), name, (long long)value, (long long)x->step);
    }
    return fail_set(why, FAIL_INPUT, "%.*s: %s %lld is not within %lld and %lld", STR_ARG(t->name),
                    name, (long long)value, (long long)x->least, (long long)x->most);
}

static int take_values(struct builder *b, const int64_t *values) {
    for (int i = 0; i < TAPE_DIM_COUNT; i++) {
        const struct tape_bound *x = &b->t->bounds[i];
        int64_t value = values[i];
        bool inside = x->most == 0 ? value == 0 || value == 1 : tape_bound_holds(x, value);
        if (!inside && !(i == TAPE_DIM_BATCH && value == 0)) {
            return bad_value(b->t, i, value, b->why);
        }
        b->values[i] = x->most == 0 ? 1 : value;
    }
    return 0;
}

static void set_header(const struct builder *b, struct tape_header *h) {
    int64_t *batches = arena_new(b->arena, int64_t, 1);
    *h = b->t->header;
    h->json = (struct str){0};
    batches[0] = b->values[TAPE_DIM_BATCH] ? b->values[TAPE_DIM_BATCH] : b->batch_least;
    h->batches = batches;
    h->batch_count = 1;
    if (b->t->bounds[TAPE_DIM_SEQUENCE].most > 0) {
        // Where layers are split, the dimension is one GPU's part.
        int64_t among = b->values[TAPE_DIM_TENSOR_PARALLEL];
        h->sequence_length = b->values[TAPE_DIM_SEQUENCE] * (among > 1 ? among : 1);
    }
    if (tape_is_by_rows(h)) { // liger: chunks of logits about as large as the hidden states
        int64_t vocabulary = b->values[TAPE_DIM_VOCABULARY], hidden = b->values[TAPE_DIM_HIDDEN];
        h->loss_tokens = b->values[TAPE_DIM_SEQUENCE];
        h->loss_parts = (vocabulary + hidden - 1) / hidden;
    }
    if (b->t->bounds[TAPE_DIM_TARGET_SEQUENCE].most > 0)
        h->target_length = b->values[TAPE_DIM_TARGET_SEQUENCE];
    if (b->t->bounds[TAPE_DIM_IMAGE_SIZE].most > 0) h->image_size = b->values[TAPE_DIM_IMAGE_SIZE];
}

// About how many events and allocations there will be.
static void make_room(struct builder *b) {
    int64_t times[TAPE_LOOP_DEPTH + 1] = {1}, events = 0, allocs = 0, none;
    int depth = 0;
    for (int32_t i = 0; i < b->t->op_count && events < ROOM_MOST; i++) {
        const struct tape_op *op = &b->t->ops[i];
        int64_t turns = 0;
        if (op->kind == TAPE_LOOP) {
            bool is_known = !tape_expr_value(&b->t->pool, op->id, b->values, &turns, &none);
            turns = is_known && turns > 0 && turns < ROOM_MOST ? turns : 1;
            turns = times[depth] < ROOM_MOST ? times[depth] * turns : ROOM_MOST;
            times[++depth] = turns;
        } else if (op->kind == TAPE_LOOP_END) {
            depth--;
        } else {
            events += times[depth];
            if (op->kind == TAPE_ALLOC) allocs += times[depth];
        }
    }
    b->event_capacity = events < ROOM_MOST ? events : ROOM_MOST;
    b->alloc_capacity = allocs < ROOM_MOST ? allocs : ROOM_MOST;
    b->events = arena_new_raw(b->arena, struct tape_event, b->event_capacity);
    b->allocs = arena_new_raw(b->arena, struct tape_alloc, b->alloc_capacity);
    b->id_room = b->alloc_capacity > 0 ? b->alloc_capacity : 1;
    b->ids = tape_id_map_new(b->scratch, b->id_room);
    b->straight_ids = arena_new(b->scratch, struct straight, b->t->op_count);
    b->straight_sizes = arena_new(b->scratch, struct straight, b->t->op_count);
    b->straight_pieces = arena_new(b->scratch, struct straight, b->t->piece_count);
    b->made_names = arena_new(b->scratch, struct made_name, b->t->name_count);
}

static int instantiate(struct arena *a, const struct tape_template *t,
                       const int64_t values[TAPE_DIM_COUNT], bool is_bare, struct tape *ret,
                       struct fail *why) {
    ARENA_AUTO scratch = {.escape = a->escape};
    int64_t batch = t->bounds[TAPE_DIM_BATCH].least;
    struct builder b = {.arena = a,
                        .scratch = &scratch,
                        .t = t,
                        .why = why,
                        .batch_least = batch > 0 ? batch : 1,
                        .is_bare = is_bare,
                        .stream_count = 1};
    int code = take_values(&b, values);
    if (code < 0) return code;
    make_room(&b);
    b.texts = tape_text_map_new(a, &scratch);
    code = run_ops(&b);
    if (code < 0) return code;
    *ret = (struct tape){.name = t->name,
                         .events = b.events,
                         .allocs = b.allocs,
                         .scratches = b.scratches,
                         .works = b.works,
                         .strings = b.texts.texts,
                         .event_count = (int32_t)b.event_count,
                         .alloc_count = (int32_t)b.alloc_count,
                         .scratch_count = (int32_t)b.scratch_count,
                         .work_count = (int32_t)b.work_count,
                         .string_count = (int32_t)b.texts.count,
                         .stream_count = b.stream_count};
    set_header(&b, &ret->header);
    tape_host_leave(ret);
    return 0;
}

int tape_instantiate(struct arena *a, const struct tape_template *t,
                     const int64_t values[TAPE_DIM_COUNT], struct tape *ret, struct fail *why) {
    return instantiate(a, t, values, false, ret, why);
}

int tape_instantiate_bare(struct arena *a, const struct tape_template *t,
                          const int64_t values[TAPE_DIM_COUNT], struct tape *ret,
                          struct fail *why) {
    return instantiate(a, t, values, true, ret, why);
}
