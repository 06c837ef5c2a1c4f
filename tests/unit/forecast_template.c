// SPDX-License-Identifier: Apache-2.0
// Which template covers a plan, and whether what it is filled with is the model: a template's
// parameters are those of the shape.
#include "unit.h"

#include "base/unit.h"
#include "predict/forecast/forecast.h"

static struct forecast_cache cache_of(struct arena *a) {
    static struct tape_store none;
    return (struct forecast_cache){.arena = a, .store = &none, .options = sim_options_default()};
}

static struct plan plan_of(const char *model) {
    return (struct plan){.model = str_of(model),
                         .precision = PLAN_AMP_BF16,
                         .sequence_length = 512,
                         .adapter = STR("lora:16")};
}

// Opened, and the tape of that batch.
static struct forecast_tape *filled(struct forecast_cache *cache, const struct plan *plan,
                                    struct forecast *f, int64_t batch) {
    struct forecast_tape *t;
    struct fail why = {0};
    if (forecast_open(cache, plan, f, &why) < 0) fail_msg("%s", why.message);
    if (forecast_tape(f, batch, 1, &t, &why) < 0) fail_msg("%s", why.message);
    return t;
}

static void the_plan_chooses(void **state) {
    (void)state;
    static const struct {
        const char *model, *quant, *template;
        bool checkpointing;
        int64_t batch;
        const char *loss;
    } cases[] = {
        {"meta-llama/Llama-3.1-8B", "", "llama-lora", false, 4},
        {"meta-llama/Llama-3.1-8B", "", "llama-lora-b1", false, 1},
        {"hf:meta-llama/Llama-3.1-8B", "nf4", "llama-qlora-checkpointing", true, 2},
        {"meta-llama/Llama-3.2-1B", "", "llama-lora-tied", false, 4},
        {"meta-llama/Llama-2-7b-hf", "nf4-dq", "llama-qlora-dq-checkpointing-mha-b1", true, 1},
        {"mistralai/Mistral-7B-v0.1", "", "mistral-lora", false, 4},
        {"meta-llama/Llama-3.1-8B", "", "llama-liger-lora-checkpointing", true, 4, "liger"},
        {"meta-llama/Llama-3.1-8B", "nf4-dq", "llama-liger-qlora-dq-checkpointing", true, 1,
         "liger"},
        {"openai-community/gpt2", "", "gpt2-lora-mha-tied", false, 4},
        {"EleutherAI/pythia-1.4b", "nf4", "gpt_neox-qlora-checkpointing-mha-b1", true, 1},
        {"mistralai/Mixtral-8x7B-v0.1", "", "mixtral-lora", false, 1},
        {"Qwen/Qwen3-30B-A3B", "", "qwen3_moe-lora-checkpointing", true, 2},
    };
    ARENA_AUTO a = {0};
    struct forecast_cache cache = cache_of(&a);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan = plan_of(cases[i].model);
        struct forecast f;
        plan.quant = str_of(cases[i].quant);
        plan.checkpointing = cases[i].checkpointing;
        plan.loss = str_of(cases[i].loss ? cases[i].loss : "");
        struct forecast_tape *t = filled(&cache, &plan, &f, cases[i].batch);
        if (!str_is(t->template, cases[i].template)) fail_msg("%.*s", STR_ARG(t->template));
        assert_true(str_equal(t->entry->header.adapter, plan.adapter));
        assert_false(t->is_upper_bound);
    }
}

static int64_t parameter_bytes(const struct tape *t) {
    int64_t sum = 0;
    for (int32_t i = 0; i < t->alloc_count; i++) {
        if (t->allocs[i].tag == TAPE_PARAM) sum += t->allocs[i].c;
    }
    return sum;
}

static void parameters_are_the_shapes(void **state) {
    (void)state;
    static const char *const models[] = {"meta-llama/Llama-3.1-8B",
                                         "meta-llama/Llama-3.2-1B",
                                         "meta-llama/Llama-2-7b-hf",
                                         "mistralai/Mistral-7B-v0.1",
                                         "Qwen/Qwen2.5-7B",
                                         "openai-community/gpt2-xl",
                                         "EleutherAI/gpt-neox-20b",
                                         "mistralai/Mixtral-8x22B-v0.1",
                                         "Qwen/Qwen1.5-MoE-A2.7B",
                                         "Qwen/Qwen3-235B-A22B",
                                         "allenai/OLMo-2-1124-7B",
                                         "bigcode/starcoder2-7b",
                                         "HuggingFaceTB/SmolLM3-3B",
                                         "openai/gpt-oss-20b",
                                         "THUDM/GLM-4-9B-0414",
                                         "facebook/opt-6.7b",
                                         "allenai/OLMo-7B-hf",
                                         "microsoft/phi-1_5",
                                         "t5-large",
                                         "google/flan-t5-xl",
                                         "google/mt5-base"};
    ARENA_AUTO a = {0};
    struct forecast_cache cache = cache_of(&a);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct plan plan = plan_of(models[i]);
        struct forecast f;
        plan.adapter = (struct str){0};
        plan.precision = PLAN_BF16;
        struct forecast_tape *t = filled(&cache, &plan, &f, 2);
        assert_int_equal(parameter_bytes(t->tape), 2 * f.shape->parameters);
    }
}

static void a_template_is_loaded_once(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct forecast_cache cache = cache_of(&a);
    struct plan plan = plan_of("meta-llama/Llama-3.1-8B");
    struct forecast f, again;
    struct forecast_tape *one = filled(&cache, &plan, &f, 4),
                         *two = filled(&cache, &plan, &again, 8);
    assert_ptr_equal(one->tape, two->tape);
    plan.sequence_length = 1024;
    assert_ptr_not_equal(filled(&cache, &plan, &again, 4)->tape, one->tape);
    assert_int_equal(again.plan.sequence_length, 1024);
}

static void what_is_not_covered_is_named(void **state) {
    (void)state;
    static const struct {
        const char *adapter, *shard, *optimizer, *message;
        enum plan_precision precision;
    } cases[] = {
        {"lora:16:q_proj,foo", "", "", "adapter q_proj,foo", PLAN_AMP_BF16},
        {"lora:16:foo", "", "", "no such layer", PLAN_AMP_BF16},
        {"lora:16:all-linear:bf16", "", "", "precision amp-bf16", PLAN_AMP_BF16},
        {"", "fsdp2", "sgd", "optimizer sgd", PLAN_AMP_BF16},
        {"", "fsdp2", "adamw", "precision bf16", PLAN_FP16},
        {"lora:5000", "", "", "adapter_rank 5000", PLAN_AMP_BF16},
    };
    ARENA_AUTO a = {0};
    struct forecast_cache cache = cache_of(&a);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan = plan_of("meta-llama/Llama-3.1-8B");
        struct forecast f;
        struct fail why = {0};
        plan.adapter = str_of(cases[i].adapter);
        plan.shard = str_of(cases[i].shard);
        plan.optimizer = str_of(cases[i].optimizer);
        plan.precision = cases[i].precision;
        assert_int_equal(forecast_open(&cache, &plan, &f, &why), FAIL_INPUT);
        if (!strstr(why.message, cases[i].message)) fail_msg("%s", why.message);
    }
}

// The one with the fewest layers more.
static void an_adapter_is_counted_by_one_that_has_more(void **state) {
    (void)state;
    static const struct {
        const char *adapter, *quant, *template, *note;
        bool has_no_autocast, is_wide;
    } cases[] = {
        {"lora:16:v_proj", "", "llama-lora-qv", "counted as q_proj,v_proj"},
        {"lora:16:v_proj:dropout", "", "llama-lora-qv-dropout", "counted as q_proj,v_proj:dropout"},
        {"lora:16:k_proj,v_proj", "", "llama-lora-qkvo", "counted as q_proj,k_proj,v_proj,o_proj"},
        {"lora:16:up_proj,down_proj", "", "llama-lora", "counted as all-linear"},
        {"lora:16:q_proj,v_proj", "nf4-dq", "llama-qlora-qv", "counted as nf4"},
        {"lora:16:q_proj,v_proj", "nf4", "llama-qlora-qv", NULL},
        {"lora:16", "nf4-dq", "llama-qlora-dq", NULL},
        {"lora:16:all-linear:bf16", "", "llama-lora-bf16", NULL, true},
        {"lora:16:q_proj,v_proj:dropout:bf16", "", "llama-lora-bf16-qv-dropout", NULL, true},
        {"lora:16:v_proj:bf16", "", "llama-lora-bf16-qv-dropout",
         "counted as q_proj,v_proj:dropout:bf16", true},
        {"lora:16:up_proj:bf16", "nf4-dq", "llama-qlora-bf16", "counted as all-linear:bf16", true},
        {"lora:16:all-linear:bf16", "nf4-torchao", "llama-qlora-torchao", NULL, true},
        {"lora:16:q_proj:bf16", "nf4-torchao", "llama-qlora-torchao", "counted as all-linear:bf16",
         true},
        {"lora:16:k_proj:dropout:bf16", "", "llama-lora-bf16-dropout",
         "counted as all-linear:dropout:bf16", true},
        {"lora:16", "", "llama-lora-fp32", NULL, true},
        {"lora:16:q_proj,v_proj:dropout", "", "llama-lora-w32-qv-dropout", NULL, false, true},
        {"lora:16:q_proj", "", "llama-lora-w32-qv-dropout", "counted as q_proj,v_proj:dropout",
         false, true},
        {"lora:16", "", "llama-lora-fp32", NULL, true, true},
        {"lora:16:all-linear:dropout", "nf4-dq-left", "llama-qlora-dq-left-dropout", NULL},
        {"lora:16:q_proj,v_proj", "nf4-left", "llama-qlora-left-dropout",
         "counted as all-linear:dropout"},
    };
    ARENA_AUTO a = {0};
    struct forecast_cache cache = cache_of(&a);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan = plan_of("meta-llama/Llama-3.1-8B");
        struct forecast f;
        plan.adapter = str_of(cases[i].adapter);
        plan.quant = str_of(cases[i].quant);
        plan.frozen_fp32 = cases[i].is_wide;
        if (cases[i].has_no_autocast) plan.precision = PLAN_BF16;
        struct forecast_tape *t = filled(&cache, &plan, &f, 4);
        struct str first = t->notes.items[0];
        bool has_note = str_find(first, STR("allocates no less")) >= 0;
        if (!str_is(t->template, cases[i].template)) fail_msg("%.*s", STR_ARG(t->template));
        assert_int_equal(has_note, cases[i].note != NULL);
        assert_true(!has_note || str_find(first, str_of(cases[i].note)) >= 0);
        assert_int_equal(t->is_upper_bound, has_note);
    }
}

static void a_shape_is_no_model_of_another_family(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct forecast_cache cache = cache_of(&a);
    const struct shape *s;
    static const char *const names[] = {"albert-base-v2", "deepseek-ai/DeepSeek-V3", "", "x/y"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(forecast_shape(&cache, str_of(names[i]), &s, NULL), 0);
        assert_null(s);
    }
}

static void accumulation_keeps_the_gradients(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct forecast_cache cache = cache_of(&a);
    struct plan plan = plan_of("meta-llama/Llama-3.1-8B");
    struct forecast f;
    struct forecast_tape *t, *one = filled(&cache, &plan, &f, 2);
    assert_int_equal(forecast_tape(&f, 2, 8, &t, NULL), 0);
    assert_int_equal(t->extra_bytes, 0);
    assert_int_equal(t->tape->header.accumulation, 2);
    // rank 16 on the seven linear layers of 32 layers, in fp32
    int64_t gradients =
        INT64_C(4) * 16 * 32 * ((4096 + 4096) * 2 + (4096 + 1024) * 2 + (4096 + 14336) * 3);
    int64_t more = sim_live_peak(t->sim, 2, 0) - sim_live_peak(one->sim, 2, 0);
    assert_true(more > gradients / 2 && more <= gradients + UNIT_MIB);
}

// CublasHandlePool.cpp: 2 x 4 MiB + 8 x 16 KiB, and 32 MiB from compute capability 9.0 on; one for
// forward's thread and one for backward's.
static void cublas_takes_more_on_newer_gpus(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct forecast_cache cache = cache_of(&a);
    static const int64_t more = 2 * ((INT64_C(32) << 20) - (INT64_C(8) << 20) - 8 * (16 << 10));
    static const struct {
        int compute_capability;
        int64_t extra_bytes;
    } cases[] = {{80, 0}, {89, 0}, {90, more}, {100, more}, {0, 0}};
    struct plan plan = plan_of("meta-llama/Llama-3.1-8B");
    struct forecast f;
    struct forecast_tape *t = filled(&cache, &plan, &f, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct forecast_card card = {.gpu.compute_capability = cases[i].compute_capability};
        assert_int_equal(forecast_extra(&card, t), cases[i].extra_bytes);
    }
}

// Below compute capability 8.0 no fused kernel takes bf16, nor fp16 where heads share keys and
// values; what is eager anyway stays.
static void scores_are_counted_where_no_kernel_is_fused(void **state) {
    (void)state;
    static const struct {
        const char *model;
        enum plan_precision precision;
        bool lacks_flash, has_scores;
    } cases[] = {
        {"meta-llama/Llama-3.1-8B", PLAN_AMP_FP16, true, true},
        {"meta-llama/Llama-3.1-8B", PLAN_AMP_FP16, false, false},
        {"meta-llama/Llama-2-7b-hf", PLAN_AMP_FP16, true, false},
        {"meta-llama/Llama-2-7b-hf", PLAN_AMP_BF16, true, true},
        {"openai-community/gpt2", PLAN_AMP_FP16, true, false},
        {"google/gemma-2-2b", PLAN_AMP_BF16, true, false},
    };
    ARENA_AUTO a = {0};
    struct forecast_cache cache = cache_of(&a);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan = plan_of(cases[i].model);
        struct forecast f;
        plan.precision = cases[i].precision;
        plan.lacks_flash = cases[i].lacks_flash;
        const struct forecast_tape *t = filled(&cache, &plan, &f, 2);
        bool has_scores = false;
        for (ptrdiff_t k = 0; k < t->notes.count; k++)
            has_scores |= str_starts(t->notes.items[k], STR(FORECAST_SCORES));
        assert_int_equal(has_scores, cases[i].has_scores);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_chooses),
        cmocka_unit_test(parameters_are_the_shapes),
        cmocka_unit_test(a_template_is_loaded_once),
        cmocka_unit_test(what_is_not_covered_is_named),
        cmocka_unit_test(an_adapter_is_counted_by_one_that_has_more),
        cmocka_unit_test(a_shape_is_no_model_of_another_family),
        cmocka_unit_test(accumulation_keeps_the_gradients),
        cmocka_unit_test(cublas_takes_more_on_newer_gpus),
        cmocka_unit_test(scores_are_counted_where_no_kernel_is_fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
