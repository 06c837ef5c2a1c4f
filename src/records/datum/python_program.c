// SPDX-License-Identifier: Apache-2.0
// A program that trains with transformers, trl, peft or unsloth: the plain values among the
// arguments of the calls that decide about memory, as if they were flags of a command line. What
// else the program does is not known.
#include "records/datum/python_int.h"

enum { CALLS_MAX = 64, RENAMED_MAX = 16 };
#define LORA "r", "lora_r", "target_modules", "lora_target_modules", "lora_dropout", "lora_dropout"
#define BITS "load_in_4bit", "load_in_4bit", "load_in_8bit", "load_in_8bit"

// Whose arguments are taken: under their own names, or under those of trl's flags.
static const struct call {
    const char *end;    // of its name
    const char *script; // as trl calls what it trains; NULL: it is not trl's
    const char *switches[3];
    const char *renamed[RENAMED_MAX]; // from, to, …; all others stay out where there are some
    bool is_arguments;         // of the training: where there are two of them, nobody knows which
    bool is_method, is_models; // of any object; of a model's class
} calls[] = {
    {"TrainingArguments", .is_arguments = true},
    {"SFTConfig", .script = "sft", .is_arguments = true},
    {"DPOConfig", .script = "dpo", .is_arguments = true},
    {"KTOConfig", .script = "kto", .is_arguments = true},
    {"ORPOConfig", .script = "orpo", .is_arguments = true},
    {"CPOConfig", .script = "cpo", .is_arguments = true},
    {"GRPOConfig", .script = "grpo", .is_arguments = true},
    {"RewardConfig", .script = "reward", .is_arguments = true},
    {"LoraConfig", .switches = {"use_peft"},
     .renamed = {LORA, "modules_to_save", "modules_to_save", "use_dora", "use_dora"}},
    {"BitsAndBytesConfig",
     .renamed = {BITS, "bnb_4bit_use_double_quant", "bnb_4bit_use_double_quant"}},
    {"from_pretrained",
     .renamed = {"torch_dtype", "torch_dtype", "dtype", "torch_dtype", "attn_implementation",
                 "attn_implementation", BITS, "model_name", "model_name_or_path", "max_seq_length",
                 "max_seq_length", "num_labels", "num_labels"},
     .is_method = true, .is_models = true},
    {"get_peft_model", // unsloth's
     .switches = {"use_peft", "use_unsloth"},
     .renamed = {LORA, "use_gradient_checkpointing", "gradient_checkpointing"}, .is_method = true,
     .is_models = true},
    {"prepare_model_for_kbit_training", .switches = {"gradient_checkpointing"}},
    {"gradient_checkpointing_enable", .switches = {"gradient_checkpointing"}, .is_method = true},
};

struct program {
    struct module *m;
    struct datum *map, *usual; // what it trains with; defaults of its own options
    struct str_list read;      // "DPOConfig (line 4)"
    int arguments_line;        // of the training's; 0: not met
    bool is_several;           // there are two of them
};

// torch.bfloat16 is a word, and args.batch_size what the command line has unless it says more.
static struct datum *plain(struct program *p, struct datum *v) {
    static const char *const types[] = {"torch.bfloat16", "torch.float16", "torch.float32", NULL};
    const struct str last = str_last(v->text, '.');
    if (v->kind != DATUM_UNKNOWN || last.len == v->text.len) return v;
    const struct datum_pair *usual = datum_find(p->usual, last);
    if (usual) return usual->value;
    if (!str_is_one_of(v->text, types)) return v;
    struct datum *word = datum_copy(&p->m->py->data, v);
    word->kind = DATUM_TEXT;
    word->text = last;
    return word;
}

static void set(struct program *p, const char *key, struct datum *v, int line) {
    if (!datum_find(p->map, str_of(key)))
        datum_set(&p->m->py->data, p->map, str_of(key), plain(p, v), line, 1);
}

static void set_word(struct program *p, struct datum *map, const char *key, const char *word,
                     const struct token *at) {
    struct datum *v = datum_python_make(p->m, word ? DATUM_TEXT : DATUM_BOOL, at);
    v->boolean = true;
    v->text = word ? str_of(word) : STR("true");
    if (!datum_find(map, str_of(key)))
        datum_set(&p->m->py->data, map, str_of(key), v, at->line, at->column);
}

static void take(struct program *p, const struct call *c, const struct token *at,
                 const struct datum *named, const struct datum *list) {
    for (ptrdiff_t i = 0; i < named->map->count; i++) {
        const struct datum_pair *pair = &named->map->pairs[i];
        if (!pair->value || (!c->is_arguments && !c->renamed[0])) continue;
        if (!c->renamed[0]) set(p, str_z(p->m->py->data.arena, pair->key), pair->value, pair->line);
        for (int k = 0; k + 1 < RENAMED_MAX && c->renamed[k]; k += 2)
            if (str_is(pair->key, c->renamed[k]))
                set(p, c->renamed[k + 1], pair->value, pair->line);
    }
    for (int i = 0; c->switches[i]; i++) set_word(p, p->map, c->switches[i], NULL, at);
    if (c->script) {
        struct datum *launcher = datum_python_make(p->m, DATUM_MAP, at);
        set_word(p, launcher, "script", c->script, at);
        set_word(p, launcher, "started_by", "trl", at);
        set(p, "launcher", launcher, at->line);
    }
    if (c->is_arguments) {
        p->is_several |= p->arguments_line > 0;
        p->arguments_line = at->line;
        p->map->is_open |= named->is_open; // **kwargs
    }
    if (c->is_models && c->renamed[0] && list->list->count > 0 && !c->switches[0])
        set(p, "model_name_or_path", list->list->items[0], at->line);
    if (p->read.count < CALLS_MAX)
        str_list_add(
            p->m->py->data.arena, &p->read,
            str_format(p->m->py->data.arena, "%.*s (line %d)", STR_ARG(at->text), at->line));
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

// "batch = 4" of a function, which is passed over else: where a name has two values it has none.
static void note_value(struct program *p, const struct token *name) {
    struct module *m = p->m;
    datum_python_next(m);
    struct datum *v = datum_python_exprs(m);
    const struct datum_pair *known = datum_find(m->globals, name->text);
    const bool is_scalar = v->kind != DATUM_MAP && v->kind != DATUM_LIST;
    const bool is_same = known && known->value && known->value->kind == v->kind &&
                         known->value->integer == v->integer && known->value->number == v->number &&
                         str_equal(known->value->text, v->text);
    if (known && known->line == name->line) return; // run already
    if (known && !is_same) v = datum_python_make(m, DATUM_UNKNOWN, name);
    if (known && !is_same) v->text = name->text;
    if (is_scalar || known) datum_set(&m->py->data, m->globals, name->text, v, name->line, 1);
}

// "parser.add_argument("--batch-size", default=64)"
static void note_option(struct program *p, const struct token *at) {
    struct data *d = &p->m->py->data;
    struct datum *list = NULL;
    const struct datum *named = datum_python_arguments(p->m, at, &list);
    const struct datum_pair *usual = datum_find(named, STR("default"));
    for (ptrdiff_t i = 0; usual && usual->value && i < list->list->count; i++) {
        const struct datum *word = list->list->items[i];
        if (word->kind != DATUM_TEXT || !str_starts(word->text, STR("--"))) continue;
        const struct str name = str_slice(word->text, 2, word->text.len);
        datum_set(d, p->usual, str_of(str_z_swapped(d->arena, name, '-', '_')), usual->value,
                  at->line, at->column);
    }
}

// First all names, then all calls, since a call may stand above what main() sets.
static void scan(struct program *p, bool is_for_names) {
    struct module *m = p->m;
    struct token last[2] = {0}; // the two before
    m->lex = datum_lexer_open(p->m->source.text);
    while (now(m)->kind != TOKEN_END && !m->py->status) {
        const struct token at = *now(m);
        const bool is_method = str_is(last[0].text, ".");
        const bool is_made = str_is(last[0].text, "class") || str_is(last[0].text, "def");
        const bool begins = last[0].kind == TOKEN_LINE || last[0].kind == TOKEN_END;
        datum_python_next(m);
        const struct lexer behind = m->lex;
        if (at.kind == TOKEN_NAME && is_for_names && begins && is(m, "=")) {
            note_value(p, &at);
        } else if (is_for_names && str_is(at.text, "add_argument") && is(m, "(")) {
            note_option(p, &at);
        } else if (at.kind == TOKEN_NAME && !is_for_names && !is_made && is(m, "(")) {
            const struct call *c = call_at(&last[1], is_method, &at);
            struct datum *list = NULL;
            struct datum *named = c ? datum_python_arguments(m, &at, &list) : NULL;
            if (named) take(p, c, &at, named, list);
        }
        if (m->py->status) return;
        m->lex = behind; // what is inside of the brackets is looked at, too
        last[1] = last[0];
        last[0] = at;
    }
}

struct datum *datum_python_program(struct python *py, struct datum_source source,
                                   const struct datum *globals) {
    struct module m = {.py = py, .source = source, .expr = datum_python_expr};
    const struct token first = {.line = 1, .column = 1};
    bool may_train = false;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        may_train |= calls[i].is_arguments && str_find(source.text, str_of(calls[i].end)) >= 0;
    if (!may_train) return NULL; // as nearly every config
    m.globals = datum_copy(&py->data, globals);
    m.imports = datum_python_make(&m, DATUM_MAP, &first);
    struct program p = {.m = &m,
                        .map = datum_python_make(&m, DATUM_MAP, &first),
                        .usual = datum_python_make(&m, DATUM_MAP, &first)};
    scan(&p, true);
    scan(&p, false);
    if (p.arguments_line == 0 || p.is_several) return NULL;
    str_list_add(py->data.arena, &py->source->notes,
                 str_format(py->data.arena,
                            "a program, which is not run: read from the calls of %.*s",
                            STR_ARG(str_list_text(py->data.arena, &p.read))));
    return p.map;
}
