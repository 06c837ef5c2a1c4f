// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/unit.h"
#include "predict/gpu/gpu.h"

static struct arena arena;
static struct gpu_catalogue cards;

static const struct gpu *found(const char *typed) {
    struct gpu_match match = {0};
    struct fail why = {0};
    if (gpu_find(&arena, &cards, str_of(typed), &match, &why) < 0) {
        fail_msg("%s: %s; %s", typed, why.message, why.hint);
    }
    return match.gpu;
}

static void every_card_is_found_by_name_and_key(void **state) {
    (void)state;
    assert_true(cards.count >= 153);
    for (ptrdiff_t i = 0; i < cards.count; i++) {
        const struct gpu *g = &cards.gpus[i];
        assert_ptr_equal(found(str_z(&arena, g->name)), g);
        assert_ptr_equal(found(str_z(&arena, g->key)), g);
        assert_ptr_equal(gpu_of_name(&cards, g->name, g->total_bytes), g);
    }
}

// What people type, and the GPU they mean.
static const struct {
    const char *typed, *key;
} typed_names[] = {
    {"rtx4090", "rtx_4090"},
    {"RTX 4090", "rtx_4090"},
    {"rtx_4090", "rtx_4090"},
    {"rtx-4090", "rtx_4090"},
    {"4090", "rtx_4090"},
    {"GeForce RTX 4090", "rtx_4090"},
    {"NVIDIA GeForce RTX 4090", "rtx_4090"},
    {"nvidia rtx 4090 24gb", "rtx_4090"},
    {"RTX4090-24G", "rtx_4090"},
    {"4090 laptop", "rtx_4090_laptop"},
    {"rtx4090laptop", "rtx_4090_laptop"},
    {"RTX 4090 Mobile", "rtx_4090_laptop"},
    {"4090m", "rtx_4090_laptop"},
    {"4090d", "rtx_4090_d"},
    {"rtx4080", "rtx_4080"},
    {"4080 super", "rtx_4080_super"},
    {"rtx4080super", "rtx_4080_super"},
    {"4080s", "rtx_4080_super"},
    {"4070 ti super", "rtx_4070_ti_super"},
    {"4070tis", "rtx_4070_ti_super"},
    {"rtx4070", "rtx_4070"},
    {"4070ti", "rtx_4070_ti"},
    {"4060ti", "rtx_4060_ti"},
    {"4060 Ti 16GB", "rtx_4060_ti_16gb"},
    {"rtx4060ti-16gb", "rtx_4060_ti_16gb"},
    {"rtx3090", "rtx_3090"},
    {"geforce 3090", "rtx_3090"},
    {"3090 Ti", "rtx_3090_ti"},
    {"RTX 3080 Ti", "rtx_3080_ti"},
    {"3080ti", "rtx_3080_ti"},
    {"rtx3080", "rtx_3080"},
    {"3080 12gb", "rtx_3080_12gb"},
    {"rtx 3080 10GB", "rtx_3080"},
    {"rtx 3080 16gb", "rtx_3080_laptop"},
    {"rtx3070", "rtx_3070"},
    {"rtx3060", "rtx_3060"},
    {"3060-12gb", "rtx_3060"},
    {"3060-8gb", "rtx_3060_8gb"},
    {"rtx30608gb", "rtx_3060_8gb"},
    {"3060 6gb", "rtx_3060_laptop"},
    {"rtx 3060 laptop gpu", "rtx_3060_laptop"},
    {"3060ti", "rtx_3060_ti"},
    {"2080ti", "rtx_2080_ti"},
    {"RTX 2080 Super", "rtx_2080_super"},
    {"gtx2080", "rtx_2080"},
    {"2070", "rtx_2070"},
    {"2060 12gb", "rtx_2060_12gb"},
    {"GTX 1660 Super", "gtx_1660_super"},
    {"1660ti", "gtx_1660_ti"},
    {"gtx1080", "gtx_1080"},
    {"gtx1080ti", "gtx_1080_ti"},
    {"1060", "gtx_1060_6gb"},
    {"1060 3gb", "gtx_1060_3gb"},
    {"titan v", "titan_v"},
    {"titanrtx", "titan_rtx"},
    {"titan xp", "titan_xp"},
    {"5090", "rtx_5090"},
    {"rtx5060ti16gb", "rtx_5060_ti_16gb"},
    {"a100", "a100_sxm4_40gb"},
    {"A100 40GB", "a100_sxm4_40gb"},
    {"a100-80gb", "a100_sxm4_80gb"},
    {"a100 80g", "a100_sxm4_80gb"},
    {"a10080gb", "a100_sxm4_80gb"},
    {"A100-SXM-80GB", "a100_sxm4_80gb"},
    {"a100 pcie 80gb", "a100_80gb_pcie"},
    {"a100 pcie", "a100_pcie_40gb"},
    {"v100", "v100_sxm2_16gb"},
    {"V100 32GB", "v100_sxm2_32gb"},
    {"v100-pcie", "v100_pcie_16gb"},
    {"tesla v100", "v100_sxm2_16gb"},
    {"v100s", "v100s_pcie_32gb"},
    {"t4", "t4"},
    {"Tesla T4", "t4"},
    {"nvidia-tesla-t4", "t4"},
    {"p100", "p100_pcie_16gb"},
    {"k80", "k80"},
    {"h100", "h100_80gb_hbm3"},
    {"h100 pcie", "h100_pcie"},
    {"h100pcie", "h100_pcie"},
    {"h100-sxm", "h100_80gb_hbm3"},
    {"h100sxm5", "h100_80gb_hbm3"},
    {"h100 nvl", "h100_nvl"},
    {"h200", "h200"},
    {"b200", "b200"},
    {"gh200", "gh200_480gb"},
    {"dgx spark", "gb10"},
    {"jetson orin", "jetson_agx_orin"},
    {"a10g", "a10g"},
    {"a10", "a10"},
    {"l4", "l4"},
    {"l40s", "l40s"},
    {"a6000", "rtx_a6000"},
    {"rtx a5000", "rtx_a5000"},
    {"rtx 6000 ada", "rtx_6000_ada"},
    {"6000 ada", "rtx_6000_ada"},
    {"Quadro RTX 8000", "quadro_rtx_8000"},
    {"rtx pro 6000", "rtx_pro_6000_blackwell_workstation"},
    {"mi300x", "mi300x"},
    {"7900xtx", "rx_7900_xtx"},
    {"gaudi2", "gaudi2"},
    {"arc a770", "arc_a770"},
    {"m2 ultra", "m2_ultra"},
    {"Apple M1 Max", "m1_max"},
};

static void cards_are_found_by_what_people_type(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof typed_names / sizeof *typed_names; i++) {
        const struct gpu *g = found(typed_names[i].typed);
        if (!str_is(g->key, typed_names[i].key)) {
            fail_msg("%s gives %.*s, not %s", typed_names[i].typed, STR_ARG(g->key),
                     typed_names[i].key);
        }
    }
}

static void a_name_of_several_cards_comes_with_a_note(void **state) {
    (void)state;
    struct gpu_match match;
    assert_int_equal(gpu_find(&arena, &cards, STR("rtx3060"), &match, NULL), 0);
    assert_str(match.note, "taken as NVIDIA GeForce RTX 3060 with 12 GB; other versions: "
                           "rtx_3060_8gb (8 GB), rtx_3060_laptop (6 GB)");
    assert_int_equal(gpu_find(&arena, &cards, STR("a100"), &match, NULL), 0);
    assert_true(str_find(match.note, STR("a100_sxm4_80gb (80 GB)")) > 0);
    static const char *const plain[] = {"3060-8gb", "3060 laptop",     "rtx4060ti 16gb",
                                        "t4",       "rtx_3060_laptop", "NVIDIA A100-SXM4-80GB",
                                        "h200"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        assert_int_equal(gpu_find(&arena, &cards, str_of(plain[i]), &match, NULL), 0);
        if (match.note.len) fail_msg("%s: %.*s", plain[i], STR_ARG(match.note));
    }
}

static void the_least_of_what_is_meant(void **state) {
    static const struct {
        const char *typed, *key;
    } least[] = {{"a100", "a100_sxm4_40gb"},  {"a100-80gb", "a100_sxm4_80gb"},
                 {"rtx3060", "rtx_3060"},     {"v100", "v100_pcie_16gb"},
                 {"gtx1060", "gtx_1060_3gb"}, {"rtx3080", "rtx_3080"}};
    (void)state;
    struct gpu_match match;
    for (size_t i = 0; i < sizeof least / sizeof *least; i++) {
        assert_int_equal(gpu_find(&arena, &cards, str_of(least[i].typed), &match, NULL), 0);
        if (!str_is(match.least->key, least[i].key))
            fail_msg("%s: %.*s", least[i].typed, STR_ARG(match.least->key));
    }
}

static void unknown_names_fail_with_near_ones(void **state) {
    (void)state;
    struct gpu_match match;
    struct fail why = {0};
    assert_int_equal(gpu_find(&arena, &cards, STR("rtx4091"), &match, &why), FAIL_INPUT);
    assert_string_equal(why.message, "no GPU \"rtx4091\" in the catalogue");
    assert_non_null(strstr(why.hint, "rtx_4090"));
    assert_int_equal(gpu_find(&arena, &cards, STR("2080ti-22gb"), &match, &why), FAIL_INPUT);
    assert_non_null(strstr(why.hint, "no version with 22 GB, but rtx_2080_ti;"));
    assert_int_equal(gpu_find(&arena, &cards, STR("24GB"), &match, &why), FAIL_INPUT);
    assert_non_null(strstr(why.hint, "--gpu-memory 24GiB"));
    static const char *const strange[] = {"",     "   ", "gpu",    "nvidia", "80gb", "\xff\xfe",
                                          "한국", "rtx", "laptop", "s",      "m",    "ti"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        why = (struct fail){0};
        assert_int_equal(gpu_find(&arena, &cards, str_of(strange[i]), &match, &why), FAIL_INPUT);
        assert_true(why.hint[0]);
    }
    char endless[4000];
    memset(endless, 'x', sizeof endless);
    struct str text = {endless, sizeof endless};
    assert_int_equal(gpu_find(&arena, &cards, text, &match, &why), FAIL_INPUT);
}

static void a_driver_s_name_and_its_memory_give_the_card(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t mib;
        const char *key;
    } cases[] = {
        {"GeForce GTX 1080 Ti", 11178, "gtx_1080_ti"},
        {"NVIDIA GeForce RTX 2060", 12288, "rtx_2060_12gb"},
        {"NVIDIA GeForce RTX 2060", 6144, "rtx_2060"},
        {"NVIDIA GeForce RTX 3060", 8192, "rtx_3060_8gb"},
        {"NVIDIA GeForce RTX 4060 Ti", 16380, "rtx_4060_ti_16gb"},
        {"NVIDIA GeForce RTX 3080", 12288, "rtx_3080_12gb"},
        {"A100-SXM4-40GB", 40536, "a100_sxm4_40gb"},
        {"NVIDIA GeForce RTX 3060 Laptop GPU", 6144, "rtx_3060_laptop"},
        {"NVIDIA H200", 143771, "h200"},
        {"NVIDIA GeForce RTX 4090", 0, "rtx_4090"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct gpu *g = gpu_of_name(&cards, str_of(cases[i].name), cases[i].mib * UNIT_MIB);
        assert_non_null(g);
        if (!str_is(g->key, cases[i].key)) {
            fail_msg("%s gives %.*s", cases[i].name, STR_ARG(g->key));
        }
    }
    assert_null(gpu_of_name(&cards, STR("NVIDIA GeForce RTX 9090"), 0));
}

static int load(void **state) {
    (void)state;
    return gpu_load(&arena, &cards, NULL);
}

static int drop(void **state) {
    (void)state;
    arena_clear(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_card_is_found_by_name_and_key),
        cmocka_unit_test(cards_are_found_by_what_people_type),
        cmocka_unit_test(a_name_of_several_cards_comes_with_a_note),
        cmocka_unit_test(the_least_of_what_is_meant),
        cmocka_unit_test(unknown_names_fail_with_near_ones),
        cmocka_unit_test(a_driver_s_name_and_its_memory_give_the_card),
    };
    return cmocka_run_group_tests(tests, load, drop);
}
