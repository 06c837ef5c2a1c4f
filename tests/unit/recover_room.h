// SPDX-License-Identifier: Apache-2.0
// What the tests of the room keep share: an arena for each test, rules, and the event `begin`.
#ifndef TESTS_KEEP_ROOM_H
#define TESTS_KEEP_ROOM_H

#include "unit.h"

#include "measure/recover/recover.h"

static struct arena arena;

static inline int setup(void **state) {
    (void)state;
    arena = (struct arena){0};
    return 0;
}

static inline int teardown(void **state) {
    (void)state;
    arena_clear(&arena);
    return 0;
}

static inline struct recover_rules rules_of(int64_t batch, int64_t accumulation, int64_t ranks) {
    struct recover_rules r = recover_rules_default();
    r.batch = batch;
    r.accumulation = accumulation;
    r.ranks = ranks;
    r.recover = r.can_accumulate = true;
    r.max_restarts = 100;
    return r;
}

static inline struct recover_state begin(const struct recover_rules *rules) {
    struct recover_state s = {.arena = &arena};
    struct recover_event e = recover_event_of(RECOVER_BEGIN);
    assert_int_equal(recover_check(rules, NULL), 0);
    e.rules = *rules;
    recover_apply(&s, &e);
    return s;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
