// SPDX-License-Identifier: Apache-2.0
// Where the reading of a Python file is, and what every part of it needs: the next token, a new
// value, one that only the program knows, the end.
#include "records/datum/python_int.h"

#include <stdarg.h>
#include <stdio.h>

enum { SHOWN = 60 }; // bytes of a value that only the program knows

void datum_python_stop(struct module *m, ptrdiff_t at, const char *format, ...) {
    char message[300];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (!m->py->status)
        m->py->status = datum_source_fail(&m->source, at, m->py->why, "%s", message);
    m->lex.at = m->lex.text.len;
    m->lex.depth = 0;
    m->lex.token = (struct token){.kind = TOKEN_END, .text = str_slice(m->lex.text, at, at)};
}

// Words that only a program has, and no config.
static bool is_programs(const struct lexer *before, const struct token *token) {
    static const char *const words[] = {
        "backward", "zero_grad",      "parse_args", "parse_known_args",
        "argv",     "ArgumentParser", "exec",       NULL};
    static const char *const methods[] = {"train", "fit", "main", NULL};
    if (token->kind == TOKEN_STRING) return str_find(token->text, STR("__main__")) == 1;
    if (token->kind != TOKEN_NAME) return false;
    if (str_is_one_of(token->text, words)) return true;
    return datum_lexer_is(before, ".") && str_is_one_of(token->text, methods) &&
           str_starts(str_slice(before->text, before->at + token->text.len, before->text.len),
                      STR("("));
}

void datum_python_next(struct module *m) {
    const struct lexer before = m->lex;
    datum_lexer_next(&m->lex);
    if (m->lex.fault && !m->py->status)
        datum_python_stop(m, m->lex.fault_at, "not Python: %s", m->lex.fault);
    m->is_program = m->is_program || is_programs(&before, &m->lex.token);
}

struct datum *datum_python_make(struct module *m, enum datum_kind kind, const struct token *at) {
    struct datum *v = datum_new(&m->py->data, kind, at->line, at->column);
    v->file = m->file;
    if (m->py->data.count > DATUM_MAX && !m->py->status) {
        m->py->status = datum_too_many(m->py->source, m->py->why);
        datum_python_stop(m, 0, "too many values");
    }
    return v;
}

// As it is written from `begin` to the token before the current one, in one line.
struct datum *datum_python_unknown(struct module *m, const struct token *at, ptrdiff_t begin) {
    struct datum *v = datum_python_make(m, DATUM_UNKNOWN, at);
    struct str text = str_slice(m->lex.text, begin, m->lex.end > begin ? m->lex.end : begin);
    ptrdiff_t end = 0;
    while (end < text.len && end < SHOWN && (unsigned char)text.p[end] >= ' ') end++;
    while (end > 0 && end < text.len && ((unsigned char)text.p[end] & 0xC0) == 0x80) end--;
    v->text = end < text.len ? str_format(m->py->data.arena, "%.*s...", (int)end, text.p) : text;
    if (v->text.len == 0) v->text = STR("?");
    return v;
}

bool datum_python_at_end(const struct module *m) {
    static const char *const ends[] = {",",  ")",  "]",   "}",   ":",  ";",  "=",  "+=", "-=",
                                       "*=", "/=", "//=", "**=", "%=", "|=", "&=", NULL};
    if (now(m)->kind == TOKEN_END || now(m)->kind == TOKEN_LINE) return true;
    return now(m)->kind == TOKEN_SIGN && str_is_one_of(now(m)->text, ends);
}

void datum_python_skip(struct module *m) {
    int depth = 0;
    bool in_lambda = false;
    while (now(m)->kind != TOKEN_END && (depth > 0 || now(m)->kind != TOKEN_LINE)) {
        if (depth == 0 && in_lambda && is(m, ":")) {
            in_lambda = false;
            datum_python_next(m);
            continue;
        }
        if (depth == 0 && !in_lambda && datum_python_at_end(m)) return;
        if (depth == 0 && is(m, "for")) m->is_comprehension = true;
        if (depth == 0 && is(m, "lambda")) in_lambda = true;
        if (is(m, "(") || is(m, "[") || is(m, "{")) depth++;
        if (is(m, ")") || is(m, "]") || is(m, "}")) depth--;
        if (depth < 0) return;
        datum_python_next(m);
    }
}

struct datum *datum_python_item(const struct datum *from, const struct datum *key) {
    if (!from || !key) return NULL;
    if (from->kind == DATUM_MAP && key->kind == DATUM_TEXT) {
        struct datum_pair *p = datum_find(from, key->text);
        return p ? p->value : NULL;
    }
    if (from->kind != DATUM_LIST || key->kind != DATUM_INT || from->is_open) return NULL;
    const int64_t i = key->integer < 0 ? key->integer + from->list->count : key->integer;
    return i >= 0 && i < from->list->count ? from->list->items[i] : NULL;
}

void datum_python_extend(struct module *m, struct datum *list, const struct datum *more) {
    if (m->py->data.count > DATUM_MAX) return; // told at the end
    for (ptrdiff_t i = 0, count = more->list->count; i < count; i++)
        datum_push(&m->py->data, list, more->list->items[i]);
    m->py->data.count += (int)more->list->count;
}
