// SPDX-License-Identifier: Apache-2.0
// Python configs, statement by statement, and nothing is run. A name that is assigned a plain value
// has it, the last time wins. What stands in an if, a loop or a try may not run: names that are
// assigned there are unknown. The body of a function or a class is passed over.
#include "records/datum/python_int.h"

enum { BLOCKS_MAX = 100, STEPS_MAX = 32 };

// How a statement counts.
enum mode { RUNS, MAY_RUN, PASSED_OVER };

static void statement(struct module *m, enum mode mode, int depth);

static bool is_line_end(const struct module *m) {
    return m->lex.token.kind == TOKEN_LINE || m->lex.token.kind == TOKEN_END;
}

static void pass_line(struct module *m) {
    while (!is_line_end(m)) datum_python_next(m);
}

// --- Assignments ---------------------------------------------------------------------------------

// "a.b['c'] =": the steps behind the name.
struct target {
    struct token name;
    struct datum *steps[STEPS_MAX];
    int count;
    bool is_known; // every step is a plain text or number
};

static void target_step(struct module *m, struct target *t) {
    struct datum *key;
    if (is(m, ".")) {
        datum_python_next(m);
        key = datum_python_make(m, DATUM_TEXT, &m->lex.token);
        key->text = m->lex.token.text;
        datum_python_next(m);
    } else {
        datum_python_next(m);
        key = datum_python_expr(m);
        if (is(m, "]")) datum_python_next(m);
    }
    t->is_known =
        t->is_known && (key->kind == DATUM_TEXT || key->kind == DATUM_INT) && t->count < STEPS_MAX;
    if (t->count < STEPS_MAX) t->steps[t->count++] = key;
}

// "name.x[0] =", "name: int =", "name +=", "name, other =". False: the place is where it was.
static bool target(struct module *m, struct target *t) {
    const struct lexer before = m->lex;
    const bool was_program = m->is_program;
    *t = (struct target){.name = m->lex.token, .is_known = true};
    if (m->lex.token.kind != TOKEN_NAME) return false;
    datum_python_next(m);
    while ((is(m, ".") || is(m, "[")) && !m->py->status) target_step(m, t);
    if (is(m, ":")) { // an annotation
        datum_python_next(m);
        datum_python_skip(m);
        if (is_line_end(m)) return true;
    }
    const struct str sign = m->lex.token.text;
    if (m->lex.token.kind == TOKEN_SIGN && str_ends(sign, STR("=")) && !str_is(sign, "==") &&
        !str_is(sign, "!=") && !str_is(sign, "<=") && !str_is(sign, ">="))
        return true;
    if (m->py->status) return false;
    m->lex = before;
    m->is_program = was_program;
    return false;
}

static struct datum *step_into(struct module *m, struct datum *from, const struct datum *key) {
    datum_python_open(m, from);
    struct datum *v = datum_python_item(from, key);
    if (v || from->kind != DATUM_MAP || key->kind != DATUM_TEXT) return v;
    v = datum_python_make(m, DATUM_UNKNOWN, &m->lex.token);
    v->text = key->text;
    datum_set(&m->py->data, from, key->text, v, key->line, key->column);
    return v;
}

static struct datum *unknown_like(struct module *m, const struct datum *v) {
    struct datum *u = datum_at(&m->py->data, v, v->line, v->column);
    u->kind = DATUM_UNKNOWN;
    u->is_open = false;
    u->text = STR("set in a block that may not run");
    return u;
}

static void assign(struct module *m, const struct target *t, struct datum *value) {
    struct data *d = &m->py->data;
    if (m->is_uncertain) value = unknown_like(m, value);
    if (t->count == 0) {
        datum_set(d, m->globals, t->name.text, value, t->name.line, t->name.column);
        return;
    }
    const struct datum_pair *p = datum_find(m->globals, t->name.text);
    struct datum *at = p ? p->value : NULL;
    if (m->base && str_is(t->name.text, "_base_")) {
        at = m->base;
        value = datum_deep(d, value, 0); // as MMEngine's own maps take it
    }
    for (int i = 0; at && i + 1 < t->count; i++) at = step_into(m, at, t->steps[i]);
    if (!at) return;
    const struct datum *key = t->steps[t->count - 1];
    datum_python_open(m, at);
    if (!t->is_known || (at->kind == DATUM_LIST && key->kind != DATUM_INT)) {
        at->is_open = at->kind >= DATUM_LIST;
    } else if (at->kind == DATUM_MAP && key->kind == DATUM_TEXT) {
        datum_set(d, at, key->text, value, key->line, key->column);
    } else if (at->kind == DATUM_LIST && datum_python_item(at, key)) {
        const int64_t i = key->integer < 0 ? key->integer + at->list->count : key->integer;
        at->list->items[i] = value;
    }
}

// "lr *= 2"
static void augment(struct module *m, const struct target *t) {
    const struct token sign = m->lex.token;
    const struct datum_pair *p = datum_find(m->globals, t->name.text);
    const struct datum *before = p ? p->value : NULL;
    const ptrdiff_t begin = sign.text.p - m->lex.text.p;
    for (int i = 0; i < t->count; i++) before = datum_python_item(before, t->steps[i]);
    datum_python_next(m);
    const struct datum *more = datum_python_exprs(m);
    struct datum *v = NULL;
    const struct str operator= str_slice(sign.text, 0, sign.text.len - 1);
    if (before) v = datum_python_binary(m, operator, before, more);
    if (!v) v = datum_python_unknown(m, &t->name, begin);
    v = datum_at(&m->py->data, v, t->name.line, t->name.column);
    assign(m, t, v);
}

// "a, b = 1, 2"
static void assign_names(struct module *m) {
    struct target names[STEPS_MAX];
    int count = 0;
    bool is_last = false;
    while (!is_last && !is_line_end(m) && count < STEPS_MAX) {
        struct target *t = &names[count++];
        *t = (struct target){.name = m->lex.token, .is_known = true};
        datum_python_next(m);
        while (!is(m, ",") && !is(m, "=") && !is_line_end(m)) datum_python_next(m);
        is_last = is(m, "=");
        datum_python_next(m);
    }
    struct datum *v = datum_python_exprs(m);
    const bool fits = v->kind == DATUM_LIST && !v->is_open && v->list->count == count;
    for (int i = 0; i < count; i++) {
        struct datum *item = fits ? v->list->items[i] : unknown_like(m, v);
        if (!fits) item->text = STR("one of several");
        if (names[i].name.kind == TOKEN_NAME) assign(m, &names[i], item);
    }
}

// Whether names with commas between them stand before "=".
static bool is_names(const struct module *m) {
    struct lexer ahead = m->lex;
    bool has_comma = false;
    while (ahead.token.kind == TOKEN_NAME) {
        datum_lexer_next(&ahead);
        if (datum_lexer_is(&ahead, "=")) return has_comma;
        if (!datum_lexer_is(&ahead, ",")) return false;
        has_comma = true;
        datum_lexer_next(&ahead);
    }
    return false;
}

// "a = b = 4"; false: it is no assignment. Of more targets than are kept, none is known.
static bool assignment(struct module *m) {
    struct target targets[8], more;
    int count = 0;
    bool is_long = false;
    if (is_names(m)) {
        assign_names(m);
        return true;
    }
    while (count < 8 && target(m, &targets[count])) {
        count++;
        if (is_line_end(m)) return true; // "a: int"
        if (!is(m, "=")) {
            augment(m, &targets[0]);
            return true;
        }
        datum_python_next(m);
    }
    if (count == 0) return false;
    for (; count == 8 && target(m, &more) && is(m, "="); is_long = true) {
        assign(m, &more, datum_python_unknown(m, &more.name, m->lex.end));
        datum_python_next(m);
    }
    struct datum *v = datum_python_exprs(m);
    if (is_long) v = unknown_like(m, v);
    for (int i = 0; i < count; i++) {
        assign(m, &targets[i], v);
        if (str_is(targets[i].name.text, "_base_") && targets[i].count == 0 && !m->is_uncertain)
            datum_python_bases(m, v);
    }
    return true;
}

// --- Statements ----------------------------------------------------------------------------------

// "del model['x']"
static void delete (struct module *m) {
    struct target t = {.name = {0}};
    datum_python_next(m);
    t = (struct target){.name = m->lex.token, .is_known = true};
    if (m->lex.token.kind != TOKEN_NAME) return;
    datum_python_next(m);
    while ((is(m, ".") || is(m, "[")) && !m->py->status) target_step(m, &t);
    struct datum *at = m->globals;
    for (int i = 0; at && i + 1 < t.count + 1 && t.count > 0; i++) {
        const struct datum name = {.kind = DATUM_TEXT, .text = t.name.text};
        at = datum_python_item(at, i == 0 ? &name : t.steps[i - 1]);
    }
    const struct str key = t.count ? t.steps[t.count - 1]->text : t.name.text;
    struct datum_pair *p = at && at->kind == DATUM_MAP ? datum_find(at, key) : NULL;
    if (p) p->value = m->is_uncertain ? unknown_like(m, p->value) : NULL;
}

static void simple(struct module *m, enum mode mode) {
    static const char *const nothing[] = {"pass",   "assert",   "raise",    "return", "break",
                                          "global", "continue", "nonlocal", NULL};
    if (mode == PASSED_OVER) {
        datum_python_forget_globals(m);
        pass_line(m);
        return;
    }
    m->is_uncertain = mode == MAY_RUN;
    while (!is_line_end(m)) {
        if (!is_names(m)) datum_python_forget_targets(m);
        if (is(m, "from") || is(m, "import"))
            datum_python_import(m);
        else if (is(m, "del"))
            delete (m);
        else if (str_is_one_of(m->lex.token.text, nothing))
            datum_python_skip(m);
        else if (!assignment(m))
            datum_python_exprs(m);
        while (!is(m, ";") && !is_line_end(m)) datum_python_next(m);
        if (is(m, ";")) datum_python_next(m);
    }
}

static bool is_read_base(const struct module *m) {
    struct lexer ahead = m->lex;
    datum_lexer_next(&ahead);
    return datum_lexer_is(&ahead, "read_base");
}

// A header and the lines below it that stand further right.
static void block(struct module *m, enum mode mode, int depth) {
    const int column = m->lex.token.column;
    int brackets = 0;
    bool in_lambda = false;
    if (mode != PASSED_OVER) datum_python_forget_header(m);
    while (!is_line_end(m) && (brackets > 0 || in_lambda || !is(m, ":"))) {
        brackets += is(m, "(") || is(m, "[") || is(m, "{");
        brackets -= is(m, ")") || is(m, "]") || is(m, "}");
        in_lambda = is(m, "lambda") || (in_lambda && !is(m, ":"));
        datum_python_next(m);
    }
    if (is(m, ":")) datum_python_next(m);
    if (!is_line_end(m)) simple(m, mode);
    while (m->lex.token.kind == TOKEN_LINE) datum_python_next(m);
    while (m->lex.token.kind != TOKEN_END && m->lex.token.column > column)
        statement(m, mode, depth + 1);
}

static bool is_header(const struct module *m) {
    static const char *const headers[] = {"if",   "elif",  "else",   "for",   "while",
                                          "with", "try",   "except", "async", "finally",
                                          "def",  "class", NULL};
    return m->lex.token.kind == TOKEN_NAME && str_is_one_of(m->lex.token.text, headers);
}

static void statement(struct module *m, enum mode mode, int depth) {
    if (depth > BLOCKS_MAX) {
        datum_python_stop(m, m->lex.end, "blocks nested deeper than %d levels", BLOCKS_MAX);
        return;
    }
    if (is(m, "@")) { // a decorator
        pass_line(m);
    } else if (is_header(m)) {
        const bool passed = is(m, "def") || is(m, "class") || is(m, "async");
        const bool runs = is(m, "with") && is_read_base(m);
        m->has_read_base |= runs;
        const enum mode below = passed ? PASSED_OVER : runs || mode > MAY_RUN ? mode : MAY_RUN;
        block(m, below, depth);
        return;
    } else {
        simple(m, mode);
    }
    while (m->lex.token.kind == TOKEN_LINE) datum_python_next(m);
}

// What the whole text means; the globals. ret_is_program may be NULL.
static struct datum *run(struct python *py, struct datum_source source, unsigned char file,
                         int depth, bool *ret_is_program) {
    struct module m = {
        .py = py, .source = source, .file = file, .depth = depth, .expr = datum_python_expr};
    const struct token first = {.line = 1, .column = 1};
    m.globals = datum_python_make(&m, DATUM_MAP, &first);
    m.imports = datum_python_make(&m, DATUM_MAP, &first);
    m.lex = datum_lexer_open(source.text);
    if (m.lex.fault) datum_python_stop(&m, m.lex.fault_at, "not Python: %s", m.lex.fault);
    while (m.lex.token.kind != TOKEN_END) {
        const bool is_indented = m.lex.token.column > 1;
        statement(&m, is_indented ? MAY_RUN : RUNS, 0);
    }
    if (ret_is_program) *ret_is_program = m.is_program;
    return datum_python_merged(&m);
}

int datum_python_read(struct arena *a, struct datum_source *source, const struct datum **ret_root,
                      struct fail *why) {
    struct python py = {.data = {.arena = a}, .source = source, .why = why, .run = run};
    bool is_program = false;
    *arena_push(a, &py.files, &py.file_count, &py.file_capacity) =
        (struct python_file){.path = source->name};
    struct datum *const root = run(&py, *source, 0, 0, &is_program);
    const struct datum *globals = root;
    if (py.status) return py.status;
    if (py.data.count > DATUM_MAX) return datum_too_many(source, why);
    const bool is_empty = globals->map->count == 0 && !globals->is_open;
    const struct datum *program = datum_python_program(&py, *source, root);
    if (py.status) return py.status;
    *ret_root = program ? program : is_program || is_empty ? NULL : globals;
    return 0;
}
