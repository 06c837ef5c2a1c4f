// SPDX-License-Identifier: Apache-2.0
// The time of language models and of collectives, with constants chosen so that it can be added up
// by hand: a GPU of 100 TFLOP/s and 1 TB/s, shares of one half, eight in a machine at 100 GB/s, 40
// GB/s from a machine to the next.
#include "unit.h"

#include "predict/speed/speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define assert_near(value, expected) assert_true(fabs((value) / (expected)-1) < 1e-6)

static const struct gpu card = {.key = {"toy", 3},
                                .compute_capability = 90,
                                .pcie_gen = 5,
                                .bandwidth = 1e12,
                                .fp32 = 1e13,
                                .fp16 = 1e14,
                                .bf16 = 1e14,
                                .has_tensor_cores = true};
static struct speed_link toy_link = {.cards = {"toy", 3},
                                     .link = {"Toylink", 7},
                                     .is_nvlink = true,
                                     .machine = 8,
                                     .bus = 100e9,
                                     .net = 40e9};
static struct speed_tokens_row toy_row = {
    .row = {.name = {"toy-tokens", 10}, .cards = {"toy", 3}, .range = 1.25, .range_other = 2},
    .constants = {
        [SPEED_TOKENS_LINEAR] = 0.5, [SPEED_TOKENS_ATTENTION] = 0.5, [SPEED_TOKENS_MOVED] = 0.5}};

static struct speed_tokens_table table(void) {
    return (struct speed_tokens_table){.rows = &toy_row, .count = 1, .links = {&toy_link, 1, 1}};
}

// A million parameters and an embedding of their own, which is looked up: 1.1e6 in all.
static const struct shape shape = {.hidden = 100,
                                   .layers = 10,
                                   .heads = 4,
                                   .kv_heads = 4,
                                   .head_dim = 25,
                                   .intermediate = 400,
                                   .vocabulary = 1000,
                                   .parameters = 1100000};

static struct speed at(struct plan plan, struct speed_seen seen) {
    struct speed_tokens_table t = table();
    struct speed_tokens_run run = {&plan, &shape, &card, seen};
    struct speed s;
    assert_true(speed_tokens_at(&t, &run, &s));
    return s;
}

static struct plan plan(int64_t ranks, struct str shard) {
    return (struct plan){.batch = 10,
                         .accumulation = 1,
                         .sequence_length = 1000,
                         .ranks = ranks,
                         .shard = shard,
                         .precision = PLAN_BF16};
}

static void one_gpu_by_hand(void **state) {
    (void)state;
    struct speed s = at(plan(1, (struct str){0}), (struct speed_seen){.bytes = 1e9});
    // 6 x 1e6 a token; attention 4 x 1000 x 100 x 10 / 2, three and a half times
    double linear = 1e4 * 6e6 / 5e13, attention = 1e4 * 3.5 * 2e6 / 5e13, moved = 1e9 / 5e11;
    double update = 28 * 1.1e6 / 5e11;
    assert_near(s.step_s, linear + attention + moved + update);
    assert_near(s.samples_per_s, 10 / s.step_s);
    assert_near(s.high, s.samples_per_s * 1.25);
    assert_near(s.mfu, (6e6 + 12e6) * 1e4 / s.step_s / 1e14);
    assert_int_equal(s.gpus, 1);
    assert_true(s.waits_s == 0 && s.is_fitted);
}

static void what_is_computed_again_costs_and_is_of_no_use(void **state) {
    (void)state;
    struct speed_seen seen = {.bytes = 1e9};
    double before = at(plan(1, (struct str){0}), seen).step_s;
    seen.linear_again = seen.attention_again = 1;
    struct speed s = at(plan(1, (struct str){0}), seen);
    // All but the head's 100,000 parameters
    assert_near(s.step_s - before, 1e4 * (2 * 9e5 + 2e6) / 5e13);
    assert_near(s.mfu, 18e6 * 1e4 / s.step_s / 1e14);
}

static void frozen_weights_have_no_gradient(void **state) {
    (void)state;
    struct plan p = plan(1, (struct str){0});
    p.adapter = STR("lora:1");
    struct speed s = at(p, (struct speed_seen){.bytes = 1e9});
    // rank x (inputs + outputs) of four sides of 100 and three of 100 and 400, in ten layers
    double adapter = 10 * (4 * 200 + 3 * 500);
    double work = 2 * (2 * 1e6 + 3 * adapter) + 7e6;
    assert_near(s.step_s, 1e4 * work / 5e13 + 2e-3 + 28 * adapter / 5e11);
}

// By its sides, whatever the family calls it.
static void an_adapter_has_the_parameters_of_its_layers(void **state) {
    (void)state;
    static const struct {
        const char *targets;
        double sides;
    } cases[] = {
        {"lora:1", 4 * 200 + 3 * 500},
        {"lora:1:q_proj,v_proj", 200 + 200},
        {"lora:1:q_proj,k_proj,v_proj,o_proj", 4 * 200},
        {"lora:1:gate_proj,up_proj,down_proj", 3 * 500},
        {"lora:1:qkv_proj,o_proj,gate_up_proj,down_proj", 400 + 200 + 900 + 500},
        {"lora:1:query_key_value", 400},
        {"lora:1:c_attn", 400},
        {"lora:1:c_attn,c_proj,c_fc", 400 + 200 + 500 + 500},
        {"lora:1:q,v", 200 + 200},
        {"lora:1:fc1,fc2", 2 * 500},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan p = plan(1, (struct str){0});
        p.adapter = str_of(cases[i].targets);
        double adapter = 10 * cases[i].sides;
        double work = 2 * (2 * 1e6 + 3 * adapter) + 7e6;
        assert_near(at(p, (struct speed_seen){.bytes = 1e9}).step_s,
                    1e4 * work / 5e13 + 2e-3 + 28 * adapter / 5e11);
    }
}

static void rings_trees_and_machines(void **state) {
    (void)state;
    struct speed_group eight = {&toy_link, 8, 1}, sixteen = {&toy_link, 16, 1},
                       rail = {&toy_link, 4, 8};
    double call = 8.4e-6;
    // 7/8 of 8 GB at 100 GB/s, and seven hops
    assert_near(speed_collective_s(&eight, SPEED_ALL_GATHER, 8e9, 1), 0.07 + 7 * 3.4e-6 + call);
    assert_near(speed_collective_s(&eight, SPEED_REDUCE_SCATTER, 8e9, 10),
                0.07 + 10 * (7 * 3.4e-6 + call));
    // Twice a ring; a tree is slower for so many bytes, but faster for few on many machines
    assert_near(speed_collective_s(&eight, SPEED_ALL_REDUCE, 8e9, 1),
                2 * (0.07 + 7 * 3.4e-6) + call);
    struct speed_group many = {&toy_link, 1024, 1};
    assert_near(speed_collective_s(&many, SPEED_ALL_REDUCE, 1e3, 1),
                2 * (1e3 / 36e9 + 7 * 28e-6 + 7 * 50e-6) + call);
    // 40 GB/s from machine to machine, of which one GPU of each has an eighth
    assert_near(speed_collective_s(&sixteen, SPEED_ALL_GATHER, 8e9, 1),
                8e9 * 15 / 16 / 40e9 + 14 * 3.4e-6 + 9.6e-6 + call);
    assert_near(speed_collective_s(&rail, SPEED_ALL_GATHER, 8e9, 1),
                8e9 * 3 / 4 / 5e9 + 3 * 9.6e-6 + call);
    assert_true(
        speed_collective_s(&(struct speed_group){&toy_link, 1, 1}, SPEED_ALL_GATHER, 8e9, 1) == 0);
}

static void gathering_hides_behind_computing_or_not(void **state) {
    (void)state;
    struct speed_seen much = {.bytes = 1e12}, little = {.bytes = 1};
    struct speed_group g = {&toy_link, 8, 1};
    double gather = speed_collective_s(&g, SPEED_ALL_GATHER, 2.2e6, 10);
    double sum = speed_collective_s(&g, SPEED_REDUCE_SCATTER, 2.2e6, 10);
    struct speed s = at(plan(8, STR("fsdp2")), much);
    assert_near(s.waits_s, (2 * gather + sum) / 10);
    assert_int_equal(s.gpus, 8);
    struct plan p = plan(8, STR("fsdp2"));
    p.batch = 1;
    p.sequence_length = 1;
    s = at(p, little);
    assert_true(s.waits_s > 2 * gather + sum);
    // Whole gradients stay until the last micro-step: they are summed once
    p.accumulation = 4;
    double per_step = at(p, little).waits_s;
    assert_true(per_step > 8 * gather + sum && per_step < 8 * gather + 2 * sum);
}

static void every_way_to_share_waits(void **state) {
    (void)state;
    struct speed_seen much = {.bytes = 1e12};
    struct speed_group g = {&toy_link, 8, 1};
    double sum = speed_collective_s(&g, SPEED_ALL_REDUCE, 2.2e6, 1),
           gather = speed_collective_s(&g, SPEED_ALL_GATHER, 2.2e6, 1);
    assert_near(at(plan(8, (struct str){0}), much).waits_s, sum); // DDP's only bucket is its last
    assert_near(at(plan(8, STR("zero1")), much).waits_s, sum + gather);
    assert_near(at(plan(8, STR("zero2:auto:overlap")), much).waits_s, gather);
    struct plan p = plan(8, STR("zero2"));
    p.accumulation = 3;
    assert_near(at(p, much).waits_s, 3 * sum + gather);
}

static void layers_that_are_split_wait_for_each_other(void **state) {
    (void)state;
    struct speed_seen seen = {.bytes = 1e9};
    struct plan p = plan(2, STR("titan"));
    p.tensor_parallel = 4;
    struct speed s = at(p, seen);
    struct speed_group four = {&toy_link, 4, 1}, two = {&toy_link, 2, 4};
    // The batch's 10,000 tokens, 100 wide, in two bytes: gathered and summed four times a layer
    double split = 10 * 4 *
                   (speed_collective_s(&four, SPEED_ALL_GATHER, 2e6, 1) +
                    speed_collective_s(&four, SPEED_REDUCE_SCATTER, 2e6, 1));
    // A quarter of the weights in two bytes, and of the gradients in four
    double gather = speed_collective_s(&two, SPEED_ALL_GATHER, 2.2e6 / 4, 10),
           sum = speed_collective_s(&two, SPEED_REDUCE_SCATTER, 4.4e6 / 4, 10);
    assert_near(s.waits_s, split + (2 * gather + sum) / 10);
    assert_near(s.step_s - s.waits_s, 1e4 / 4 * 13e6 / 5e13 + 2e-3 + 28 * 1.1e6 / 8 / 5e11);
    assert_int_equal(s.gpus, 8);
    assert_near(s.samples_per_s * s.tokens * 8, 2 * 1e4 / s.step_s);
}

static void a_tape_says_what_is_moved_and_done_again(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape t;
    struct fail why = {0};
    static const char text[] =
        "{\"tape\":1,\"model\":\"x\",\"batches\":[2],\"steps\":2,\"accumulation\":1}\n"
        "m forward 0\na 1 0 1000 activation mul\nf 1\n"
        "m forward 1\na 2 0 10 activation mul\nf 2\na 3 0 7 activation mm\nf 3\n"
        "a 4 0 7 activation _scaled_dot_product_flash_attention\nf 4\n"
        "m backward 1\na 5 0 7 gradient mm\nf 5\na 6 0 7 gradient mm\nf 6\na 7 0 7 activation "
        "mm\nf 7\n"
        "a 8 0 7 activation _scaled_dot_product_flash_attention_backward\nf 8\n"
        "a 9 3 0 temporary fsdp.all_gather\nf 9\n"
        "m optimizer 1\na 10 0 1000 temporary mul\nf 10\n";
    if (tape_read(&a, STR("t"), str_of(text), &t, &why) < 0) fail_msg("%s", why.message);
    struct speed_seen seen = speed_seen_of(&t, 2);
    assert_near(seen.bytes, 2.5 * 20 + 3);
    assert_near(seen.linear_again, 1);
    assert_true(seen.attention_again == 0);
    assert_near(seen.kernels, 8);
}

static void a_gpu_nobody_connected_says_nothing(void **state) {
    (void)state;
    struct speed_tokens_table t = table();
    struct gpu other = card;
    struct plan p = plan(8, STR("fsdp2"));
    struct speed s;
    other.key = STR("other");
    struct speed_tokens_run run = {&p, &shape, &other, {.bytes = 1e9}};
    assert_true(speed_tokens_at(&t, &run, &s)); // PCIe 5: four times 12 GB/s
    assert_near(s.link.bus, 48e9);
    assert_true(!s.is_fitted);
    assert_near(s.high, s.samples_per_s * 2);
    other.compute_capability = 0; // AMD's
    assert_false(speed_tokens_at(&t, &run, &s));
}

static void bad_tables_are_refused(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    char folder[] = "/tmp/batchfit-unit-XXXXXX", path[64];
    struct speed_tokens_table t;
    struct fail why = {0};
    assert_non_null(mkdtemp(folder));
    static const struct {
        const char *file, *text, *message;
    } cases[] = {{"links.tsv", "cards\tgbs\tmachine\tnetwork_gbs\nx\tfast\t8\t1\n",
                  "gbs is \"fast\", not a number above 0"},
                 {"tokens.tsv",
                  "name\trange\trange_other\trange_measured\thost_us\nx\t1\t1\t1\t1\n",
                  "f_linear is \"\""}};
    setenv("BATCHFIT_DATA", folder, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, cases[i].file);
        FILE *f = fopen(path, "w");
        fputs(cases[i].text, f);
        fclose(f);
        assert_int_equal(speed_tokens_load(&a, &t, &why), FAIL_INPUT);
        if (!strstr(why.message, cases[i].message)) fail_msg("%s", why.message);
        unlink(path);
    }
    unsetenv("BATCHFIT_DATA");
    rmdir(folder);
}

static void the_shipped_tables_read(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct speed_tokens_table t;
    struct fail why = {0};
    if (speed_tokens_load(&a, &t, &why) < 0) fail_msg("%s", why.message);
    assert_true(t.count >= 2 && t.links.count >= 5);
    for (ptrdiff_t i = 0; i < t.count; i++) assert_true(t.rows[i].row.note.len > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_gpu_by_hand),
        cmocka_unit_test(what_is_computed_again_costs_and_is_of_no_use),
        cmocka_unit_test(frozen_weights_have_no_gradient),
        cmocka_unit_test(an_adapter_has_the_parameters_of_its_layers),
        cmocka_unit_test(rings_trees_and_machines),
        cmocka_unit_test(gathering_hides_behind_computing_or_not),
        cmocka_unit_test(every_way_to_share_waits),
        cmocka_unit_test(layers_that_are_split_wait_for_each_other),
        cmocka_unit_test(a_tape_says_what_is_moved_and_done_again),
        cmocka_unit_test(a_gpu_nobody_connected_says_nothing),
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(the_shipped_tables_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
