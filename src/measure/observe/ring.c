// SPDX-License-Identifier: Apache-2.0
#include "measure/observe/observe_int.h"

#include <string.h>

struct ring observe_ring_new(struct arena *a, ptrdiff_t most) {
    ptrdiff_t capacity = most + most / 8 + 1;
    return (struct ring){arena_new(a, struct device_gauges, capacity),
                         arena_new(a, int64_t, capacity),
                         0,
                         0,
                         most,
                         capacity};
}

const struct device_gauges *observe_ring_items(const struct ring *r) {
    return r->items + r->begin;
}

const struct device_gauges *observe_ring_newest(const struct ring *r) {
    return r->count ? r->items + r->begin + r->count - 1 : NULL;
}

void observe_ring_add(struct ring *r, const struct device_gauges *g) {
    if (r->count == r->most) {
        r->begin++;
        r->count--;
    }
    if (r->begin + r->count == r->capacity) {
        memmove(r->items, r->items + r->begin, (size_t)r->count * sizeof *r->items);
        memmove(r->ours, r->ours + r->begin, (size_t)r->count * sizeof *r->ours);
        r->begin = 0;
    }
    r->ours[r->begin + r->count] = -1;
    r->items[r->begin + r->count++] = *g;
}
