// SPDX-License-Identifier: Apache-2.0
// Live bytes without the allocator: the least that any capacity must be. Of a tape whose sizes are
// c + k * batch, its peak before rounding is convex in the batch: between two batches it is below
// their chord, beyond them above it. So a search over batches looks at few of them.
#include "predict/sim/sim_int.h"

#include <math.h>

// Allocations and frees alone, as numbers of allocations, those of frees inverted.
static void find_changes(struct sim *s) {
    const struct tape *t = s->tape;
    s->changes = arena_new_raw(s->arena, int32_t, t->alloc_count * 2);
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (e->kind == TAPE_ALLOC) s->changes[s->change_count++] = e->index;
        if (e->kind == TAPE_FREE) s->changes[s->change_count++] = ~e->index;
    }
}

int64_t sim_live_peak(struct sim *s, int64_t batch, int64_t classes) {
    sim_size_for(s, batch, classes);
    if (!s->changes) find_changes(s);
    const int64_t *sizes = s->sizes;
    int64_t live = 0, peak = 0;
    for (const int32_t *at = s->changes, *end = at + s->change_count; at < end; at++) {
        int64_t change = *at, freed = -(int64_t)(change < 0); // -1 or 0, without a branch
        live += (sizes[change ^ freed] ^ freed) - freed;
        peak = live > peak ? live : peak;
    }
    return peak;
}

// Rounding adds less than 512 bytes to each allocation that is alive.
static double rounding_most(const struct sim *s) {
    return 512.0 * s->slot_count;
}

// What the peak is surely not below, by the line through two batches: beyond them. -inf: unknown.
static double at_least(const struct sim *s, const struct sim_known *x, const struct sim_known *y,
                       int64_t batch) {
    const struct sim_known *near = batch > y->batch ? y : x, *far = batch > y->batch ? x : y;
    if (batch >= x->batch && batch <= y->batch) return -INFINITY;
    double steps = (double)(batch - near->batch) / (double)(near->batch - far->batch);
    double base = (double)near->peak - rounding_most(s);
    return base + steps * (base - (double)far->peak);
}

// What the peak is surely not above: between two batches. +inf: unknown.
static double at_most(const struct sim *s, const struct sim_known *x, const struct sim_known *y,
                      int64_t batch) {
    if (batch < x->batch || batch > y->batch) return INFINITY;
    double part = (double)(batch - x->batch) / (double)(y->batch - x->batch);
    return (double)x->peak + part * (double)(y->peak - x->peak) + rounding_most(s);
}

// Up to that batch: no size is rounded up otherwise, or cut off.
static bool is_convex(const struct sim *s, int64_t batch) {
    return s->tape->header.loss_parts <= 0 && sim_rounds_to_512(&s->cache.options) &&
           sim_sizes_are_affine(s, batch);
}

bool sim_live_within(struct sim *s, int64_t batch, int64_t classes, int64_t bytes) {
    const struct sim_known *x = &s->known[0], *y = &s->known[1];
    if (x->batch > y->batch) x = &s->known[1], y = &s->known[0];
    bool is_usable = s->known_count == 2 && s->known_classes == classes && is_convex(s, y->batch);
    if (is_usable && at_least(s, x, y, batch) > (double)bytes) return false;
    if (is_usable && at_most(s, x, y, batch) <= (double)bytes) return true;
    int64_t peak = sim_live_peak(s, batch, classes);
    if (s->known_classes != classes) s->known_count = 0;
    s->known_classes = classes;
    if (s->known_count > 0 && s->known[0].batch == batch) return peak <= bytes;
    s->known[1] = s->known[0];
    s->known[0] = (struct sim_known){batch, peak};
    if (s->known_count < 2) s->known_count++;
    return peak <= bytes;
}
