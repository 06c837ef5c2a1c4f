// SPDX-License-Identifier: Apache-2.0
// A tape as text: reading what is written here gives an equal tape, and a tape that was read comes
// out byte for byte (numbers written like 007 and needless "-" excepted).
#include "predict/tape/tape_int.h"

void tape_put_number(struct buf *out, int64_t value) {
    char digits[24];
    int at = (int)sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do digits[--at] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0) digits[--at] = '-';
    buf_add(out, (struct str){digits + at, (ptrdiff_t)sizeof digits - at});
}

static void put_numbers(struct buf *out, const int64_t *values, int count) {
    for (int i = 0; i < count; i++) {
        buf_byte(out, ' ');
        tape_put_number(out, values[i]);
    }
}

static void put_text(struct buf *out, struct str s) {
    buf_byte(out, ' ');
    buf_add(out, s);
}

static void put_alloc(const struct tape *t, const struct tape_alloc *x, struct buf *out) {
    buf_byte(out, 'a');
    if (x->stream > 0) {
        buf_byte(out, '@');
        tape_put_number(out, x->stream);
    }
    put_numbers(out, (const int64_t[]){x->id, x->c, x->k}, 3);
    put_text(out, str_of(tape_tag_names[x->tag]));
    if (x->op > 0 || x->module > 0) put_text(out, x->op > 0 ? t->strings[x->op] : STR("-"));
    if (x->module > 0) put_text(out, t->strings[x->module]);
    if ((x->cn | x->kn) != 0) {
        buf_add(out, STR(" n="));
        tape_put_number(out, x->cn);
        buf_byte(out, ',');
        tape_put_number(out, x->kn);
    }
}

static void put_work(const struct tape *t, const struct tape_work *w, struct buf *out) {
    buf_byte(out, 'o');
    put_text(out, str_of(tape_class_names[w->class_]));
    put_numbers(out, (const int64_t[]){w->flops_c, w->flops_k, w->bytes_c, w->bytes_k, w->count},
                5);
    if (w->details > 0) put_text(out, t->strings[w->details]);
}

static void put_event(const struct tape *t, const struct tape_event *e, struct buf *out) {
    switch ((enum tape_kind)e->kind) {
    case TAPE_MARK:
        buf_byte(out, 'm');
        put_text(out, str_of(tape_phase_names[e->phase]));
        put_numbers(out, &(int64_t){e->index}, 1);
        break;
    case TAPE_ALLOC:
        put_alloc(t, &t->allocs[e->index], out);
        break;
    case TAPE_FREE:
        buf_byte(out, 'f');
        put_numbers(out, &t->allocs[e->index].id, 1);
        break;
    case TAPE_EMPTY_CACHE:
        buf_byte(out, 'e');
        break;
    case TAPE_SCRATCH: {
        const struct tape_scratch *s = &t->scratches[e->index];
        buf_byte(out, 'w');
        put_numbers(out, (const int64_t[]){s->c, s->k}, 2);
        break;
    }
    case TAPE_WORK:
        put_work(t, &t->works[e->index], out);
        break;
    }
    buf_byte(out, '\n');
}

void tape_write(const struct tape *t, struct buf *out) {
    buf_add(out, tape_header_text(out->arena, &t->header));
    buf_byte(out, '\n');
    for (int32_t i = 0; i < t->event_count; i++) put_event(t, &t->events[i], out);
}
