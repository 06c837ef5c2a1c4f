// SPDX-License-Identifier: Apache-2.0
// Names that a Python config sets in other ways than "name = value": by a loop, "with … as",
// "except … as", :=, targets in brackets, or in a function that declares them global. None of this
// is followed: what they had before is not known any more.
#include "records/datum/python_int.h"

// A name that is not set is not known as it is; of a map behind a dot, more may be set.
static void forget(struct module *m, const struct token *name, bool is_path) {
    const struct datum_pair *p = datum_find(m->globals, name->text);
    if (!p || !p->value) return;
    if (is_path) {
        p->value->is_open |= p->value->kind >= DATUM_LIST;
        return;
    }
    struct datum *v = datum_at(&m->py->data, p->value, name->line, name->column);
    v->kind = DATUM_UNKNOWN;
    v->is_import = v->is_open = false;
    v->text = STR("set by the program as it runs");
    datum_set(&m->py->data, m->globals, name->text, v, name->line, name->column);
}

static bool is_line_end(const struct lexer *x) {
    return x->token.kind == TOKEN_LINE || x->token.kind == TOKEN_END;
}

// Every name up to a place in the text, without what stands behind its dots.
static void forget_up_to(struct module *m, struct lexer x, const char *end) {
    bool is_behind_dot = false;
    while (!is_line_end(&x) && x.token.text.p < end) {
        const struct token at = x.token;
        datum_lexer_next(&x);
        if (at.kind == TOKEN_NAME && !is_behind_dot)
            forget(m, &at, datum_lexer_is(&x, ".") || datum_lexer_is(&x, "["));
        is_behind_dot = str_is(at.text, ".");
    }
}

static int opened(const struct token *t) {
    const bool opens = str_is(t->text, "(") || str_is(t->text, "[") || str_is(t->text, "{");
    const bool closes = str_is(t->text, ")") || str_is(t->text, "]") || str_is(t->text, "}");
    return t->kind == TOKEN_SIGN ? opens - closes : 0;
}

void datum_python_forget_targets(struct module *m) {
    struct lexer x = m->lex, from = m->lex; // behind the last "="
    struct token before = {0};
    bool is_several = is(m, "(") || is(m, "[") || is(m, "*"), is_value = false;
    for (int depth = 0; !is_line_end(&x); datum_lexer_next(&x)) {
        if (depth == 0 && datum_lexer_is(&x, ";")) break;
        is_value |= datum_lexer_is(&x, "lambda"); // whose parameters have commas and "=", too
        if (depth == 0 && datum_lexer_is(&x, "=")) {
            if (is_several && !is_value) forget_up_to(m, from, x.token.text.p);
            from = x;
        }
        is_several |= depth == 0 && datum_lexer_is(&x, ",");
        if (datum_lexer_is(&x, ":=") && before.kind == TOKEN_NAME) forget(m, &before, false);
        depth += opened(&x.token);
        before = x.token;
    }
}

void datum_python_forget_header(struct module *m) {
    const bool is_for = is(m, "for");
    struct lexer x = m->lex;
    struct token before = {0};
    bool is_target = is_for;
    datum_lexer_next(&x);
    for (int depth = 0, outside = 0; !is_line_end(&x);) {
        const struct token at = x.token;
        const int by = opened(&at);
        if (depth == 0 && str_is(at.text, ":")) return;
        if (depth + by < outside || (depth == outside && str_is(at.text, is_for ? "in" : ",")))
            is_target = false;
        if (str_is(at.text, ":=") && before.kind == TOKEN_NAME) forget(m, &before, false);
        datum_lexer_next(&x);
        if (is_target && at.kind == TOKEN_NAME && !str_is(before.text, "."))
            forget(m, &at, datum_lexer_is(&x, ".") || datum_lexer_is(&x, "["));
        if (str_is(at.text, "as")) { // "with open(x) as f", "with (a as b, c as (d, e)):"
            is_target = true;
            outside = depth;
        }
        depth += by;
        before = at;
    }
}

void datum_python_forget_globals(struct module *m) {
    struct lexer x = m->lex;
    if (!is(m, "global")) return;
    for (; !is_line_end(&x) && !datum_lexer_is(&x, ";"); datum_lexer_next(&x))
        if (x.token.kind == TOKEN_NAME) forget(m, &x.token, false);
}
