// SPDX-License-Identifier: Apache-2.0
// ZeRO made of a whole tape, against recordings of DeepSpeed itself (tests/tapes/zero).
#include "recorded.h"

#include "predict/tape/zero.h"

enum { PHASES = 20, BATCH = 4 };
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
};

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
        cmocka_unit_test(what_is_made_is_a_tape),
        cmocka_unit_test(gradients_of_nothing_are_none_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
