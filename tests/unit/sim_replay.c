// SPDX-License-Identifier: Apache-2.0
// Whole tapes: peaks by phase, streams, classes, scratch, out of memory, holders, timeline.
#include "unit.h"

#include "base/unit.h"
#include "predict/sim/sim.h"

#define MIB UNIT_MIB
#define HEAD "{\"tape\":1,\"model\":\"test\",\"classes\":10,\"batches\":[2]}\n"

static struct arena arena;
static struct tape tape;

static struct sim *prepare_with(const char *text, const struct sim_options *o) {
    struct fail why = {0};
    if (tape_read(&arena, STR("t"), str_of(text), &tape, &why) < 0) fail_msg("%s", why.message);
    return sim_prepare(&arena, &tape, o);
}

static struct sim *prepare(const char *text) {
    struct sim_options o = sim_options_default();
    return prepare_with(text, &o);
}

static int drop_arena(void **state) {
    (void)state;
    arena_clear(&arena);
    return 0;
}

// 30 MiB of weights, 4 MiB of activations for each sample in two layers, a gradient.
static const char training[] = HEAD "m init 0\n"
                                    "a 7 31457280 0 param - stem.conv\n"
                                    "m forward 0\n"
                                    "a 8 0 4194304 activation convolution layers.0.conv\n"
                                    "a 9 0 4194304 activation relu layers.1.act\n"
                                    "a 10 0 1048576 temporary relu layers.1.act\n"
                                    "f 10\n"
                                    "m backward 0\n"
                                    "a 11 31457280 0 gradient convolution_backward layers.0.conv\n"
                                    "f 9\n"
                                    "f 8\n";

static void peaks_by_phase(void **state) {
    (void)state;
    struct sim *s = prepare(training);
    struct sim_result r;
    sim_replay(s, 4, 0, SIM_UNLIMITED, &r);
    assert_false(r.oom);
    assert_int_equal(r.events, 11);
    assert_int_equal(r.allocated_bytes, 92 * MIB);
    assert_int_equal(r.allocated_event, 8);
    assert_int_equal(r.reserved_bytes, 112 * MIB);
    assert_int_equal(r.reserved_event, 8);
    assert_int_equal(r.end_bytes, 60 * MIB);
    assert_int_equal(r.phase_count, 3);
    assert_int_equal(r.phases[0].phase, TAPE_INIT);
    assert_int_equal(r.phases[0].allocated_bytes, 30 * MIB);
    assert_int_equal(r.phases[1].allocated_bytes, 66 * MIB);
    assert_int_equal(r.phases[1].event, 2);
    assert_int_equal(r.phases[2].allocated_bytes, 92 * MIB);
    assert_int_equal(sim_live_peak(s, 4, 0), 92 * MIB);
    sim_replay(s, 8, 0, SIM_UNLIMITED, &r); // another batch with the same sim
    assert_int_equal(r.allocated_bytes, 124 * MIB);
    sim_replay(s, 4, 0, SIM_UNLIMITED, &r);
    assert_int_equal(r.allocated_bytes, 92 * MIB);
}

static void out_of_memory_is_an_answer(void **state) {
    (void)state;
    struct sim *s = prepare(training);
    struct sim_result r;
    sim_replay(s, 4, 0, 70 * MIB, &r);
    assert_true(r.oom);
    assert_int_equal(r.oom_event, 5);
    assert_int_equal(r.oom_bytes, 20 * MIB);
    assert_int_equal(r.retries, 1);
    assert_int_equal(r.events, 5);
    assert_int_equal(r.phase_count, 2);
    sim_replay(s, 4, 0, 92 * MIB, &r);
    assert_false(r.oom);
    assert_int_equal(r.retries, 1); // the segment of the temporary goes back
    assert_int_equal(r.reserved_bytes, 92 * MIB);
}

static void holders_add_up_to_the_peak(void **state) {
    (void)state;
    struct sim *s = prepare(training);
    struct sim_holders h;
    sim_peak_holders(&arena, s, 4, 0, SIM_UNLIMITED, 2, &h);
    assert_int_equal(h.event, 8);
    assert_int_equal(h.phase, TAPE_BACKWARD);
    assert_str(h.op, "convolution_backward");
    assert_str(h.module, "layers.0.conv");
    assert_int_equal(h.allocated_bytes, 92 * MIB);
    assert_int_equal(h.requested_bytes, 92 * MIB);
    assert_int_equal(h.reserved_bytes, 112 * MIB);
    assert_int_equal(h.tags.count, 3);
    assert_str(h.tags.items[0].name, "activation");
    assert_int_equal(h.tags.items[0].bytes, 32 * MIB);
    assert_int_equal(h.tags.items[0].count, 2);
    assert_int_equal(h.ops.count, 4);
    assert_str(h.modules.items[0].name, "layers.0.conv");
    assert_int_equal(h.modules.items[0].bytes, 46 * MIB);
    assert_str(h.tops.items[0].name, "layers.0");
    assert_str(h.tops.items[1].name, "stem");
    assert_int_equal(h.largest_count, 2);
    assert_int_equal(h.largest[0].bytes, 30 * MIB);
    assert_int_equal(h.largest[0].alloc->tag, TAPE_PARAM);
    int64_t ops = 0, tops = 0;
    for (ptrdiff_t i = 0; i < h.ops.count; i++) ops += h.ops.items[i].bytes;
    for (ptrdiff_t i = 0; i < h.tops.count; i++) tops += h.tops.items[i].bytes;
    assert_int_equal(ops, h.allocated_bytes);
    assert_int_equal(tops, h.allocated_bytes);
}

static void a_timeline_keeps_its_maxima(void **state) {
    (void)state;
    struct sim *s = prepare(training);
    struct sim_timeline t;
    for (int points = 1; points < 15; points++) {
        sim_timeline(&arena, s, 4, 0, SIM_UNLIMITED, points, &t);
        assert_true(t.count >= 1 && t.count <= points);
        assert_int_equal(t.points[t.count - 1].event, 10);
        assert_int_equal(t.phase_count, 3);
        int64_t most = 0, held = 0;
        for (int i = 0; i < t.count; i++) {
            int64_t sum = 0;
            for (int k = 0; k < TAPE_TAG_COUNT; k++) sum += t.points[i].tags[k];
            assert_int_equal(sum, t.points[i].allocated_bytes);
            if (sum > most) most = sum;
            if (t.points[i].reserved_bytes > held) held = t.points[i].reserved_bytes;
        }
        assert_int_equal(most, 92 * MIB);
        assert_int_equal(held, 112 * MIB);
    }
    sim_timeline(&arena, s, 4, 0, 70 * MIB, 5, &t);
    assert_true(t.oom);
}

static void streams_do_not_share_blocks(void **state) {
    (void)state;
    struct sim *s = prepare(HEAD "a 1 31457280 0 input\nf 1\na@1 2 31457280 0 input\nf 2\n"
                                 "a 3 31457280 0 input\n");
    struct sim_result r;
    sim_replay(s, 1, 0, SIM_UNLIMITED, &r);
    assert_int_equal(r.reserved_bytes, 60 * MIB);
    assert_int_equal(r.allocated_bytes, 30 * MIB);
    sim_replay(s, 1, 0, 40 * MIB, &r); // but giving back empties both
    assert_false(r.oom);
    assert_int_equal(r.retries, 2);
}

static void classes_scale_the_head(void **state) {
    (void)state;
    struct sim *s = prepare(HEAD "a 1 40960 512 param - head n=4096,51\n");
    struct sim_result r;
    sim_replay(s, 2, 0, SIM_UNLIMITED, &r);
    assert_int_equal(r.allocated_bytes, 41984);
    sim_replay(s, 2, 10, SIM_UNLIMITED, &r);
    assert_int_equal(r.allocated_bytes, 41984);
    sim_replay(s, 2, 110, SIM_UNLIMITED, &r); // + 100 · (4096 + 2 · 51)
    assert_int_equal(r.allocated_bytes, (41984 + 419800 + 511) / 512 * 512);
    sim_replay(s, 2, 1, SIM_UNLIMITED, &r);
    assert_int_equal(r.allocated_bytes, (41984 - 9 * 4198 + 511) / 512 * 512);
}

static void scratch_counts_when_asked_for(void **state) {
    (void)state;
    struct sim_options o = sim_options_default();
    const char *text = HEAD "a 1 1048576 0 param\nw 1024 2097152\nf 1\n";
    struct sim_result r;
    sim_replay(prepare_with(text, &o), 6, 0, SIM_UNLIMITED, &r);
    assert_int_equal(r.allocated_bytes, MIB);
    o.scratch = true;
    struct sim *s = prepare_with(text, &o);
    sim_replay(s, 6, 0, SIM_UNLIMITED, &r);
    assert_int_equal(r.allocated_bytes, 13 * MIB + 1024);
    assert_int_equal(r.reserved_bytes, 16 * MIB);
    assert_int_equal(r.allocated_event, 1);
    sim_replay(s, 6, 0, 10 * MIB, &r);
    assert_true(r.oom);
    assert_int_equal(r.oom_event, 1);
}

static void empty_cache_gives_back(void **state) {
    (void)state;
    struct sim *s = prepare(HEAD "a 1 0 4194304 temporary\nf 1\ne\nm forward 0\n"
                                 "a 2 0 8388608 activation\n");
    struct sim_result r;
    sim_replay(s, 8, 0, SIM_UNLIMITED, &r);
    assert_int_equal(r.reserved_bytes, 64 * MIB);
    assert_int_equal(r.phases[0].reserved_bytes, 32 * MIB);
    assert_int_equal(r.phases[0].event, -1);
}

static void sizes_without_bytes_ask_for_nothing(void **state) {
    (void)state;
    struct sim *s = prepare(HEAD "a 1 -512 512 other\na 2 0 0 other\nf 1\nf 2\n");
    struct sim_result r;
    sim_replay(s, 1, 0, SIM_UNLIMITED, &r);
    assert_int_equal(r.allocated_bytes, 0);
    assert_int_equal(r.allocated_event, -1);
    sim_replay(s, 3, 0, SIM_UNLIMITED, &r);
    assert_int_equal(r.allocated_bytes, 1024);
    struct sim_holders h;
    sim_peak_holders(&arena, s, 1, 0, SIM_UNLIMITED, 3, &h);
    assert_int_equal(h.event, -1);
}

static void huge_batches_are_out_of_memory(void **state) {
    (void)state;
    struct sim *s = prepare(training);
    struct sim_result r;
    sim_replay(s, INT64_MAX, 0, SIM_UNLIMITED, &r);
    assert_true(r.oom);
    assert_int_equal(r.oom_event, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_by_phase),
        cmocka_unit_test(out_of_memory_is_an_answer),
        cmocka_unit_test(holders_add_up_to_the_peak),
        cmocka_unit_test(a_timeline_keeps_its_maxima),
        cmocka_unit_test(streams_do_not_share_blocks),
        cmocka_unit_test(classes_scale_the_head),
        cmocka_unit_test(scratch_counts_when_asked_for),
        cmocka_unit_test(empty_cache_gives_back),
        cmocka_unit_test(sizes_without_bytes_ask_for_nothing),
        cmocka_unit_test(huge_batches_are_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, drop_arena);
}
