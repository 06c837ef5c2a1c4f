// SPDX-License-Identifier: Apache-2.0
// The time model on tapes and constants written here, so that every time can be added up by hand:
// a GPU of 100 TFLOP/s (10 in fp32) and 1 TB/s, shares of one half, 10 us a launch.
#include "unit.h"

#include "base/data.h"
#include "predict/speed/speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define assert_near(value, expected) assert_true(fabs((value) / (expected)-1) < 1e-6)

static const struct gpu card = {.key = {"toy", 3},
                                .compute_capability = 86,
                                .bandwidth = 1e12,
                                .fp32 = 1e13,
                                .tf32 = NAN,
                                .fp16 = 1e14,
                                .bf16 = 1e14,
                                .tdp_watts = 492, // holds its clock: 350 W / 71.2 x 100 TFLOP/s
                                .has_tensor_cores = true};

static struct speed_row row(void) {
    struct speed_row r = {.name = STR("toy-train"),
                          .cards = STR("other,toy"),
                          .mode = STR("train"),
                          .torch_min = 100,
                          .torch_max = 199,
                          .range = 1.25,
                          .range_doubtful = 2,
                          .range_other = 1.5,
                          .range_measured = 1.4};
    for (int i = 0; i < SPEED_CONSTANTS; i++) r.constants[i] = 0.5;
    // 1e13 / (2 x 128) cycles a second: half the bandwidth
    for (int i = SPEED_L_MM; i <= SPEED_L_DEPTHWISE_NHWC; i++) r.constants[i] = 12.8;
    r.constants[SPEED_L_DEPTHWISE_NHWC] = 1000;
    r.constants[SPEED_B_BN_NHWC] = 1;
    r.constants[SPEED_DEPTHWISE_WGRAD] = 2;
    r.constants[SPEED_F_BMM] = 0.25;
    r.constants[SPEED_F_WGRAD] = 1;
    r.constants[SPEED_F_GROUP_FEW] = 0.25;
    r.constants[SPEED_KNEE_GROUP] = 32;
    r.constants[SPEED_KNEE_GROUP_NHWC] = 8;
    r.constants[SPEED_B_HEAVY] = 0.1;
    r.constants[SPEED_KNEE_CHANNELS] = 64;
    r.constants[SPEED_ODD_CHANNELS] = 3;
    r.constants[SPEED_LAUNCH_US] = 10;
    return r;
}

#define HEAD                                                                                  \
    "{\"tape\":1,\"model\":\"python:toy:net\",\"mode\":\"train\",\"precision\":\"amp-fp16\"," \
    "\"rules\":\"1.12\",\"accumulation\":1,\"batches\":[2,4]}\n"

static struct speed speed_of(struct arena *a, const char *text, int64_t batch, int64_t accumulation,
                             struct speed_row r, const struct gpu *g) {
    struct tape tape;
    struct fail why = {0};
    struct speed s;
    if (tape_read(a, STR("t"), str_of(text), &tape, &why) < 0) fail_msg("%s", why.message);
    const struct speed_table table = {.rows = &r, .count = 1};
    const struct speed_run run = {&tape, batch, accumulation, g, 0};
    if (!speed_at(&table, &run, &s)) s.row = NULL;
    return s;
}

static double us_of(const char *work, int64_t batch) {
    ARENA_AUTO a = {0};
    char text[1024];
    snprintf(text, sizeof text, HEAD "m forward 1\n%s\n", work);
    struct speed s = speed_of(&a, text, batch, 1, row(), &card);
    return s.row ? s.step_s * 1e6 : NAN;
}

// Bytes at half of 1 TB/s: 1e9 bytes are 2000 us; flops at half of 100 TFLOP/s: 1e11 are 2000 us.
static const struct {
    const char *work;
    int64_t batch;
    double us;
} by_hand[] = {
    {"o elem 0 0 0 1000000 1 dtype=f16", 1000, 2000 + 10},
    {"o elem 0 0 0 1000000 7 dtype=f16", 1000, 7 * (2000 + 10)},
    {"o opt 0 0 1000000000 0 1 dtype=f32", 1, 2000 + 10},
    // batch norm is two launches, and full bandwidth with channels_last
    {"o bn_fwd 0 0 1000000000 0 1 dtype=f16", 1, 2000 + 20},
    {"o bn_bwd 0 0 1000000000 0 1 dtype=f16 layout=nhwc", 1, 1000 + 20},
    // arithmetic decides: k = n = 64 is twice over the knee of 64 in both, 4 x 2000
    {"o mm 0 100000000000 0 8 1 dtype=f16 m=0+2B n=64 k=64", 1, 4 * 2000 + 10},
    // fp32 matrix products at 10 TFLOP/s
    {"o mm 0 100000000000 0 8 1 dtype=f32 m=2 n=64 k=64", 1, 40 * 2000 + 10},
    // a side that grows with the batch: k = 32 B = 64
    {"o bmm 0 50000000000 0 8 1 dtype=f16 m=2 n=64 k=0+32B count=3", 2,
     2 * 4 * 2000 + 10}, // a quarter of the peak
    {"o attention 100000000000 0 8 0 1 dtype=f16", 1, 2000 + 10},
    {"o conv_fwd 100000000000 0 8 0 1 dtype=f16 groups=1 cin=64 cout=64 kernel=9 stride=1 "
     "out=9",
     1, 4 * 2000 + 10},
    {"o conv_wgrad 100000000000 0 8 0 1 dtype=f16 groups=1 cin=64 cout=64 kernel=9 stride=1 "
     "out=9",
     1, 4 * 1000 + 10},
    {"o heavy 0 0 1000000000 0 1 dtype=f16", 1, 10000 + 10},
    // 12 is no multiple of 8; (1 + 64/12) (1 + 64/64) x 3; 12 x 9 are read in steps of 32
    {"o conv_fwd 100000000000 0 8 0 1 dtype=f16 groups=1 cin=12 cout=64 kernel=9 stride=1 "
     "out=9",
     1, 2000 * (1 + 64.0 / 12) * 2 * 3 * 128 / 108 + 10},
    // three channels of an image are not meant
    {"o conv_fwd 100000000000 0 8 0 1 dtype=f16 groups=1 cin=3 cout=64 kernel=9 stride=1 out=9", 1,
     2000 * (1 + 64.0 / 3) * 2 * 32 / 27 + 10},
    // tiles of 64 outputs: 96 count as 128; inputs are outputs where gradients go back
    {"o conv_fwd 100000000000 0 8 0 1 dtype=f16 groups=1 cin=64 cout=96 kernel=1 stride=1 "
     "out=9",
     1, 2000 * 2 * (1 + 64.0 / 96) * 128 / 96 + 10},
    {"o conv_dgrad 100000000000 0 8 0 1 dtype=f16 groups=1 cin=64 cout=96 kernel=1 stride=1 "
     "out=9",
     1, 2000 * 2 * (1 + 64.0 / 96) + 10},
    // the weight's gradient in tiles both ways: 32 inputs count as 64
    {"o conv_wgrad 100000000000 0 8 0 1 dtype=f16 groups=1 cin=32 cout=96 kernel=1 stride=1 "
     "out=9",
     1, 1000 * 3 * (1 + 64.0 / 96) * 2 * 128 / 96 + 10},
    // grouped: a knee of its own, by the 32 inputs of a group
    {"o conv_dgrad 100000000000 0 8 0 1 dtype=f16 groups=2 cin=64 cout=64 kernel=9 stride=1 "
     "out=9",
     1, 2 * 2000 + 10},
    {"o conv_dgrad 100000000000 0 8 0 1 dtype=f16 layout=nhwc groups=2 cin=64 cout=64 kernel=9 "
     "stride=1 out=9",
     1, 2500 + 10},
    // channels_last with 32 groups of 8 has a kernel of its own; 8 in and 16 out has none
    {"o conv_fwd 100000000000 0 8 0 1 dtype=f16 layout=nhwc groups=32 cin=256 cout=256 "
     "kernel=9 "
     "stride=1 out=9",
     1, 2 * 4000 + 10},
    {"o conv_fwd 100000000000 0 8 0 1 dtype=f16 layout=nhwc groups=32 cin=256 cout=512 "
     "kernel=9 "
     "stride=1 out=9",
     1, 2 * 2000 + 10},
    // depthwise, where the multiprocessors could do more than the memory gives
    {"o conv_fwd 100000000000 0 1000000000 0 1 dtype=f16 layout=nhwc groups=64 cin=64 cout=64 "
     "kernel=9 stride=1 out=9",
     1, 1000 + 10},
    // depthwise: bytes only, the weight gradient twice
    {"o conv_fwd 100000000000 0 1000000000 0 1 dtype=f16 groups=64 cin=64 cout=64 kernel=9 "
     "stride=1 "
     "out=9",
     1, 2000 + 10},
    {"o conv_wgrad 100000000000 0 1000000000 0 1 dtype=f16 groups=64 cin=64 cout=64 kernel=9 "
     "stride=1 out=9",
     1, 4000 + 10},
};

static void kernels_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++) {
        double us = us_of(by_hand[i].work, by_hand[i].batch);
        if (!(fabs(us - by_hand[i].us) < 1e-6 * by_hand[i].us)) {
            fail_msg("%s: %g us, expected %g", by_hand[i].work, us, by_hand[i].us);
        }
    }
}

// Forward 2010 us and optimizer 2010 us.
static const char step[] = HEAD "m forward 1\no elem 0 0 0 1000000000 1\n"
                                "m optimizer 1\no opt 0 0 1000000000 0 1\n";

static void micro_steps_repeat_all_but_the_update(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct speed s = speed_of(&a, step, 1, 1, row(), &card);
    assert_near(s.step_s * 1e6, 4020);
    assert_near(s.samples_per_s, 1 / 4020e-6);
    s = speed_of(&a, step, 1, 3, row(), &card);
    assert_near(s.step_s * 1e6, 3 * 2010 + 2010);
    assert_near(s.samples_per_s, 3 / 8040e-6);
}

static void ranges_by_card_and_software(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct gpu unknown = card;
    unknown.key = STR("nobody");
    struct speed s = speed_of(&a, step, 1, 1, row(), &card);
    assert_true(s.is_fitted && !s.is_doubtful && !s.is_host_bound);
    assert_near(s.low, s.samples_per_s / 1.25);
    assert_near(s.high, s.samples_per_s * 1.25);
    s = speed_of(&a, step, 1, 1, row(), &unknown);
    assert_false(s.is_fitted);
    assert_near(s.high, s.samples_per_s * 1.5);
    struct speed_row newer = row();
    newer.torch_min = 200, newer.torch_max = 299;
    s = speed_of(&a, step, 1, 1, newer, &card);
    assert_false(s.is_fitted);
    assert_near(s.low, s.samples_per_s / 1.5);
    speed_calibrate(&s, 2, 1.4);
    assert_near(s.step_s * 1e6, 2010);
    assert_near(s.high, 2 / 4020e-6 * 1.4);
}

// An eighth of the watts that the GPU needs leaves half of its clock: to tensor cores and to loads
// of kernels that multiply, not to the memory, nor to what is computed in fp32.
static void a_power_limit_takes_clock(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct {
        const char *work;
        double us, held_us;
    } cases[] = {
        {"o attention 100000000000 0 8 0 1 dtype=f16", 2010, 4010},
        {"o mm 8 0 0 1000000000 1 dtype=f16 m=2 n=64 k=64", 2010, 4010},
        {"o elem 0 0 0 1000000000 1 dtype=f16", 2010, 2010},
        {"o attention 10000000000 0 8 0 1 dtype=f32", 2010, 2010},
    };
    struct gpu held = card, other = card, unknown = card;
    held.tdp_watts = 350 / 71.2 * 100 / 8;
    other = held;
    other.compute_capability = 90; // no GPU of its process to compare with
    unknown.tdp_watts = NAN;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, HEAD "m forward 1\n%s\n", cases[i].work);
        assert_near(speed_of(&a, text, 1, 1, row(), &card).step_s * 1e6, cases[i].us);
        assert_near(speed_of(&a, text, 1, 1, row(), &held).step_s * 1e6, cases[i].held_us);
        assert_near(speed_of(&a, text, 1, 1, row(), &other).step_s * 1e6, cases[i].us);
        assert_near(speed_of(&a, text, 1, 1, row(), &unknown).step_s * 1e6, cases[i].us);
    }
}

static void doubt_is_a_share_of_the_time(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const char grouped[] = HEAD "m forward 1\no elem 0 0 0 1000000000 9\n"
                                       "o conv_fwd ";
    static const char grouped_end[] =
        " 0 8 0 1 dtype=f16 layout=nhwc groups=2 cin=64 cout=64 kernel=9 "
        "stride=1 out=9\n";
    static const struct {
        const char *flops;
        bool is_doubtful;
    } cases[] = {{"79000000000", false},
                 {"81000000000", true}}; // 1985 or 2035 us beside nine times 2010
    for (int i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s%s", grouped, cases[i].flops, grouped_end);
        struct speed s = speed_of(&a, text, 1, 1, row(), &card);
        assert_int_equal(s.is_doubtful, cases[i].is_doubtful);
        assert_near(s.high, s.samples_per_s * (cases[i].is_doubtful ? 2 : 1.25));
    }
}

// The host needs 10 us a kernel; a kernel of B bytes needs B / 5e11 + 10 us.
static void below_the_knee_only_a_bound(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct speed_row r = row();
    r.host_us = 10;
    static const char small[] = HEAD "m forward 1\no elem 0 0 0 1000000 5\n"; // 2 us a sample
    struct speed s = speed_of(&a, small, 4, 1, r, &card);
    assert_true(s.is_host_bound); // 5 x 18 us < 2 x 50 us
    assert_true(isnan(s.low));
    assert_near(s.high, 4 / 90e-6 * 1.25);
    s = speed_of(&a, small, 6, 1, r, &card);
    assert_false(s.is_host_bound); // 5 x 22 us
}

static void nothing_is_said_without_facts(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct gpu blank = card;
    blank.bandwidth = NAN;
    assert_null(speed_of(&a, step, 1, 1, row(), &blank).row);
    assert_null(speed_of(&a, HEAD "m forward 1\n", 1, 1, row(), &card).row);
    struct speed_row other = row();
    other.mode = STR("inference");
    assert_null(speed_of(&a, step, 1, 1, other, &card).row);
}

static void the_shipped_table_reads(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct speed_table t;
    struct fail why = {0};
    unsetenv("BATCHFIT_DATA");
    if (speed_load(&a, &t, &why) < 0) fail_msg("%s", why.message);
    assert_true(t.count > 0);
    for (ptrdiff_t i = 0; i < t.count; i++) {
        assert_true(t.rows[i].from.len > 0 && t.rows[i].cards.len > 0);
        for (int k = 0; k <= SPEED_B_HEAVY; k++) {
            assert_true(t.rows[i].constants[k] <= 1.15); // no share is above the hardware's
        }
    }
}

// The user's table wins, and what is wrong in it is named.
static void a_bad_table_is_refused(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    char folder[] = "/tmp/batchfit-unit-XXXXXX", path[64];
    struct speed_table t;
    struct fail why = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/speed.tsv", folder);
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"name\tmode\nx\tsideways\n", "mode is \"sideways\", neither train nor inference"},
        {"name\tmode\trange\nx\ttrain\t0.5\n", "range is \"0.5\", not a number from 1 to 100"},
        {"name\tmode\nx\ttrain\n", "range is \"\", not a number from 1 to 100"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FILE *f = fopen(path, "w");
        fputs(cases[i].text, f);
        fclose(f);
        setenv("BATCHFIT_DATA", folder, 1);
        assert_int_equal(speed_load(&a, &t, &why), FAIL_INPUT);
        if (!strstr(why.message, cases[i].message)) fail_msg("%s", why.message);
    }
    unsetenv("BATCHFIT_DATA");
    unlink(path);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_by_hand),
        cmocka_unit_test(micro_steps_repeat_all_but_the_update),
        cmocka_unit_test(ranges_by_card_and_software),
        cmocka_unit_test(a_power_limit_takes_clock),
        cmocka_unit_test(doubt_is_a_share_of_the_time),
        cmocka_unit_test(below_the_knee_only_a_bound),
        cmocka_unit_test(nothing_is_said_without_facts),
        cmocka_unit_test(the_shipped_table_reads),
        cmocka_unit_test(a_bad_table_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
