// SPDX-License-Identifier: Apache-2.0
// The exact scan for the least capacity, against trying every capacity there is.
#include "unit.h"

#include "base/unit.h"
#include "predict/sim/sim.h"

static uint32_t seed;

static uint32_t draw(uint32_t below) {
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return (seed >> 5) % below;
}

// A tape that fragments: sizes around the allocator's thresholds, freed in no order.
static struct str random_tape(struct arena *a, int events) {
    struct buf t = buf_new(a);
    int64_t live[1000];
    int count = 0, id = 0;
    buf_format(&t, "{\"tape\":1,\"model\":\"random\",\"batches\":[1]}\nm forward 0\n");
    for (int i = 0; i < events; i++) {
        if (count > 0 && draw(5) < 2) {
            int at = (int)draw((uint32_t)count);
            buf_format(&t, "f %lld\n", (long long)live[at]);
            live[at] = live[--count];
        } else if (draw(20) == 0) {
            buf_format(&t, "e\n");
        } else {
            unsigned bytes = (draw(24) + 1) << (17 + draw(4));
            buf_format(&t, "a %d %u 0 other\n", id, bytes);
            live[count++] = id++;
        }
    }
    return buf_str(&t);
}

static struct sim *prepare(struct arena *a, struct str text, const char *conf) {
    struct sim_options o = sim_options_default();
    struct tape *t = arena_new(a, struct tape, 1);
    struct fail why = {0};
    assert_int_equal(sim_options_parse(str_of(conf), &o, &why), 0);
    if (tape_read(a, STR("random"), text, t, &why) < 0) fail_msg("%s", why.message);
    return sim_prepare(a, t, &o);
}

static bool runs(struct sim *s, int64_t capacity) {
    struct sim_result r;
    sim_replay(s, 1, 0, capacity, &r);
    return !r.oom;
}

struct truth {
    int64_t needed, stable;
};

// Capacities change what happens only at multiples of 512 KiB here.
static struct truth try_all(struct sim *s, int64_t step) {
    struct sim_result free_run;
    sim_replay(s, 1, 0, SIM_UNLIMITED, &free_run);
    struct truth t = {-1, 0};
    for (int64_t c = 0; c <= free_run.same_from_bytes + 2 * step; c += step) {
        bool ok = runs(s, c);
        if (ok && t.needed < 0) t.needed = c;
        if (!ok) t.stable = c + step;
    }
    return t;
}

static int check_random(const char *conf, int tapes, int events) {
    int not_monotone = 0;
    for (int i = 0; i < tapes; i++) {
        ARENA_AUTO a = {0};
        struct sim *s = prepare(&a, random_tape(&a, events), conf);
        struct sim_need n;
        sim_needed(s, 1, 0, SIM_NEED_REPLAYS, &n);
        struct truth t = try_all(s, UNIT_MIB / 2);
        assert_true(n.runs && n.needed_exact);
        assert_int_equal(n.needed_bytes, t.needed);
        assert_false(runs(s, n.needed_bytes - 1));
        assert_true(sim_live_peak(s, 1, 0) <= n.needed_bytes);
        not_monotone += t.stable > t.needed;
    }
    return not_monotone;
}

static void equal_to_trying_every_capacity(void **state) {
    (void)state;
    seed = 2463534242;
    assert_true(check_random("", 300, 160) > 0);
    check_random("max_split_size_mb:20", 100, 120);
    check_random("expandable_segments:True", 30, 120);
}

// The scan as it is without places to go on from: each replay from the tape's beginning.
static int64_t scanned_whole(struct sim *s, int64_t *ret_replays) {
    struct sim_result r;
    int64_t c = sim_live_peak(s, 1, 0);
    for (sim_replay(s, 1, 0, c, &r), *ret_replays = 2; r.oom; ++*ret_replays) {
        c = r.same_below_bytes;
        sim_replay(s, 1, 0, c, &r);
    }
    return c;
}

static void going_on_from_a_place_changes_nothing(void **state) {
    (void)state;
    seed = 2891336453;
    int64_t most = 0;
    for (int i = 0; i < 60; i++) {
        ARENA_AUTO a = {0};
        struct sim *s = prepare(&a, random_tape(&a, 1500), "");
        struct sim_need n;
        struct sim_result free_run;
        int64_t replays;
        sim_needed(s, 1, 0, SIM_NEED_REPLAYS, &n);
        assert_int_equal(n.needed_bytes, scanned_whole(s, &replays));
        if (n.needed_bytes < n.free.same_from_bytes) assert_int_equal(n.replays, replays);
        sim_replay(s, 1, 0, SIM_UNLIMITED, &free_run);
        assert_int_equal(n.free.reserved_bytes, free_run.reserved_bytes);
        assert_int_equal(n.free.allocated_event, free_run.allocated_event);
        if (replays > most) most = replays;
    }
    assert_true(most > 10);
}

// 512 KiB steps are too coarse here: limits are shares of the capacity.
static void shares_of_the_capacity_are_breakpoints_too(void **state) {
    (void)state;
    seed = 88172645;
    for (int i = 0; i < 20; i++) {
        ARENA_AUTO a = {0};
        struct sim *s = prepare(&a, random_tape(&a, 60),
                                "garbage_collection_threshold:0.7,per_process_memory_fraction:0.9");
        struct sim_need n;
        sim_needed(s, 1, 0, SIM_NEED_REPLAYS, &n);
        assert_true(n.needed_exact);
        assert_true(runs(s, n.needed_bytes));
        assert_false(runs(s, n.needed_bytes - 1));
        for (int64_t c = sim_live_peak(s, 1, 0); c < n.needed_bytes; c += 77777) {
            assert_false(runs(s, c));
        }
    }
}

// What a result says of other capacities is what replays at its borders give.
static void a_result_knows_where_it_holds(void **state) {
    (void)state;
    seed = 362436069;
    for (int i = 0; i < 40; i++) {
        ARENA_AUTO a = {0};
        struct sim *s = prepare(&a, random_tape(&a, 80), i % 2 ? "expandable_segments:True" : "");
        int64_t c = sim_live_peak(s, 1, 0) + draw(1 << 24);
        struct sim_result here, there;
        sim_replay(s, 1, 0, c, &here);
        assert_true(here.same_from_bytes <= c && c < here.same_below_bytes);
        const int64_t borders[] = {here.same_from_bytes, here.same_below_bytes == INT64_MAX
                                                             ? SIM_UNLIMITED
                                                             : here.same_below_bytes - 1};
        for (int k = 0; k < 2; k++) {
            sim_replay(s, 1, 0, borders[k], &there);
            assert_int_equal(there.oom_event, here.oom_event);
            assert_int_equal(there.reserved_bytes, here.reserved_bytes);
            assert_int_equal(there.retries, here.retries);
            assert_int_equal(there.segments, here.segments);
        }
    }
}

static void a_bound_on_replays_is_kept_and_said(void **state) {
    (void)state;
    seed = 521288629;
    ARENA_AUTO a = {0};
    struct sim *s = prepare(&a, random_tape(&a, 900), "");
    struct sim_need exact, n;
    sim_needed(s, 1, 0, SIM_NEED_REPLAYS, &exact);
    assert_true(exact.replays > 6);
    sim_needed(s, 1, 0, 3, &n);
    assert_true(n.replays <= 40);
    assert_false(n.needed_exact);
    assert_true(runs(s, n.needed_bytes));
    assert_false(runs(s, n.needed_bytes - 1));
    assert_true(n.needed_bytes >= exact.needed_bytes);
}

static void a_request_beyond_all_bounds_never_runs(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct sim *s = prepare(&a,
                            STR("{\"tape\":1,\"model\":\"x\",\"batches\":[1]}\n"
                                "a 1 0 1152921504606846976 other\n"),
                            "");
    struct sim_need n;
    sim_needed(s, 1, 0, SIM_NEED_REPLAYS, &n);
    assert_false(n.runs);
}

// Sizes of which most are no multiple of 512 bytes, with peaks that move as the batch grows.
static struct str growing_tape(struct arena *a, int events) {
    struct buf t = buf_new(a);
    int live[1000], count = 0, id = 0;
    buf_format(&t, "{\"tape\":1,\"model\":\"random\",\"batches\":[1]}\nm forward 0\n");
    for (int i = 0; i < events; i++) {
        if (count > 0 && draw(5) < 2) {
            int at = (int)draw((uint32_t)count);
            buf_format(&t, "f %d\n", live[at]);
            live[at] = live[--count];
        } else {
            buf_format(&t, "a %d %u %u other\n", id, draw(3) * draw(9000000),
                       draw(2) * draw(70000));
            live[count++] = id++;
        }
    }
    return buf_str(&t);
}

static void check_within(const char *conf) {
    ARENA_AUTO a = {0};
    struct str text = growing_tape(&a, 200);
    struct sim *asked = prepare(&a, text, conf), *truth = prepare(&a, text, conf);
    for (int i = 0; i < 400; i++) {
        int64_t batch = 1 + draw(i % 3 ? 64 : 5000), near[] = {0, 1, 513, draw(1 << 20)};
        int64_t peak = sim_live_peak(truth, batch, 0), off = near[draw(4)];
        int64_t bytes = draw(2) ? peak + off : peak - off;
        assert_int_equal(sim_live_within(asked, batch, 0, bytes), peak <= bytes);
    }
}

static void what_two_batches_say_of_others_is_true(void **state) {
    (void)state;
    seed = 1318699;
    for (int i = 0; i < 60; i++) check_within(i % 3 ? "" : "roundup_power2_divisions:4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_to_trying_every_capacity),
        cmocka_unit_test(going_on_from_a_place_changes_nothing),
        cmocka_unit_test(shares_of_the_capacity_are_breakpoints_too),
        cmocka_unit_test(a_result_knows_where_it_holds),
        cmocka_unit_test(a_bound_on_replays_is_kept_and_said),
        cmocka_unit_test(a_request_beyond_all_bounds_never_runs),
        cmocka_unit_test(what_two_batches_say_of_others_is_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
