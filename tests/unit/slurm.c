// SPDX-License-Identifier: Apache-2.0
// What sinfo says of a cluster's GPUs, and which of them are asked for.
#include "unit.h"

#include "machine/slurm/slurm.h"

static struct slurm parsed(struct arena *a, const char *text) {
    struct slurm s = {0};
    struct fail why = {0};
    assert_int_equal(slurm_parse(a, str_of(text), &s, &why), 0);
    return s;
}

static void test_types(void **state) {
    ARENA_AUTO a = {0};
    (void)state;
    struct slurm s = parsed(&a, "n1|gpu|gpu*|up|idle|gpu:a100:4(S:0-1),shard:8\n"
                                "n1|long|long|up|idle|gpu:a100:4(S:0-1),shard:8\n"
                                "n2|gpu|gpu*|up|mixed~|gpu:A100:8(S:0,1),gpu:1g.5gb:7\n"
                                "n3|gpu|gpu*|up|down*|gpu:a100:8\n"
                                "n4|gpu|gpu*|up|idle*|gpu:a100:8\n"
                                "n5|shut|shut|down|idle|gpu:t4:1\n"
                                "n6|none|none|up|idle|(null)\n"
                                "n7|old|old|up|allocated|gpu:2\n"
                                "n8|one|one|up|idle|gpu\n");
    assert_int_equal(s.nodes, 8);
    assert_int_equal(s.count, 4);
    const struct slurm_type *a100 = &s.types[0];
    assert_true(str_is(a100->name, "a100"));
    assert_int_equal(a100->nodes, 2);
    assert_int_equal(a100->gpus, 12);
    assert_int_equal(a100->nodes_away, 2);
    assert_int_equal(a100->partitions.count, 2);
    assert_str(a100->in_default, "gpu");
    assert_true(str_is(s.types[1].name, "1g.5gb"));
    assert_int_equal(s.types[1].gpus, 7);
    assert_true(str_is(s.types[2].name, "t4"));
    assert_int_equal(s.types[2].partitions.count, 0);
    assert_int_equal(s.types[3].name.len, 0);
    assert_int_equal(s.types[3].gpus, 3);
    assert_int_equal(s.types[3].in_default.len, 0);
}

static void test_no_node(void **state) {
    ARENA_AUTO a = {0};
    struct slurm s;
    struct fail why = {0};
    (void)state;
    assert_int_equal(slurm_parse(&a, STR("NODELIST STATE\n"), &s, &why), FAIL_MACHINE);
    assert_non_null(strstr(why.message, "NODELIST STATE"));
    assert_int_equal(parsed(&a, "").count, 0);
}

static void test_slices(void **state) {
    static const struct {
        const char *type;
        int64_t gb; // 0: no slice
    } cases[] = {
        {"1g.5gb", 5},      {"1g.10gb", 10},       {"3G.20GB", 20},
        {"a100_1g.5gb", 5}, {"1g.10gb+me", 10},    {"nvidia_a100-sxm4-40gb_mig_2g.10gb", 10},
        {"7g_80gb", 80},    {"a100", 0},           {"a100-80gb", 0},
        {"a100-1g", 0},     {"h100_80gb_hbm3", 0}, {"", 0},
        {"1g.", 0},         {"1g.gb", 0},          {"99999999999999999999g.5gb", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t bytes = slurm_slice_bytes(str_of(cases[i].type));
        assert_int_equal(bytes, (cases[i].gb << 30) / 100 * 95);
    }
}

static void test_place(void **state) {
    ARENA_AUTO a = {0};
    static const struct {
        int64_t ranks, gpus, nodes; // gpus 0: not so many
    } cases[] = {{1, 1, 1}, {3, 3, 1}, {8, 8, 1}, {12, 4, 3}, {16, 4, 4}, {24, 0, 0}, {7, 7, 1}};
    (void)state;
    struct slurm s = parsed(&a, "n1|g|g*|up|idle|gpu:x:8\nn2|g|g*|up|idle|gpu:x:4\n"
                                "n3|g|g*|up|idle|gpu:x:4\nn4|g|g*|up|idle|gpu:x:4\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slurm_place place = {0};
        bool has = slurm_place(&a, &s.types[0], cases[i].ranks, &place);
        assert_int_equal(has, cases[i].gpus > 0);
        assert_int_equal(place.gpus, cases[i].gpus);
        assert_int_equal(place.nodes, cases[i].nodes);
        assert_int_equal(place.partitions.len, 0);
    }
}

// Two nodes of two partitions are never one job's.
static void test_place_in_partitions(void **state) {
    ARENA_AUTO a = {0};
    static const struct {
        int64_t ranks, gpus, nodes;
        const char *partitions;
    } cases[] = {{1, 1, 1, ""},     {4, 4, 1, ""},  {8, 4, 2, "all,pair"},
                 {12, 4, 3, "all"}, {16, 0, 0, ""}, {5, 0, 0, ""}};
    (void)state;
    struct slurm s = parsed(&a, "n1|gpu|gpu*|up|idle|gpu:x:4\nn1|all|all|up|idle|gpu:x:4\n"
                                "n2|all|all|up|idle|gpu:x:4\nn2|pair|pair|up|idle|gpu:x:4\n"
                                "n3|pair|pair|up|idle|gpu:x:4\nn3|all|all|up|idle|gpu:x:4\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slurm_place place = {0};
        bool has = slurm_place(&a, &s.types[0], cases[i].ranks, &place);
        assert_int_equal(has, cases[i].gpus > 0);
        assert_int_equal(place.gpus, cases[i].gpus);
        assert_int_equal(place.nodes, cases[i].nodes);
        assert_true(str_is(place.partitions, cases[i].partitions));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_no_node),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_place_in_partitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
