// SPDX-License-Identifier: Apache-2.0
// The calls of a program that decide about memory, and what is taken of their arguments: under
// their own names, or under those of the flags of trl's scripts.
#include "records/datum/python_int.h"

enum { CALLS_MAX = 64, RENAMED_MAX = 24 };
#define LORA "r", "lora_r", "target_modules", "lora_target_modules", "lora_dropout", "lora_dropout"
#define BITS "load_in_4bit", "load_in_4bit", "load_in_8bit", "load_in_8bit"
#define LENGTHS                                                                          \
    "max_seq_length", "max_seq_length", "max_length", "max_length", "max_prompt_length", \
        "max_prompt_length"

static const struct call {
    const char *end;    // of its name
    const char *script; // as trl calls what it trains; NULL: it is not trl's
    const char *switches[3];
    const char *renamed[RENAMED_MAX]; // from, to, …; all others stay out where there are some
    const char *adapter;              // one that is named, not counted
    bool is_arguments;         // of the training: where there are two of them, nobody knows which
    bool is_trainer;           // gets the model
    bool is_method, is_models; // of any object; of a model's class
} calls[] = {
    {"TrainingArguments", .is_arguments = true},
    {"SFTConfig", .script = "sft", .is_arguments = true},
    {"OnlineDPOConfig", .script = "online_dpo", .is_arguments = true}, // before what it ends in
    {"XPOConfig", .script = "xpo", .is_arguments = true},
    {"NashMDConfig", .script = "nash_md", .is_arguments = true},
    {"BCOConfig", .script = "bco", .is_arguments = true},
    {"PRMConfig", .script = "prm", .is_arguments = true},
    {"GKDConfig", .script = "gkd", .is_arguments = true},
    {"RLOOConfig", .script = "rloo", .is_arguments = true},
    {"PPOConfig", .script = "ppo", .is_arguments = true},
    {"DPOConfig", .script = "dpo", .is_arguments = true},
    {"KTOConfig", .script = "kto", .is_arguments = true},
    {"ORPOConfig", .script = "orpo", .is_arguments = true},
    {"CPOConfig", .script = "cpo", .is_arguments = true},
    {"GRPOConfig", .script = "grpo", .is_arguments = true},
    {"RewardConfig", .script = "reward", .is_arguments = true},
    {"SFTTrainer", .script = "sft", .renamed = {LENGTHS}, .is_trainer = true},
    {"OnlineDPOTrainer", .script = "online_dpo", .is_trainer = true},
    {"DPOTrainer", .script = "dpo", .renamed = {LENGTHS}, .is_trainer = true},
    {"KTOTrainer", .script = "kto", .renamed = {LENGTHS}, .is_trainer = true},
    {"ORPOTrainer", .script = "orpo", .renamed = {LENGTHS}, .is_trainer = true},
    {"CPOTrainer", .script = "cpo", .renamed = {LENGTHS}, .is_trainer = true},
    {"GRPOTrainer", .script = "grpo", .is_trainer = true},
    {"RewardTrainer", .script = "reward", .renamed = {LENGTHS}, .is_trainer = true},
    {"Trainer", .is_trainer = true, .renamed = {"", ""}}, // any other: nothing but the model
    {"AdaLoraConfig", .adapter = "AdaLoRA"},
    {"XLoraConfig", .adapter = "X-LoRA"},
    {"LoraConfig", .switches = {"use_lora"},
     .renamed = {LORA, "modules_to_save", "modules_to_save", "use_dora", "use_dora"}},
    {"IA3Config", .adapter = "IA3"},
    {"LoHaConfig", .adapter = "LoHa"},
    {"LoKrConfig", .adapter = "LoKr"},
    {"VeraConfig", .adapter = "VeRA"},
    {"OFTConfig", .adapter = "OFT"}, // and BOFT
    {"PromptTuningConfig", .adapter = "prompt tuning"},
    {"PrefixTuningConfig", .adapter = "prefix tuning"},
    {"PromptEncoderConfig", .adapter = "P-tuning"},
    {"BitsAndBytesConfig",
     .renamed = {BITS, "bnb_4bit_use_double_quant", "bnb_4bit_use_double_quant"}},
    {"from_pretrained",
     .renamed = {"torch_dtype", "torch_dtype", "dtype", "torch_dtype", "attn_implementation",
                 "attn_implementation", BITS, "max_seq_length", "max_seq_length", "num_labels",
                 "num_labels", "qat_scheme", "qat", "fast_inference", "use_vllm",
                 "gpu_memory_utilization", "vllm_gpu_memory_utilization", "full_finetuning",
                 "full_finetuning"},
     .is_method = true, .is_models = true},
    {"get_peft_model", // unsloth's
     .switches = {"use_lora", "use_unsloth"},
     .renamed = {LORA, "use_gradient_checkpointing", "gradient_checkpointing"}, .is_method = true,
     .is_models = true},
    {"prepare_model_for_kbit_training", .switches = {"gradient_checkpointing"}},
    {"gradient_checkpointing_enable", .switches = {"gradient_checkpointing"}, .is_method = true},
};

bool datum_program_may_train(struct str text, bool *ret_has_arguments) {
    bool may_train = false;
    *ret_has_arguments = false;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const struct call *c = &calls[i];
        const bool is_there = (c->is_arguments || (c->is_trainer && c->script)) &&
                              str_find(text, str_of(c->end)) >= 0;
        *ret_has_arguments |= is_there && c->is_arguments;
        may_train |= is_there;
    }
    return may_train;
}

// --- Values --------------------------------------------------------------------------------------

void datum_program_forget(struct program *p, const char *key, const char *text,
                          const struct token *at) {
    struct datum *v = datum_python_make(p->m, DATUM_UNKNOWN, at);
    v->text = str_of(text);
    datum_set(&p->m->py->data, p->map, str_of(key), v, at->line, 1);
}

static bool is_same(const struct datum *a, const struct datum *b) {
    if (a->kind != b->kind || a->kind == DATUM_UNKNOWN) return false;
    if (a->kind == DATUM_LIST || a->kind == DATUM_MAP) return a->list == b->list;
    if (a->kind == DATUM_BOOL) return a->boolean == b->boolean;
    if (a->kind == DATUM_TEXT) return str_equal(a->text, b->text);
    return a->integer == b->integer;
}

// Of what may not run a switch is left out: the call is named; another value is not known.
static void set(struct program *p, const struct call *c, const char *key, struct datum *v,
                const struct token *at) {
    const struct datum_pair *known = datum_find(p->map, str_of(key));
    v = datum_program_plain(p, v);
    if (v->kind == DATUM_UNKNOWN && str_starts(str_of(key), STR("load_in_"))) {
        str_list_add_new(p->m->py->data.arena, &p->read,
                         str_format(p->m->py->data.arena, "perhaps %s", key));
        p->may_quantise = true;
    } else if (p->runs == YES) {
        if (!known) datum_set(&p->m->py->data, p->map, str_of(key), v, at->line, 1);
    } else if (known ? !is_same(known->value, v) : v->kind != DATUM_BOOL || c->is_arguments) {
        datum_program_forget(p, key, "set where it may not run", at);
    }
}

static void set_word(struct program *p, struct datum *map, const char *key, const char *word,
                     const struct token *at) {
    struct datum *v = datum_python_make(p->m, word ? DATUM_TEXT : DATUM_BOOL, at);
    v->boolean = true;
    v->text = word ? str_of(word) : STR("true");
    if (!datum_find(map, str_of(key)))
        datum_set(&p->m->py->data, map, str_of(key), v, at->line, at->column);
}

static bool has_script(const struct program *p) {
    const struct datum_pair *launcher = datum_find(p->map, STR("launcher"));
    return launcher && datum_find(launcher->value, STR("script"));
}

static struct datum *launcher_of(struct program *p, const struct token *at) {
    const struct datum_pair *known = datum_find(p->map, STR("launcher"));
    if (known) return known->value;
    struct datum *launcher = datum_python_make(p->m, DATUM_MAP, at);
    datum_set(&p->m->py->data, p->map, STR("launcher"), launcher, at->line, 1);
    return launcher;
}

// --- Models --------------------------------------------------------------------------------------

static struct datum *first_of(const struct datum *named, const char *key,
                              const struct datum *list) {
    const struct datum_pair *pair = datum_find(named, str_of(key));
    if (list->list->count > 0) return list->list->items[0];
    return pair ? pair->value : NULL;
}

// "model, tokenizer = …": what the line makes.
static struct str made(const struct program *p) {
    struct lexer x = p->m->lex;
    x.at = p->line.text.p + p->line.text.len - x.text.p;
    const struct str behind = str_slice(x.text, x.at, x.text.len);
    const ptrdiff_t sign = str_find(behind, STR("=")), end = str_find(behind, STR("("));
    const bool is_made = p->line.kind == TOKEN_NAME && sign >= 0 && (end < 0 || sign < end);
    return is_made && behind.p[0] != '.' ? p->line.text : (struct str){0};
}

// Of the class in front: "AutoModelForMaskedLM", "FastLanguageModel", "AutoLigerKernelForCausalLM".
static void take_class(struct program *p, const struct token *class, const struct token *at) {
    const bool has_head = str_find(class->text, STR("For")) >= 0 &&
                          str_find(class->text, STR("CausalLM")) < 0 &&
                          str_find(class->text, STR("ConditionalGeneration")) < 0 &&
                          str_find(class->text, STR("Seq2Seq")) < 0;
    struct datum *v = datum_python_make(p->m, DATUM_TEXT, class);
    v->text = class->text;
    if (str_starts(class->text, STR("Fast"))) set_word(p, p->map, "use_unsloth", NULL, at);
    if (str_find(class->text, STR("Liger")) >= 0) set_word(p, p->map, "use_liger_kernel", NULL, at);
    if (has_head && !datum_find(p->map, STR("model_class")))
        datum_set(&p->m->py->data, p->map, STR("model_class"), v, at->line, 1);
}

// The trained model, or another beside it (false). One that is made of an adapter's folder is none.
static bool take_model(struct program *p, const struct token *class, struct datum *name,
                       const struct token *at) {
    struct data *d = &p->m->py->data;
    const struct datum_pair *known = datum_find(p->map, STR("model_name_or_path"));
    const bool is_other = p->name || (p->loads_variable && !str_equal(made(p), p->variable));
    if (str_find(class->text, STR("Peft")) >= 0) return false;
    name = datum_program_plain(p, name);
    const bool is_new = !known || !is_same(known->value, name);
    if (is_other || (known && is_new)) {
        if (!p->name || !is_same(p->name, name)) set_word(p, p->map, "another_model", NULL, at);
        return false;
    }
    take_class(p, class, at);
    if (!known) datum_set(d, p->map, STR("model_name_or_path"), name, at->line, 1);
    return true;
}

// --- Calls ---------------------------------------------------------------------------------------

static void take_named(struct program *p, const struct call *c, const struct token *at,
                       const struct datum *named) {
    for (ptrdiff_t i = 0; i < named->map->count; i++) {
        const struct datum_pair *pair = &named->map->pairs[i];
        if (!pair->value) continue;
        if (c->is_arguments) set(p, c, str_z(p->m->py->data.arena, pair->key), pair->value, at);
        for (int k = 0; k + 1 < RENAMED_MAX && c->renamed[k]; k += 2)
            if (str_is(pair->key, c->renamed[k])) set(p, c, c->renamed[k + 1], pair->value, at);
    }
    for (int i = 0; c->switches[i] && p->runs == YES; i++)
        set_word(p, p->map, c->switches[i], NULL, at);
}

static void take_arguments(struct program *p, const struct call *c, const struct token *at,
                           bool has_more) {
    if (c->script) {
        set_word(p, launcher_of(p, at), "script", c->script, at);
        set_word(p, launcher_of(p, at), "started_by", "trl", at);
    }
    p->is_lost |= p->arguments_line > 0;
    p->arguments_line = at->line;
    p->map->is_open |= has_more; // **kwargs
}

// trl's trainers had TrainingArguments before their own; the newest make theirs where none are.
static void take_trainer(struct program *p, const struct call *c, const struct token *at,
                         const struct datum *named) {
    const bool is_first = !has_script(p);
    if (!p->has_arguments && c->script && p->arguments_line == 0) take_arguments(p, c, at, false);
    if (c->script && p->has_arguments && is_first)
        set_word(p, p->map, "program_trainer", c->script, at);
    if (datum_find(named, STR("optimizers")))
        datum_program_forget(p, "optim", "an optimizer that the trainer is given", at);
}

static void take(struct program *p, const struct call *c, const struct token *class,
                 const struct token *at, const struct datum *named, const struct datum *list) {
    struct arena *a = p->m->py->data.arena;
    const struct str not_sure = str_format(a, "perhaps %.*s", STR_ARG(at->text));
    struct datum *name =
        c->is_models && !c->switches[0] ? first_of(named, "model_name", list) : NULL;
    if (c->is_trainer) take_trainer(p, c, at, named);
    if (name && !take_model(p, class, name, at)) return;
    take_named(p, c, at, named);
    if (c->is_arguments) take_arguments(p, c, at, named->is_open);
    if (c->adapter && p->runs == YES) set_word(p, p->map, "other_adapter", c->adapter, at);
    if (!c->is_trainer || !p->has_arguments)
        str_list_add_new(a, &p->read, p->runs == YES ? at->text : not_sure);
}

// "AutoModelForCausalLM.from_pretrained(": the class in front has the word.
static const struct call *call_at(const struct token *before, bool is_method,
                                  const struct token *at) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const struct call *c = &calls[i];
        if (!str_ends(at->text, str_of(c->end))) continue;
        if (!c->is_method) return c;
        const bool is_model = str_find(before->text, STR("Model")) >= 0 ||
                              str_find(before->text, STR("For")) >= 0; // …ForCausalLM
        if (is_method && (is_model || !c->is_models)) return c;
    }
    return NULL;
}

// What changes arguments as a whole: then nothing is known of them.
static bool is_change_of_all(const struct token *at, const struct token *before, bool is_method) {
    static const char *const methods[] = {"set_training", "set_dataloader", "set_optimizer", NULL};
    if (str_is(at->text, "setattr") && !is_method) return true;
    if (str_is(at->text, "replace")) return !is_method || str_is(before->text, "dataclasses");
    return is_method && str_is_one_of(at->text, methods);
}

static int times(struct str text, struct str name) {
    int count = 0;
    for (struct lexer x = datum_lexer_open(text); x.token.kind != TOKEN_END; datum_lexer_next(&x))
        count += x.token.kind == TOKEN_NAME && str_equal(x.token.text, name);
    return count;
}

// "lora = LoraConfig(…)" that nobody gets.
static bool is_idle(const struct program *p, const struct call *c, const struct token *last) {
    const bool begins = last[2].kind == TOKEN_LINE || last[2].kind == TOKEN_END;
    return !c->is_arguments && !c->is_trainer && begins && str_is(last[0].text, "=") &&
           last[1].kind == TOKEN_NAME && times(p->m->source.text, last[1].text) < 2;
}

// "trainer.train(", "SFTTrainer(…).train(": what stands behind it trains no more.
void datum_program_train(struct program *p, const struct token *at, const struct token *last) {
    const struct str object = last[1].text;
    const bool is_training = str_is(at->text, "train") && str_is(last[0].text, ".") &&
                             (str_is(object, ")") || str_ends(object, STR("rainer")));
    if (is_training && p->trained_column == 0 && p->runs > NO) p->trained_column = p->line.column;
}

static void take_tokens(struct program *p, const struct token *at) {
    struct datum *list = NULL;
    const struct datum *named = datum_python_arguments(p->m, at, &list);
    const struct datum_pair *length = datum_find(named, STR("max_length"));
    struct datum *v = length && length->value ? datum_program_plain(p, length->value) : NULL;
    if (!v || v->kind != DATUM_INT) return;
    struct datum **to = &p->tokens[datum_find(named, STR("text_target")) != NULL];
    if (!*to) *to = datum_at(&p->m->py->data, v, at->line, at->column);
    if ((*to)->integer != v->integer) (*to)->kind = DATUM_UNKNOWN;
}

void datum_program_call(struct program *p, const struct token *at, const struct token *last) {
    struct module *m = p->m;
    const bool is_method = str_is(last[0].text, ".");
    const struct call *c = call_at(&last[1], is_method, at);
    struct datum *list = NULL;
    if (p->runs == NO) return;
    if (is_change_of_all(at, &last[1], is_method)) p->is_lost = true;
    if (str_starts(at->text, STR("apply_liger_kernel_to")))
        set_word(p, p->map, "use_liger_kernel", NULL, at);
    if (!c && (str_find(at->text, STR("tokenizer")) >= 0 || str_is(at->text, "tok")))
        take_tokens(p, at);
    if (!c || (p->trained_column > 0 && !c->is_arguments)) return;
    if (++p->call_count > CALLS_MAX) p->is_lost = true; // no training has so many
    if (p->is_lost || is_idle(p, c, last)) return;
    struct datum *named = datum_python_arguments(m, at, &list);
    const enum truth runs = p->runs;
    if (is(m, "if")) { // "BitsAndBytesConfig(…) if args.bits else None"
        datum_python_next(m);
        const enum truth condition = datum_program_condition(p);
        if (condition < p->runs) p->runs = condition;
    }
    const bool is_lora = c->switches[0] && str_is(str_of(c->switches[0]), "use_lora");
    if (is_lora && p->has_taker && p->adapter < p->runs) p->runs = p->adapter;
    if (p->runs > NO) take(p, c, &last[1], at, named, list);
    p->runs = runs;
}

// The variable that stands at "model=" or first among the arguments, at the opening bracket.
static struct str variable_in(struct lexer x) {
    struct token last[3] = {0};
    int depth = 0;
    do {
        const bool ends = depth == 1 && (datum_lexer_is(&x, ",") || datum_lexer_is(&x, ")"));
        const bool is_named = str_is(last[1].text, "=") && str_is(last[2].text, "model");
        if (ends && last[0].kind == TOKEN_NAME && (is_named || str_is(last[1].text, "(")))
            return last[0].text;
        if (ends && !is_named && str_is(last[1].text, "(")) return (struct str){0};
        depth += datum_lexer_is(&x, "(") || datum_lexer_is(&x, "[") || datum_lexer_is(&x, "{");
        depth -= datum_lexer_is(&x, ")") || datum_lexer_is(&x, "]") || datum_lexer_is(&x, "}");
        last[2] = last[1];
        last[1] = last[0];
        last[0] = x.token;
        datum_lexer_next(&x);
    } while (depth > 0 && x.token.kind != TOKEN_END);
    return (struct str){0};
}

// peft's get_peft_model, and what else gets an adapter: one that nobody gets is none.
static bool takes_adapter(const struct token *at, struct lexer arguments) {
    static const char *const takers[] = {"get_peft_model", "add_adapter", "PeftModel", NULL};
    int depth = 0;
    if (str_is_one_of(at->text, takers)) return true;
    if (!str_ends(at->text, STR("Trainer"))) return false;
    do {
        depth += datum_lexer_is(&arguments, "(") - datum_lexer_is(&arguments, ")");
        if (datum_lexer_is(&arguments, "peft_config") || datum_lexer_is(&arguments, "**"))
            return true;
        datum_lexer_next(&arguments);
    } while (depth > 0 && arguments.token.kind != TOKEN_END);
    return false;
}

static void note_trainer(struct program *p, const struct token *at) {
    struct datum *list = NULL;
    p->variable = variable_in(p->m->lex);
    const struct datum *named = datum_python_arguments(p->m, at, &list);
    struct datum *model = first_of(named, "model", list);
    if (model) model = datum_program_plain(p, model);
    if (model && model->kind == DATUM_TEXT) p->name = model;
}

void datum_program_note_model(struct program *p, const struct token *at, const struct token *last) {
    const struct call *c = call_at(&last[1], str_is(last[0].text, "."), at);
    const bool is_ours = (c && (c->is_trainer || c->is_models)) || str_is(at->text, "PeftModel");
    if (!is_ours && !str_is(at->text, "get_peft_model") && !str_is(at->text, "add_adapter")) return;
    if (++p->model_count > CALLS_MAX) return;
    if (takes_adapter(at, p->m->lex)) {
        p->adapter = p->has_taker && p->adapter > p->runs ? p->adapter : p->runs;
        p->has_taker = true;
    }
    if (!c || p->runs == NO) return;
    const struct str maker = made(p);
    if (c->is_models && !c->switches[0] && maker.len > 0)
        str_list_add_new(p->m->py->data.arena, &p->loads, maker);
    if (c->is_trainer && p->variable.len == 0 && !p->name) note_trainer(p, at);
}

// --- Last ----------------------------------------------------------------------------------------

void datum_program_environment(struct program *p) {
    static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", NULL};
    struct module *m = p->m;
    const struct token at = *now(m);
    if (!is(m, "[") || p->runs != YES) return;
    datum_python_next(m);
    const struct datum *key = datum_python_expr(m);
    if (!is(m, "]") || key->kind != DATUM_TEXT || !str_is_one_of(key->text, names)) return;
    datum_python_next(m);
    if (!is(m, "=")) return;
    datum_python_next(m);
    struct datum *v = datum_python_exprs(m);
    datum_set(&m->py->data, launcher_of(p, &at), STR("alloc_conf"), v, at.line, at.column);
}

static struct datum *number(struct program *p, int64_t value, const struct token *at) {
    struct datum *v = datum_python_make(p->m, DATUM_INT, at);
    v->integer = value;
    return v;
}

static void usual(struct program *p, const char *key, struct datum *v, const struct token *at) {
    if (!datum_find(p->map, str_of(key)))
        datum_set(&p->m->py->data, p->map, str_of(key), v, at->line, 1);
}

// unsloth's own: four bits unless it is told otherwise, the type by the GPU, all linear layers
// (unsloth/models/loader.py, llama.py).
static void add_unsloths(struct program *p, const struct token *first) {
    static const char *const others[] = {"load_in_8bit", "full_finetuning", "load_in_16bit", NULL};
    bool has_other = false;
    for (int i = 0; others[i]; i++) {
        const struct datum_pair *pair = datum_find(p->map, str_of(others[i]));
        has_other |= pair && (pair->value->kind != DATUM_BOOL || pair->value->boolean);
    }
    if (!has_other && !p->may_quantise) set_word(p, p->map, "load_in_4bit", NULL, first);
    usual(p, "torch_dtype", datum_python_make(p->m, DATUM_NULL, first), first);
    if (!datum_find(p->map, STR("bf16")) && !datum_find(p->map, STR("fp16")))
        set_word(p, p->map, "bf16", "auto", first);
    if (datum_find(p->map, STR("use_vllm")) &&
        !datum_find(p->map, STR("vllm_gpu_memory_utilization"))) {
        struct datum *half = datum_float(&p->m->py->data, 0.5, number(p, 0, first));
        usual(p, "vllm_gpu_memory_utilization", half, first);
    }
    if (!datum_find(p->map, STR("use_lora"))) return;
    usual(p, "lora_r", number(p, 16, first), first);
    set_word(p, p->map, "lora_target_modules", "all-linear", first);
    set_word(p, p->map, "gradient_checkpointing", "unsloth", first);
}

void datum_program_defaults(struct program *p) {
    const struct token first = {.line = 1, .column = 1};
    const struct token named = {.line = p->name ? p->name->line : 1, .column = 1};
    if (p->name) usual(p, "model_name_or_path", p->name, &named);
    if (datum_find(p->map, STR("use_unsloth"))) add_unsloths(p, &first);
    for (int i = 0; i < 2; i++)
        if (p->tokens[i] && p->tokens[i]->kind == DATUM_INT && !has_script(p))
            usual(p, i ? "tokenizer_target_length" : "tokenizer_max_length", p->tokens[i],
                  &(struct token){.line = p->tokens[i]->line});
    if (!datum_find(p->map, STR("use_lora"))) return;
    usual(p, "lora_r", number(p, 8, &first), &first);
    set_word(p, p->map, "lora_target_modules", "q_proj,v_proj", &first); // of most decoders
    usual(p, "lora_dropout", number(p, 0, &first), &first);
}

// Beside an adapter that is what an adapter does.
void datum_program_frozen(struct program *p) {
    const struct token first = {.line = 1, .column = 1};
    if (p->is_frozen && !datum_find(p->map, STR("use_lora")))
        set_word(p, p->map, "frozen_by_hand", NULL, &first);
}
