// SPDX-License-Identifier: Apache-2.0
#include "recover_room.h"

#include <math.h>

// What an attempt does: a checkpoint, then its end. 0 and NULL: not that.
struct attempt {
    enum failure_class end;
    const char *ending, *exception;
    int64_t steps;
    int64_t samples;            // at its end
    const char *checkpoint;     // that it wrote …
    int64_t checkpoint_samples; // … with so many samples
};

// The decision, the start and the end of one attempt. The files are those of the log, newest first.
static struct recover_decision play(const struct recover_rules *rules, struct recover_state *s,
                                    const struct attempt *attempt) {
    struct recover_file files[64];
    ptrdiff_t count = 0;
    for (ptrdiff_t i = s->checkpoint_count - 1; i >= 0 && s->phase != RECOVER_FRESH; i--)
        files[count++] = s->checkpoints[i].file;
    struct recover_decision d = recover_next(&arena, rules, s, files, count);
    struct recover_event e = recover_decided(&d);
    recover_apply(s, &e);
    if (d.action != RECOVER_START) return d;
    e = recover_started(s, &d);
    recover_apply(s, &e);
    if (attempt->checkpoint) {
        e = recover_event_of(RECOVER_CHECKPOINT);
        e.file = (struct recover_file){str_of(attempt->checkpoint), s->attempt};
        e.samples = attempt->checkpoint_samples;
        recover_apply(s, &e);
    }
    e = recover_event_of(RECOVER_END);
    e.end = attempt->end;
    e.ending = str_of(attempt->ending);
    e.exception = str_of(attempt->exception);
    e.status = attempt->end == FAILURE_CLEAN ? 0 : 1;
    e.steps = attempt->steps;
    e.samples = attempt->samples;
    recover_apply(s, &e);
    return d;
}

static const struct attempt memory = {.end = FAILURE_MEMORY, .ending = "cuda-oom"};

// --- Memory --------------------------------------------------------------------------------------

static void memory_halves_to_the_end(void **state) {
    (void)state;
    static const struct {
        int64_t batch, accumulation, ranks, least;
        int64_t steps[12]; // batches, ended by 0
    } rows[] = {
        {48, 1, 1, 1, {24, 12, 6, 3, 1, 0}},
        {12, 1, 1, 1, {6, 3, 1, 0}},
        {7, 1, 1, 1, {1, 0}},
        {1, 4, 1, 1, {0}},
        {64, 2, 1, 1, {32, 16, 8, 4, 2, 1, 0}},
        {30, 1, 4, 1, {15, 6, 3, 1, 0}},
        {96, 1, 1, 16, {48, 24, 0}},
        {10, 3, 2, 2, {5, 2, 0}},
        {9, 4, 1, 1, {4, 2, 1, 0}}, // 36: 4 x 9 keeps what 9 x 4 was
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct recover_rules r = rules_of(rows[i].batch, rows[i].accumulation, rows[i].ranks);
        r.least_batch = rows[i].least;
        r.lr = 0.1;
        struct recover_state s = begin(&r);
        play(&r, &s, &memory);
        for (int k = 0; rows[i].steps[k]; k++) {
            struct recover_decision d = play(&r, &s, &memory);
            assert_int_equal(d.action, RECOVER_START);
            assert_int_equal(d.size.batch, rows[i].steps[k]);
            assert_int_equal(d.size.batch * d.size.accumulation,
                             rows[i].batch * rows[i].accumulation);
            assert_true(d.size.lr == 0.1);
        }
        struct recover_decision d = play(&r, &s, &memory);
        assert_int_equal(d.action, RECOVER_GIVE_UP);
        assert_int_equal(d.status, 1);
        assert_true(d.hint.len > 0);
    }
}

static void without_accumulation_the_rate_follows(void **state) {
    (void)state;
    static const struct {
        enum recover_lr_rule rule;
        double lr[5];
    } rows[] = {
        {RECOVER_LR_LINEAR, {0.4, 0.2, 0.1, 0.05, 0.025}},
        {RECOVER_LR_SQRT, {0.4, 0.28284271247461906, 0.2, 0.14142135623730953, 0.1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct recover_rules r = rules_of(16, 2, 1);
        r.can_accumulate = false;
        r.lr_rule = rows[i].rule;
        r.lr = 0.4;
        struct recover_state s = begin(&r);
        for (int k = 0; k < 5; k++) {
            struct recover_decision d = play(&r, &s, &memory);
            assert_int_equal(d.size.batch, 16 >> k);
            assert_int_equal(d.size.accumulation, 2);
            assert_true(fabs(d.size.lr - rows[i].lr[k]) < 1e-12);
            if (k > 0) assert_true(str_find(d.why, STR("effective batch changes")) > 0);
        }
        assert_int_equal(play(&r, &s, &memory).action, RECOVER_GIVE_UP);
    }
    // Odd batches: no divisor is asked for.
    struct recover_rules r = rules_of(25, 1, 1);
    r.can_accumulate = false;
    r.lr_rule = RECOVER_LR_LINEAR;
    r.lr = 1;
    struct recover_state s = begin(&r);
    play(&r, &s, &memory);
    assert_int_equal(play(&r, &s, &memory).size.batch, 12);
    assert_int_equal(play(&r, &s, &memory).size.batch, 6);
}

static void rules_that_cannot_be_followed(void **state) {
    (void)state;
    struct fail why;
    struct recover_rules good = rules_of(8, 1, 1), r = good;
    assert_int_equal(recover_check(&good, &why), 0);
    r.can_accumulate = false;
    assert_int_equal(recover_check(&r, &why), FAIL_USAGE);
    assert_non_null(strstr(why.hint, "--auto-scale-lr"));
    r.recover = false; // nothing will be changed
    assert_int_equal(recover_check(&r, &why), 0);
    r.recover = true;
    r.lr_rule = RECOVER_LR_SQRT;
    assert_int_equal(recover_check(&r, &why), FAIL_USAGE);
    assert_non_null(strstr(why.hint, "--lr"));
    r.lr = 0.1;
    assert_int_equal(recover_check(&r, &why), 0);
    static const struct {
        size_t offset;
        int64_t value;
    } wholes[] = {
        {offsetof(struct recover_rules, batch), 0},
        {offsetof(struct recover_rules, ranks), 0},
        {offsetof(struct recover_rules, accumulation), INT64_C(1) << 41},
        {offsetof(struct recover_rules, least_batch), 9},
        {offsetof(struct recover_rules, max_restarts), -1},
        {offsetof(struct recover_rules, initial_batch), 65},
    };
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        r = good;
        r.adaptive = true;
        r.most_batch = 64;
        *(int64_t *)((char *)&r + wholes[i].offset) = wholes[i].value;
        assert_int_equal(recover_check(&r, &why), FAIL_USAGE);
    }
    static const struct {
        size_t offset;
        double value;
    } numbers[] = {
        {offsetof(struct recover_rules, factor), 1},
        {offsetof(struct recover_rules, threshold), 1.1},
        {offsetof(struct recover_rules, factor), NAN},
        {offsetof(struct recover_rules, threshold), 0},
        {offsetof(struct recover_rules, backoff_s), -1},
        {offsetof(struct recover_rules, near_share), NAN},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        r = good;
        r.adaptive = true;
        *(double *)((char *)&r + numbers[i].offset) = numbers[i].value;
        assert_int_equal(recover_check(&r, &why), FAIL_USAGE);
    }
}

static void no_batch_between_the_bounds(void **state) {
    (void)state;
    struct fail why;
    struct recover_rules r = rules_of(64, 1, 1);
    r.adaptive = true;
    r.least_batch = 16;
    r.most_batch = 8;
    assert_int_equal(recover_check(&r, &why), FAIL_USAGE);
    r.least_batch = 5;
    r.most_batch = 7; // no divisor of 64
    assert_int_equal(recover_check(&r, &why), FAIL_USAGE);
    assert_non_null(strstr(why.message, "from 5 to 7"));
    r.most_batch = 8;
    assert_int_equal(recover_check(&r, &why), 0);
    assert_int_equal(recover_size_first(&r).batch, 8);
}

static void a_changed_command_is_no_continuation(void **state) {
    (void)state;
    struct recover_rules begun = rules_of(8, 2, 2), now = begun;
    struct fail why;
    now.max_restarts = 1; // may change
    assert_int_equal(recover_agree(&begun, &now, &why), 0);
    now.ranks = 1;
    assert_int_equal(recover_agree(&begun, &now, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "ranks was 2"));
    now = begun;
    now.batch = 16;
    assert_int_equal(recover_agree(&begun, &now, &why), FAIL_INPUT);
    now = begun;
    now.lr = 0.1;
    assert_int_equal(recover_agree(&begun, &now, &why), FAIL_INPUT);
}

// --- Other ends ----------------------------------------------------------------------------------

static void what_comes_from_outside_is_tried_again(void **state) {
    (void)state;
    static const enum failure_class ends[] = {FAILURE_KILLED, FAILURE_DEVICE, FAILURE_COMMUNICATION,
                                              FAILURE_STALLED, FAILURE_UNKNOWN};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct recover_rules r = rules_of(8, 1, 1);
        struct recover_state s = begin(&r);
        const struct attempt dead = {.end = ends[i], .ending = "killed"};
        play(&r, &s, &dead);
        for (int k = 0; k < 10; k++) { // without any gain: later and later
            struct recover_decision d = play(&r, &s, &dead);
            assert_int_equal(d.action, RECOVER_START);
            assert_int_equal(d.size.batch, 8);
            assert_true(d.delay_s == fmin(1 << k, 60));
        }
        const struct attempt gain = {.end = ends[i], .ending = "killed", .steps = 2, .samples = 16};
        r.from_scratch = true;
        play(&r, &s, &gain);
        assert_true(play(&r, &s, &dead).delay_s == 0); // it got somewhere
        assert_true(play(&r, &s, &dead).delay_s == 1);
    }
}

static void without_recover_every_end_is_the_end(void **state) {
    (void)state;
    for (enum failure_class end = FAILURE_UNKNOWN; end <= FAILURE_INTERRUPTED; end++) {
        struct recover_rules r = rules_of(8, 1, 1);
        r.recover = false;
        struct recover_state s = begin(&r);
        const struct attempt a = {.end = end, .ending = "x", .steps = 3, .samples = 24};
        play(&r, &s, &a);
        struct recover_decision d = play(&r, &s, &a);
        if (end == FAILURE_ASKED) continue; // by us, to go on
        assert_int_equal(d.action, RECOVER_DONE);
        assert_int_equal(d.status, end == FAILURE_CLEAN ? 0 : 1);
    }
}

static void ends_that_are_the_end(void **state) {
    (void)state;
    struct recover_rules r = rules_of(8, 1, 1);
    for (int i = 0; i < 2; i++) {
        const struct attempt a = {.end = i ? FAILURE_CLEAN : FAILURE_INTERRUPTED, .ending = "x"};
        struct recover_state s = begin(&r);
        play(&r, &s, &a);
        assert_int_equal(play(&r, &s, &a).action, RECOVER_DONE);
        // The decision holds, however often the log is read again.
        assert_int_equal(play(&r, &s, &a).action, RECOVER_DONE);
    }
}

static const struct attempt bad_sample = {.end = FAILURE_CRASH,
                                          .ending = "exception",
                                          .exception = "ValueError: bad sample 171 at 0x7f12ab",
                                          .steps = 100,
                                          .samples = 800,
                                          .checkpoint = "a",
                                          .checkpoint_samples = 400};

static void a_repeating_crash_is_given_up(void **state) {
    (void)state;
    struct recover_rules r = rules_of(8, 1, 1);
    struct recover_state s = begin(&r);
    struct attempt again = bad_sample;
    again.exception = "ValueError: bad sample 3 at 0x7f99cd"; // the same fault
    play(&r, &s, &bad_sample);
    struct recover_decision d = play(&r, &s, &again); // it had made progress
    assert_int_equal(d.action, RECOVER_START);
    assert_int_equal(d.samples, 400);
    d = play(&r, &s, &again);
    assert_int_equal(d.action, RECOVER_GIVE_UP);
    assert_int_equal(d.status, 1);
    assert_true(str_find(d.why, STR("a repeated crash, not memory")) >= 0);
}

static void a_crash_that_gets_further_is_tried_again(void **state) {
    (void)state;
    struct recover_rules r = rules_of(8, 1, 1);
    struct recover_state s = begin(&r);
    struct attempt a = bad_sample;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(play(&r, &s, &a).action, RECOVER_START);
        a.samples += 8;
    }
    // Another exception at the same place has one more chance; a kill in between changes nothing.
    struct attempt other = a;
    other.exception = "OSError: stale file handle";
    other.samples = 500;
    assert_int_equal(play(&r, &s, &other).action, RECOVER_START);
    const struct attempt killed = {
        .end = FAILURE_KILLED, .ending = "killed", .steps = 1, .samples = 408};
    assert_int_equal(play(&r, &s, &killed).action, RECOVER_START);
    assert_int_equal(play(&r, &s, &other).action, RECOVER_START);
    assert_int_equal(play(&r, &s, &other).action, RECOVER_GIVE_UP);
}

static void a_setup_error_is_not_tried_again(void **state) {
    (void)state;
    struct recover_rules r = rules_of(8, 1, 1);
    struct recover_state s = begin(&r);
    const struct attempt a = {
        .end = FAILURE_CRASH, .ending = "import", .exception = "ImportError: x"};
    play(&r, &s, &a);
    struct recover_decision d = play(&r, &s, &a);
    assert_int_equal(d.action, RECOVER_GIVE_UP);
    assert_true(str_find(d.why, STR("before its first step")) >= 0);
}

static void restarts_are_limited(void **state) {
    (void)state;
    struct recover_rules r = rules_of(64, 1, 1);
    r.max_restarts = 3;
    struct recover_state s = begin(&r);
    for (int i = 0; i < 4; i++) assert_int_equal(play(&r, &s, &memory).action, RECOVER_START);
    struct recover_decision d = play(&r, &s, &memory);
    assert_int_equal(d.action, RECOVER_GIVE_UP);
    assert_int_equal(s.restarts, 3);
    assert_true(str_find(d.hint, STR("--max-restarts")) >= 0);
    r.max_restarts = 0;
    s = begin(&r);
    play(&r, &s, &memory);
    assert_int_equal(play(&r, &s, &memory).action, RECOVER_GIVE_UP);
}

// --- Checkpoints ---------------------------------------------------------------------------------

static struct attempt writes(const char *path, int64_t samples) {
    return (struct attempt){.end = FAILURE_KILLED,
                            .ending = "killed",
                            .steps = 10,
                            .samples = samples + 8,
                            .checkpoint = path,
                            .checkpoint_samples = samples};
}

static void a_bad_checkpoint_is_passed_over(void **state) {
    (void)state;
    struct recover_rules r = rules_of(8, 1, 1);
    struct recover_state s = begin(&r);
    struct attempt a = writes("a", 100), b = writes("b", 200);
    const struct attempt torn = {
        .end = FAILURE_CRASH, .ending = "exception", .exception = "EOFError: x", .samples = -1};
    play(&r, &s, &a);
    play(&r, &s, &b);
    struct recover_decision d = play(&r, &s, &torn);
    assert_str(d.checkpoint.path, "b");
    assert_int_equal(d.samples, 200);
    d = play(&r, &s, &torn);
    assert_str(d.passed_over.path, "b");
    assert_str(d.checkpoint.path, "a");
    assert_int_equal(d.samples, 100);
    d = play(&r, &s, &torn); // none is left
    assert_int_equal(d.action, RECOVER_GIVE_UP);
    assert_str(d.passed_over.path, "a");
    assert_true(str_find(d.hint, STR("--from-scratch")) >= 0);

    // Written again it is another checkpoint.
    s = begin(&r);
    play(&r, &s, &a);
    play(&r, &s, &b);
    play(&r, &s, &torn);
    b.checkpoint_samples = 300;
    d = play(&r, &s, &b);
    assert_str(d.checkpoint.path, "a");
    d = play(&r, &s, &a);
    assert_str(d.checkpoint.path, "b");
    assert_int_equal(d.samples, 300);
    assert_int_equal(recover_samples_of(&s, (struct recover_file){STR("b"), 2}),
                     -1); // not that writing
}

// What takes its newest checkpoint by itself would take the bad one again, and without its flag it
// would write over what is there.
static void a_bad_checkpoint_of_a_program_that_chooses(void **state) {
    (void)state;
    struct recover_rules r = rules_of(8, 1, 1);
    r.takes_newest = true;
    struct recover_state s = begin(&r);
    struct attempt a = writes("a", 100), b = writes("b", 200);
    const struct attempt torn = {
        .end = FAILURE_CRASH, .ending = "exception", .exception = "EOFError: x", .samples = -1};
    play(&r, &s, &a);
    play(&r, &s, &b);
    struct recover_decision d = play(&r, &s, &torn);
    assert_str(d.checkpoint.path, "b");
    d = play(&r, &s, &torn);
    assert_int_equal(d.action, RECOVER_GIVE_UP);
    assert_int_equal(d.passed_over.path.len, 0);
}

// Whether it came to a step is not known: no reason to pass over what it began from, or to give up.
static void a_crash_that_nobody_saw_is_tried_again(void **state) {
    (void)state;
    struct recover_rules r = rules_of(8, 1, 1);
    struct recover_state s = begin(&r);
    struct attempt unseen = {.end = FAILURE_CRASH,
                             .ending = "exception",
                             .exception = "OSError: x",
                             .steps = -1,
                             .samples = -1,
                             .checkpoint = "a",
                             .checkpoint_samples = -1};
    play(&r, &s, &unseen);
    struct recover_decision d = play(&r, &s, &unseen);
    assert_int_equal(d.action, RECOVER_START);
    assert_str(d.checkpoint.path, "a");
    d = play(&r, &s, &unseen); // the same once more
    assert_int_equal(d.action, RECOVER_GIVE_UP);
}

static void a_kill_is_no_fault_of_the_checkpoint(void **state) {
    (void)state;
    struct recover_rules r = rules_of(8, 1, 1);
    struct recover_state s = begin(&r);
    struct attempt a = writes("a", 100);
    const struct attempt killed = {.end = FAILURE_KILLED, .ending = "killed", .samples = 100};
    play(&r, &s, &a);
    play(&r, &s, &killed);
    struct recover_decision d = play(&r, &s, &killed);
    assert_int_equal(d.passed_over.path.len, 0);
    assert_str(d.checkpoint.path, "a");
}

static void nothing_to_resume(void **state) {
    (void)state;
    struct recover_rules r = rules_of(8, 1, 1);
    struct attempt lost = writes(NULL, 0);
    struct recover_state s = begin(&r);
    play(&r, &s, &memory); // no step was made: nothing is lost
    assert_int_equal(play(&r, &s, &lost).action, RECOVER_START);
    assert_int_equal(play(&r, &s, &lost).action, RECOVER_GIVE_UP);

    r.from_scratch = true;
    s = begin(&r);
    play(&r, &s, &lost);
    struct recover_decision d = play(&r, &s, &lost);
    assert_int_equal(d.action, RECOVER_START);
    assert_int_equal(d.samples, 0);

    r.from_scratch = false;
    r.resumes_itself = true;
    s = begin(&r);
    play(&r, &s, &lost);
    assert_int_equal(play(&r, &s, &lost).action, RECOVER_START);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(memory_halves_to_the_end),
        TEST(without_accumulation_the_rate_follows),
        TEST(rules_that_cannot_be_followed),
        TEST(no_batch_between_the_bounds),
        TEST(a_changed_command_is_no_continuation),
        TEST(what_comes_from_outside_is_tried_again),
        TEST(without_recover_every_end_is_the_end),
        TEST(ends_that_are_the_end),
        TEST(a_repeating_crash_is_given_up),
        TEST(a_crash_that_gets_further_is_tried_again),
        TEST(a_setup_error_is_not_tried_again),
        TEST(restarts_are_limited),
        TEST(a_bad_checkpoint_is_passed_over),
        TEST(a_bad_checkpoint_of_a_program_that_chooses),
        TEST(a_crash_that_nobody_saw_is_tried_again),
        TEST(a_kill_is_no_fault_of_the_checkpoint),
        TEST(nothing_to_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
