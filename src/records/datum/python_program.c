// SPDX-License-Identifier: Apache-2.0
// A program that trains with transformers, trl, peft or unsloth: the plain values among the
// arguments of the calls that decide about memory, as if they were flags of a command line. What
// may not run, or is changed afterwards, is unknown; and what else the program does, which is said
// (program_calls, of which data/dialects.tsv has a guard).
#include "records/datum/python_int.h"

enum { CALLS_MAX = 64, RENAMED_MAX = 18, BLOCKS_MAX = 64 };
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
    {"LoraConfig", .switches = {"use_lora"},
     .renamed = {LORA, "modules_to_save", "modules_to_save", "use_dora", "use_dora"}},
    {"BitsAndBytesConfig",
     .renamed = {BITS, "bnb_4bit_use_double_quant", "bnb_4bit_use_double_quant"}},
    {"from_pretrained",
     .renamed = {"torch_dtype", "torch_dtype", "dtype", "torch_dtype", "attn_implementation",
                 "attn_implementation", BITS, "max_seq_length", "max_seq_length", "num_labels",
                 "num_labels", "qat_scheme", "qat"},
     .is_method = true, .is_models = true},
    {"get_peft_model", // unsloth's
     .switches = {"use_lora", "use_unsloth"},
     .renamed = {LORA, "use_gradient_checkpointing", "gradient_checkpointing"}, .is_method = true,
     .is_models = true},
    {"prepare_model_for_kbit_training", .switches = {"gradient_checkpointing"}},
    {"gradient_checkpointing_enable", .switches = {"gradient_checkpointing"}, .is_method = true},
};

struct program {
    struct module *m;
    struct datum *map, *usual; // what it trains with; defaults of its own options
    struct str_list read;      // names of calls
    int arguments_line;        // of the training's; 0: not met
    bool is_lost;              // there are two of them, or they are changed as a whole
    int call_count;
    bool may_run;                        // in a block that may not
    int blocks[BLOCKS_MAX], block_count; // columns of such blocks
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

// Not known any more, or never.
static void forget(struct program *p, const char *key, const struct token *at) {
    struct datum *v = datum_python_make(p->m, DATUM_UNKNOWN, at);
    v->text = str_of(key);
    datum_set(&p->m->py->data, p->map, str_of(key), v, at->line, 1);
}

static void set(struct program *p, const char *key, struct datum *v, const struct token *at) {
    if (p->may_run)
        forget(p, key, at);
    else if (!datum_find(p->map, str_of(key)))
        datum_set(&p->m->py->data, p->map, str_of(key), plain(p, v), at->line, 1);
}

static void set_word(struct program *p, struct datum *map, const char *key, const char *word,
                     const struct token *at) {
    struct datum *v = datum_python_make(p->m, word ? DATUM_TEXT : DATUM_BOOL, at);
    v->boolean = true;
    v->text = word ? str_of(word) : STR("true");
    if (!datum_find(map, str_of(key)))
        datum_set(&p->m->py->data, map, str_of(key), v, at->line, at->column);
}

// The model that is trained, or another beside it. One that is made of an adapter's folder is none.
static void take_model(struct program *p, const struct token *class, struct datum *name,
                       const struct token *at) {
    const struct datum_pair *known = datum_find(p->map, STR("model_name_or_path"));
    if (str_find(class->text, STR("Peft")) >= 0) return;
    name = plain(p, name);
    if (str_starts(class->text, STR("Fast"))) set_word(p, p->map, "use_unsloth", NULL, at);
    if (!known)
        set(p, "model_name_or_path", name, at);
    else if (known->value->kind != name->kind || !str_equal(known->value->text, name->text))
        set_word(p, p->map, "another_model", NULL, at);
}

static void take_script(struct program *p, const struct call *c, const struct token *at) {
    struct datum *launcher = datum_python_make(p->m, DATUM_MAP, at);
    set_word(p, launcher, "script", c->script, at);
    set_word(p, launcher, "started_by", "trl", at);
    datum_set(&p->m->py->data, p->map, STR("launcher"), launcher, at->line, 1);
}

static void take_named(struct program *p, const struct call *c, const struct token *at,
                       const struct datum *named) {
    for (ptrdiff_t i = 0; i < named->map->count; i++) {
        const struct datum_pair *pair = &named->map->pairs[i];
        if (!pair->value) continue;
        if (c->is_arguments) set(p, str_z(p->m->py->data.arena, pair->key), pair->value, at);
        for (int k = 0; k + 1 < RENAMED_MAX && c->renamed[k]; k += 2)
            if (str_is(pair->key, c->renamed[k])) set(p, c->renamed[k + 1], pair->value, at);
    }
    for (int i = 0; c->switches[i]; i++)
        p->may_run ? forget(p, c->switches[i], at) : set_word(p, p->map, c->switches[i], NULL, at);
}

static void take(struct program *p, const struct call *c, const struct token *class,
                 const struct token *at, const struct datum *named, const struct datum *list) {
    struct arena *a = p->m->py->data.arena;
    take_named(p, c, at, named);
    if (c->script) take_script(p, c, at);
    if (c->is_arguments) {
        p->is_lost |= p->arguments_line > 0;
        p->arguments_line = at->line;
        p->map->is_open |= named->is_open; // **kwargs
    }
    if (c->is_models && !c->switches[0]) {
        const struct datum_pair *name = datum_find(named, STR("model_name"));
        struct datum *first = list->list->count > 0 ? list->list->items[0] : NULL;
        if (first || (name && name->value)) take_model(p, class, first ? first : name->value, at);
    }
    str_list_add_new(a, &p->read, at->text);
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
    const bool is_unknown = (known && !is_same) || p->may_run;
    if (is_unknown) v = datum_python_make(m, DATUM_UNKNOWN, name);
    if (is_unknown) v->text = name->text;
    if (is_scalar || is_unknown) datum_set(&m->py->data, m->globals, name->text, v, name->line, 1);
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

// At the first word of a line: the blocks that it ends, and the one that it begins.
static void note_block(struct program *p, const struct token *at) {
    static const char *const headers[] = {"if",    "elif", "else",   "for",
                                          "while", "try",  "except", NULL};
    while (p->block_count > 0 && p->blocks[p->block_count - 1] >= at->column) p->block_count--;
    const bool is_main = str_is(at->text, "if") && is(p->m, "__name__");
    if (at->kind == TOKEN_NAME && str_is_one_of(at->text, headers) && !is_main &&
        p->block_count < BLOCKS_MAX)
        p->blocks[p->block_count++] = at->column;
    p->may_run = p->block_count > 0;
}

// "args.bf16 = x", "lora.r = 512", "model.float()": another value than the call gave.
static void note_change(struct program *p, const struct token *at) {
    static const struct {
        const char *name, *key;
        bool is_call;
    } names[] = {{"r", "lora_r", false},
                 {"target_modules", "lora_target_modules", false},
                 {"float", "torch_dtype", true},
                 {"half", "torch_dtype", true},
                 {"bfloat16", "torch_dtype", true},
                 {"gradient_checkpointing_disable", "gradient_checkpointing", true}};
    const bool is_set = is(p->m, "=") && p->m->lex.depth == 0, is_call = is(p->m, "(");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_is(at->text, names[i].name) && (names[i].is_call ? is_call : is_set))
            forget(p, names[i].key, at);
    if (is_set) forget(p, str_z(p->m->py->data.arena, at->text), at);
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
static bool is_idle(struct program *p, const struct call *c, const struct token *last) {
    const bool begins = last[2].kind == TOKEN_LINE || last[2].kind == TOKEN_END;
    return !c->is_arguments && begins && str_is(last[0].text, "=") && last[1].kind == TOKEN_NAME &&
           times(p->m->source.text, last[1].text) < 2;
}

// At a name and a bracket; last: the three tokens before.
static void note_call(struct program *p, const struct token *at, const struct token *last) {
    struct module *m = p->m;
    const bool is_method = str_is(last[0].text, "."), ends = str_ends(at->text, STR("Trainer"));
    const struct call *c = call_at(&last[1], is_method, at);
    struct datum *list = NULL;
    if (is_change_of_all(at, &last[1], is_method)) p->is_lost = true;
    if ((c || ends) && ++p->call_count > CALLS_MAX) p->is_lost = true; // no training has so many
    if (p->is_lost || (!c && !ends) || (c && is_idle(p, c, last))) return;
    struct datum *named = datum_python_arguments(m, at, &list);
    const bool may_run = p->may_run;
    p->may_run |= is(m, "if"); // "BitsAndBytesConfig(…) if args.bits else None"
    if (c) take(p, c, &last[1], at, named, list);
    p->may_run = may_run;
    if (ends && datum_find(named, STR("optimizers"))) forget(p, "optim", at);
}

// First all names, then all calls, since a call may stand above what main() sets; then what is
// changed.
enum pass { NAMES, CALLS, CHANGES };
static void scan(struct program *p, enum pass pass) {
    struct module *m = p->m;
    struct token last[3] = {0}; // the three before
    p->block_count = 0;
    m->lex = datum_lexer_open(p->m->source.text);
    while (now(m)->kind != TOKEN_END && !m->py->status) {
        const struct token at = *now(m);
        const bool is_method = str_is(last[0].text, ".");
        const bool is_made = str_is(last[0].text, "class") || str_is(last[0].text, "def");
        const bool begins = last[0].kind == TOKEN_LINE || last[0].kind == TOKEN_END;
        datum_python_next(m);
        const struct lexer behind = m->lex;
        if (begins && at.kind != TOKEN_LINE) note_block(p, &at);
        if (at.kind != TOKEN_NAME) {
        } else if (pass == CHANGES && is_method) {
            note_change(p, &at);
        } else if (pass == NAMES && begins && is(m, "=")) {
            note_value(p, &at);
        } else if (pass == NAMES && str_is(at.text, "add_argument") && is(m, "(")) {
            note_option(p, &at);
        } else if (pass == CALLS && !is_made && is(m, "(")) {
            note_call(p, &at, last);
        }
        if (m->py->status) return;
        m->lex = behind; // what is inside of the brackets is looked at, too
        last[2] = last[1];
        last[1] = last[0];
        last[0] = at;
    }
}

// What peft has where nobody says it.
static void add_defaults(struct program *p) {
    const struct token first = {.line = 1, .column = 1};
    struct datum *rank = datum_python_make(p->m, DATUM_INT, &first);
    struct datum *dropout = datum_python_make(p->m, DATUM_INT, &first);
    rank->integer = 8;
    p->may_run = false;
    if (!datum_find(p->map, STR("use_lora"))) return;
    set(p, "lora_r", rank, &first);
    set(p, "lora_dropout", dropout, &first);
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
    scan(&p, NAMES);
    scan(&p, CALLS);
    add_defaults(&p);
    scan(&p, CHANGES);
    if (p.arguments_line == 0 || p.is_lost) return NULL;
    struct datum *said = datum_python_make(&m, DATUM_TEXT, &first);
    said->text = str_list_text(py->data.arena, &p.read);
    datum_set(&py->data, p.map, STR("program_calls"), said, p.arguments_line, 1);
    return p.map;
}
