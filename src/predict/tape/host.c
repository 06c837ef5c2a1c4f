// SPDX-License-Identifier: Apache-2.0
// The host's memory under offload: what is not page-locked as long as it lives, and what is as
// torch's own allocator of pinned memory has it (ATen/core/CachingHostAllocator.h, 2.13).
#include "predict/tape/host.h"

static int power_of(int64_t bytes) {
    int power = 0;
    while (power < 62 && INT64_C(1) << power < bytes) power++;
    return power;
}

static void note_most(struct tape_host *h) {
    if (h->paged + h->pinned > h->most) h->most = h->paged + h->pinned;
}

void tape_host_page(struct tape_host *h, int64_t bytes) {
    h->paged += bytes;
    note_most(h);
}

void tape_host_unpage(struct tape_host *h, int64_t bytes) {
    h->paged -= bytes;
}

void tape_host_pin(struct tape_host *h, int64_t bytes) {
    const int power = power_of(bytes);
    if (bytes <= 0) return;
    if (h->spare[power] > 0)
        h->spare[power]--;
    else
        h->pinned += INT64_C(1) << power;
    note_most(h);
}

void tape_host_unpin(struct tape_host *h, int64_t bytes) {
    if (bytes > 0) h->spare[power_of(bytes)]++;
}

void tape_host_put(struct tape_host *h, int64_t bytes) {
    tape_host_page(h, bytes);
    if (h->is_paged) return;
    tape_host_pin(h, bytes);
    tape_host_unpage(h, bytes);
}

void tape_host_lock(struct tape_host *h, int64_t bytes) {
    h->pinned += bytes;
    note_most(h);
}

void tape_host_tell(const struct tape_host *h, struct tape *ret) {
    ret->header.host_bytes = h->most;
    ret->header.host_pinned_bytes = h->pinned;
}

static void take(struct tape_host *h, const struct tape_alloc *x) {
    if (x->tag == TAPE_PINNED)
        tape_host_pin(h, x->c);
    else
        tape_host_page(h, x->c);
}

static void give_back(struct tape_host *h, const struct tape_alloc *x) {
    if (x->tag == TAPE_PINNED)
        tape_host_unpin(h, x->c);
    else
        tape_host_unpage(h, x->c);
}

static bool is_host(const struct tape_alloc *x) {
    return x->tag >= TAPE_TAG_COUNT;
}

// The events of the device, and the allocations that they name.
static void keep_device(struct tape *t, struct tape_host *h) {
    int32_t count = 0, allocs = 0;
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event e = t->events[i];
        const bool is_alloc = e.kind == TAPE_ALLOC;
        if (is_alloc || e.kind == TAPE_FREE) {
            struct tape_alloc *x = &t->allocs[e.index];
            if (is_host(x)) {
                (is_alloc ? take : give_back)(h, x);
                continue;
            }
            *(is_alloc ? &x->event : &x->free_event) = count;
        }
        t->events[count++] = e;
    }
    t->event_count = count;
    for (int32_t i = 0; i < t->alloc_count; i++) { // both in the order of their lines
        if (is_host(&t->allocs[i])) continue;
        const struct tape_alloc x = t->allocs[i];
        t->events[x.event].index = allocs;
        if (x.free_event >= 0) t->events[x.free_event].index = allocs;
        t->allocs[allocs++] = x;
    }
    t->alloc_count = allocs;
}

void tape_host_leave(struct tape *t) {
    struct tape_host h = {0};
    int32_t i = 0;
    while (i < t->alloc_count && !is_host(&t->allocs[i])) i++;
    if (i == t->alloc_count) return;
    keep_device(t, &h);
    tape_host_tell(&h, t);
}
