// SPDX-License-Identifier: Apache-2.0
// ZeRO made of a whole tape, against recordings of DeepSpeed itself (tests/tapes/zero).
#include "recorded.h"

#include "predict/tape/zero.h"

enum { PHASES = 20, BATCH = 4, SQUARE = 256 * 256, PREFETCH = 58982, G = 1000000000 };
// What DeepSpeed has besides: some numbers, a block of 512 bytes each.
#define SCALARS_BYTES (INT64_C(8) << 10)

// The most that lives in each phase, block by block, as the allocator rounds.
struct peaks {
    int64_t bytes[PHASES];
    uint8_t phases[PHASES];
    int count;
};

static int64_t block(const struct tape *t, int32_t alloc) {
    return (tape_size(t, &t->allocs[alloc], BATCH, 0) + 511) / 512 * 512;
}

static struct peaks peaks_of(const struct tape *t) {
    struct peaks p = {.count = -1};
    int64_t now = 0;
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (e->kind == TAPE_MARK) {
            assert_true(++p.count < PHASES);
            p.phases[p.count] = e->phase;
        }
        if (e->kind == TAPE_ALLOC) now += block(t, e->index);
        if (e->kind == TAPE_FREE) now -= block(t, e->index);
        if (now > p.bytes[p.count]) p.bytes[p.count] = now;
    }
    p.count++;
    return p;
}

static struct tape tape_of(struct arena *a, const char *name) {
    return recorded_tape(a, str_format(a, "zero/%s", name).p);
}

static const struct {
    const char *whole, *recorded;
    bool accumulates;
    struct tape_zero how;
} trainings[] = {
    {"whole", "stage1", false, {1, 8, 256 * 256, false}},
    {"whole", "stage1-overlap-accumulating", true, {1, 3, 300000, true}},
    {"whole", "stage2", false, {2, 8, 256 * 256, false}},
    {"whole", "stage2-overlap", false, {2, 5, 500000, true}},
    {"whole", "stage2-accumulating", true, {2, 64, 1000000, false}},
    {"whole-lora", "stage2-lora", false, {2, 4, 500000000, false}},
    {"trace", "stage3", false, {3, 8, SQUARE, false, {PREFETCH, 2560, G, G, G}}},
    {"trace",
     "stage3-overlap",
     false,
     {3, 5, 500000, true, {300000, 1000, 2000000, 600000, 200000}}},
    {"trace-checkpointing",
     "stage3-accumulating",
     true,
     {3, 3, SQUARE, true, {PREFETCH, 2560, G, 900000, G}}},
    {"trace-lora", "stage3-lora", false, {3, 4, 20000, true, {PREFETCH, 100000, G, 1000000, G}}},
    {"whole", "stage1-host", false, {1, 8, SQUARE, .offload = {.optimizer = TAPE_ON_HOST}}},
    {"whole",
     "stage1-host-accumulating",
     true,
     {1, 3, 300000, true, .offload = {.optimizer = TAPE_ON_HOST}}},
    {"whole", "stage2-host", false, {2, 8, SQUARE, .offload = {.optimizer = TAPE_ON_HOST}}},
    {"whole",
     "stage2-host-accumulating",
     true,
     {2, 5, 500000, true, .offload = {.optimizer = TAPE_ON_HOST}}},
    {"whole",
     "stage2-host-paged",
     false,
     {2, 64, 1000000, .offload = {.optimizer = TAPE_ON_HOST, .is_paged = true}}},
    {"whole", "stage2-host-alone", false, {2, 1, SQUARE, .offload = {.optimizer = TAPE_ON_HOST}}},
    {"trace",
     "stage3-host-alone",
     false,
     {3, 1, SQUARE, false, {PREFETCH, 2560, G, G, G}, {TAPE_ON_HOST, TAPE_ON_HOST}}},
    {"trace",
     "stage3-host-alone-params-stay",
     false,
     {3, 1, 500000, true, {50000000, 100000, G, G, G}, {.optimizer = TAPE_ON_HOST}}},
    {"trace",
     "stage3-host",
     false,
     {3, 8, SQUARE, false, {PREFETCH, 2560, G, G, G}, {.optimizer = TAPE_ON_HOST}}},
    {"trace",
     "stage3-host-params",
     false,
     {3, 8, SQUARE, false, {PREFETCH, 2560, G, G, G}, {.params = TAPE_ON_HOST}}},
    {"trace",
     "stage3-host-all",
     false,
     {3, 8, SQUARE, false, {PREFETCH, 2560, G, G, G}, {TAPE_ON_HOST, TAPE_ON_HOST}}},
    {"trace-checkpointing",
     "stage3-host-accumulating",
     true,
     {3, 5, 500000, true, {300000, 1000, 2000000, 600000, 200000}, {TAPE_ON_HOST, TAPE_ON_HOST}}},
    {"trace-lora",
     "stage3-host-lora",
     false,
     {3, 4, 20000, true, {PREFETCH, 100000, G, 1000000, G}, {TAPE_ON_HOST, TAPE_ON_HOST}}},
    {"trace",
     "stage3-host-paged",
     false,
     {3,
      5,
      500000,
      true,
      {300000, 1000, 2000000, 600000, 200000},
      {.optimizer = TAPE_ON_HOST, .is_paged = true}}},
    {"whole-qlora", "stage2-qlora", false, {2, 4, SQUARE, false}},
    {"trace-qlora", "stage3-qlora", false, {3, 4, SQUARE, false, {PREFETCH, 2560, G, G, G}}},
    {"trace-qlora",
     "stage3-qlora-overlap",
     false,
     {3, 3, 500000, true, {300000, 1000, 2000000, 600000, 20000}}},
    {"trace-qlora-checkpointing",
     "stage3-qlora-accumulating",
     true,
     {3, 5, 500000, true, {300000, 1000, 2000000, 600000, 200000}}},
    {"trace-qlora-reentrant",
     "stage3-qlora-reentrant",
     false,
     {3, 4, SQUARE, false, {PREFETCH, 2560, G, G, G}}},
    {"trace-qlora-reentrant",
     "stage3-qlora-reentrant-overlap",
     false,
     {3, 5, 500000, true, {300000, 1000, 2000000, 600000, 200000}}},
    {"trace-qlora-checkpointing",
     "stage3-qlora-host",
     false,
     {3, 4, SQUARE, false, {PREFETCH, 2560, G, G, G}, {TAPE_ON_HOST, TAPE_ON_HOST}}},
    // Others than the first.
    {"whole", "stage1-third", false, {1, 8, SQUARE, .rank = 2}},
    {"whole", "stage1-last-accumulating", true, {1, 3, 300000, true, .rank = 2}},
    {"whole", "stage2-second", false, {2, 8, SQUARE, .rank = 1}},
    {"whole", "stage2-last-overlap", false, {2, 5, 500000, true, .rank = 4}},
    {"whole", "stage2-middle-accumulating", true, {2, 64, 1000000, .rank = 20}},
    {"whole-lora", "stage2-lora-last", false, {2, 4, 500000000, .rank = 3}},
    {"whole",
     "stage2-host-last-accumulating",
     true,
     {2, 5, 500000, true, .offload = {.optimizer = TAPE_ON_HOST}, .rank = 4}},
};

static void is_same_host(const char *name, const struct tape_header *ours,
                         const struct tape_header *theirs) {
    if (llabs(ours->host_bytes - theirs->host_bytes) <= SCALARS_BYTES &&
        ours->host_pinned_bytes == theirs->host_pinned_bytes)
        return;
    fail_msg("%s: %lld bytes on the host, %lld of them pinned; recorded %lld, %lld", name,
             (long long)ours->host_bytes, (long long)ours->host_pinned_bytes,
             (long long)theirs->host_bytes, (long long)theirs->host_pinned_bytes);
}

static void every_phase_needs_what_deepspeed_needs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof trainings / sizeof *trainings; i++) {
        ARENA_AUTO a = {0};
        struct tape whole = tape_of(&a, trainings[i].whole), several, made;
        struct tape recorded = tape_of(&a, trainings[i].recorded);
        if (trainings[i].accumulates) {
            assert_true(tape_accumulate(&a, &whole, &several));
            whole = several;
        }
        assert_true(tape_zero(&a, &whole, &trainings[i].how, &made));
        is_same_host(trainings[i].recorded, &made.header, &recorded.header);
        struct peaks ours = peaks_of(&made), theirs = peaks_of(&recorded);
        assert_int_equal(ours.count, theirs.count);
        for (int k = 0; k < ours.count; k++) {
            assert_int_equal(ours.phases[k], theirs.phases[k]);
            if (llabs(ours.bytes[k] - theirs.bytes[k]) > SCALARS_BYTES)
                fail_msg("%s, phase %d: %lld bytes, recorded %lld", trainings[i].recorded, k,
                         (long long)ours.bytes[k], (long long)theirs.bytes[k]);
        }
    }
}

// In no phase does a rank live with more than the most, nor is that more than the rank's with most
// has but for what comes and goes in the update.
static void none_has_more_than_the_most(void **state) {
    (void)state;
    static const struct tape_zero cases[] = {{1, 8, SQUARE, .rank = TAPE_RANK_OF_MOST},
                                             {2, 5, SQUARE, .rank = TAPE_RANK_OF_MOST},
                                             {2, 32, 100000, true, .rank = TAPE_RANK_OF_MOST},
                                             {2, 64, 1000000, .rank = TAPE_RANK_OF_MOST}};
    ARENA_AUTO a = {0};
    int above = 0;
    const struct tape whole = tape_of(&a, "whole");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tape_zero how = cases[i];
        struct tape made;
        int64_t most[PHASES] = {0}, first[PHASES] = {0};
        assert_true(tape_zero(&a, &whole, &how, &made));
        const struct peaks all = peaks_of(&made);
        for (how.rank = 0; how.rank < how.ranks; how.rank++) {
            assert_true(tape_zero(&a, &whole, &how, &made));
            const struct peaks p = peaks_of(&made);
            for (int k = 0; k < p.count; k++) {
                if (p.bytes[k] > most[k]) most[k] = p.bytes[k];
                if (how.rank == 0) first[k] = p.bytes[k];
            }
        }
        for (int k = 0; k < all.count; k++) {
            assert_true(all.bytes[k] + SCALARS_BYTES >= most[k]);
            if (all.phases[k] != TAPE_OPTIMIZER)
                assert_true(all.bytes[k] <= most[k] + SCALARS_BYTES);
            above += all.bytes[k] > first[k] + SCALARS_BYTES;
        }
    }
    assert_true(above > 0); // the first is not always the one
}

// A tape of one rank is one of its own kind, and may be read again.
static void what_is_made_is_a_tape(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape whole = tape_of(&a, "whole"), made, again;
    struct fail why = {0};
    struct buf text = buf_new(&a);
    assert_true(tape_zero(&a, &whole, &trainings[3].how, &made));
    assert_int_equal(made.stream_count, 2);
    tape_write(&made, &text);
    if (tape_read(&a, STR("made"), buf_str(&text), &again, &why) < 0) fail_msg("%s", why.message);
    assert_int_equal(again.event_count, made.event_count);
}

static int64_t most_in(const struct tape *t, enum tape_phase phase) {
    struct peaks p = peaks_of(t);
    int64_t most = 0;
    for (int i = 0; i < p.count; i++)
        if (p.phases[i] == phase && p.bytes[i] > most) most = p.bytes[i];
    return most;
}

static int64_t stage3_most(struct arena *a, const struct tape *trace, struct zero3 numbers,
                           enum tape_phase phase) {
    const struct tape_zero how = {3, 4, 10000, false, numbers};
    struct tape made;
    assert_true(tape_zero(a, trace, &how, &made));
    return most_in(&made, phase);
}

// Each number of stage 3 decides something.
static void every_number_counts(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct tape trace = tape_of(&a, "trace");
    const struct zero3 least = {0, 0, G, 0, G};
    const int64_t most = stage3_most(&a, &trace, least, TAPE_BACKWARD);
    const int64_t update = stage3_most(&a, &trace, least, TAPE_OPTIMIZER);
    static const struct zero3 more[] = {
        {2000000, 0, G, 0, G}, {0, 200000, G, 0, G}, {0, 0, G, 5000000, G}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        assert_true(stage3_most(&a, &trace, more[i], TAPE_BACKWARD) > most);
    const struct zero3 none_live = {2000000, 0, 0, 0, G}, small_groups = {0, 0, G, 0, 100000};
    assert_int_equal(stage3_most(&a, &trace, none_live, TAPE_BACKWARD), most);
    assert_true(stage3_most(&a, &trace, small_groups, TAPE_OPTIMIZER) < update);
}

// Without the places at which parameters are asked for, stage 3 is not made.
static void a_whole_tape_is_no_trace(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape whole = tape_of(&a, "whole"), made;
    assert_false(tape_zero(&a, &whole, &trainings[6].how, &made));
}

static void gradients_of_nothing_are_none_of_it(void **state) {
    (void)state;
    static const char text[] = "{\"tape\":1,\"model\":\"x\",\"batches\":[2]}\nm init 0\n"
                               "a 1 32 0 param - one\nm input 0\nm backward 0\n"
                               "a 2 64 0 gradient mm two\nm optimizer 0\n";
    ARENA_AUTO a = {0};
    struct tape t, made;
    struct fail why = {0};
    assert_int_equal(tape_read(&a, STR("x"), str_of(text), &t, &why), 0);
    assert_false(tape_zero(&a, &t, &trainings[0].how, &made));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_phase_needs_what_deepspeed_needs),
        cmocka_unit_test(none_has_more_than_the_most),
        cmocka_unit_test(what_is_made_is_a_tape),
        cmocka_unit_test(every_number_counts),
        cmocka_unit_test(a_whole_tape_is_no_trace),
        cmocka_unit_test(gradients_of_nothing_are_none_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
