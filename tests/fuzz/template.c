// SPDX-License-Identifier: Apache-2.0
// Any bytes as a template: refused with a message, or made into a tape at the least of every
// dimension and at more, which then is a tape in every respect and has the same sizes whether its
// batch was given or left free.
#include "fuzz.h"

#include "predict/sim/sim.h"
#include "predict/tape/template.h"

#include <stdlib.h>

static void check(bool good) {
    if (!good) abort();
}

static void check_tape(struct arena *a, const struct tape *t) {
    struct tape again;
    struct buf first = buf_new(a), second = buf_new(a);
    tape_write(t, &first);
    check(tape_read(a, STR("again"), buf_str(&first), &again, NULL) == 0);
    tape_write(&again, &second);
    check(str_equal(buf_str(&first), buf_str(&second)));
    struct sim_options o = sim_options_default();
    struct sim_result r;
    struct sim *s = sim_prepare(a, t, &o);
    sim_replay(s, t->header.batches[0], 0, SIM_UNLIMITED, &r);
    check(r.oom || sim_live_peak(s, t->header.batches[0], 0) <= r.allocated_bytes);
}

static void check_sizes(const struct tape *open, const struct tape *closed, int64_t batch) {
    check(open->alloc_count == closed->alloc_count && open->event_count == closed->event_count);
    for (int32_t i = 0; i < open->alloc_count; i++) {
        check(tape_size(open, &open->allocs[i], batch, 0) == closed->allocs[i].c);
    }
}

// The least of every dimension, or the next but so many.
static void set_values(const struct tape_template *t, int64_t steps, int64_t *values) {
    for (int i = 0; i < TAPE_DIM_COUNT; i++) {
        struct tape_bound b = tape_template_bound(t, (enum tape_dim)i);
        int64_t more = b.least + steps * b.step;
        values[i] = more <= b.most ? more : b.least;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ARENA_AUTO a = {0};
    struct tape_template *t;
    struct fail why = {0};
    struct str bytes = {(const char *)data, (ptrdiff_t)size};
    int64_t values[TAPE_DIM_COUNT];
    if (tape_template_read(&a, STR("fuzz"), bytes, &t, &why) < 0) {
        check(why.code == FAIL_INPUT && why.message[0] != 0);
        return 0;
    }
    for (int64_t steps = 0; steps < 4; steps += 3) {
        struct tape open, closed, several;
        set_values(t, steps, values);
        int64_t batch = values[TAPE_DIM_BATCH];
        if (tape_instantiate(&a, t, values, &closed, NULL) == 0) check_tape(&a, &closed);
        values[TAPE_DIM_BATCH] = 0;
        if (tape_instantiate(&a, t, values, &open, NULL) < 0) continue;
        check_tape(&a, &open);
        if (tape_accumulate(&a, &open, &several)) check_tape(&a, &several);
        values[TAPE_DIM_BATCH] = batch;
        if (batch > 0 && tape_instantiate(&a, t, values, &closed, NULL) == 0) {
            check_sizes(&open, &closed, batch);
        }
    }
    return 0;
}
