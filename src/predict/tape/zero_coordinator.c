// SPDX-License-Identifier: Apache-2.0
// Which parameters are whole when: what deepspeed/runtime/zero/partitioned_param_coordinator.py
// (0.19.8) does. In the first pass a module's parameters come when it runs and go when it has run.
// After that the order is known: those that come next are asked for early, and those that are soon
// needed again stay.
#include "predict/tape/zero_int.h"

#include <stdlib.h>

enum { LONG_AGO = -1 };

static int compare_memberships(const void *a, const void *b) {
    const struct zero_membership *x = a, *y = b;
    if (x->module != y->module) return x->module < y->module ? -1 : 1;
    return (x->param > y->param) - (x->param < y->param);
}

void tape_zero_list(struct zero_coordinator *c, struct zero_membership *all, ptrdiff_t count) {
    int32_t listed = 0;
    qsort(all, (size_t)count, sizeof *all, compare_memberships);
    for (ptrdiff_t i = 0; i < count; i++) {
        if (i > 0 && compare_memberships(&all[i - 1], &all[i]) == 0) continue;
        if (c->params_of[all[i].module]++ == 0) c->first[all[i].module] = listed;
        c->listed[listed++] = all[i].param;
    }
}

void tape_zero_add_uses(struct zero_coordinator *c, int32_t module) {
    int64_t before = 0;
    if (c->place_count > 0) {
        const struct zero_place *last = &c->places[c->place_count - 1];
        before = last->before;
        for (int32_t i = 0; i < c->params_of[last->module]; i++)
            before += c->params[c->listed[c->first[last->module] + i]].count;
    }
    for (int32_t i = 0; i < c->params_of[module]; i++)
        c->uses[c->use_count++] =
            (struct zero_use){c->listed[c->first[module] + i], c->place_count, 0};
    c->places[c->place_count++] = (struct zero_place){module, before};
}

void tape_zero_link_uses(struct zero_coordinator *c) {
    for (int32_t i = c->use_count - 1; i >= 0; i--) {
        struct zero_param *p = &c->params[c->uses[i].param];
        c->uses[i].next = p->first_use;
        p->first_use = i;
    }
}

static struct zero_param *param_of(struct zero_coordinator *c, int32_t module, int32_t i) {
    return &c->params[c->listed[c->first[module] + i]];
}

static void await(struct zero_coordinator *c, struct zero_param *p) {
    if (!p->is_awaited) return;
    p->is_awaited = false;
    if (p->message == NOT_THERE) {
        p->status = ZERO_HERE;
        return;
    }
    struct zero_message *m = &c->messages[p->message];
    for (int32_t i = 0; i < m->count; i++) { // all of it, when the first one is waited for
        struct zero_param *each = &c->params[c->sent[m->first + i]];
        if (each->message != p->message || each->status != ZERO_INFLIGHT) continue;
        each->status = ZERO_HERE;
        each->block = tape_put_alloc(c->to, (struct tape_alloc){.c = 2 * each->count,
                                                                .op = c->op_gathered,
                                                                .module = each->module,
                                                                .stream = c->how->overlaps,
                                                                .tag = TAPE_TEMPORARY});
    }
    if (--m->waiting == 0) tape_drop(c->to, m->block);
}

int32_t tape_zero_hold(struct zero_coordinator *c, int32_t param) {
    const int32_t block = c->params[param].block;
    if (block != NOT_THERE) c->holds[block].views++;
    return block;
}

void tape_zero_let_go(struct zero_coordinator *c, int32_t block) {
    if (block == NOT_THERE || --c->holds[block].views > 0) return;
    if (c->holds[block].is_left) tape_drop(c->to, block);
}

static void leave(struct zero_coordinator *c, int32_t block) {
    if (block != NOT_THERE && c->holds[block].views > 0)
        c->holds[block].is_left = true;
    else
        tape_drop(c->to, block);
}

static void release_param(struct zero_coordinator *c, struct zero_param *p) {
    if (p->status != ZERO_HERE || p->user_count > 0) return;
    leave(c, p->block);
    p->block = NOT_THERE;
    p->status = ZERO_AWAY;
    c->there -= p->count;
}

static void ask_for(struct zero_coordinator *c, struct zero_param *p, int32_t message) {
    c->there += p->count;
    p->status = ZERO_INFLIGHT;
    p->is_awaited = true;
    p->message = message;
}

static struct tape_alloc gathered(const struct zero_coordinator *c, const struct zero_param *p,
                                  int stream) {
    return (struct tape_alloc){.c = 2 * p->part * c->how->ranks,
                               .op = c->op_gathered,
                               .module = p->module,
                               .stream = stream,
                               .tag = TAPE_TEMPORARY};
}

// A part that is on the host comes over first.
static int32_t bring(struct zero_coordinator *c, const struct zero_param *p, int stream) {
    if (c->how->offload.params == TAPE_ON_GPU || c->how->ranks == 1) return NOT_THERE;
    return tape_put_alloc(c->to, (struct tape_alloc){.c = 2 * p->part,
                                                     .op = c->op_gathered,
                                                     .module = p->module,
                                                     .stream = stream,
                                                     .tag = TAPE_TEMPORARY});
}

static bool has_all(const struct zero_coordinator *c) {
    return c->how->ranks == 1 && c->how->offload.params == TAPE_ON_GPU;
}

// A GPU by itself has what it needs, or takes it from the host.
static void gather_alone(struct zero_coordinator *c, int32_t first) {
    for (int32_t i = first; i < c->sent_count; i++) {
        struct zero_param *p = &c->params[c->sent[i]];
        ask_for(c, p, NOT_THERE);
        if (!has_all(c)) p->block = tape_put_alloc(c->to, gathered(c, p, c->how->overlaps));
    }
    c->sent_count = first;
}

// A single one comes into its place; several come in one message, and are copied out of it.
static void gather(struct zero_coordinator *c, int32_t first) {
    int32_t count = c->sent_count - first;
    if (count == 0) return;
    if (c->how->ranks == 1) {
        gather_alone(c, first);
        return;
    }
    if (count == 1) {
        struct zero_param *p = &c->params[c->sent[first]];
        ask_for(c, p, NOT_THERE);
        p->block = tape_put_alloc(c->to, gathered(c, p, c->how->overlaps));
        tape_drop(c->to, bring(c, p, c->how->overlaps));
        c->sent_count = first;
        return;
    }
    int32_t message = c->message_count++;
    int64_t part = 0;
    for (int32_t i = first; i < c->sent_count; i++) {
        ask_for(c, &c->params[c->sent[i]], message);
        part += c->params[c->sent[i]].part;
    }
    struct tape_alloc x = {.c = 2 * part * c->how->ranks,
                           .op = c->op_message,
                           .stream = c->how->overlaps,
                           .tag = TAPE_TEMPORARY};
    c->messages[message] = (struct zero_message){
        .block = tape_put_alloc(c->to, x), .waiting = count, .first = first, .count = count};
    for (int32_t i = first; i < c->sent_count; i++)
        c->brought[i - first] = bring(c, &c->params[c->sent[i]], c->how->overlaps);
    for (int32_t i = 0; i < count; i++) tape_drop(c->to, c->brought[i]);
}

static bool is_user(const struct zero_param *p, int32_t module) {
    for (int32_t i = 0; i < p->user_count; i++)
        if (p->users[i] == module) return true;
    return false;
}

static void add_user(struct zero_param *p, int32_t module) {
    const int32_t most = (int32_t)(sizeof p->users / sizeof *p->users);
    if (!is_user(p, module) && p->user_count < most) p->users[p->user_count++] = module;
}

static void remove_user(struct zero_param *p, int32_t module) {
    int32_t left = 0;
    for (int32_t i = 0; i < p->user_count; i++)
        if (p->users[i] != module) p->users[left++] = p->users[i];
    p->user_count = left;
}

// Those that come next, as far as the bucket goes.
static void prefetch(struct zero_coordinator *c) {
    const struct zero3 *how = &c->how->zero3;
    int64_t most = how->live - c->there < how->prefetch ? how->live - c->there : how->prefetch;
    int64_t elements = 0;
    int32_t first = c->sent_count;
    for (; how->prefetch > 0 && c->queue < c->use_count && elements < most; c->queue++) {
        const struct zero_use *use = &c->uses[c->queue];
        struct zero_param *p = &c->params[use->param];
        bool is_asked = false; // just now
        for (int32_t i = first; i < c->sent_count; i++) is_asked |= c->sent[i] == use->param;
        if (use->place > p->fetched_for) p->fetched_for = use->place;
        if (p->status != ZERO_AWAY || is_asked) continue;
        c->sent[c->sent_count++] = use->param;
        elements += p->count;
    }
    gather(c, first);
}

static void begin(struct zero_coordinator *c, int32_t module) {
    for (int32_t i = 0; i < c->running_count; i++)
        if (c->running[i] == module) return;
    c->running[c->running_count++] = module;
}

void tape_zero_fetch(struct zero_coordinator *c, int32_t module, bool is_forward,
                     bool is_backward_pass) {
    const int32_t count = c->params_of[module], first = c->sent_count;
    if (!is_forward) begin(c, module);
    for (int32_t i = 0; i < count; i++)
        if (param_of(c, module, i)->status == ZERO_AWAY)
            c->sent[c->sent_count++] = c->listed[c->first[module] + i];
    gather(c, first);
    int32_t owner = is_forward && is_backward_pass && c->running_count > 0
                        ? c->running[c->running_count - 1]
                        : NOT_THERE;
    for (int32_t i = 0; i < count; i++) {
        struct zero_param *p = param_of(c, module, i);
        add_user(p, module);
        if (owner != NOT_THERE && !p->is_trained) {
            c->owned += p->owner == NOT_THERE;
            p->owner = owner;
            add_user(p, owner);
        }
        await(c, p);
    }
    if (c->is_traced) {
        for (int32_t i = 0; i < count; i++) {
            if (param_of(c, module, i)->fetched_for >= c->step || c->queue >= c->use_count)
                continue;
            const struct zero_use *use = &c->uses[c->queue++];
            c->params[use->param].fetched_for = use->place;
        }
        prefetch(c);
    }
    c->step++;
}

// Whether it is needed again within so many elements.
static bool is_needed_soon(struct zero_coordinator *c, struct zero_param *p) {
    while (p->use != NOT_THERE && c->uses[p->use].place < c->step) p->use = c->uses[p->use].next;
    if (p->use == NOT_THERE) return false;
    int64_t from = c->places[c->step].before;
    return c->places[c->uses[p->use].place].before - from < c->how->zero3.reuse;
}

static bool may_go(struct zero_coordinator *c, struct zero_param *p) {
    if (!c->is_traced) return true;
    return !p->persists && p->fetched_for <= c->step && !is_needed_soon(c, p);
}

static void release_owned(struct zero_coordinator *c, int32_t module) {
    for (int32_t i = 0; i < c->param_count && c->owned > 0; i++) {
        struct zero_param *p = &c->params[i];
        if (p->owner != module) continue;
        p->owner = NOT_THERE;
        c->owned--;
        remove_user(p, module);
        if (!p->persists) release_param(c, p);
    }
}

static void stop(struct zero_coordinator *c, int32_t module) {
    int32_t left = 0;
    for (int32_t i = 0; i < c->running_count; i++)
        if (c->running[i] != module) c->running[left++] = c->running[i];
    c->running_count = left;
}

void tape_zero_release(struct zero_coordinator *c, int32_t module, bool is_forward) {
    if (!is_forward) stop(c, module);
    for (int32_t i = 0; i < c->params_of[module]; i++) {
        struct zero_param *p = param_of(c, module, i);
        bool goes = may_go(c, p);
        remove_user(p, module);
        if (goes) release_param(c, p);
    }
    if (!is_forward) release_owned(c, module);
}

void tape_zero_release_left(struct zero_coordinator *c) {
    while (c->running_count > 0) {
        int32_t module = c->running[--c->running_count];
        for (int32_t i = 0; i < c->params_of[module]; i++) {
            struct zero_param *p = param_of(c, module, i);
            remove_user(p, module);
            if (!p->persists) release_param(c, p);
        }
        release_owned(c, module);
    }
}

void tape_zero_begin_pass(struct zero_coordinator *c) {
    for (int32_t i = 0; i < c->param_count; i++) {
        struct zero_param *p = &c->params[i];
        bool is_unused = p->is_awaited;
        await(c, p);
        if (is_unused) release_param(c, p);
        p->fetched_for = LONG_AGO;
        p->use = p->first_use;
    }
    c->step = c->queue = 0;
    c->there = 0;
    c->message_count = c->sent_count = 0;
}

void tape_zero_release_all(struct zero_coordinator *c) {
    for (int32_t i = 0; i < c->param_count; i++) {
        struct zero_param *p = &c->params[i];
        await(c, p);
        p->user_count = 0;
        release_param(c, p);
    }
}

void tape_zero_gather_persistent(struct zero_coordinator *c) {
    for (int32_t i = 0; i < c->param_count; i++) {
        const struct zero_param *p = &c->params[i];
        bool comes = p->persists && p->status == ZERO_AWAY;
        c->brought[i] = comes ? bring(c, p, 0) : NOT_THERE;
    }
    for (int32_t i = 0; i < c->param_count; i++) {
        struct zero_param *p = &c->params[i];
        if (!p->persists || p->status != ZERO_AWAY) continue;
        if (!has_all(c)) p->block = tape_put_alloc(c->to, gathered(c, p, 0));
        p->status = ZERO_HERE;
    }
    for (int32_t i = 0; i < c->param_count; i++) tape_drop(c->to, c->brought[i]);
}
