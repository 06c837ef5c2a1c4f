// SPDX-License-Identifier: Apache-2.0
// A program that trains with transformers, trl, peft or unsloth: the plain values among the
// arguments of the calls that decide about memory, as if they were flags of a command line. What
// may not run, or is changed afterwards, is unknown; and what else the program does, which is said
// (program_calls, of which data/dialects.tsv has a guard).
#include "records/datum/python_int.h"

// --- Names and options ---------------------------------------------------------------------------

static void note_usual(struct program *p, struct str name, struct datum *v,
                       const struct token *at) {
    struct data *d = &p->m->py->data;
    datum_set(d, p->usual, str_of(str_z_swapped(d->arena, name, '-', '_')),
              datum_program_plain(p, v), at->line, at->column);
}

// "batch = 4" of a function, which is passed over else: where a name has two values it has none.
static void note_value(struct program *p, const struct token *name) {
    struct module *m = p->m;
    datum_python_next(m);
    struct datum *v = datum_python_exprs(m);
    const struct datum_pair *known = datum_find(m->globals, name->text);
    const bool is_scalar = v->kind != DATUM_MAP && v->kind != DATUM_LIST;
    if (p->class_column > 0 && v->kind != DATUM_UNKNOWN) note_usual(p, name->text, v, name);
    const bool is_same = known && known->value && known->value->kind == v->kind &&
                         known->value->integer == v->integer && known->value->number == v->number &&
                         str_equal(known->value->text, v->text);
    if (p->runs == NO || (known && known->line == name->line)) return; // run already
    const bool is_unknown = (known && !is_same) || p->runs == MAYBE;
    if (is_unknown) v = datum_python_make(m, DATUM_UNKNOWN, name);
    if (is_unknown) v->text = name->text;
    if (is_scalar || is_unknown) datum_set(&m->py->data, m->globals, name->text, v, name->line, 1);
}

// "parser.add_argument("--batch-size", default=64)", "action="store_true""
static void note_option(struct program *p, const struct token *at) {
    struct datum *list = NULL;
    const struct datum *named = datum_python_arguments(p->m, at, &list);
    const struct datum_pair *usual = datum_find(named, STR("default"));
    const struct datum_pair *action = datum_find(named, STR("action"));
    const struct str does = action && action->value ? action->value->text : (struct str){0};
    struct datum *v = usual ? usual->value : NULL;
    if (!v && str_starts(does, STR("store_"))) {
        v = datum_python_make(p->m, DATUM_BOOL, at);
        v->boolean = str_is(does, "store_false");
    }
    for (ptrdiff_t i = 0; v && i < list->list->count; i++) {
        const struct datum *word = list->list->items[i];
        if (word->kind == DATUM_TEXT && str_starts(word->text, STR("--")))
            note_usual(p, str_slice(word->text, 2, word->text.len), v, at);
    }
}

// "rank: int = field(default=8)" of a class of options, behind the name.
static void note_field(struct program *p, const struct token *name) {
    struct module *m = p->m;
    struct datum *list = NULL;
    if (name->column == 1) return;
    datum_python_next(m);
    datum_python_skip(m);
    if (!is(m, "=")) return;
    datum_python_next(m);
    if (!is(m, "field")) {
        note_usual(p, name->text, datum_python_exprs(m), name);
        return;
    }
    datum_python_next(m);
    if (!is(m, "(")) return;
    const struct datum *named = datum_python_arguments(m, name, &list);
    const struct datum_pair *usual = datum_find(named, STR("default"));
    if (usual && usual->value) note_usual(p, name->text, usual->value, name);
}

// "def train(model: str = "gpt2", batch=8):" at the opening bracket; an option of that name says
// it, too.
static void note_parameters(struct program *p) {
    struct module *m = p->m;
    datum_python_next(m);
    while (!is(m, ")") && now(m)->kind != TOKEN_END) {
        const struct token name = *now(m);
        datum_python_next(m);
        if (is(m, ":")) {
            datum_python_next(m);
            datum_python_skip(m);
        }
        if (is(m, "=") && name.kind == TOKEN_NAME) {
            datum_python_next(m);
            struct datum *v = datum_python_expr(m);
            if (!datum_find(p->usual, name.text)) note_usual(p, name.text, v, &name);
        }
        if (is(m, ",")) datum_python_next(m);
    }
}

// --- Changes -------------------------------------------------------------------------------------

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
    struct module *m = p->m;
    const bool is_set = is(m, "=") && m->lex.depth == 0, is_call = is(m, "(");
    if (p->runs == NO || p->trained_column > 0) return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_is(at->text, names[i].name) && (names[i].is_call ? is_call : is_set))
            datum_program_forget(p, names[i].key, "changed afterwards", at);
    if (is_set)
        datum_program_forget(p, str_z(m->py->data.arena, at->text), "changed afterwards", at);
    if (is_set || is_call) datum_python_next(m);
    p->is_frozen |= (is_set && str_is(at->text, "requires_grad") && is(m, "False")) ||
                    (is_call && str_is(at->text, "requires_grad_") && is(m, "False"));
}

// --- All of it -----------------------------------------------------------------------------------

// First all names, then who trains what, then all calls, since a call may stand above what main()
// sets; then what is changed.
enum pass { NAMES, MODELS, CALLS, CHANGES };

static void look(struct program *p, enum pass pass, const struct token *at,
                 const struct token *last) {
    struct module *m = p->m;
    const bool is_made = str_is(last[0].text, "class") || str_is(last[0].text, "def");
    const bool begins = at->text.p == p->line.text.p, is_call = is(m, "(") && !is_made;
    if (is_call) datum_program_train(p, at, last);
    if (pass == NAMES && begins && is(m, "="))
        note_value(p, at);
    else if (pass == NAMES && begins && is(m, ":"))
        note_field(p, at);
    else if (pass == NAMES && is_call && str_is(at->text, "add_argument"))
        note_option(p, at);
    else if (pass == NAMES && is(m, "(") && str_is(last[0].text, "def"))
        note_parameters(p);
    else if (pass == MODELS && is_call)
        datum_program_note_model(p, at, last);
    else if (pass == CALLS && is_call)
        datum_program_call(p, at, last);
    else if (pass == CALLS && str_is(at->text, "environ"))
        datum_program_environment(p);
    else if (pass == CHANGES && str_is(last[0].text, "."))
        note_change(p, at);
}

static void scan(struct program *p, enum pass pass) {
    struct module *m = p->m;
    struct token last[3] = {0}; // the three before
    p->block_count = p->trained_column = 0;
    m->lex = datum_lexer_open(p->m->source.text);
    while (now(m)->kind != TOKEN_END && !m->py->status) {
        const struct token at = *now(m);
        const bool begins = last[0].kind == TOKEN_LINE || last[0].kind == TOKEN_END;
        datum_python_next(m);
        const struct lexer behind = m->lex;
        if (begins && at.kind != TOKEN_LINE) {
            p->line = at;
            datum_program_block(p, &at);
        }
        if (at.kind == TOKEN_NAME) look(p, pass, &at, last);
        if (m->py->status) return;
        m->lex = behind; // what is inside of the brackets is looked at, too
        last[2] = last[1];
        last[1] = last[0];
        last[0] = at;
    }
}

struct datum *datum_python_program(struct python *py, struct datum_source source,
                                   const struct datum *globals) {
    struct module m = {.py = py, .source = source, .expr = datum_python_expr};
    const struct token first = {.line = 1, .column = 1};
    struct program p = {.m = &m};
    if (!datum_program_may_train(source.text, &p.has_arguments)) return NULL; // as most configs
    m.globals = datum_copy(&py->data, globals);
    m.imports = datum_python_make(&m, DATUM_MAP, &first);
    p.map = datum_python_make(&m, DATUM_MAP, &first);
    p.usual = datum_python_make(&m, DATUM_MAP, &first);
    scan(&p, NAMES);
    scan(&p, MODELS);
    p.loads_variable = p.variable.len > 0 && str_list_has(&p.loads, p.variable);
    scan(&p, CALLS);
    datum_program_defaults(&p);
    scan(&p, CHANGES);
    datum_program_frozen(&p);
    if (p.arguments_line == 0 || p.is_lost) return NULL;
    struct datum *said = datum_python_make(&m, DATUM_TEXT, &first);
    said->text = str_list_text(py->data.arena, &p.read);
    datum_set(&py->data, p.map, STR("program_calls"), said, p.arguments_line, 1);
    return p.map;
}
