// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/unit.h"
#include "predict/gpu/gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct arena arena;
static struct gpu_catalogue cards;

static const struct gpu *card(const char *typed) {
    struct gpu_match match = {0};
    assert_int_equal(gpu_find(&arena, &cards, str_of(typed), &match, NULL), 0);
    return match.gpu;
}

static void tiers_are_those_of_the_team_s_guide(void **state) {
    (void)state;
    static const struct {
        const char *typed;
        enum gpu_tier tier;
    } cases[] = {
        {"rtx4090", GPU_HIGH_END},    {"rtx4080", GPU_HIGH_END},
        {"rtx3090", GPU_HIGH_END},    {"a100", GPU_HIGH_END},
        {"a100-80gb", GPU_HIGH_END},  {"v100", GPU_HIGH_END},
        {"v100-32gb", GPU_HIGH_END},  {"rtx4080 super", GPU_HIGH_END},
        {"h200", GPU_HIGH_END},       {"a30", GPU_HIGH_END},
        {"rtx3080", GPU_MID_RANGE},   {"rtx3070", GPU_MID_RANGE},
        {"rtx3070ti", GPU_MID_RANGE}, {"rtx4070", GPU_MID_RANGE},
        {"2080ti", GPU_MID_RANGE},    {"rtx3060", GPU_BUDGET},
        {"3060-8gb", GPU_BUDGET},     {"rtx2070", GPU_BUDGET},
        {"rtx2080", GPU_BUDGET},      {"t4", GPU_BUDGET},
        {"gtx1660", GPU_LOW_END},     {"gtx1660ti", GPU_LOW_END},
        {"gtx1080", GPU_LOW_END},     {"gtx1080ti", GPU_LOW_END},
        {"gtx1070", GPU_LOW_END},     {"rtx2060", GPU_LOW_END},
        {"k80", GPU_LOW_END},         {"p100", GPU_LOW_END},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum gpu_tier tier = gpu_tier(card(cases[i].typed));
        if (tier != cases[i].tier) fail_msg("%s is %s", cases[i].typed, gpu_tier_name(tier));
    }
}

static void margins_are_those_of_the_team_s_guide(void **state) {
    (void)state;
    assert_true(gpu_tier_margin(GPU_HIGH_END) == 0.20);
    assert_true(gpu_tier_margin(GPU_MID_RANGE) == 0.20);
    assert_true(gpu_tier_margin(GPU_BUDGET) == 0.15);
    assert_true(gpu_tier_margin(GPU_LOW_END) == 0.10);
    assert_string_equal(gpu_tier_name(GPU_HIGH_END), "high_end");
    assert_string_equal(gpu_tier_name(GPU_LOW_END), "low_end");
}

static void facts_are_within_reason(void **state) {
    (void)state;
    for (ptrdiff_t i = 0; i < cards.count; i++) {
        const struct gpu *g = &cards.gpus[i];
        const char *name = str_z(&arena, g->name);
        double nominal = g->nominal_gb * (double)UNIT_GIB;
        if (fabs((double)g->total_bytes - nominal) > 0.08 * nominal) fail_msg("%s: total", name);
        bool is_usable = g->usable_bytes <= g->total_bytes &&
                         (double)g->usable_bytes > 0.92 * (double)g->total_bytes;
        if (!is_usable) fail_msg("%s: usable", name);
        assert_true(g->usable_source.len > 0);
        if (!(g->bandwidth > 90e9 && g->bandwidth < 1e13)) fail_msg("%s: bandwidth", name);
        bool is_nvidia = str_is(g->vendor, "NVIDIA");
        if (is_nvidia != (g->compute_capability > 0)) fail_msg("%s: capability", name);
        if (is_nvidia && g->compute_capability >= 80 && !g->has_bf16) fail_msg("%s: bf16", name);
        if (is_nvidia && g->compute_capability < 80 && g->has_bf16) fail_msg("%s: bf16", name);
    }
    assert_int_equal(card("rtx3090")->total_bytes, 24576 * UNIT_MIB);
    assert_int_equal(card("rtx3090")->usable_bytes, 24268 * UNIT_MIB);
    assert_true(card("rtx3090")->total_is_verified);
    assert_true(isnan(card("gtx1080")->bf16));
    assert_true(card("h200")->bandwidth == 4800e9);
}

static void a_card_can_be_made_of_its_memory(void **state) {
    (void)state;
    struct gpu six = gpu_custom(NULL, 6 * UNIT_GIB);
    assert_int_equal(six.usable_bytes, 6 * UNIT_GIB);
    assert_true(six.is_custom && isnan(six.fp32));
    assert_int_equal(gpu_tier(&six), GPU_LOW_END);
    struct gpu big = gpu_custom(NULL, 24 * UNIT_GIB);
    assert_int_equal(gpu_tier(&big), GPU_HIGH_END);
    struct gpu modded = gpu_custom(card("rtx2080ti"), 22 * UNIT_GIB);
    assert_int_equal(modded.sms, 68);
    assert_int_equal(modded.nominal_gb, 22);
}

static struct gpu_overhead overhead(const char *typed, struct gpu_software software) {
    struct gpu_overhead o;
    gpu_overhead(&arena, &cards, typed ? card(typed) : NULL, &software, &o);
    assert_true(o.low_bytes <= o.bytes && o.bytes <= o.high_bytes);
    assert_true(o.source.len > 0);
    return o;
}

static double mib(int64_t bytes) {
    return (double)bytes / (double)UNIT_MIB;
}

static void overheads_by_card_and_software(void **state) {
    (void)state;
    struct gpu_software old = {.torch = 107, .cuda = 1100};
    assert_int_equal(overhead("rtx3090", old).bytes, 1487 * UNIT_MIB);
    struct gpu_software timm = {.torch = 112, .cuda = 1103, .uses_cudnn = true};
    assert_int_equal(overhead("rtx3090", timm).bytes, (1487 + 386) * UNIT_MIB);
    struct gpu_software lab = {.torch = 204, .loading = GPU_LOADING_EAGER, .uses_cudnn = true};
    assert_int_equal(overhead("a100", lab).bytes, (1421 + 322) * UNIT_MIB);
    struct gpu_software modern = {0};
    assert_true(fabs(mib(overhead("t4", modern).bytes) - 157) < 1);
    assert_true(fabs(mib(overhead("rtx4090", modern).bytes) - 465) < 1);
    assert_true(mib(overhead("h100", modern).bytes) > 700);
    struct gpu_overhead any = overhead(NULL, modern);
    assert_true(mib(any.low_bytes) < 140 && mib(any.high_bytes) > 620);
    assert_int_equal(
        overhead("rtx3090", (struct gpu_software){.torch = 112, .cuda = 1103}).part_count, 1);
    struct gpu_overhead all =
        overhead("mi300x",
                 (struct gpu_software){.uses_cudnn = true, .uses_nccl = true, .has_display = true});
    assert_int_equal(all.part_count, 2);
}

static void a_truth_is_not_judged_with_what_came_from_it(void **state) {
    (void)state;
    static const char *const files[] = {"timm_train_rtx3090.csv", "timm_device_max_a100_40g.csv",
                                        "hf_docs.csv", "gpt2_and_optimizers.csv",
                                        "more/gpumemnet_mlp.csv"};
    static const char *const typed[] = {"rtx3090", "a100", "v100", "h100"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        for (int i = 0; i < 8; i++) {
            struct gpu_software s = {.not_from = str_of(files[f]),
                                     .uses_cudnn = true,
                                     .loading = i & 1 ? GPU_LOADING_EAGER : GPU_LOADING_LAZY};
            struct gpu_overhead o = overhead(typed[i / 2], s);
            assert_int_equal(o.part_count, 2);
            assert_int_equal(str_find(o.source, str_of(files[f])), -1);
        }
    }
}

static void versions_are_read_from_torch_s_text(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int torch, cuda;
    } cases[] = {
        {"1.12.1+cu113", 112, 1103},  {"2.4.0", 204, 0},       {"2.8.0+cu128", 208, 1208},
        {"1.7.1+cu92", 107, 902},     {"2.10.1+cpu", 210, 0},  {"2.9.0+cu130", 209, 1300},
        {"1.13.0a0", 113, 0},         {"torch", 0, 0},         {"", 0, 0},
        {"2.1 cuda 12.1", 201, 1201}, {"99999999999.1", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpu_software s = {0};
        bool is_one = gpu_software_parse(str_of(cases[i].text), &s);
        assert_int_equal(is_one, cases[i].torch || cases[i].cuda);
        assert_int_equal(s.torch, cases[i].torch);
        assert_int_equal(s.cuda, cases[i].cuda);
    }
}

static void put(const char *folder, const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void the_user_s_files_add_and_replace(void **state) {
    (void)state;
    char folder[] = "/tmp/batchfit-gpu-XXXXXX";
    assert_non_null(mkdtemp(folder));
    setenv("BATCHFIT_DATA", folder, 1);
    put(folder, "gpus.local.tsv",
        "name\tkey\tmem_gib\tvendor\n"
        "Our GPU X1\tour_x1\t10\tNVIDIA\n"
        "NVIDIA GeForce RTX 3060\trtx_3060\t9\tNVIDIA\n");
    struct gpu_catalogue c;
    struct fail why = {0};
    struct gpu_match match;
    assert_int_equal(gpu_load(&arena, &c, &why), 0);
    assert_int_equal(c.count, cards.count + 1);
    assert_int_equal(gpu_find(&arena, &c, STR("our x1"), &match, NULL), 0);
    assert_int_equal(match.gpu->total_bytes, 10 * UNIT_GIB);
    assert_int_equal(gpu_find(&arena, &c, STR("rtx_3060"), &match, NULL), 0);
    assert_int_equal(match.gpu->nominal_gb, 9);
    put(folder, "gpus.local.tsv", "name\tkey\tmem_gib\nA\ta\tmuch\n");
    assert_int_equal(gpu_load(&arena, &c, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "gpus.local.tsv:2: mem_gib is \"much\", not a number"));
    static const char *const strange[] = {"inf", "nan", "-3", "1e300", ""};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        put(folder, "gpus.local.tsv",
            str_z(&arena, str_format(&arena, "name\tkey\tmem_gib\nA\ta\t%s\n", strange[i])));
        assert_int_equal(gpu_load(&arena, &c, &why), FAIL_INPUT);
    }
    put(folder, "gpus.local.tsv", "name\tkey\n");
    put(folder, "overheads.local.tsv", "what\tloading\ncontext\tsometimes\n");
    assert_int_equal(gpu_load(&arena, &c, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "overheads.local.tsv:2"));
    unsetenv("BATCHFIT_DATA");
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
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
        cmocka_unit_test(tiers_are_those_of_the_team_s_guide),
        cmocka_unit_test(margins_are_those_of_the_team_s_guide),
        cmocka_unit_test(facts_are_within_reason),
        cmocka_unit_test(a_card_can_be_made_of_its_memory),
        cmocka_unit_test(overheads_by_card_and_software),
        cmocka_unit_test(a_truth_is_not_judged_with_what_came_from_it),
        cmocka_unit_test(versions_are_read_from_torch_s_text),
        cmocka_unit_test(the_user_s_files_add_and_replace),
    };
    return cmocka_run_group_tests(tests, load, drop);
}
