// SPDX-License-Identifier: Apache-2.0
// A tape of one micro-step an optimizer step becomes that of several, of which two are written out:
// in the second the gradients are there already, and what a backward pass makes is added to them
// and freed at once (torch/csrc/autograd/functions/accumulate_grad.h: in place without grad mode).
#include "predict/tape/edit.h"

#include <string.h>

// Where a part of the tape begins and ends, in events.
struct part {
    int32_t begin, end;
};
// init, and of each step the passes (input to backward) and the update (optimizer to its end).
struct parts {
    struct part init, passes[2], update[2];
};

struct copier {
    const struct tape *from;
    struct tape *to;
    int32_t *now;       // of every allocation of `from`, its latest copy
    int32_t *left;      // what the latest passes left alive besides gradients, in order, as copies
    int32_t left_count; //
    int32_t taken;      // of those, freed by now
};

static int32_t mark_at(const struct tape *t, int32_t from, enum tape_phase phase, int32_t step) {
    for (int32_t i = from; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (e->kind == TAPE_MARK && e->phase == phase && e->index == step) return i;
    }
    return -1;
}

static bool find_parts(const struct tape *t, struct parts *ret) {
    int32_t input0 = mark_at(t, 0, TAPE_INPUT, 0), input1 = mark_at(t, 0, TAPE_INPUT, 1);
    int32_t update0 = mark_at(t, 0, TAPE_OPTIMIZER, 0), update1 = mark_at(t, 0, TAPE_OPTIMIZER, 1);
    *ret = (struct parts){{0, input0},
                          {{input0, update0}, {input1, update1}},
                          {{update0, input1}, {update1, t->event_count}}};
    return input0 >= 0 && update0 > input0 && input1 > update0 && update1 > input1;
}

static bool is_in(struct part p, int32_t event) {
    return event >= p.begin && event < p.end;
}

// False: it is freed already, so the steps are not alike.
static bool copy_free(struct copier *c, int32_t alloc) {
    if (alloc >= c->to->alloc_count || c->to->allocs[alloc].free_event >= 0) return false;
    tape_drop(c->to, alloc);
    return true;
}

static void copy_alloc(struct copier *c, int32_t alloc) {
    c->now[alloc] = tape_put_alloc(c->to, c->from->allocs[alloc]);
}

static bool is_left(const struct tape_alloc *x, struct part p) {
    return x->free_event < 0 || !is_in(p, x->free_event);
}

// What earlier passes left is freed in its order, whichever copy of them it was.
static bool free_left(struct copier *c, int32_t alloc) {
    if (c->taken >= c->left_count) return false;
    int32_t copy = c->left[c->taken++];
    if (c->to->allocs[copy].tag != c->from->allocs[alloc].tag) return false;
    return copy_free(c, copy);
}

// Inputs and whatever else stays until the next pass, but not what stays for good.
static void keep_left(struct copier *c, struct part p) {
    c->left_count = c->taken = 0;
    for (int32_t i = p.begin; i < p.end; i++) {
        const struct tape_event *e = &c->from->events[i];
        if (e->kind != TAPE_ALLOC) continue;
        const struct tape_alloc *x = &c->from->allocs[e->index];
        if (is_left(x, p) && x->tag == TAPE_INPUT_DATA) c->left[c->left_count++] = c->now[e->index];
    }
}

// False: something is freed that a micro-step cannot free.
static bool copy_passes(struct copier *c, struct part p, int32_t step, bool adds) {
    for (int32_t i = p.begin; i < p.end; i++) {
        const struct tape_event *e = &c->from->events[i];
        bool is_alloc = e->kind == TAPE_ALLOC || e->kind == TAPE_FREE;
        const struct tape_alloc *x = is_alloc ? &c->from->allocs[e->index] : NULL;
        if (e->kind == TAPE_ALLOC) {
            copy_alloc(c, e->index);
            if (adds && x->tag == TAPE_GRADIENT && is_left(x, p)) copy_free(c, c->now[e->index]);
        } else if (e->kind == TAPE_FREE) {
            bool is_own = is_in(p, x->event);
            if (!(is_own ? copy_free(c, c->now[e->index]) : free_left(c, e->index))) return false;
        } else {
            tape_put_event(c->to, *e);
            if (e->kind == TAPE_MARK) c->to->events[c->to->event_count - 1].index = step;
        }
    }
    keep_left(c, p);
    return true;
}

static bool copy_part(struct copier *c, struct part p) {
    for (int32_t i = p.begin; i < p.end; i++) {
        const struct tape_event *e = &c->from->events[i];
        if (e->kind == TAPE_ALLOC)
            copy_alloc(c, e->index);
        else if (e->kind != TAPE_FREE)
            tape_put_event(c->to, *e);
        else if (!copy_free(c, c->now[e->index]))
            return false;
    }
    return true;
}

// Those of the first of the two passes are the gradients that the update frees.
static bool copy_step(struct copier *c, const struct parts *p, int step, int32_t *scratch) {
    ptrdiff_t bytes = (ptrdiff_t)sizeof *scratch * c->from->alloc_count;
    if (!copy_passes(c, p->passes[step], step, false)) return false;
    memcpy(scratch, c->now, (size_t)bytes);
    if (!copy_passes(c, p->passes[1], step, true)) return false;
    for (int32_t i = 0; i < c->from->alloc_count; i++) {
        if (c->from->allocs[i].tag == TAPE_GRADIENT) c->now[i] = scratch[i];
    }
    return copy_part(c, p->update[step]);
}

static ptrdiff_t count_allocs(const struct tape *t, struct part p) {
    ptrdiff_t count = 0;
    for (int32_t i = p.begin; i < p.end; i++) count += t->events[i].kind == TAPE_ALLOC;
    return count;
}

bool tape_accumulate(struct arena *a, const struct tape *t, struct tape *ret) {
    ARENA_AUTO scratch = {.escape = a->escape};
    struct parts p;
    struct copier c = {.from = t, .to = ret};
    *ret = *t;
    if (!find_parts(t, &p)) return false;
    // The second step's passes come twice more; each gradient may be freed in them.
    ptrdiff_t allocs = count_allocs(t, p.passes[1]), events = p.passes[1].end - p.passes[1].begin;
    ret->event_count = ret->alloc_count = 0;
    ret->events = arena_new(a, struct tape_event, t->event_count + 2 * events + 2 * allocs);
    ret->allocs = arena_new(a, struct tape_alloc, t->alloc_count + 2 * allocs);
    c.now = arena_new(&scratch, int32_t, t->alloc_count);
    c.left = arena_new(&scratch, int32_t, t->alloc_count);
    int32_t *saved = arena_new(&scratch, int32_t, t->alloc_count);
    if (!copy_part(&c, p.init) || !copy_step(&c, &p, 0, saved) || !copy_step(&c, &p, 1, saved))
        return false;
    ret->header.accumulation = 2;
    return true;
}
