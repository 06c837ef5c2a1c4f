// SPDX-License-Identifier: Apache-2.0
// Writes the packed form; packed.c reads it.
#include "predict/tape/intern.h"
#include "predict/tape/packed.h"

#include <string.h>

struct packer {
    const struct tape *tape;
    struct buf columns[PACKED_COLUMNS], sizes;
    int64_t size_count, module, id;
    int32_t *live, live_count;
    struct text_map known; // sizes, as their bytes
};

static void put(struct buf *out, uint64_t value) {
    for (; value > 127; value >>= 7) buf_byte(out, (char)(value | 128));
    buf_byte(out, (char)value);
}

static void put_signed(struct buf *out, int64_t value) {
    put(out, value < 0 ? 2 * (uint64_t) - (value + 1) + 1 : 2 * (uint64_t)value);
}

static int64_t size_number(struct packer *p, int64_t c, int64_t k, int64_t cn, int64_t kn) {
    struct buf bytes = buf_new(p->sizes.arena);
    put_signed(&bytes, c);
    put_signed(&bytes, k);
    put_signed(&bytes, cn);
    put_signed(&bytes, kn);
    bool is_new;
    int64_t number = tape_text_map_number(&p->known, buf_str(&bytes), &is_new) - 1;
    if (is_new) buf_add(&p->sizes, buf_str(&bytes)), p->size_count++;
    return number;
}

// Names that the text can only have where something else stands beside them.
static bool is_odd(struct str name) {
    return str_is(name, "-") || str_starts(name, STR("n="));
}

static bool put_alloc(struct packer *p, int32_t number) {
    const struct tape_alloc *x = &p->tape->allocs[number];
    if (is_odd(p->tape->strings[x->op]) || is_odd(p->tape->strings[x->module])) return false;
    if (p->live_count == PACKED_LIVE_MOST) return false;
    struct buf *numbers = &p->columns[PACKED_NUMBERS];
    bool jumps = x->id != p->id + 1;
    buf_byte(&p->columns[PACKED_KINDS], (char)(PACKED_ALLOC + x->tag + (jumps ? PACKED_JUMP : 0) +
                                               (x->stream > 0 ? PACKED_STREAM : 0)));
    if (jumps) put_signed(numbers, x->id - p->id - 1);
    if (x->stream > 0) put(numbers, (uint64_t)x->stream - 1);
    put(&p->columns[PACKED_SIZES], (uint64_t)size_number(p, x->c, x->k, x->cn, x->kn));
    put(&p->columns[PACKED_OPS], (uint64_t)x->op);
    put_signed(&p->columns[PACKED_MODULES], x->module - p->module);
    p->module = x->module;
    p->id = x->id;
    p->live[p->live_count++] = number;
    return true;
}

static void put_free(struct packer *p, int32_t number) {
    int32_t at = p->live_count - 1;
    while (p->live[at] != number) at--;
    int32_t later = p->live_count - 1 - at;
    buf_byte(&p->columns[PACKED_KINDS], PACKED_FREE);
    put(&p->columns[PACKED_FREES], (uint64_t)later);
    memmove(&p->live[at], &p->live[at + 1], sizeof *p->live * (size_t)later);
    p->live_count--;
}

static void put_work(struct packer *p, const struct tape_work *w) {
    struct buf *numbers = &p->columns[PACKED_NUMBERS];
    buf_byte(&p->columns[PACKED_KINDS], PACKED_WORK);
    put(numbers, w->class_);
    put_signed(numbers, w->flops_c);
    put_signed(numbers, w->flops_k);
    put_signed(numbers, w->bytes_c);
    put_signed(numbers, w->bytes_k);
    put_signed(numbers, w->count);
    put(numbers, (uint64_t)w->details);
}

static bool put_event(struct packer *p, const struct tape_event *e) {
    struct buf *kinds = &p->columns[PACKED_KINDS], *numbers = &p->columns[PACKED_NUMBERS];
    switch ((enum tape_kind)e->kind) {
    case TAPE_ALLOC:
        return put_alloc(p, e->index);
    case TAPE_FREE:
        put_free(p, e->index);
        break;
    case TAPE_WORK:
        put_work(p, &p->tape->works[e->index]);
        break;
    case TAPE_SCRATCH: {
        const struct tape_scratch *s = &p->tape->scratches[e->index];
        buf_byte(kinds, PACKED_SCRATCH);
        put(numbers, (uint64_t)size_number(p, s->c, s->k, 0, 0));
        break;
    }
    case TAPE_MARK:
        buf_byte(kinds, (char)(PACKED_MARK + e->phase));
        put(numbers, (uint64_t)e->index);
        break;
    case TAPE_EMPTY_CACHE:
        buf_byte(kinds, PACKED_EMPTY_CACHE);
        break;
    }
    return true;
}

static void put_whole(const struct packer *p, struct buf *out) {
    const struct tape *t = p->tape;
    buf_add(out, tape_header_text(out->arena, &t->header));
    buf_add(out, (struct str){"\n\0", 2});
    put(out, (uint64_t)t->string_count - 1);
    for (int32_t i = 1; i < t->string_count; i++) {
        put(out, (uint64_t)t->strings[i].len);
        buf_add(out, t->strings[i]);
    }
    put(out, (uint64_t)p->size_count);
    buf_add(out, buf_str(&p->sizes));
    for (int i = 0; i < PACKED_COLUMNS; i++) {
        put(out, (uint64_t)p->columns[i].count);
        buf_add(out, buf_str(&p->columns[i]));
    }
}

bool tape_pack(const struct tape *t, struct buf *out) {
    ARENA_AUTO scratch = {.escape = out->arena->escape};
    struct packer p = {.tape = t, .sizes = buf_new(&scratch), .id = -1};
    p.live = arena_new(&scratch, int32_t, PACKED_LIVE_MOST);
    p.known = tape_text_map_new(&scratch, &scratch);
    for (int i = 0; i < PACKED_COLUMNS; i++) p.columns[i] = buf_new(&scratch);
    for (int32_t i = 0; i < t->event_count; i++)
        if (!put_event(&p, &t->events[i])) return false;
    put_whole(&p, out);
    return true;
}
