// SPDX-License-Identifier: Apache-2.0
#include "predict/death/death.h"

#include <stdlib.h>

// Those alive at the moment, those of one stack and kind side by side, in order of birth.
static int by_holder(const void *a, const void *b) {
    const struct snapshot_alloc *x = *(const struct snapshot_alloc *const *)a,
                                *y = *(const struct snapshot_alloc *const *)b;
    if (x->stack != y->stack) return x->stack < y->stack ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}
static int by_bytes(const void *a, const void *b) {
    const struct death_holder *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->stack > y->stack) - (x->stack < y->stack);
}
static int by_share(const void *a, const void *b) {
    const struct death_share *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

struct groups {
    struct death_holder *items;
    ptrdiff_t count, capacity;
};

static struct groups group(struct arena *a, const struct snapshot_history *h) {
    const struct snapshot_alloc **live = arena_new(a, const struct snapshot_alloc *, h->count);
    ptrdiff_t count = 0;
    struct groups g = {0};
    for (ptrdiff_t i = 0; i < h->count; i++) {
        if (snapshot_lives(&h->allocs[i], h->moment)) live[count++] = &h->allocs[i];
    }
    if (count > 0) qsort((void *)live, (size_t)count, sizeof *live, by_holder);
    for (ptrdiff_t i = 0; i < count; i++) {
        const struct snapshot_alloc *x = live[i], *last = i > 0 ? live[i - 1] : NULL;
        bool same = last && last->stack == x->stack && last->kind == x->kind;
        if (!same)
            *arena_push(a, &g.items, &g.count, &g.capacity) =
                (struct death_holder){.stack = x->stack, .kind = x->kind};
        struct death_holder *to = &g.items[g.count - 1];
        to->bytes += x->bytes;
        to->count++;
        if (x->step >= 0 && (!same || last->step != x->step)) to->steps++;
    }
    if (g.count > 0) qsort(g.items, (size_t)g.count, sizeof *g.items, by_bytes);
    return g;
}

static void share(struct death *d, const struct groups *g) {
    struct death_share all[SNAPSHOT_KIND_COUNT] = {0};
    for (ptrdiff_t i = 0; i < g->count; i++) {
        struct death_share *s = &all[g->items[i].kind];
        s->kind = g->items[i].kind;
        s->bytes += g->items[i].bytes;
        s->count += g->items[i].count;
    }
    for (int i = 0; i < SNAPSHOT_KIND_COUNT; i++) {
        if (all[i].count > 0) d->kinds[d->kind_count++] = all[i];
    }
    qsort(d->kinds, (size_t)d->kind_count, sizeof *d->kinds, by_share);
    for (ptrdiff_t i = 0; i < g->count && i < DEATH_HOLDERS; i++)
        d->holders[d->holder_count++] = g->items[i];
}

enum { LEAK_STEPS = 3 }; // that left something behind at one place: a cache fills once

static bool may_leak(const struct death_holder *x) {
    return x->steps >= LEAK_STEPS && x->kind != SNAPSHOT_WEIGHTS && x->kind != SNAPSHOT_OPTIMIZER &&
           x->kind != SNAPSHOT_WORKSPACES && x->kind != SNAPSHOT_GRADIENTS;
}

static void find_leak(struct death *d, const struct groups *g) {
    for (ptrdiff_t i = 0; i < g->count; i++) {
        const struct death_holder *x = &g->items[i];
        if (!may_leak(x)) continue;
        d->leak_bytes += x->bytes;
        d->leak_per_step += x->bytes / x->steps;
        if (x->bytes > d->leak.bytes) d->leak = *x;
    }
}

static void judge(struct death *d) {
    const struct snapshot_history *h = d->history;
    if (!h->is_oom) return;
    bool known = h->device_free >= 0 && h->holes >= 0;
    struct sim_options usual = sim_options_default();
    int64_t asked = sim_cache_segment_size(&usual, h->asked);
    d->missing = h->device_free >= 0 ? asked - h->device_free : -1;
    d->holds[DEATH_LIMIT] = h->device_free >= asked;
    d->holds[DEATH_LEAK] = d->leak_bytes > 0 && d->missing > 0 && d->leak_bytes >= d->missing;
    // A full GPU always has some pieces: they are a reason from a twentieth of the whole on, as
    // machine/cause says of a log.
    d->holds[DEATH_FRAGMENTED] = known && !d->holds[DEATH_LIMIT] && h->largest_hole < h->asked &&
                                 h->holes + h->device_free >= h->asked &&
                                 h->holes >= (h->reserved + h->device_free) / 20;
    d->holds[DEATH_PEAK] =
        !d->holds[DEATH_LIMIT] && !d->holds[DEATH_LEAK] && !d->holds[DEATH_FRAGMENTED];
}

void death_judge(struct arena *a, const struct snapshot_history *h, int64_t batch,
                 struct death *ret) {
    struct death *d = ret;
    *d = (struct death){
        .history = h, .batch = batch, .capacity = -1, .missing = -1, .replay = DEATH_NOT_PLAYED};
    struct groups g = group(a, h);
    share(d, &g);
    find_leak(d, &g);
    if (h->is_oom && h->reserved >= 0 && h->device_free >= 0)
        d->capacity = h->reserved + h->device_free;
    judge(d);
    death_replay(a, d);
}
