// SPDX-License-Identifier: Apache-2.0
#include "recover_room.h"

#include <math.h>

static void start(struct recover_state *s, const struct recover_rules *rules) {
    struct recover_decision d = recover_next(&arena, rules, s, NULL, 0);
    struct recover_event e = recover_decided(&d);
    assert_int_equal(d.action, RECOVER_START);
    recover_apply(s, &e);
    e = recover_started(s, &d);
    recover_apply(s, &e);
}

// What recover_adapt says at this peak; taken by the program at once. 0: nothing.
static int64_t adapt(const struct recover_rules *rules, struct recover_state *s,
                     struct recover_sight sight) {
    struct recover_event e = recover_event_of(RECOVER_ADAPT);
    if (!recover_adapt(&arena, rules, s, &sight, &e.size, &e.why)) return 0;
    assert_int_equal(e.size.batch * e.size.accumulation, rules->batch * rules->accumulation);
    e.peak_bytes = sight.peak_bytes;
    recover_apply(s, &e);
    assert_int_equal(s->wanted.batch, e.size.batch);
    assert_false(
        recover_adapt(&arena, rules, s, &sight, &e.size, &e.why)); // it is asked for already
    e.is_taken = true;
    e.peak_bytes = -1;
    recover_apply(s, &e);
    return e.size.batch;
}

static struct recover_rules adaptive_rules(int64_t batch, int64_t initial, int64_t most) {
    struct recover_rules r = rules_of(batch, 1, 1);
    r.adaptive = true;
    r.initial_batch = initial;
    r.most_batch = most;
    r.capacity_bytes = 1000;
    return r;
}

static void it_grows_below_the_threshold(void **state) {
    (void)state;
    struct recover_rules r = adaptive_rules(256, 16, 128);
    struct recover_state s = begin(&r);
    assert_int_equal(s.size.batch, 16);
    assert_int_equal(s.size.accumulation, 16);
    start(&s, &r);
    // 100 + 5 x batch. One peak: in proportion, 180 -> 360.
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 180}), 32);
    // Two: the line.
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 260}), 64);
    assert_int_equal(recover_predict(&s, 128), 740);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 420}), 128);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 740}), 0); // the most
    r.most_batch = 0;
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 740}),
                     0); // 256: 1380 of 1000
    r.capacity_bytes = 1600;
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 740}), 256); // below 1440
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 1380}), 0);  // all of it
}

static void the_factor_is_the_least(void **state) {
    (void)state;
    static const struct {
        double factor;
        int64_t next;
    } rows[] = {{1.01, 12}, {1.2, 12}, {1.21, 15}, {1.5, 15}, {1.51, 20}, {2.5, 30}, {6.1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct recover_rules r = adaptive_rules(60, 10, 0);
        r.factor = rows[i].factor;
        struct recover_state s = begin(&r);
        start(&s, &r);
        assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 10}), rows[i].next);
    }
}

static void without_knowledge_nothing_grows(void **state) {
    (void)state;
    struct recover_rules r = adaptive_rules(64, 8, 0);
    struct recover_state s = begin(&r);
    start(&s, &r);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = -1}), 0);
    r.capacity_bytes = -1;
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 10}), 0);
    r.capacity_bytes = 1000;
    r.adaptive = false;
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 10}), 0);
}

static int64_t tape(void *context, int64_t batch) {
    (void)context;
    return 50 + 5 * batch;
}

static void the_forecast_is_moved_to_what_was_measured(void **state) {
    (void)state;
    struct recover_rules r = adaptive_rules(128, 64, 0);
    struct recover_state s = begin(&r);
    struct recover_sight sight = {.peak_bytes = 500, .forecast = tape};
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
    struct recover_rules r = adaptive_rules(256, 32, 0);
    struct recover_state s = begin(&r);
    start(&s, &r);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 200}), 64);
    struct recover_event e = recover_event_of(RECOVER_END);
    e.end = FAILURE_MEMORY;
    e.steps = 3;
    recover_apply(&s, &e);
    r.from_scratch = true;
    start(&s, &r);
    assert_int_equal(s.size.batch, 32); // what had run, not half by rule
    assert_int_equal(s.failed_batch, 64);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 100}), 0);
    r.factor = 4;
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 100}), 0);
}

static void it_shrinks_near_the_end_of_memory(void **state) {
    (void)state;
    struct recover_rules r = rules_of(64, 1, 1);
    r.capacity_bytes = 1000;
    struct recover_state s = begin(&r);
    start(&s, &r);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 970}), 0);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 500, .retry_steps = 2}), 0);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 971}), 32);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 500, .retry_steps = 3}),
                     16);
    r.near_share = 0.4;
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 401}), 8);
    r.recover = false;
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 999}), 0);
    // Where it can go no smaller it goes on.
    r.recover = true;
    for (int64_t batch = 4; batch > 0; batch /= 2)
        assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 999}), batch);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 999}), 0);
}

static void it_does_not_grow_back_to_what_was_near(void **state) {
    (void)state;
    struct recover_rules r = adaptive_rules(64, 32, 0);
    struct recover_state s = begin(&r);
    struct recover_event e = recover_event_of(RECOVER_CHECKPOINT);
    start(&s, &r);
    e.file = (struct recover_file){STR("a"), 1};
    e.peak_bytes = 980; // it has run, but that is no reason to stay
    recover_apply(&s, &e);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 980}), 16);
    assert_int_equal(adapt(&r, &s, (struct recover_sight){.peak_bytes = 50}), 0);
    assert_int_equal(s.failed_batch, 32);
}

// A line through a curve would promise less at a larger batch than was measured at a smaller one.
static void a_larger_batch_takes_no_less_than_was_measured(void **state) {
    (void)state;
    struct recover_state s = {.peaks = {{8, 100}, {16, 800}, {32, 850}}, .peak_count = 3};
    assert_int_equal(recover_predict(&s, 32), 947); // by least squares, above what was measured
    s.peaks[2].bytes = 700;
    s.peaks[1].bytes = 100; // a jump at the end
    assert_true(recover_predict(&s, 32) >= 700);
    assert_true(recover_predict(&s, 33) >= 700);
    s.peak_count = 0;
    assert_int_equal(recover_predict(&s, 32), -1);
}

// Stopped for another batch: that is what starts, and no limit counts it.
static void a_stop_goes_on_with_the_wanted_batch(void **state) {
    (void)state;
    struct recover_rules r = rules_of(64, 1, 1);
    r.capacity_bytes = 1000;
    r.max_restarts = 0;
    struct recover_state s = begin(&r);
    start(&s, &r);
    struct recover_sight sight = {.peak_bytes = 999};
    struct recover_event e = recover_event_of(RECOVER_ADAPT);
    assert_true(recover_adapt(&arena, &r, &s, &sight, &e.size, &e.why));
    recover_apply(&s, &e);
    // batchfit dies here: the next one starts what was asked for.
    struct recover_decision d = recover_next(&arena, &r, &s, NULL, 0);
    assert_int_equal(d.size.batch, 32);
    e = recover_event_of(RECOVER_END);
    e.end = FAILURE_ASKED;
    recover_apply(&s, &e);
    d = recover_next(&arena, &r, &s, NULL, 0);
    assert_int_equal(d.action, RECOVER_START);
    assert_int_equal(d.size.batch, 32);
    assert_int_equal(d.size.accumulation, 2);
    assert_false(d.is_counted);
    assert_true(d.delay_s == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(it_grows_below_the_threshold),
        TEST(the_factor_is_the_least),
        TEST(without_knowledge_nothing_grows),
        TEST(the_forecast_is_moved_to_what_was_measured),
        TEST(it_never_goes_back_to_what_failed),
        TEST(it_shrinks_near_the_end_of_memory),
        TEST(it_does_not_grow_back_to_what_was_near),
        TEST(a_larger_batch_takes_no_less_than_was_measured),
        TEST(a_stop_goes_on_with_the_wanted_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
