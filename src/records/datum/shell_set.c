// SPDX-License-Identifier: Apache-2.0
// The variables that a shell script sets: NAME=value, and the builtins that set others, whose
// values are not known then.
#include "records/datum/shell_int.h"

#include <string.h>

enum { ARITHMETIC_MAX = 256 }; // bytes of (( … ))

// "$1", "${2#*=}": what the script is called with.
static bool is_argument(struct str text) {
    return text.len > 1 && text.p[0] == '$' &&
           str_is_digit(text.p[text.len > 2 && text.p[1] == '{' ? 2 : 1]);
}

void datum_shell_set(struct shell *s, const struct shell_word *w, const struct shell_word *more,
                     ptrdiff_t count) {
    const ptrdiff_t equals = datum_shell_assigns(w->text);
    const bool appends = w->text.p[equals - 1] == '+';
    const struct str name = str_slice(w->text, 0, equals - appends);
    struct shell_variable *v = datum_shell_variable(s, name);
    if (!v) {
        if (s->variable_count > 2000) return; // looked for one by one
        v = arena_push(s->arena, &s->variables, &s->variable_count, &s->variable_capacity);
        *v = (struct shell_variable){.name = name, .is_inside = s->functions > 0};
    }
    v->is_changed |= s->functions > 0 && !v->is_inside;
    const bool is_sure = s->depth == 0 && !s->may_run;
    const struct str value = str_slice(w->text, equals + 1, w->text.len);
    // Of a loop through options: called without them, the script has what stands above.
    if (!is_sure && v->count > 0 && count == 0 && is_argument(value)) return;
    if (!appends) {
        v->has_flags = !is_sure && (v->has_flags || datum_shell_holds_flags(v, true));
        v->count = 0;
    }
    struct shell_word first = *w;
    first.text = value;
    first.is_known = first.is_known && is_sure;
    first.gap_count = first.gap_capacity = 0;
    if (is_sure) datum_shell_move_gaps(s, &first, w, -(equals + 1));
    s->words += first.text.len / 64; // X=$X$X
    if (appends && v->count == 1 && count == 0) {
        struct shell_word *old = &v->words[0];
        if (is_sure) datum_shell_move_gaps(s, old, &first, old->text.len);
        if (!is_sure) old->gap_count = 0;
        old->is_known = old->is_known && first.is_known;
        old->text = str_format(s->arena, "%.*s%.*s", STR_ARG(old->text), STR_ARG(first.text));
        return;
    }
    if (count == 0) *arena_push(s->arena, &v->words, &v->count, &v->capacity) = first;
    for (ptrdiff_t i = 0; i < count; i++) {
        struct shell_word item = more[i];
        item.is_known = item.is_known && is_sure;
        if (!is_sure) item.gap_count = 0;
        *arena_push(s->arena, &v->words, &v->count, &v->capacity) = item;
    }
}

static void forget(struct shell *s, struct shell_variable *v) {
    const struct shell_word none = {.line = s->line, .column = 1};
    v->has_flags = v->has_flags || datum_shell_holds_flags(v, true);
    v->count = 0;
    *arena_push(s->arena, &v->words, &v->count, &v->capacity) = none;
}

static void forget_name(struct shell *s, struct str name) {
    struct shell_variable *v = datum_shell_variable(s, name);
    if (v) forget(s, v);
}

// --- Builtins ------------------------------------------------------------------------------------

// "declare -r BS=16", "export A B=1". False: it is none of these.
bool datum_shell_declare(struct shell *s, const struct shell_command *c) {
    static const char *const names[] = {"declare", "typeset", "local", "readonly", "export", NULL};
    bool exports = str_is(c->words[0].text, "export"), is_plain = true;
    if (!str_is_one_of(c->words[0].text, names)) return false;
    for (ptrdiff_t i = 1; i < c->count; i++) {
        struct shell_word w = c->words[i];
        const ptrdiff_t equals = datum_shell_assigns(w.text);
        if (equals < 0 && (str_starts(w.text, STR("-")) || str_starts(w.text, STR("+")))) {
            exports |= str_find(w.text, STR("x")) >= 0;
            is_plain = is_plain && str_find(w.text, STR("i")) < 0; // 4*2 is 8
            continue;
        }
        w.is_known = w.is_known && is_plain;
        if (equals > 0) datum_shell_set(s, &w, NULL, 0);
        struct str name = w.text;
        if (equals > 0) name = str_slice(name, 0, equals - (name.p[equals - 1] == '+'));
        struct shell_variable *v = datum_shell_variable(s, name);
        if (v) v->is_exported |= exports;
    }
    return true;
}

static bool is_at(struct str text, ptrdiff_t at, const char *sign) {
    return str_starts(str_slice(text, at < text.len ? at : text.len, text.len), str_of(sign));
}

// "BS *= 2", "i++": what is assigned to in an arithmetic expression.
static void forget_assigned(struct shell *s, struct str text) {
    static const char *const signs[] = {
        "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--", NULL};
    for (ptrdiff_t i = 0; i < text.len; i++) {
        if (!shell_is_name(text.p[i])) continue;
        const ptrdiff_t begin = i;
        while (i < text.len && shell_is_name(text.p[i])) i++;
        const struct str name = str_slice(text, begin, i);
        ptrdiff_t next = i;
        while (next < text.len && text.p[next] == ' ') next++;
        const struct str before = str_trim(str_slice(text, 0, begin));
        bool is_set = str_ends(before, STR("++")) || str_ends(before, STR("--"));
        for (int k = 0; signs[k]; k++) is_set |= is_at(text, next, signs[k]);
        if (is_set && !is_at(text, next, "==")) forget_name(s, name);
    }
}

void datum_shell_builtin(struct shell *s, const struct shell_command *c) {
    static const char *const setters[] = {"read", "mapfile", "readarray", "getopts", NULL};
    const struct str name = c->words[0].text;
    const bool is_sure = s->depth == 0 && !s->may_run && s->functions == 0;
    for (ptrdiff_t i = 1; i < c->count; i++) {
        const struct str word = c->words[i].text;
        struct shell_variable *v = datum_shell_variable(s, word);
        if (str_is(name, "let"))
            forget_assigned(s, word);
        else if (v && str_is(name, "unset") && is_sure)
            v->name = (struct str){0};
        else if (v && (str_is_one_of(name, setters) || str_is(name, "unset")))
            forget(s, v);
        else if (v && str_is(name, "printf") && i == 2 && str_is(c->words[1].text, "-v"))
            forget(s, v);
    }
}

// At "((": passes over it and its end. False: these are brackets of commands in brackets.
bool datum_shell_arithmetic(struct shell *s) {
    const struct str text =
        str_slice(s->text, s->at,
                  s->at + ARITHMETIC_MAX < s->text.len ? s->at + ARITHMETIC_MAX : s->text.len);
    int depth = 0;
    for (ptrdiff_t i = 0, inner = -1; i < text.len; i++) {
        depth += (text.p[i] == '(') - (text.p[i] == ')');
        if (depth == 0 && inner != i - 1) return false;
        if (depth == 1 && text.p[i] == ')') inner = i;
        if (depth > 0) continue;
        forget_assigned(s, str_slice(text, 2, i - 1));
        for (ptrdiff_t k = 0; k <= i; k++) {
            if (text.p[k] != '\n') continue;
            s->line++;
            s->line_begin = s->at + k + 1;
        }
        s->at += i + 1;
        return true;
    }
    return false;
}

// --- Functions -----------------------------------------------------------------------------------

// At a bracket: "NAME()", "NAME ()", and passes over it.
bool datum_shell_is_body(struct shell *s) {
    ptrdiff_t ahead = 1;
    while (shell_peek(s, ahead) == ' ') ahead++;
    if (shell_peek(s, ahead) != ')' || (!s->has_word && s->command.count == 0)) return false;
    s->has_word = false;
    s->awaits_body = true;
    s->at += ahead + 1;
    return true;
}

// At "{" and "}". What a function changes of the variables outside is not known behind it: it may
// be called or not.
void datum_shell_body(struct shell *s, bool opens) {
    if (opens) {
        s->groups = s->groups << 1 | s->awaits_body;
        s->functions += s->awaits_body;
        s->awaits_body = false;
        return;
    }
    const bool is_function = s->groups & 1;
    s->functions -= is_function;
    s->groups >>= 1;
    if (!is_function || s->functions > 0) return;
    for (ptrdiff_t i = 0; i < s->variable_count; i++) {
        struct shell_variable *v = &s->variables[i];
        if (v->is_changed) forget(s, v);
        v->is_changed = v->is_inside = false;
    }
}
