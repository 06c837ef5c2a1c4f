// SPDX-License-Identifier: Apache-2.0
// Any bytes as a memory snapshot: refused with a message, or read, judged and made a tape of, with
// figures that agree with one another.
#include "fuzz.h"

#include "predict/death/death.h"

#include <stdlib.h>

static void check(bool good) {
    if (!good) abort();
}

static void check_history(const struct snapshot_history *h, const struct death *d) {
    int64_t sum = 0, live = 0;
    for (int i = 0; i < d->kind_count; i++) {
        sum += d->kinds[i].bytes;
        live += d->kinds[i].count;
    }
    check(sum == h->allocated && live == h->live);
    check(h->moment < h->event_count && h->largest_hole <= h->holes);
    check(h->holes <= h->reserved);
    for (ptrdiff_t i = 0; i < h->count; i++) {
        check(h->allocs[i].died > h->allocs[i].born && h->allocs[i].kind < SNAPSHOT_KIND_COUNT);
    }
}

static void check_tape(struct arena *a, const struct snapshot_history *h) {
    struct tape t, again;
    int64_t fixed_bytes;
    struct snapshot_tape_options o = {.batch = 4, .whole = true};
    if (snapshot_tape(a, h, &o, &t, &fixed_bytes, NULL) < 0) return;
    const int64_t batches[] = {4};
    t.header.model = STR("fuzz");
    t.header.batches = batches;
    t.header.batch_count = 1;
    struct buf text = buf_new(a);
    tape_write(&t, &text);
    check(tape_read(a, STR("again"), buf_str(&text), &again, NULL) == 0);
    check(again.event_count == t.event_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ARENA_AUTO a = {0};
    struct snapshot s;
    struct fail why = {0};
    struct str bytes = {(const char *)data, (ptrdiff_t)size};
    if (snapshot_read_bytes(&a, STR("fuzz"), bytes, &s, &why) < 0) {
        check(why.code == FAIL_INPUT && why.message[0] != 0);
        return 0;
    }
    for (int gpu = 0; gpu < SNAPSHOT_GPUS; gpu++) {
        struct snapshot_history h;
        struct death d;
        if (!snapshot_has(&s, gpu)) continue;
        snapshot_look(&a, &s, gpu, &h);
        death_judge(&a, &h, 4, &d);
        check_history(&h, &d);
        check_tape(&a, &h);
    }
    return 0;
}
