// SPDX-License-Identifier: Apache-2.0
// Who stands at the peak: the tape is replayed once to find the event, unless that is known, and
// once more up to it; what is alive then is added up by tag, operation and module. A holder's bytes
// are its block's, so that every list adds up to what torch.cuda.memory_allocated() would say.
#include "predict/sim/sim_int.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b) {
    const struct sim_share *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static int by_block(const void *a, const void *b) {
    const struct sim_holder *x = a, *y = b;
    if (x->bytes != y->bytes) return (x->bytes < y->bytes) - (x->bytes > y->bytes);
    return (x->alloc > y->alloc) - (x->alloc < y->alloc);
}

// Sums by a key from 0 to `keys` - 1; keys that hold nothing are left out.
static struct sim_shares add_up(struct arena *a, const struct sim_holder *alive, ptrdiff_t count,
                                const int32_t *key_of, const struct str *names, int32_t keys) {
    struct sim_shares list = {arena_new(a, struct sim_share, keys), 0, keys};
    for (int32_t i = 0; i < keys; i++) list.items[i].name = names[i];
    for (ptrdiff_t i = 0; i < count; i++) {
        list.items[key_of[i]].bytes += alive[i].bytes;
        list.items[key_of[i]].count++;
    }
    for (int32_t i = 0; i < keys; i++) {
        if (list.items[i].count > 0) list.items[list.count++] = list.items[i];
    }
    qsort(list.items, (size_t)list.count, sizeof *list.items, by_size);
    return list;
}

static struct str name_or_unknown(struct str name) {
    return name.len ? name : STR("unknown");
}

// "layers.2.blocks.0.attn" → "layers.2", "head.fc" → "head"
static struct str top_of(struct str path) {
    struct str rest = path, first = str_cut(&rest, '.'), second = str_cut(&rest, '.');
    int64_t number;
    if (!second.p || !str_to_i64(second, &number)) return first;
    return (struct str){path.p, second.p + second.len - path.p};
}

static struct sim_shares by_tag(struct arena *a, const struct sim_holder *alive, ptrdiff_t count) {
    ARENA_AUTO scratch = {.escape = a->escape};
    struct str names[TAPE_TAG_COUNT];
    for (int i = 0; i < TAPE_TAG_COUNT; i++) names[i] = str_of(tape_tag_names[i]);
    int32_t *keys = arena_new(&scratch, int32_t, count);
    for (ptrdiff_t i = 0; i < count; i++) keys[i] = alive[i].alloc->tag;
    return add_up(a, alive, count, keys, names, TAPE_TAG_COUNT);
}

// The tape's strings are the keys; for tops, the first string with the same top stands for all.
static void by_names(struct arena *a, const struct tape *t, const struct sim_holder *alive,
                     ptrdiff_t count, struct sim_holders *ret) {
    ARENA_AUTO scratch = {.escape = a->escape};
    struct str *names = arena_new(&scratch, struct str, t->string_count);
    int32_t *ops = arena_new(&scratch, int32_t, count);
    int32_t *modules = arena_new(&scratch, int32_t, count);
    for (int32_t i = 0; i < t->string_count; i++) names[i] = name_or_unknown(t->strings[i]);
    for (ptrdiff_t i = 0; i < count; i++) {
        ops[i] = alive[i].alloc->op;
        modules[i] = alive[i].alloc->module;
    }
    ret->ops = add_up(a, alive, count, ops, names, t->string_count);
    ret->modules = add_up(a, alive, count, modules, names, t->string_count);
}

static struct sim_shares by_top(struct arena *a, const struct sim_shares *modules) {
    struct sim_shares list = {arena_new(a, struct sim_share, modules->count), 0, modules->count};
    for (ptrdiff_t i = 0; i < modules->count; i++) {
        struct str top = top_of(modules->items[i].name);
        ptrdiff_t at = 0;
        while (at < list.count && !str_equal(list.items[at].name, top)) at++;
        if (at == list.count) list.items[list.count++].name = top;
        list.items[at].bytes += modules->items[i].bytes;
        list.items[at].count += modules->items[i].count;
    }
    qsort(list.items, (size_t)list.count, sizeof *list.items, by_size);
    return list;
}

// What is alive once event `stop` - 1 is done.
static struct sim_holder *collect(struct arena *a, const struct sim *s, int32_t stop,
                                  int64_t classes, ptrdiff_t *ret_count) {
    const struct tape *t = s->tape;
    struct sim_holder *alive = arena_new(a, struct sim_holder, s->slot_count);
    ptrdiff_t count = 0;
    for (int32_t i = 0; i < t->alloc_count && t->allocs[i].event < stop; i++) {
        const struct tape_alloc *x = &t->allocs[i];
        int32_t block = s->blocks[s->todo[x->event] >> 2];
        bool gone = x->free_event >= 0 && x->free_event < stop;
        if (gone || s->sizes[i] == 0) continue;
        alive[count++] =
            (struct sim_holder){x, s->cache.blocks[block].size, tape_size(t, x, s->batch, classes)};
    }
    *ret_count = count;
    return alive;
}

static void fill_place(const struct tape *t, const struct sim_result *r, struct sim_holders *ret) {
    for (int32_t i = 0; i < r->phase_count && r->phases[i].event <= ret->event; i++) {
        ret->phase = r->phases[i].phase;
        ret->step = r->phases[i].step;
    }
    const struct tape_event *e = &t->events[ret->event];
    if (e->kind != TAPE_ALLOC) return; // scratch can be the peak too
    ret->op = t->strings[t->allocs[e->index].op];
    ret->module = t->strings[t->allocs[e->index].module];
}

// Replays up to the peak, and adds up what is alive there by its tags. NULL: there is no peak.
static struct sim_holder *reach_peak(struct arena *a, struct arena *scratch, struct sim *s,
                                     int64_t batch, int64_t classes, int64_t capacity_bytes,
                                     ptrdiff_t *ret_count, struct sim_holders *ret) {
    sim_size_for(s, batch, classes);
    struct sim_result r = s->last;
    bool is_known =
        r.events > 0 && capacity_bytes >= r.same_from_bytes && capacity_bytes < r.same_below_bytes;
    if (!is_known) sim_replay(s, batch, classes, capacity_bytes, &r);
    *ret = (struct sim_holders){.event = r.allocated_event, .oom = r.oom};
    if (ret->event < 0) return NULL;
    sim_run(s, capacity_bytes, ret->event + 1, NULL, NULL, &r);
    fill_place(s->tape, &r, ret);
    ret->reserved_bytes = s->cache.reserved;
    struct sim_holder *alive = collect(scratch, s, ret->event + 1, classes, ret_count);
    for (ptrdiff_t i = 0; i < *ret_count; i++) {
        ret->allocated_bytes += alive[i].bytes;
        ret->requested_bytes += alive[i].requested_bytes;
    }
    ret->tags = by_tag(a, alive, *ret_count);
    return alive;
}

void sim_peak_tags(struct arena *a, struct sim *s, int64_t batch, int64_t classes,
                   int64_t capacity_bytes, struct sim_holders *ret) {
    ARENA_AUTO scratch = {.escape = a->escape};
    ptrdiff_t count;
    (void)reach_peak(a, &scratch, s, batch, classes, capacity_bytes, &count, ret);
}

void sim_peak_holders(struct arena *a, struct sim *s, int64_t batch, int64_t classes,
                      int64_t capacity_bytes, int top, struct sim_holders *ret) {
    ARENA_AUTO scratch = {.escape = a->escape};
    ptrdiff_t count;
    struct sim_holder *alive =
        reach_peak(a, &scratch, s, batch, classes, capacity_bytes, &count, ret);
    if (!alive) return;
    by_names(a, s->tape, alive, count, ret);
    ret->tops = by_top(a, &ret->modules);
    qsort(alive, (size_t)count, sizeof *alive, by_block);
    ret->largest_count = (int)(count < top ? count : top);
    ret->largest = arena_new(a, struct sim_holder, ret->largest_count);
    for (int i = 0; i < ret->largest_count; i++) ret->largest[i] = alive[i];
}
