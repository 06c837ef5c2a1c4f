// SPDX-License-Identifier: Apache-2.0
// Any bytes as a tape: refused with a message, or read, written, read again as equal text, and
// replayed within what the result says of itself.
#include "fuzz.h"

#include "predict/sim/sim.h"
#include "predict/tape/zero.h"

#include <stdlib.h>
#include <string.h>

static void check(bool good) {
    if (!good) abort();
}

static struct str written(struct arena *a, const struct tape *t) {
    struct buf out = buf_new(a);
    tape_write(t, &out);
    return buf_str(&out);
}

static void check_round_trip(struct arena *a, const struct tape *t) {
    struct tape again;
    struct str text = written(a, t);
    check(tape_read(a, STR("again"), text, &again, NULL) == 0);
    check(again.event_count == t->event_count && again.alloc_count == t->alloc_count);
    check(str_equal(written(a, &again), text));
    struct buf packed = buf_new(a);
    if (!tape_pack(t, &packed)) return;
    check(tape_read(a, STR("packed"), buf_str(&packed), &again, NULL) == 0);
    check(str_equal(written(a, &again), text));
}

static void check_replay(struct sim *s, int64_t batch, int64_t classes) {
    struct sim_result free_run, tight;
    sim_replay(s, batch, classes, SIM_UNLIMITED, &free_run);
    int64_t live = sim_live_peak(s, batch, classes);
    check(free_run.oom || live <= free_run.allocated_bytes);
    check(free_run.allocated_bytes <= free_run.reserved_bytes);
    sim_replay(s, batch, classes, live, &tight);
    check(tight.reserved_bytes <= live);
    check(tight.same_from_bytes <= live && live < tight.same_below_bytes);
    struct sim_need n;
    sim_needed(s, batch, classes, 20, &n);
    if (n.runs) {
        sim_replay(s, batch, classes, n.needed_bytes, &tight);
        check(!tight.oom);
        check(n.needed_bytes >= live);
    }
}

static void check_answers(struct arena *a, struct sim *s) {
    struct sim_holders h;
    struct sim_timeline t;
    int64_t sum = 0;
    sim_peak_holders(a, s, 2, 0, SIM_UNLIMITED, 3, &h);
    for (ptrdiff_t i = 0; i < h.tags.count; i++) sum += h.tags.items[i].bytes;
    check(h.event < 0 || sum == h.allocated_bytes);
    sim_timeline(a, s, 2, 0, SIM_UNLIMITED, 7, &t);
    check(t.count <= 7);
}

// One of several GPUs is a tape again, or none is made.
static void check_zero(struct arena *a, const struct tape *t, bool odd) {
    const struct tape_zero ways[] = {
        {1, 3, 100, odd, .rank = TAPE_RANK_OF_MOST},
        {2, 5, 1000, odd, .rank = odd ? 4 : 0},
        {2, 1, 100, odd, .offload = {.optimizer = TAPE_ON_HOST}},
        {3, 4, 1000, odd, {1000, 100, 1000000, 1000, 1000}},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct tape made, again;
        if (!tape_zero(a, t, &ways[i], &made)) continue;
        check(tape_read(a, STR("made"), written(a, &made), &again, NULL) == 0);
        check(again.event_count == made.event_count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ARENA_AUTO a = {0};
    struct tape t;
    struct fail why = {0};
    struct str bytes = {(const char *)data, (ptrdiff_t)size};
    if (tape_read(&a, STR("fuzz"), bytes, &t, &why) < 0) {
        check(why.code == FAIL_INPUT && why.message[0] != 0);
        return 0;
    }
    check_round_trip(&a, &t);
    struct sim_options o = sim_options_default();
    o.scratch = true;
    o.expandable_segments = size % 2 == 1;
    struct sim *s = sim_prepare(&a, &t, &o);
    check_replay(s, 1, 0);
    check_replay(s, 1000, 7);
    check_answers(&a, s);
    check_zero(&a, &t, size % 2 == 1);
    return 0;
}
