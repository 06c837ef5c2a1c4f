// SPDX-License-Identifier: Apache-2.0
// From a template to a tape: the blocks are run through, every expression gets its value, and what
// comes out is checked as a tape that is read.
#include "predict/tape/template_int.h"

#include "predict/tape/intern.h"
#include "predict/tape/tape_int.h"

#include <stdarg.h>
#include <stdio.h>

enum { IDS_AT_FIRST = 4096 };
static const int64_t id_limit = INT64_C(1) << 62;

// A block that is being run through.
struct pass {
    int32_t begin; // its op
    int64_t turn, turns;
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
    struct id_map ids;
    ptrdiff_t id_room;
    struct text_map texts;
    struct tape_event *events;
    struct tape_alloc *allocs;
    struct tape_scratch *scratches;
    ptrdiff_t event_count, event_capacity, alloc_count, alloc_capacity, scratch_count,
        scratch_capacity;
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

static int size_of(const struct builder *b, struct tape_expr e, int64_t *ret_c, int64_t *ret_k) {
    int code = value_of(b, e, ret_c, ret_k);
    if (code < 0) return code;
    if (*ret_k < 0 || *ret_c + *ret_k < 0) return bad(b, "a size is negative");
    if ((__int128)*ret_k * b->batch_least + *ret_c > TAPE_SIZE_MAX) {
        return bad(b, "a size is above 2^60 bytes");
    }
    return 0;
}

static int id_of(const struct builder *b, struct tape_expr e, int64_t *ret) {
    int64_t none;
    int code = value_of(b, e, ret, &none);
    if (code < 0) return code;
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
    struct str whole = pieces[0].text;
    if (n->count > 1 || pieces[0].is_value) {
        struct buf text = buf_new(b->arena);
        for (int32_t i = 0; i < n->count; i++) {
            int64_t value = 0, none;
            int code = pieces[i].is_value ? value_of(b, pieces[i].value, &value, &none) : 0;
            if (code < 0) return code;
            if (pieces[i].is_value) buf_format(&text, "%lld", (long long)value);
            buf_add(&text, pieces[i].text);
        }
        whole = buf_str(&text);
    }
    *ret = tape_text_map_number(&b->texts, whole, &fresh);
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
    struct tape_alloc x = {
        .event = (int32_t)b->event_count, .free_event = -1, .stream = op->stream, .tag = op->tag};
    int code = id_of(b, op->id, &x.id);
    if (code == 0) code = size_of(b, op->size, &x.c, &x.k);
    if (code == 0) code = name_number(b, op->op, &x.op);
    if (code == 0) code = name_number(b, op->module, &x.module);
    if (code < 0) return code;
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
    int code = id_of(b, op->id, &id);
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
    int code = size_of(b, op->size, &s.c, &s.k);
    if (code < 0) return code;
    add_event(b, TAPE_SCRATCH, b->scratch_count);
    *arena_push(b->arena, &b->scratches, &b->scratch_count, &b->scratch_capacity) = s;
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
    return 0;
}

static int run_loop_end(struct builder *b, const struct tape_op *op) {
    struct pass *p = &b->passes[b->depth - 1];
    if (++p->turn < p->turns) {
        b->values[b->t->ops[op->other].symbol] = p->turn;
        b->at = p->begin;
    } else {
        b->depth--;
    }
    return 0;
}

static int (*const run[])(struct builder *, const struct tape_op *) = {
    [TAPE_MARK] = run_mark,        [TAPE_ALLOC] = run_alloc,
    [TAPE_FREE] = run_free,        [TAPE_EMPTY_CACHE] = run_empty_cache,
    [TAPE_SCRATCH] = run_scratch,  [TAPE_LOOP] = run_loop,
    [TAPE_LOOP_END] = run_loop_end};

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
        bool inside = x->most == 0 ? value == 0 || value == 1
                                   : value >= x->least && value <= x->most && value % x->step == 0;
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
        h->sequence_length = b->values[TAPE_DIM_SEQUENCE];
    }
}

int tape_instantiate(struct arena *a, const struct tape_template *t,
                     const int64_t values[TAPE_DIM_COUNT], struct tape *ret, struct fail *why) {
    ARENA_AUTO scratch = {.escape = a->escape};
    int64_t batch = t->bounds[TAPE_DIM_BATCH].least;
    struct builder b = {.arena = a,
                        .scratch = &scratch,
                        .t = t,
                        .why = why,
                        .batch_least = batch > 0 ? batch : 1,
                        .id_room = IDS_AT_FIRST,
                        .stream_count = 1};
    int code = take_values(&b, values);
    if (code < 0) return code;
    b.ids = tape_id_map_new(&scratch, b.id_room);
    b.texts = tape_text_map_new(a, &scratch);
    code = run_ops(&b);
    if (code < 0) return code;
    *ret = (struct tape){.name = t->name,
                         .events = b.events,
                         .allocs = b.allocs,
                         .scratches = b.scratches,
                         .strings = b.texts.texts,
                         .event_count = (int32_t)b.event_count,
                         .alloc_count = (int32_t)b.alloc_count,
                         .scratch_count = (int32_t)b.scratch_count,
                         .string_count = (int32_t)b.texts.count,
                         .stream_count = b.stream_count};
    set_header(&b, &ret->header);
    return 0;
}
