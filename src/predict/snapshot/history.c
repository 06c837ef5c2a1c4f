// SPDX-License-Identifier: Apache-2.0
#include "predict/snapshot/snapshot.h"

#include "predict/snapshot/snapshot_int.h"

#include <stdlib.h>

// Address → the allocation that is there now; -1: none.
struct live_slot {
    int64_t address;
    int32_t number;
    bool used;
};
struct live {
    struct live_slot *slots;
    uint64_t mask;
    ptrdiff_t count;
};

static struct live_slot *live_find(const struct live *l, int64_t address) {
    uint64_t at = ((uint64_t)address * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
    while (l->slots[at & l->mask].used && l->slots[at & l->mask].address != address) at++;
    return &l->slots[at & l->mask];
}

static void live_grow(struct arena *a, struct live *l) {
    struct live old = *l;
    uint64_t places = old.slots ? (old.mask + 1) * 4 : 1024;
    *l = (struct live){arena_new(a, struct live_slot, (ptrdiff_t)places), places - 1, old.count};
    for (uint64_t i = 0; old.slots && i <= old.mask; i++) {
        if (old.slots[i].used) *live_find(l, old.slots[i].address) = old.slots[i];
    }
}

static struct live_slot *live_at(struct arena *a, struct live *l, int64_t address) {
    if (!l->slots || (uint64_t)l->count * 2 > l->mask) live_grow(a, l);
    struct live_slot *slot = live_find(l, address);
    if (!slot->used) {
        *slot = (struct live_slot){address, -1, true};
        l->count++;
    }
    return slot;
}

// As the allocator rounds without options; a block of the file says it itself.
static int64_t round_up(int64_t bytes) {
    return bytes < 512 ? 512 : (bytes + 511) / 512 * 512;
}

struct walk {
    struct arena *a;
    struct snapshot_history *h;
    struct live live;
    enum snapshot_action ends; // the action that ends an allocation
};

// Its number.
static int32_t add(struct walk *w, struct snapshot_alloc x) {
    struct snapshot_history *h = w->h;
    *arena_push(w->a, &h->allocs, &h->count, &h->capacity) = x;
    return (int32_t)h->count - 1;
}

static bool sound(const struct snapshot_event *e) {
    return e->address > 0 && e->size >= 0 && e->size < INT64_C(1) << 50;
}

// Of entries that are sound only: an allocation, and what ends one.
static void walk_event(struct walk *w, int32_t i) {
    struct snapshot_history *h = w->h;
    const struct snapshot_event *e = &h->events[i];
    h->alloc_of[i] = -1;
    if (!sound(e)) return;
    struct live_slot *slot = live_at(w->a, &w->live, e->address);
    if (e->action == SNAPSHOT_ALLOC) {
        if (slot->number >= 0) h->allocs[slot->number].died = i; // its end is not in the file
        h->alloc_of[i] = slot->number = add(w, (struct snapshot_alloc){.address = e->address,
                                                                       .requested = e->size,
                                                                       .bytes = round_up(e->size),
                                                                       .born = i,
                                                                       .died = SNAPSHOT_NEVER,
                                                                       .stack = e->stack,
                                                                       .pool = e->pool});
    } else if (e->action == (uint8_t)w->ends && slot->number >= 0) {
        h->alloc_of[i] = slot->number;
        h->allocs[slot->number].died = i;
        slot->number = -1;
    } else if (e->action == (uint8_t)w->ends) {
        h->alloc_of[i] = add(w, (struct snapshot_alloc){.address = e->address,
                                                        .requested = e->size,
                                                        .bytes = round_up(e->size),
                                                        .born = SNAPSHOT_BEFORE,
                                                        .died = i,
                                                        .pool = e->pool});
    }
}

// Blocks that are in use at the file's end: exact sizes, and those that the history does not know.
static void walk_block(struct walk *w, const struct snapshot_segment *g,
                       const struct snapshot_block *b) {
    if (b->state == SNAPSHOT_INACTIVE || b->address <= 0) return;
    int64_t requested = b->requested >= 0 && b->requested <= b->size ? b->requested : b->size;
    struct live_slot *slot = live_at(w->a, &w->live, b->address);
    if (slot->number >= 0) {
        struct snapshot_alloc *x = &w->h->allocs[slot->number];
        x->bytes = b->size;
        if (x->stack == 0) x->stack = b->stack;
        return;
    }
    slot->number = add(w, (struct snapshot_alloc){.address = b->address,
                                                  .requested = requested,
                                                  .bytes = b->size,
                                                  .born = SNAPSHOT_BEFORE,
                                                  .died = SNAPSHOT_NEVER,
                                                  .stack = b->stack,
                                                  .pool = g->pool});
}

static int by_address(const void *a, const void *b) {
    const struct snapshot_alloc *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

// Those from before come first, by address; the others are in order already. alloc_of follows.
static void put_in_order(struct arena *a, struct snapshot_history *h) {
    struct snapshot_alloc *sorted = arena_new(a, struct snapshot_alloc, h->count);
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < h->count; i++) {
        if (h->allocs[i].born >= 0) continue;
        h->before_bytes += h->allocs[i].bytes;
        sorted[count++] = h->allocs[i];
    }
    h->before_count = count;
    if (count > 0) qsort(sorted, (size_t)count, sizeof *sorted, by_address);
    for (ptrdiff_t i = 0; i < h->count; i++) {
        if (h->allocs[i].born >= 0) sorted[count++] = h->allocs[i];
    }
    h->allocs = sorted;
    for (ptrdiff_t i = 0; i < h->count; i++) {
        const struct snapshot_alloc *x = &h->allocs[i];
        if (x->born >= 0) h->alloc_of[x->born] = (int32_t)i;
        bool ends = x->died != SNAPSHOT_NEVER && h->events[x->died].action != SNAPSHOT_ALLOC;
        if (ends) h->alloc_of[x->died] = (int32_t)i;
    }
}

static void walk_all(struct arena *a, struct snapshot_history *h) {
    const struct snapshot *s = h->of;
    struct walk *w = arena_new(a, struct walk, 1);
    *w = (struct walk){.a = a, .h = h, .ends = SNAPSHOT_FREE_REQUESTED};
    // The recording may leave out actions (skip_actions, torch 2.11 on).
    for (int32_t i = 0; i < h->event_count; i++) {
        if (h->events[i].action == SNAPSHOT_FREE_COMPLETED) w->ends = SNAPSHOT_FREE_COMPLETED;
    }
    for (int32_t i = 0; i < h->event_count; i++) walk_event(w, i);
    for (ptrdiff_t i = 0; i < s->segment_count; i++) {
        const struct snapshot_segment *g = &s->segments[i];
        if (g->device != h->gpu) continue;
        for (int32_t b = 0; b < g->count; b++) walk_block(w, g, &s->blocks[g->first + b]);
    }
    put_in_order(a, h);
}

static bool is_phase(uint8_t place) {
    return place == SNAPSHOT_FORWARD || place == SNAPSHOT_BACKWARD || place == SNAPSHOT_FEEDING ||
           place == SNAPSHOT_STEPPING || place == SNAPSHOT_LOADING;
}

static void find_places(struct snapshot_history *h) {
    for (ptrdiff_t i = 0; i < h->count; i++) {
        if (h->allocs[i].born >= 0 && h->allocs[i].stack > 0) h->has_stacks = true;
    }
    for (ptrdiff_t i = 0; i < h->count; i++) {
        struct snapshot_alloc *x = &h->allocs[i];
        x->place = h->places[x->stack];
        // Where others have a stack, one without is autograd's: see places.c.
        if (x->stack == 0 && x->born >= 0 && h->has_stacks) x->place = SNAPSHOT_BACKWARD;
        h->has_optimizer |=
            x->born >= 0 && (x->place == SNAPSHOT_STEPPING || x->place == SNAPSHOT_STATE);
    }
}

// What the program made after the optimizer and before the next pass is the next step's: its batch.
static void hand_over(struct snapshot_history *h, ptrdiff_t from, int32_t step) {
    for (ptrdiff_t i = from - 1; i >= 0 && h->allocs[i].born >= 0; i--) {
        uint8_t place = h->allocs[i].place;
        if (place != SNAPSHOT_PROGRAM && place != SNAPSHOT_NOWHERE) return;
        h->allocs[i].step = step;
    }
}

// A step ends where the forward pass follows the optimizer; where no optimizer allocates anything,
// where it follows backward. What comes before the first pass is no step's.
static void find_steps(struct arena *a, struct snapshot_history *h) {
    uint8_t last = SNAPSHOT_NOWHERE;
    uint8_t ends = h->has_optimizer ? SNAPSHOT_STEPPING : SNAPSHOT_BACKWARD;
    int32_t step = -1;
    for (ptrdiff_t i = 0; i < h->count; i++) {
        struct snapshot_alloc *x = &h->allocs[i];
        x->step = x->born < 0 ? -1 : step;
        if (x->born < 0) continue;
        uint8_t phase = x->place == SNAPSHOT_STATE ? SNAPSHOT_STEPPING : x->place;
        if (!is_phase(phase) || phase == last) continue;
        bool begins = phase == SNAPSHOT_FORWARD || phase == SNAPSHOT_FEEDING;
        if ((last == ends && begins) || (step < 0 && phase != SNAPSHOT_LOADING)) {
            hand_over(h, i, ++step);
        }
        x->step = step;
        last = phase;
        *arena_push(a, &h->phases, &h->phase_count, &h->phase_capacity) =
            (struct snapshot_step){x->born, phase, step < 0 ? 0 : step};
    }
    h->steps = step + 1;
}

static void find_moment(struct snapshot_history *h) {
    int64_t now = h->before_bytes, most = now;
    h->moment = -1;
    h->asked = h->device_free = -1;
    for (int32_t i = 0; i < h->event_count; i++) {
        const struct snapshot_event *e = &h->events[i];
        int32_t x = h->alloc_of[i];
        if (x >= 0) now += h->allocs[x].born == i ? h->allocs[x].bytes : -h->allocs[x].bytes;
        if (e->action == SNAPSHOT_OOM) {
            h->is_oom = true;
            h->ooms++;
            h->moment = i;
            h->asked = e->size;
            h->device_free = e->address;
            h->oom_stack = e->stack;
        } else if (!h->is_oom && now > most) {
            most = now;
            h->moment = i;
        }
    }
    for (ptrdiff_t i = 0; i < h->phase_count && h->phases[i].first <= h->moment; i++) {
        h->phase = h->phases[i].phase;
        h->step = h->phases[i].step;
    }
    // What was asked for last says where it was; nothing of that phase may have been served yet.
    if (!h->is_oom) return;
    uint8_t place = h->places[h->oom_stack];
    if (h->oom_stack == 0 && h->has_stacks) place = SNAPSHOT_BACKWARD;
    if (is_phase(place)) h->phase = place;
}

static void add_up(struct snapshot_history *h) {
    for (ptrdiff_t i = 0; i < h->count; i++) {
        const struct snapshot_alloc *x = &h->allocs[i];
        if (!snapshot_lives(x, h->moment)) continue;
        h->allocated += x->bytes;
        h->requested += x->requested;
        h->live++;
    }
}

bool snapshot_has(const struct snapshot *s, int gpu) {
    if (gpu < s->trace_count && s->traces[gpu].count > 0) return true;
    for (ptrdiff_t i = 0; i < s->segment_count; i++) {
        if (s->segments[i].device == gpu) return true;
    }
    return false;
}

void snapshot_look(struct arena *a, const struct snapshot *s, int gpu,
                   struct snapshot_history *ret) {
    struct snapshot_history *h = ret;
    *h = (struct snapshot_history){.of = s, .gpu = gpu, .moment = -1};
    if (gpu < s->trace_count) {
        h->events = s->events + s->traces[gpu].first;
        h->event_count = s->traces[gpu].count;
    }
    h->alloc_of = arena_new(a, int32_t, h->event_count);
    walk_all(a, h);
    h->places = snapshot_places(a, s);
    find_places(h);
    find_steps(a, h);
    find_moment(h);
    add_up(h);
    snapshot_tell_kinds(a, h);
    snapshot_find_holes(a, h);
}
