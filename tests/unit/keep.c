// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "keep/journal.h"

#include <math.h>

static struct arena arena;

static int setup(void **state) {
    (void)state;
    arena = (struct arena){0};
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_clear(&arena);
    return 0;
}

static struct keep_rules rules_of(int64_t batch, int64_t accumulation, int64_t ranks) {
    struct keep_rules r = keep_rules_default();
    r.batch = batch;
    r.accumulation = accumulation;
    r.ranks = ranks;
    r.recover = r.can_accumulate = true;
    r.max_restarts = 100;
    return r;
}

static struct keep_state begin(const struct keep_rules *rules) {
    struct keep_state s = {.arena = &arena};
    struct keep_event e = keep_event_of(KEEP_BEGIN);
    assert_int_equal(keep_check(rules, NULL), 0);
    e.rules = *rules;
    keep_apply(&s, &e);
    return s;
}

// What an attempt does: a checkpoint, then its end. 0 and NULL: not that.
struct attempt {
    enum keep_end end;
    const char *ending, *exception;
    int64_t steps;
    int64_t samples;            // at its end
    const char *checkpoint;     // that it wrote …
    int64_t checkpoint_samples; // … with so many samples
};

// The decision, the start and the end of one attempt. The files are those of the log, newest first.
static struct keep_decision play(const struct keep_rules *rules, struct keep_state *s,
                                 const struct attempt *attempt) {
    struct keep_file files[64];
    ptrdiff_t count = 0;
    for (ptrdiff_t i = s->checkpoint_count - 1; i >= 0 && s->phase != KEEP_FRESH; i--)
        files[count++] = s->checkpoints[i].file;
    struct keep_decision d = keep_next(&arena, rules, s, files, count);
    struct keep_event e = keep_decided(&d);
    keep_apply(s, &e);
    if (d.action != KEEP_START) return d;
    e = keep_started(s, &d);
    keep_apply(s, &e);
    if (attempt->checkpoint) {
        e = keep_event_of(KEEP_CHECKPOINT);
        e.file = (struct keep_file){str_of(attempt->checkpoint), s->attempt};
        e.samples = attempt->checkpoint_samples;
        keep_apply(s, &e);
    }
    e = keep_event_of(KEEP_END);
    e.end = attempt->end;
    e.ending = str_of(attempt->ending);
    e.exception = str_of(attempt->exception);
    e.status = attempt->end == KEEP_END_CLEAN ? 0 : 1;
    e.steps = attempt->steps;
    e.samples = attempt->samples;
    keep_apply(s, &e);
    return d;
}

static const struct attempt memory = {.end = KEEP_END_MEMORY, .ending = "cuda-oom"};

// --- Memory
// -----------------------------------------------------------------------------------------

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
        struct keep_rules r = rules_of(rows[i].batch, rows[i].accumulation, rows[i].ranks);
        r.least_batch = rows[i].least;
        r.lr = 0.1;
        struct keep_state s = begin(&r);
        play(&r, &s, &memory);
        for (int k = 0; rows[i].steps[k]; k++) {
            struct keep_decision d = play(&r, &s, &memory);
            assert_int_equal(d.action, KEEP_START);
            assert_int_equal(d.size.batch, rows[i].steps[k]);
            assert_int_equal(d.size.batch * d.size.accumulation,
                             rows[i].batch * rows[i].accumulation);
            assert_true(d.size.lr == 0.1);
        }
        struct keep_decision d = play(&r, &s, &memory);
        assert_int_equal(d.action, KEEP_GIVE_UP);
        assert_int_equal(d.status, 1);
        assert_true(d.hint.len > 0);
    }
}

static void without_accumulation_the_rate_follows(void **state) {
    (void)state;
    static const struct {
        enum keep_lr_rule rule;
        double lr[5];
    } rows[] = {
        {KEEP_LR_LINEAR, {0.4, 0.2, 0.1, 0.05, 0.025}},
        {KEEP_LR_SQRT, {0.4, 0.28284271247461906, 0.2, 0.14142135623730953, 0.1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct keep_rules r = rules_of(16, 2, 1);
        r.can_accumulate = false;
        r.lr_rule = rows[i].rule;
        r.lr = 0.4;
        struct keep_state s = begin(&r);
        for (int k = 0; k < 5; k++) {
            struct keep_decision d = play(&r, &s, &memory);
            assert_int_equal(d.size.batch, 16 >> k);
            assert_int_equal(d.size.accumulation, 2);
            assert_true(fabs(d.size.lr - rows[i].lr[k]) < 1e-12);
            if (k > 0) assert_true(str_find(d.why, STR("effective batch changes")) > 0);
        }
        assert_int_equal(play(&r, &s, &memory).action, KEEP_GIVE_UP);
    }
    // Odd batches: no divisor is asked for.
    struct keep_rules r = rules_of(25, 1, 1);
    r.can_accumulate = false;
    r.lr_rule = KEEP_LR_LINEAR;
    r.lr = 1;
    struct keep_state s = begin(&r);
    play(&r, &s, &memory);
    assert_int_equal(play(&r, &s, &memory).size.batch, 12);
    assert_int_equal(play(&r, &s, &memory).size.batch, 6);
}

static void rules_that_cannot_be_followed(void **state) {
    (void)state;
    struct fail why;
    struct keep_rules good = rules_of(8, 1, 1), r = good;
    assert_int_equal(keep_check(&good, &why), 0);
    r.can_accumulate = false;
    assert_int_equal(keep_check(&r, &why), FAIL_USAGE);
    assert_non_null(strstr(why.hint, "--auto-scale-lr"));
    r.recover = false; // nothing will be changed
    assert_int_equal(keep_check(&r, &why), 0);
    r.recover = true;
    r.lr_rule = KEEP_LR_SQRT;
    assert_int_equal(keep_check(&r, &why), FAIL_USAGE);
    assert_non_null(strstr(why.hint, "--lr"));
    r.lr = 0.1;
    assert_int_equal(keep_check(&r, &why), 0);
    static const struct {
        size_t offset;
        int64_t value;
    } wholes[] = {
        {offsetof(struct keep_rules, batch), 0},
        {offsetof(struct keep_rules, ranks), 0},
        {offsetof(struct keep_rules, accumulation), INT64_C(1) << 41},
        {offsetof(struct keep_rules, least_batch), 9},
        {offsetof(struct keep_rules, max_restarts), -1},
        {offsetof(struct keep_rules, initial_batch), 65},
    };
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        r = good;
        r.adaptive = true;
        r.most_batch = 64;
        *(int64_t *)((char *)&r + wholes[i].offset) = wholes[i].value;
        assert_int_equal(keep_check(&r, &why), FAIL_USAGE);
    }
    static const struct {
        size_t offset;
        double value;
    } numbers[] = {
        {offsetof(struct keep_rules, factor), 1},
        {offsetof(struct keep_rules, threshold), 1.1},
        {offsetof(struct keep_rules, factor), NAN},
        {offsetof(struct keep_rules, threshold), 0},
        {offsetof(struct keep_rules, backoff_s), -1},
        {offsetof(struct keep_rules, near_share), NAN},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        r = good;
        r.adaptive = true;
        *(double *)((char *)&r + numbers[i].offset) = numbers[i].value;
        assert_int_equal(keep_check(&r, &why), FAIL_USAGE);
    }
}

static void a_changed_command_is_no_continuation(void **state) {
    (void)state;
    struct keep_rules begun = rules_of(8, 2, 2), now = begun;
    struct fail why;
    now.max_restarts = 1; // may change
    assert_int_equal(keep_agree(&begun, &now, &why), 0);
    now.ranks = 1;
    assert_int_equal(keep_agree(&begun, &now, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "ranks was 2"));
    now = begun;
    now.batch = 16;
    assert_int_equal(keep_agree(&begun, &now, &why), FAIL_INPUT);
    now = begun;
    now.lr = 0.1;
    assert_int_equal(keep_agree(&begun, &now, &why), FAIL_INPUT);
}

// --- Other ends
// ---------------------------------------------------------------------------------------

static void what_comes_from_outside_is_tried_again(void **state) {
    (void)state;
    static const enum keep_end ends[] = {KEEP_END_KILLED, KEEP_END_DEVICE, KEEP_END_COMMUNICATION,
                                         KEEP_END_HANG, KEEP_END_UNKNOWN};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct keep_rules r = rules_of(8, 1, 1);
        struct keep_state s = begin(&r);
        const struct attempt dead = {.end = ends[i], .ending = "killed"};
        play(&r, &s, &dead);
        for (int k = 0; k < 10; k++) { // without any gain: later and later
            struct keep_decision d = play(&r, &s, &dead);
            assert_int_equal(d.action, KEEP_START);
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
    for (enum keep_end end = KEEP_END_UNKNOWN; end <= KEEP_END_INTERRUPTED; end++) {
        struct keep_rules r = rules_of(8, 1, 1);
        r.recover = false;
        struct keep_state s = begin(&r);
        const struct attempt a = {.end = end, .ending = "x", .steps = 3, .samples = 24};
        play(&r, &s, &a);
        struct keep_decision d = play(&r, &s, &a);
        if (end == KEEP_END_STOPPED) continue; // by us, to go on
        assert_int_equal(d.action, KEEP_DONE);
        assert_int_equal(d.status, end == KEEP_END_CLEAN ? 0 : 1);
    }
}

static void ends_that_are_the_end(void **state) {
    (void)state;
    struct keep_rules r = rules_of(8, 1, 1);
    for (int i = 0; i < 2; i++) {
        const struct attempt a = {.end = i ? KEEP_END_CLEAN : KEEP_END_INTERRUPTED, .ending = "x"};
        struct keep_state s = begin(&r);
        play(&r, &s, &a);
        assert_int_equal(play(&r, &s, &a).action, KEEP_DONE);
        // The decision holds, however often the log is read again.
        assert_int_equal(play(&r, &s, &a).action, KEEP_DONE);
    }
}

static const struct attempt bad_sample = {.end = KEEP_END_CRASH,
                                          .ending = "exception",
                                          .exception = "ValueError: bad sample 171 at 0x7f12ab",
                                          .steps = 100,
                                          .samples = 800,
                                          .checkpoint = "a",
                                          .checkpoint_samples = 400};

static void a_repeating_crash_is_given_up(void **state) {
    (void)state;
    struct keep_rules r = rules_of(8, 1, 1);
    struct keep_state s = begin(&r);
    struct attempt again = bad_sample;
    again.exception = "ValueError: bad sample 3 at 0x7f99cd"; // the same fault
    play(&r, &s, &bad_sample);
    struct keep_decision d = play(&r, &s, &again); // it had made progress
    assert_int_equal(d.action, KEEP_START);
    assert_int_equal(d.samples, 400);
    d = play(&r, &s, &again);
    assert_int_equal(d.action, KEEP_GIVE_UP);
    assert_int_equal(d.status, 1);
    assert_true(str_find(d.why, STR("a repeating crash, not memory")) >= 0);
}

static void a_crash_that_gets_further_is_tried_again(void **state) {
    (void)state;
    struct keep_rules r = rules_of(8, 1, 1);
    struct keep_state s = begin(&r);
    struct attempt a = bad_sample;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(play(&r, &s, &a).action, KEEP_START);
        a.samples += 8;
    }
    // Another exception at the same place has one more chance; a kill in between changes nothing.
    struct attempt other = a;
    other.exception = "OSError: stale file handle";
    other.samples = 500;
    assert_int_equal(play(&r, &s, &other).action, KEEP_START);
    const struct attempt killed = {
        .end = KEEP_END_KILLED, .ending = "killed", .steps = 1, .samples = 408};
    assert_int_equal(play(&r, &s, &killed).action, KEEP_START);
    assert_int_equal(play(&r, &s, &other).action, KEEP_START);
    assert_int_equal(play(&r, &s, &other).action, KEEP_GIVE_UP);
}

static void a_setup_error_is_not_tried_again(void **state) {
    (void)state;
    struct keep_rules r = rules_of(8, 1, 1);
    struct keep_state s = begin(&r);
    const struct attempt a = {
        .end = KEEP_END_CRASH, .ending = "import", .exception = "ImportError: x"};
    play(&r, &s, &a);
    struct keep_decision d = play(&r, &s, &a);
    assert_int_equal(d.action, KEEP_GIVE_UP);
    assert_true(str_find(d.why, STR("before its first step")) >= 0);
}

static void restarts_are_limited(void **state) {
    (void)state;
    struct keep_rules r = rules_of(64, 1, 1);
    r.max_restarts = 3;
    struct keep_state s = begin(&r);
    for (int i = 0; i < 4; i++) assert_int_equal(play(&r, &s, &memory).action, KEEP_START);
    struct keep_decision d = play(&r, &s, &memory);
    assert_int_equal(d.action, KEEP_GIVE_UP);
    assert_int_equal(s.restarts, 3);
    assert_true(str_find(d.hint, STR("--max-restarts")) >= 0);
    r.max_restarts = 0;
    s = begin(&r);
    play(&r, &s, &memory);
    assert_int_equal(play(&r, &s, &memory).action, KEEP_GIVE_UP);
}

// --- Checkpoints
// ------------------------------------------------------------------------------------

static struct attempt writes(const char *path, int64_t samples) {
    return (struct attempt){.end = KEEP_END_KILLED,
                            .ending = "killed",
                            .steps = 10,
                            .samples = samples + 8,
                            .checkpoint = path,
                            .checkpoint_samples = samples};
}

static void a_bad_checkpoint_is_passed_over(void **state) {
    (void)state;
    struct keep_rules r = rules_of(8, 1, 1);
    struct keep_state s = begin(&r);
    struct attempt a = writes("a", 100), b = writes("b", 200);
    const struct attempt torn = {
        .end = KEEP_END_CRASH, .ending = "exception", .exception = "EOFError: x", .samples = -1};
    play(&r, &s, &a);
    play(&r, &s, &b);
    struct keep_decision d = play(&r, &s, &torn);
    assert_str(d.checkpoint.path, "b");
    assert_int_equal(d.samples, 200);
    d = play(&r, &s, &torn);
    assert_str(d.passed_over.path, "b");
    assert_str(d.checkpoint.path, "a");
    assert_int_equal(d.samples, 100);
    d = play(&r, &s, &torn); // none is left
    assert_int_equal(d.action, KEEP_GIVE_UP);
    assert_str(d.passed_over.path, "a");
    assert_true(str_find(d.hint, STR("--from-scratch")) >= 0);

    // Written anew it is another checkpoint.
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
    assert_int_equal(keep_samples_of(&s, (struct keep_file){STR("b"), 2}), -1); // not that writing
}

static void a_kill_is_no_fault_of_the_checkpoint(void **state) {
    (void)state;
    struct keep_rules r = rules_of(8, 1, 1);
    struct keep_state s = begin(&r);
    struct attempt a = writes("a", 100);
    const struct attempt killed = {.end = KEEP_END_KILLED, .ending = "killed", .samples = 100};
    play(&r, &s, &a);
    play(&r, &s, &killed);
    struct keep_decision d = play(&r, &s, &killed);
    assert_int_equal(d.passed_over.path.len, 0);
    assert_str(d.checkpoint.path, "a");
}

static void nothing_to_resume(void **state) {
    (void)state;
    struct keep_rules r = rules_of(8, 1, 1);
    struct attempt lost = writes(NULL, 0);
    struct keep_state s = begin(&r);
    play(&r, &s, &memory); // no step was made: nothing is lost
    assert_int_equal(play(&r, &s, &lost).action, KEEP_START);
    assert_int_equal(play(&r, &s, &lost).action, KEEP_GIVE_UP);

    r.from_scratch = true;
    s = begin(&r);
    play(&r, &s, &lost);
    struct keep_decision d = play(&r, &s, &lost);
    assert_int_equal(d.action, KEEP_START);
    assert_int_equal(d.samples, 0);

    r.from_scratch = false;
    r.resumes_itself = true;
    s = begin(&r);
    play(&r, &s, &lost);
    assert_int_equal(play(&r, &s, &lost).action, KEEP_START);
}

// --- Adaptive
// -----------------------------------------------------------------------------------------

static void start(struct keep_state *s, const struct keep_rules *rules) {
    struct keep_decision d = keep_next(&arena, rules, s, NULL, 0);
    struct keep_event e = keep_decided(&d);
    assert_int_equal(d.action, KEEP_START);
    keep_apply(s, &e);
    e = keep_started(s, &d);
    keep_apply(s, &e);
}

// What keep_adapt says at this peak; taken by the program at once. 0: nothing.
static int64_t adapt(const struct keep_rules *rules, struct keep_state *s,
                     struct keep_sight sight) {
    struct keep_event e = keep_event_of(KEEP_ADAPT);
    if (!keep_adapt(&arena, rules, s, &sight, &e.size, &e.why)) return 0;
    assert_int_equal(e.size.batch * e.size.accumulation, rules->batch * rules->accumulation);
    e.peak_bytes = sight.peak_bytes;
    keep_apply(s, &e);
    assert_int_equal(s->wanted.batch, e.size.batch);
    assert_false(keep_adapt(&arena, rules, s, &sight, &e.size, &e.why)); // it is asked for already
    e.is_taken = true;
    e.peak_bytes = -1;
    keep_apply(s, &e);
    return e.size.batch;
}

static struct keep_rules adaptive_rules(int64_t batch, int64_t initial, int64_t most) {
    struct keep_rules r = rules_of(batch, 1, 1);
    r.adaptive = true;
    r.initial_batch = initial;
    r.most_batch = most;
    r.capacity_bytes = 1000;
    return r;
}

static void it_grows_below_the_threshold(void **state) {
    (void)state;
    struct keep_rules r = adaptive_rules(256, 16, 128);
    struct keep_state s = begin(&r);
    assert_int_equal(s.size.batch, 16);
    assert_int_equal(s.size.accumulation, 16);
    start(&s, &r);
    // 100 + 5 x batch. One peak: in proportion, 180 -> 360.
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 180}), 32);
    // Two: the line.
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 260}), 64);
    assert_int_equal(keep_predict(&s, 128), 740);
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 420}), 128);
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 740}), 0); // the most
    r.most_batch = 0;
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 740}), 0); // 256: 1380 of 1000
    r.capacity_bytes = 1600;
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 740}), 256); // below 1440
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 1380}), 0);  // all of it
}

static void the_factor_is_the_least(void **state) {
    (void)state;
    static const struct {
        double factor;
        int64_t next;
    } rows[] = {{1.01, 12}, {1.2, 12}, {1.21, 15}, {1.5, 15}, {1.51, 20}, {2.5, 30}, {6.1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct keep_rules r = adaptive_rules(60, 10, 0);
        r.factor = rows[i].factor;
        struct keep_state s = begin(&r);
        start(&s, &r);
        assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 10}), rows[i].next);
    }
}

static void without_knowledge_nothing_grows(void **state) {
    (void)state;
    struct keep_rules r = adaptive_rules(64, 8, 0);
    struct keep_state s = begin(&r);
    start(&s, &r);
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = -1}), 0);
    r.capacity_bytes = -1;
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 10}), 0);
    r.capacity_bytes = 1000;
    r.adaptive = false;
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 10}), 0);
}

static int64_t tape(void *context, int64_t batch) {
    (void)context;
    return 50 + 5 * batch;
}

static void the_forecast_is_moved_to_what_was_measured(void **state) {
    (void)state;
    struct keep_rules r = adaptive_rules(128, 64, 0);
    struct keep_state s = begin(&r);
    struct keep_sight sight = {.peak_bytes = 500, .forecast = tape};
    start(&s, &r);
    // In proportion it would be 1000; the tape says 690, and the present batch took 130 more than
    // it said.
    assert_int_equal(adapt(&r, &s, sight), 128);
    s = begin(&r);
    start(&s, &r);
    sight.peak_bytes = 590; // 220 more: 910
    assert_int_equal(adapt(&r, &s, sight), 0);
}

static void it_never_goes_back_to_what_failed(void **state) {
    (void)state;
    struct keep_rules r = adaptive_rules(256, 32, 0);
    struct keep_state s = begin(&r);
    start(&s, &r);
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 200}), 64);
    struct keep_event e = keep_event_of(KEEP_END);
    e.end = KEEP_END_MEMORY;
    e.steps = 3;
    keep_apply(&s, &e);
    r.from_scratch = true;
    start(&s, &r);
    assert_int_equal(s.size.batch, 32); // what had run, not half by rule
    assert_int_equal(s.failed_batch, 64);
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 100}), 0);
    r.factor = 4;
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 100}), 0);
}

static void it_shrinks_near_the_end_of_memory(void **state) {
    (void)state;
    struct keep_rules r = rules_of(64, 1, 1);
    r.capacity_bytes = 1000;
    struct keep_state s = begin(&r);
    start(&s, &r);
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 970}), 0);
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 500, .retry_steps = 2}), 0);
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 971}), 32);
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 500, .retry_steps = 3}), 16);
    r.near_share = 0.4;
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 401}), 8);
    r.recover = false;
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 999}), 0);
    // Where it can go no smaller it goes on.
    r.recover = true;
    for (int64_t batch = 4; batch > 0; batch /= 2)
        assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 999}), batch);
    assert_int_equal(adapt(&r, &s, (struct keep_sight){.peak_bytes = 999}), 0);
}

// Stopped for another batch: that is what starts, and no limit counts it.
static void a_stop_goes_on_with_the_wanted_batch(void **state) {
    (void)state;
    struct keep_rules r = rules_of(64, 1, 1);
    r.capacity_bytes = 1000;
    r.max_restarts = 0;
    struct keep_state s = begin(&r);
    start(&s, &r);
    struct keep_sight sight = {.peak_bytes = 999};
    struct keep_event e = keep_event_of(KEEP_ADAPT);
    assert_true(keep_adapt(&arena, &r, &s, &sight, &e.size, &e.why));
    keep_apply(&s, &e);
    // batchfit dies here: the next one starts what was asked for.
    struct keep_decision d = keep_next(&arena, &r, &s, NULL, 0);
    assert_int_equal(d.size.batch, 32);
    e = keep_event_of(KEEP_END);
    e.end = KEEP_END_STOPPED;
    keep_apply(&s, &e);
    d = keep_next(&arena, &r, &s, NULL, 0);
    assert_int_equal(d.action, KEEP_START);
    assert_int_equal(d.size.batch, 32);
    assert_int_equal(d.size.accumulation, 2);
    assert_false(d.is_counted);
    assert_true(d.delay_s == 0);
}

// --- The log
// ------------------------------------------------------------------------------------------

static struct keep_event sample_event(enum keep_event_kind kind) {
    struct keep_event e = keep_event_of(kind);
    e.t_s = 1763787600.25;
    e.rules = rules_of(48, 2, 3);
    e.rules.lr = 3e-4;
    str_list_add(&arena, &e.command, STR("python"));
    str_list_add(&arena, &e.command, STR("train \"한\".py"));
    e.config = STR("configs/train.yaml");
    e.folder = STR("/home/you");
    e.attempt = 3;
    e.samples = 1234567890123;
    e.steps = 17;
    e.status = 137;
    e.restarts = 2;
    e.peak_bytes = INT64_C(24) << 30;
    e.size = (struct keep_size){24, 4, 1.0 / 3};
    e.file = (struct keep_file){STR("out/ckpt-\n7.pt"), 1763787600123456789};
    e.end = KEEP_END_MEMORY;
    e.action = KEEP_START;
    e.ending = STR("cuda-oom");
    e.exception = STR("OutOfMemoryError: x");
    e.why = STR("memory ran out");
    e.delay_s = 0.1;
    e.is_counted = e.is_taken = true;
    return e;
}

static void a_line_is_read_as_it_was_written(void **state) {
    (void)state;
    struct buf text = buf_new(&arena);
    for (int kind = KEEP_BEGIN; kind <= KEEP_FINISH; kind++) {
        struct keep_event e = sample_event((enum keep_event_kind)kind);
        buf_add(&text, keep_event_line(&arena, &e));
    }
    struct keep_log log;
    struct fail why = {0};
    assert_int_equal(keep_log_read(&arena, buf_str(&text), &log, &why), 0);
    assert_int_equal(log.count, KEEP_FINISH + 1);
    assert_true(log.is_finished && !log.is_torn);
    assert_int_equal(log.whole_bytes, text.count);
    struct buf again = buf_new(&arena);
    for (ptrdiff_t i = 0; i < log.count; i++)
        buf_add(&again, keep_event_line(&arena, &log.events[i]));
    assert_int_equal(again.count, text.count);
    assert_memory_equal(again.items, text.items, (size_t)text.count);
    assert_int_equal(log.events[0].rules.ranks, 3);
    assert_true(log.events[0].rules.lr == 3e-4);
    assert_str(log.events[0].command.items[1], "train \"한\".py");
    assert_true(log.events[KEEP_DECIDE].size.lr == 1.0 / 3);
    assert_int_equal(log.events[KEEP_CHECKPOINT].file.written, 1763787600123456789);
    assert_int_equal(log.events[KEEP_END].end, KEEP_END_MEMORY);
}

static void a_path_of_any_bytes_is_written(void **state) {
    (void)state;
    struct keep_event e = keep_event_of(KEEP_CHECKPOINT);
    e.file.path = STR("out/\xff.pt");
    struct str line = keep_event_line(&arena, &e);
    assert_true(str_find(line, STR("out/?.pt")) > 0);
}

#define BEGIN                                                                                      \
    "{\"v\":1,\"event\":\"begin\",\"command\":[\"true\"],\"rules\":{\"batch\":8,\"accumulation\":" \
    "1,"                                                                                           \
    "\"ranks\":1,\"least_batch\":1,\"lr_rule\":\"keep\",\"max_restarts\":5,\"backoff_s\":1,"       \
    "\"most_backoff_s\":60,\"near_share\":0.97,\"initial_batch\":0,\"most_batch\":0,"              \
    "\"threshold\":0.9,\"factor\":1.2}}\n"

static void bad_logs_are_refused_with_the_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"{}\n", "line 1: no event of a run"},
        {"{\"v\":2,\"event\":\"begin\"}\n", "line 1: version 2 of the log; this batchfit knows 1"},
        {"{\"v\":1,\"event\":\"finish\",\"batch\":1,\"accumulation\":1}\n",
         "line 1: the log does not begin"},
        {BEGIN BEGIN, "line 2: a second `begin`"},
        {BEGIN "{\"v\":1,\"event\":\"start\",\"attempt\":1,\"ba\n", "line 2: no JSON object"},
        {BEGIN "\n", "line 2: no JSON object"},
        {BEGIN "[1]\n", "line 2: no JSON object"},
        {BEGIN "{\"v\":1,\"event\":\"stop\"}\n", "line 2: no such event"},
        {BEGIN "{\"v\":1,\"event\":\"start\",\"attempt\":0,\"batch\":1,\"accumulation\":1}\n",
         "line 2: event start: attempt is missing or wrong"},
        {BEGIN "{\"v\":1,\"event\":\"end\",\"end\":\"tired\"}\n",
         "line 2: event end: end is missing"},
        {BEGIN "{\"v\":1,\"event\":\"finish\",\"batch\":1,\"accumulation\":1}\n"
               "{\"v\":1,\"event\":\"end\",\"end\":\"hang\"}\n",
         "line 3: an event behind `finish`"},
        {"{\"v\":1,\"event\":\"begin\",\"command\":[],\"rules\":{\"batch\":0}}\n",
         "batch is missing or wrong"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct keep_log log;
        struct fail why = {0};
        assert_int_equal(keep_log_read(&arena, str_of(rows[i].text), &log, &why), FAIL_INPUT);
        assert_non_null(strstr(why.message, rows[i].message));
    }
}

static void a_torn_last_line_is_dropped(void **state) {
    (void)state;
    struct str whole = str_of(BEGIN "{\"v\":1,\"event\":\"end\",\"end\":\"hang\"}\n");
    ptrdiff_t first = (ptrdiff_t)strlen(BEGIN);
    for (ptrdiff_t cut = 0; cut <= whole.len; cut++) {
        struct keep_log log;
        struct fail why = {0};
        assert_int_equal(keep_log_read(&arena, str_slice(whole, 0, cut), &log, &why), 0);
        assert_int_equal(log.count, cut < first ? 0 : cut < whole.len ? 1 : 2);
        assert_int_equal(log.is_torn, cut != 0 && cut != first && cut != whole.len);
        assert_int_equal(log.whole_bytes, cut < first ? 0 : cut < whole.len ? first : whole.len);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(memory_halves_to_the_end),
        TEST(without_accumulation_the_rate_follows),
        TEST(rules_that_cannot_be_followed),
        TEST(a_changed_command_is_no_continuation),
        TEST(what_comes_from_outside_is_tried_again),
        TEST(without_recover_every_end_is_the_end),
        TEST(ends_that_are_the_end),
        TEST(a_repeating_crash_is_given_up),
        TEST(a_crash_that_gets_further_is_tried_again),
        TEST(a_setup_error_is_not_tried_again),
        TEST(restarts_are_limited),
        TEST(a_bad_checkpoint_is_passed_over),
        TEST(a_kill_is_no_fault_of_the_checkpoint),
        TEST(nothing_to_resume),
        TEST(it_grows_below_the_threshold),
        TEST(the_factor_is_the_least),
        TEST(without_knowledge_nothing_grows),
        TEST(the_forecast_is_moved_to_what_was_measured),
        TEST(it_never_goes_back_to_what_failed),
        TEST(it_shrinks_near_the_end_of_memory),
        TEST(a_stop_goes_on_with_the_wanted_batch),
        TEST(a_line_is_read_as_it_was_written),
        TEST(a_path_of_any_bytes_is_written),
        TEST(bad_logs_are_refused_with_the_line),
        TEST(a_torn_last_line_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
