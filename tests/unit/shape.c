// SPDX-License-Identifier: Apache-2.0
#include "folder.h"
#include "unit.h"

#include "base/os.h"
#include "predict/shape/shape_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;
static struct shape_table table;

static struct shape read_back(const struct shape *row) {
    struct shape s = {.ids = {0}};
    struct fail why = {0};
    struct str text = shape_config(&table, row);
    if (shape_read(&table, shape_id(row), text, &s, &why) < 0)
        fail_msg("%.*s: %s\n%.*s", STR_ARG(row->ids), why.message, STR_ARG(text));
    return s;
}

static void every_name_is_found_and_stands_once(void **state) {
    (void)state;
    int names = 0;
    for (ptrdiff_t i = 0; i < table.count; i++) {
        for (struct str rest = table.rows[i].ids; rest.p; names++) {
            struct str id = str_cut(&rest, ',');
            if (shape_find(&table, id) != shape_at(&table, i)) fail_msg("%.*s", STR_ARG(id));
        }
    }
    assert_true(names >= 200);
}

static void a_row_makes_a_config_that_says_the_same(void **state) {
    (void)state;
    for (ptrdiff_t i = 0; i < table.count; i++) {
        const struct shape *row = shape_at(&table, i);
        struct shape wanted = *row, s = read_back(row);
        for (int k = 0; k < SHAPE_SIZES; k++) {
            int64_t size = *shape_size_at(&wanted, k);
            if (size > 0 && *shape_size_at(&s, k) != size)
                fail_msg("%.*s: %s is %lld", STR_ARG(row->ids), shape_sizes[k].name,
                         (long long)*shape_size_at(&s, k));
        }
        assert_true(s.tied == row->tied);
        if (!shape_is_alike(row, &s)) fail_msg("%.*s", STR_ARG(row->ids));
    }
}

// The column is what transformers counts in the model that it builds.
static void parameters_are_computed_to_the_last_one(void **state) {
    (void)state;
    int computed = 0;
    for (ptrdiff_t i = 0; i < table.count; i++) {
        const struct shape *row = shape_at(&table, i);
        struct shape s = read_back(row);
        if (s.parameters == 0) continue;
        computed++;
        if (s.parameters != row->parameters)
            fail_msg("%.*s: %lld, not %lld", STR_ARG(row->ids), (long long)s.parameters,
                     (long long)row->parameters);
    }
    if (computed < 120) fail_msg("only %d", computed);
}

static void a_name_without_its_owner_is_found_where_one_shape_has_it(void **state) {
    (void)state;
    const struct shape *s = shape_find(&table, STR("qwen3-8b"));
    assert_non_null(s);
    assert_true(str_is(shape_id(s), "Qwen/Qwen3-8B"));
    assert_null(shape_find(&table, STR("resnet50")));
    assert_null(shape_find(&table, STR("somebody/Qwen3-8B")));
    assert_null(shape_find(&table, STR("")));
}

#define LLAMA                                                                         \
    "\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"intermediate_size\": 8, " \
    "\"vocab_size\": 10"
static const struct {
    const char *text, *message;
} wrong[] = {
    {"", "x:1: not JSON"},
    {"[1]", "x: not a JSON object"},
    {"{}", "x: no model_type"},
    {"{\"model_type\": \"unheard_of\"}", "describes no known model family (unheard_of)"},
    {"{" LLAMA ", \"hidden_size\": 4}", "x: no num_attention_heads"},
    {"{" LLAMA ", \"num_attention_heads\": 2}", "x: no hidden_size"},
    {"{" LLAMA ", \"hidden_size\": 4, \"num_attention_heads\": 0}", "num_attention_heads is 0"},
    {"{" LLAMA ", \"hidden_size\": 1000000000000, \"num_attention_heads\": 2}",
     "hidden_size is 1000000000000"},
    {"{" LLAMA ", \"hidden_size\": 1e400, \"num_attention_heads\": 2}", "not JSON"},
    {"{\"model_type\": \"llama\", \"hidden_size\": 4, \"num_hidden_layers\": -3}",
     "num_hidden_layers is -3: out of range, 1 to "},
    {"{" LLAMA ", \"hidden_size\": 4.5, \"num_attention_heads\": 2}", "hidden_size is 4.5"},
    {"{" LLAMA ", \"hidden_size\": \"4\", \"num_attention_heads\": 2}", "hidden_size is \"4\""},
    {"{" LLAMA ", \"hidden_size\": {}, \"num_attention_heads\": 2}", "hidden_size is {}"},
    {"{" LLAMA ", \"hidden_size\": 5, \"num_attention_heads\": 2}", "no multiple of 2 heads"},
    {"{" LLAMA ", \"hidden_size\": 6, \"num_attention_heads\": 3, \"num_key_value_heads\": 2}",
     "3 heads do not share 2 kv heads"},
    {"{\"model_type\": \"mixtral\", \"hidden_size\": 4, \"num_hidden_layers\": 1, "
     "\"num_attention_heads\": 2, \"intermediate_size\": 8, \"vocab_size\": 9, "
     "\"num_key_value_heads\": 2, \"num_local_experts\": 2, \"num_experts_per_tok\": 3}",
     "3 experts of a token, of 2"},
    {"{\"model_type\": \"mixtral\", \"hidden_size\": 4, \"num_hidden_layers\": 1, "
     "\"num_attention_heads\": 2, \"intermediate_size\": 8, \"vocab_size\": 9}",
     "no num_key_value_heads: transformers takes 8 for a mixtral"},
    {"{\"model_type\": \"mixtral\", \"hidden_size\": 4, \"num_hidden_layers\": 1, "
     "\"num_attention_heads\": 2, \"intermediate_size\": 8, \"vocab_size\": 9, "
     "\"num_local_experts\": 0}",
     "num_local_experts is 0: out of range, 1 to "},
    {"{\"model_type\": \"t5\", \"d_model\": 8, \"num_layers\": 1, \"num_heads\": -2, \"d_kv\": 4, "
     "\"d_ff\": 8, \"vocab_size\": 9}",
     "num_heads is -2: out of range, 1 to "},
};

static void a_name_under_another_owner_is_a_copy(void **state) {
    (void)state;
    static const struct {
        const char *name, *original, *quant; // original NULL: it is none
    } names[] = {
        {"NousResearch/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-8B", ""},
        {"NousResearch/Llama-2-7b-hf", "meta-llama/Llama-2-7b", ""},
        {"unsloth/llama-3-8b-Instruct", "meta-llama/Meta-Llama-3-8B", ""},
        {"unsloth/llama-3-8b-bnb-4bit", "meta-llama/Meta-Llama-3-8B", "nf4"},
        {"unsloth/Meta-Llama-3.1-8B-unsloth-bnb-4bit", "meta-llama/Llama-3.1-8B",
         "4-bit weights with some layers in 16"},
        {"TheBloke/Mistral-7B-v0.1-GPTQ", "mistralai/Mistral-7B-v0.1", "GPTQ"},
        {"someone/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct", "AWQ"},
        {"Meta-Llama-3-8B", NULL, ""}, // no name of the hub
        {"someone/-bnb-4bit", NULL, ""},
        {"someone/Llama-3-9B", NULL, ""},
        {"someone/Meta-Llama-3-8B-tuned", NULL, ""},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct shape s = {.ids = {0}};
        const struct shape *found = shape_find_copy(&table, str_of(names[i].name), &s);
        if (!found != !names[i].original) fail_msg("%s", names[i].name);
        if (!found) continue;
        assert_true(str_is(shape_id(found), names[i].original));
        assert_true(str_is(s.quant, names[i].quant));
        assert_int_equal(s.parameters, found->parameters);
    }
}

static void weights_in_few_bits_are_in_the_config(void **state) {
    (void)state;
    static const struct {
        const char *config, *quant;
    } cases[] = {
        {"", ""},
        {",\"quantization_config\":null", ""},
        {",\"quantization_config\":{\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"nf4\"}", "nf4"},
        {",\"quantization_config\":{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,"
         "\"bnb_4bit_quant_type\":\"nf4\",\"bnb_4bit_use_double_quant\":true}",
         "nf4-dq"},
        {",\"quantization_config\":{\"load_in_4bit\":true}", "fp4"}, // bitsandbytes' default
        {",\"quantization_config\":{\"load_in_8bit\":true}", "8-bit weights"},
        {",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}", "gptq, 4 bits"},
        {",\"quantization_config\":{}", "quantised weights"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shape s = {.ids = {0}};
        struct str text =
            str_format(&arena,
                       "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,"
                       "\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":100%s}",
                       cases[i].config);
        assert_int_equal(shape_read(&table, STR("config.json"), text, &s, NULL), 0);
        if (!str_is(s.quant, cases[i].quant))
            fail_msg("%s: %.*s", cases[i].config, STR_ARG(s.quant));
    }
}

static void a_window_is_the_config_s_or_its_family_s(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t window;
    } cases[] = {{"mistralai/Mistral-7B-v0.1", 4096},
                 {"google/gemma-3-1b-it", 512},
                 {"google/gemma-3-4b-it", 1024},
                 {"microsoft/phi-4", 0},
                 {"meta-llama/Llama-3.1-8B", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(shape_window(shape_find(&table, str_of(cases[i].name))), cases[i].window);
}

// Settings besides the sizes, and which family's templates a model has.
#define NEOX                                                                        \
    "{\"model_type\": \"gpt_neox\", \"hidden_size\": 8, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 2, \"intermediate_size\": 8, \"vocab_size\": 10, "
#define T5                                                                           \
    "{\"model_type\": \"t5\", \"d_model\": 8, \"num_layers\": 2, \"num_heads\": 2, " \
    "\"d_kv\": 4, \"d_ff\": 8, \"vocab_size\": 10, "
#define SMOLLM3(layers)                                                              \
    "{\"model_type\": \"smollm3\", \"hidden_size\": 8, \"num_attention_heads\": 2, " \
    "\"num_key_value_heads\": 1, \"intermediate_size\": 8, \"vocab_size\": 10, "     \
    "\"num_hidden_layers\": " layers "}"
#define GEMMA3(vision)                                                              \
    "{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": 2560, "        \
    "\"intermediate_size\": 10240, \"num_hidden_layers\": 34, \"sliding_window\": " \
    "512}" vision "}"
#define SEES(layers)                                                                   \
    ", \"vision_config\": {\"hidden_size\": 1152, \"image_size\": 896, "               \
    "\"intermediate_size\": 4304, \"num_hidden_layers\": " layers ", \"patch_size\": " \
    "14, \"vision_use_head\": false}"
static void settings_that_no_template_has(void **state) {
    (void)state;
    static const struct {
        const char *text, *unlike, *family;
    } cases[] = {
        {NEOX "\"rotary_pct\": 0.25, \"hidden_act\": \"gelu\"}", "", "gpt_neox"},
        {NEOX "\"rotary_pct\": 1}", "rotary_pct 1", "gpt_neox"},
        {NEOX "\"use_parallel_residual\": false}", "use_parallel_residual false", "gpt_neox"},
        {NEOX "\"hidden_dropout\": 0.1}", "hidden_dropout 0.1", "gpt_neox"},
        {NEOX "\"rope_parameters\": {\"partial_rotary_factor\": 0.5}}",
         "rope_parameters.partial_rotary_factor 0.5", "gpt_neox"},
        {T5 "\"num_decoder_layers\": 2, \"dropout_rate\": 0.3}", "", "t5"},
        {T5 "\"feed_forward_proj\": \"gated-gelu\"}", "", "t5-gated"},
        {T5 "\"num_decoder_layers\": 3}", "num_decoder_layers 3", "t5"},
        {T5 "\"dropout_rate\": 0.0}", "dropout_rate 0", "t5"},
        {T5 "\"feed_forward_proj\": \"gated-silu\"}", "feed_forward_proj \"gated-silu\"",
         "t5-gated"},
        {SMOLLM3("36"), "", "smollm3"},
        {SMOLLM3("35"), "35 layers, which are not taken 4 at a time", "smollm3"},
        {SMOLLM3("36, \"no_rope_layer_interval\": 2"), "no_rope_layer_interval 2", "smollm3"},
        {GEMMA3(SEES("27")), "", "gemma3"},
        {GEMMA3(SEES("12")), "vision_config.num_hidden_layers 12", "gemma3"},
        {GEMMA3(""), "without vision_config.hidden_size", "gemma3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shape s;
        struct fail why = {0};
        if (shape_read(&table, STR("x"), str_of(cases[i].text), &s, &why) < 0)
            fail_msg("%s", why.message);
        struct str unlike = shape_setting(&table, &s), family = shape_template(&table, &s);
        if (!str_is(unlike, cases[i].unlike)) fail_msg("%s: %.*s", cases[i].text, STR_ARG(unlike));
        assert_true(str_is(family, cases[i].family));
    }
    struct shape of_file;
    assert_int_equal(shape_read(&table, STR("x"), STR(GEMMA3(SEES("27"))), &of_file, NULL), 0);
    assert_int_equal(shape_window(&of_file), 512);
    assert_true(shape_is_plain(&table, &of_file));
    assert_int_equal(of_file.tower, shape_find(&table, STR("google/gemma-3-27b-it"))->tower);
    static const struct {
        const char *name, *unlike, *family;
    } rows[] = {{"google/gemma-3-12b-it", "", "gemma3"},
                {"microsoft/phi-2", "partial_rotary_factor 0.4", "phi"},
                {"microsoft/phi-1_5", "", "phi"},
                {"bigcode/starcoder2-7b", "", "starcoder2"},
                {"HuggingFaceTB/SmolLM3-3B", "", "smollm3"},
                {"THUDM/GLM-4-9B-0414", "", "glm4"},
                {"facebook/opt-6.7b", "", "opt"},
                {"google/flan-t5-base", "", "t5-gated"},
                {"google/mt5-large", "", "t5-gated"},
                {"t5-large", "", "t5"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct shape *s = shape_find(&table, str_of(rows[i].name));
        struct str unlike = shape_setting(&table, s);
        if (!str_is(unlike, rows[i].unlike)) fail_msg("%s: %.*s", rows[i].name, STR_ARG(unlike));
        assert_true(str_is(shape_template(&table, s), rows[i].family));
        assert_true(shape_is_plain(&table, s));
    }
}

static void an_embedding_of_another_width_is_no_plain_shape(void **state) {
    (void)state;
    const struct shape *s = shape_find(&table, STR("facebook/opt-350m"));
    assert_true(str_is(shape_setting(&table, s), "do_layer_norm_before false"));
    assert_false(shape_is_plain(&table, s));
}

static void what_is_wrong_is_said_in_one_line(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct shape s;
        struct fail why = {0};
        assert_int_equal(shape_read(&table, STR("x"), str_of(wrong[i].text), &s, &why), FAIL_INPUT);
        if (!strstr(why.message, wrong[i].message) || strchr(why.message, '\n'))
            fail_msg("%s: %s", wrong[i].text, why.message);
    }
}

// As the hub has them: other keys beside ours, the family's usual sizes left out, nulls.
static void configs_as_the_hub_has_them(void **state) {
    (void)state;
    static const struct {
        const char *text, *alike;
    } configs[] = {
        {"{\"architectures\": [\"Qwen3ForCausalLM\"], \"head_dim\": 128, \"hidden_size\": 4096, "
         "\"intermediate_size\": 12288, \"model_type\": \"qwen3\", \"num_attention_heads\": 32, "
         "\"num_hidden_layers\": 36, \"num_key_value_heads\": 8, \"rope_scaling\": null, "
         "\"tie_word_embeddings\": false, \"vocab_size\": 151936}",
         "Qwen/Qwen3-8B"},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, "
         "\"n_positions\": 1024, \"n_inner\": null, \"vocab_size\": 50257}",
         "gpt2"},
        {"{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": 2560, "
         "\"intermediate_size\": 10240, \"num_hidden_layers\": 34}}",
         "google/gemma-3-4b-it"},
        // A head for two classes, and a vocabulary of one more.
        {"{\"model_type\": \"bert\", \"hidden_size\": 768, \"num_hidden_layers\": 12, "
         "\"num_attention_heads\": 12, \"intermediate_size\": 3072, \"vocab_size\": 30523, "
         "\"max_position_embeddings\": 512, \"num_labels\": 2}",
         "bert-base-uncased"},
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        struct shape s;
        struct fail why = {0};
        if (shape_read(&table, STR("x"), str_of(configs[i].text), &s, &why) < 0)
            fail_msg("%s", why.message);
        assert_true(shape_is_alike(&s, shape_find(&table, str_of(configs[i].alike))));
        assert_false(shape_is_alike(&s, shape_find(&table, STR("gpt2-medium"))));
    }
}

static void write_text(const char *path, const char *text) {
    struct fail why = {0};
    struct str file = str_of(at(&arena, path));
    ptrdiff_t end = file.len;
    while (file.p[end - 1] != '/') end--;
    if (os_make_dirs(&arena, str_z(&arena, str_slice(file, 0, end)), &why) < 0 ||
        os_replace(&arena, file.p, str_of(text), NULL, &why) < 0)
        fail_msg("%s", why.message);
}

static void the_cache_of_the_hub(void **state) {
    (void)state;
    struct str path;
    unsetenv("HF_HUB_CACHE");
    unsetenv("HUGGINGFACE_HUB_CACHE");
    setenv("HF_HOME", folder, 1);
    assert_false(shape_cached(&arena, STR("team/model"), &path));
    write_text("hub/models--team--model/snapshots/abc/config.json", "{}");
    write_text("hub/models--team--model/snapshots/xyz/config.json", "{}");
    assert_true(shape_cached(&arena, STR("team/model"), &path));
    write_text("hub/models--team--model/refs/main", "abc\n");
    assert_true(shape_cached(&arena, STR("team/model"), &path));
    assert_true(str_ends(path, STR("/hub/models--team--model/snapshots/abc/config.json")));
    assert_false(shape_cached(&arena, STR("../model"), &path));
    assert_false(shape_cached(&arena, STR("other"), &path));
    write_text("hub/models--gpt2/snapshots/abc/config.json", "{}");
    setenv("HF_HUB_CACHE", at(&arena, "hub"), 1);
    setenv("HF_HOME", "/nowhere", 1);
    assert_true(shape_cached(&arena, STR("gpt2"), &path));
}

static void names_of_the_hub(void **state) {
    (void)state;
    assert_true(shape_is_id(STR("Qwen/Qwen3-8B")));
    static const char *const others[] = {"",     "gpt2",  "/a",  "a/",    "./a",
                                         "../a", "a/b/c", "~/a", "a/b c", NULL};
    for (int i = 0; others[i]; i++) assert_false(shape_is_id(str_of(others[i])));
}

int main(void) {
    struct fail why = {0};
    if (shape_load(&arena, &table, &why) < 0) {
        fprintf(stderr, "%s\n", why.message);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_found_and_stands_once),
        cmocka_unit_test(a_row_makes_a_config_that_says_the_same),
        cmocka_unit_test(parameters_are_computed_to_the_last_one),
        cmocka_unit_test(a_name_without_its_owner_is_found_where_one_shape_has_it),
        cmocka_unit_test(a_name_under_another_owner_is_a_copy),
        cmocka_unit_test(weights_in_few_bits_are_in_the_config),
        cmocka_unit_test(a_window_is_the_config_s_or_its_family_s),
        cmocka_unit_test(settings_that_no_template_has),
        cmocka_unit_test(an_embedding_of_another_width_is_no_plain_shape),
        cmocka_unit_test(what_is_wrong_is_said_in_one_line),
        cmocka_unit_test(configs_as_the_hub_has_them),
        cmocka_unit_test_setup_teardown(the_cache_of_the_hub, make_folder, drop_folder),
        cmocka_unit_test(names_of_the_hub),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
