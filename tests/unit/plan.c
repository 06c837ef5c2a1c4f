// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "predict/plan/plan.h"

static void batches_are_multiples_above_and_any_below(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct plan_range range = {.most = 13};
    const int64_t expected[] = {12, 8, 4, 3, 2, 1};
    struct plan_batches every = plan_every_batch(&a, &range);
    assert_int_equal(every.count, 6);
    assert_memory_equal(every.values, expected, sizeof expected);
}

static void the_configs_own_batch_is_tried_too(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct plan_range range = {.least = 40, .most = 60, .multiple = 8, .own = 50};
    const int64_t expected[] = {56, 50, 48, 40};
    struct plan_batches every = plan_every_batch(&a, &range);
    assert_int_equal(every.count, 4);
    assert_memory_equal(every.values, expected, sizeof expected);
    const struct plan_range empty = {.least = 5, .most = 4};
    assert_int_equal(plan_every_batch(&a, &empty).count, 0);
    const struct plan_range beyond = {.own = 8192}; // the usual bound is nobody's word
    every = plan_every_batch(&a, &beyond);
    assert_int_equal(every.values[0], 8192);
    assert_int_equal(every.values[1], 4096);
    const struct plan_range excluded = {.most = 4096, .own = 8192};
    every = plan_every_batch(&a, &excluded);
    assert_int_equal(every.values[0], 4096);
}

static void fsdp1_keeps_more_under_adapters_that_recompute(void **state) {
    (void)state;
    struct plan p = {.shard = STR("fsdp1@4.52"), .adapter = STR("lora:16"), .checkpointing = true};
    assert_int_equal(plan_fsdp(p.shard), 1);
    assert_false(plan_fsdp1_retains(&p));
    assert_str(plan_recorded_shard(&p), "fsdp1@4.52");
    p.checkpointing = false; // both are alike then
    assert_str(plan_recorded_shard(&p), "fsdp1");
    p.shard = STR("fsdp1");
    assert_false(plan_fsdp1_retains(&p));
    p.checkpointing = true;
    assert_true(plan_fsdp1_retains(&p));
    p.adapter = (struct str){0};
    assert_false(plan_fsdp1_retains(&p));
    assert_int_equal(plan_fsdp(STR("fsdp2@4.52")), 0);
    assert_int_equal(plan_fsdp(STR("fsdp2@1.13")), 2);
    assert_int_equal(plan_fsdp(STR("fsdp1@1.13")), 0);
    assert_int_equal(plan_fsdp(STR("fsdp2@1.13:offload")), 0);
}

static void only_divisors_keep_the_effective_batch(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct plan_range range = {.most = 64};
    struct plan_batches every = plan_every_batch(&a, &range);
    struct plan_batches kept = plan_keeping(&a, every, 48, 1);
    const int64_t one[] = {48, 24, 16, 12, 8, 4, 3, 2, 1};
    assert_int_equal(kept.count, 9);
    assert_memory_equal(kept.values, one, sizeof one);
    kept = plan_keeping(&a, every, 48, 4);
    const int64_t four[] = {12, 4, 3, 2, 1};
    assert_int_equal(kept.count, 5);
    assert_memory_equal(kept.values, four, sizeof four);
}

static void the_effective_batch_is_reached_in_the_fewest_micro_steps(void **state) {
    (void)state;
    assert_int_equal(plan_accumulation(48, 8, 2), 3);
    assert_int_equal(plan_accumulation(50, 8, 2), 4); // reached, if not kept
    assert_int_equal(plan_accumulation(48, 48, 1), 1);
    assert_int_equal(plan_accumulation(48, 64, 1), 1);
    assert_int_equal(plan_accumulation(0, 8, 1), 1); // none is asked for
}

static void optimizers_are_known_by_their_spellings(void **state) {
    (void)state;
    static const char *const spelled[][2] = {
        {"AdamW", "adamw"},
        {"adamw_torch_fused", "adamw"},
        {"torch.optim.SGD", "sgd"},
        {"adamw_bnb_8bit", "adamw8bit"},
        {"paged_adamw_8bit", "adamw8bit"},
        {"bitsandbytes.optim.PagedAdamW8bit", "adamw8bit"},
        {"paged_adamw_32bit", "adamw32bit"},
        {"bitsandbytes.optim.PagedAdamW", "adamw32bit"},
        {"lion_32bit", "lion32bit"},
        {"Adam", "adam"},
        {"adafactor", "adafactor"},
        {"Lion", "lion"},
    };
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++) {
        assert_string_equal(plan_optimizer_find(str_of(spelled[i][0])), spelled[i][1]);
    }
    static const char *const others[] = {
        "shampoo",           "galore_adamw",  "galore_adamw_layerwise", "galore_adamw_8bit",
        "apollo_adamw",      "lion_8bit",     "paged_lion_8bit",        "schedule_free_adamw",
        "adopt_adamw",       "optimi_adamw",  "optimi.AdamW",           "stable_adamw",
        "grokadamw",         "ao_adamw_4bit", "adamw_torch_8bit",       "ao_adamw_fp8",
        "schedule_free_sgd", "OneBitAdam",    "adamw_anyprecision",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_null(plan_optimizer_find(str_of(others[i])));
    assert_string_equal(plan_optimizer_find(STR("torch.optimizers.AdamW")), "adamw");
}

static void precisions_have_names(void **state) {
    (void)state;
    for (int i = 0; plan_precisions[i]; i++) {
        enum plan_precision p = plan_precision_find(str_of(plan_precisions[i]));
        assert_string_equal(plan_precision_name(p), plan_precisions[i]);
    }
    assert_int_equal(plan_precision_find(STR("fp8")), PLAN_PRECISION_UNKNOWN);
    const struct plan p = {.batch = 12, .accumulation = 4, .ranks = 2};
    assert_int_equal(plan_effective(&p), 96);
}

static void an_adapter_is_one_text(void **state) {
    (void)state;
    static const struct {
        int64_t rank;
        const char *targets, *more, *expected;
    } cases[] = {
        {16, "", "", "lora:16"},
        {8, "all", "", "lora:8"},
        {8, "all-linear", "dropout", "lora:8:all-linear:dropout"},
        {4, " q_proj, v_proj", "", "lora:4:q_proj,v_proj"},
        {4, "v_proj,q_proj", "dropout", "lora:4:q_proj,v_proj:dropout"},
        {4, "o_proj,qkv_proj,down_proj,gate_up_proj", "",
         "lora:4:qkv_proj,o_proj,gate_up_proj,down_proj"},
        {4, "down_proj,up_proj,gate_proj,o_proj,v_proj,k_proj,q_proj,lm_head", "",
         "lora:4:down_proj,up_proj,gate_proj,o_proj,v_proj,k_proj,q_proj,lm_head"},
        {4, "down_proj,up_proj,gate_proj,o_proj,v_proj,k_proj,q_proj", "",
         "lora:4:q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"},
        {4, "q_proj,q_proj,k_proj,v_proj,o_proj,up_proj,down_proj", "dropout",
         "lora:4:q_proj,q_proj,k_proj,v_proj,o_proj,up_proj,down_proj:dropout"},
        {16, "", "bf16", "lora:16:all-linear:bf16"},
        {4, "v_proj,q_proj", "dropout:bf16", "lora:4:q_proj,v_proj:dropout:bf16"},
        {4, "q_proj", "bf16:dropout", ""},
        {4, "q_proj", "0.1", ""},
        {0, "", "", ""},
        {4, "q_proj,", "", ""},
        {4, "^model$", "", ""},
    };
    ARENA_AUTO a = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str text =
            plan_adapter(&a, cases[i].rank, str_of(cases[i].targets), str_of(cases[i].more));
        if (!str_is(text, cases[i].expected)) fail_msg("%.*s", STR_ARG(text));
        assert_int_equal(plan_adapter_rank(text), text.len > 0 ? cases[i].rank : 0);
    }
    const struct str seven = STR("lora:4:q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj");
    const struct str fused = STR("qkv_proj,o_proj,gate_up_proj,down_proj");
    assert_str(plan_adapter_short(&a, seven, (struct str){0}), "lora:4");
    assert_true(str_equal(plan_adapter_short(&a, seven, fused), seven));
    assert_str(
        plan_adapter_short(&a, STR("lora:8:qkv_proj,o_proj,gate_up_proj,down_proj:dropout"), fused),
        "lora:8:all-linear:dropout");
    assert_str(plan_adapter_targets(STR("lora:4:q_proj:dropout")), "q_proj");
    assert_str(plan_adapter_targets(STR("lora:4:all-linear:dropout")), "");
    assert_int_equal(plan_adapter_rank(STR("dora:4")), 0);
    assert_str(plan_adapter_more(true, true), "dropout:bf16");
    for (int i = 0; i < 4; i++) {
        bool has_dropout = i & 1, is_bf16 = i & 2;
        struct str text =
            plan_adapter(&a, 4, (struct str){0}, plan_adapter_more(has_dropout, is_bf16));
        assert_int_equal(plan_adapter_has_dropout(text), has_dropout);
        assert_int_equal(plan_adapter_is_bf16(text), is_bf16);
    }
}

static void a_loss_of_preferences_has_one_word_for_versions_that_need_the_same(void **state) {
    (void)state;
    static const char *const forms[][2] = {
        {"dpo", "dpo"},
        {"dpo@0.12", "dpo"},
        {"dpo@1.13.0", "dpo"},
        {"dpo@1.15", "dpo@1.15"},
        {"dpo@2.0.1", "dpo@1.15"},
        {"dpo:precomputed", "dpo:precomputed"},
        {"dpo:precomputed@1.16.0", "dpo:precomputed@1.15"},
        {"dpo:llamafactory", "dpo:llamafactory"},
        {"dpo@1.14.0", "dpo"},
        {"orpo", "orpo"},
        {"orpo@0.24.0", "orpo"},
        {"orpo@1.14.0", "orpo@1.14"},
        {"cpo", "orpo"},
        {"cpo-simpo@1.16.0", "orpo@1.14"},
        {"simpo", "simpo"},
        {"simpo@1.15", "simpo@1.14"},
        {"simpo:llamafactory", "orpo:llamafactory"},
        {"kto@1.14", "kto"},
        {"kto@1.16", "kto@1.15"},
        {"reward@0.24", "reward"},
        {"liger@0.5.2", "liger@0.5.2"},
    };
    static const char *const none[] = {"dpo@0.11",
                                       "dpo@new",
                                       "dpo:",
                                       "dpo:liger",
                                       "dpo@1",
                                       "dpo:llamafactory@1.14",
                                       "odpo",
                                       "dpo@1000.1",
                                       "orpo@0.14",
                                       "orpo:precomputed",
                                       "cpo:llamafactory",
                                       "reward@0.23",
                                       "linear:0",
                                       "linear@0.6",
                                       "ppo"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        assert_true(str_is(plan_loss_form(str_of(forms[i][0])), forms[i][1]));
        assert_true(plan_is_loss(str_of(forms[i][0])));
    }
    assert_true(plan_is_loss(STR("linear")) && plan_is_loss(STR("linear:16")));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        if (plan_is_loss(str_of(none[i]))) fail_msg("%s", none[i]);
    }
    assert_false(plan_is_preference(STR("liger")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_multiples_above_and_any_below),
        cmocka_unit_test(the_configs_own_batch_is_tried_too),
        cmocka_unit_test(fsdp1_keeps_more_under_adapters_that_recompute),
        cmocka_unit_test(only_divisors_keep_the_effective_batch),
        cmocka_unit_test(the_effective_batch_is_reached_in_the_fewest_micro_steps),
        cmocka_unit_test(optimizers_are_known_by_their_spellings),
        cmocka_unit_test(precisions_have_names),
        cmocka_unit_test(an_adapter_is_one_text),
        cmocka_unit_test(a_loss_of_preferences_has_one_word_for_versions_that_need_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
