// SPDX-License-Identifier: Apache-2.0
// A shell script's words: quotes, continued lines, comments, variables that the script itself sets.
// What is set in an if or a loop, comes from the environment or from another command is unknown.
#include "records/datum/shell_int.h"

#include <string.h>

struct shell_variable *datum_shell_variable(struct shell *s, struct str name) {
    for (ptrdiff_t i = 0; i < s->variable_count; i++) {
        if (str_equal(s->variables[i].name, name)) return &s->variables[i];
    }
    return NULL;
}

void datum_shell_begin_word(struct shell *s) {
    if (s->has_word) return;
    s->has_word = true;
    s->word = buf_new(s->arena);
    s->made = (struct shell_word){
        .line = s->line, .column = (int)(s->at - s->line_begin) + 1, .is_known = true};
}

void datum_shell_end_word(struct shell *s) {
    if (!s->has_word) return;
    s->has_word = false;
    if (s->word.count == 0 && !s->made.is_quoted) return; // behind the last blank of a variable
    s->made.text = s->word.count ? buf_str(&s->word) : STR("");
    *arena_push(s->arena, &s->command.words, &s->command.count, &s->command.capacity) = s->made;
    if (s->command.count == 1) s->command.line = s->made.line;
    s->words++;
}

static void unknown(struct shell *s, struct str written) {
    const struct shell_gap gap = {s->word.count, s->word.count + written.len};
    struct shell_word *w = &s->made;
    *arena_push(s->arena, &w->gaps, &w->gap_count, &w->gap_capacity) = gap;
    buf_add(&s->word, written);
    w->is_known = false;
}

void datum_shell_move_gaps(struct shell *s, struct shell_word *w, const struct shell_word *from,
                           ptrdiff_t by) {
    for (ptrdiff_t i = 0; i < from->gap_count; i++)
        *arena_push(s->arena, &w->gaps, &w->gap_count, &w->gap_capacity) =
            (struct shell_gap){from->gaps[i].begin + by, from->gaps[i].end + by};
}

static void next_word(struct shell *s, const struct shell_word *place) {
    datum_shell_end_word(s);
    datum_shell_begin_word(s);
    s->made.line = place->line;
    s->made.column = place->column;
}

// A text falls apart at its blanks; what is unknown of it is so in the words that have it.
static void put_text(struct shell *s, const struct shell_word *from,
                     const struct shell_word *place) {
    ptrdiff_t gap = 0;
    for (ptrdiff_t i = 0; i < from->text.len && s->words < SHELL_WORDS_MAX; i++) {
        if (gap < from->gap_count && i == from->gaps[gap].begin) {
            unknown(s, str_slice(from->text, i, from->gaps[gap].end));
            i = from->gaps[gap++].end - 1;
        } else if (!strchr(" \t\n\r", from->text.p[i])) {
            buf_byte(&s->word, from->text.p[i]);
        } else if (s->word.count > 0) {
            next_word(s, place);
        }
    }
}

ptrdiff_t datum_shell_assigns(struct str text) {
    ptrdiff_t i = 0;
    while (i < text.len && shell_is_name(text.p[i])) i++;
    if (i + 1 < text.len && text.p[i] == '+' && text.p[i + 1] == '=') return i + 1;
    return i > 0 && i < text.len && text.p[i] == '=' && !str_is_digit(text.p[0]) ? i : -1;
}

// Without quotes a text falls apart at its blanks; of a list, "${ARGS[@]}", every word is one as it
// stands there, and an empty list is none; "${ARGS[*]}" is one word.
static void put(struct shell *s, const struct shell_variable *v, bool is_quoted, bool is_list) {
    const bool is_joined = is_quoted && (!is_list || datum_shell_assigns(buf_str(&s->word)) > 0);
    if (is_list && s->word.count == 0 && v->count == 0) s->made.is_quoted = false;
    for (ptrdiff_t i = 0; i < v->count && s->words < SHELL_WORDS_MAX; i++) {
        const struct shell_word *from = &v->words[i], place = s->made;
        const bool is_apart = !is_quoted && (from->is_known || from->gap_count > 0);
        if (i > 0 && is_joined)
            buf_byte(&s->word, ' ');
        else if (i > 0)
            next_word(s, &place);
        if (is_list && s->word.count == 0) s->made.is_quoted = from->is_quoted;
        if (is_apart) {
            put_text(s, from, &place);
        } else if (from->is_known || from->gap_count > 0) {
            datum_shell_move_gaps(s, &s->made, from, s->word.count);
            s->made.is_known = s->made.is_known && from->is_known;
            buf_add(&s->word, from->text);
        } else {
            unknown(s, from->text);
        }
    }
}

bool datum_shell_holds_flags(const struct shell_variable *v, bool is_sure) {
    bool holds = false;
    for (ptrdiff_t i = 0; i < v->count; i++) {
        const struct shell_word *w = &v->words[i];
        const bool is_text = w->is_known || w->gap_count > 0;
        holds = holds || (is_text == is_sure && str_starts(w->text, STR("-")));
    }
    return holds;
}

// A variable that is set only in some case, or by a loop: nothing of it is put in where it may hold
// flags ("$ARGS"), or nothing.
static bool is_left(struct shell *s, const struct shell_variable *v, bool is_quoted,
                    struct str written) {
    const bool is_list = str_ends(written, STR("[@]}")), is_text = is_quoted && !is_list;
    const bool is_empty = v->count == 1 && !v->words[0].is_known && v->words[0].text.len == 0;
    const bool is_flags = v->has_flags || (!is_list && datum_shell_holds_flags(v, false));
    if (is_text || s->word.count > 0 || !(is_flags || is_empty)) return false;
    unknown(s, written);
    s->made.is_flags = is_flags;
    return true;
}

// Past a bracket that has begun, with all in it.
static void pass_brackets(struct shell *s, char open, char close) {
    int depth = 0;
    while (s->at < s->text.len) {
        const char c = s->text.p[s->at++];
        if (c == '\n') {
            s->line++;
            s->line_begin = s->at;
        }
        if (c == '\\') s->at++;
        depth += (c == open) - (c == close);
        if (depth == 0) return;
    }
}

// "${NAME:-4}": behind the name. The default is taken where the script does not set it.
static void take_braces(struct shell *s, struct str inside, struct str written, bool is_quoted) {
    ptrdiff_t end = 0;
    while (end < inside.len && shell_is_name(inside.p[end])) end++;
    struct str name = str_slice(inside, 0, end), rest = str_slice(inside, end, inside.len);
    const struct shell_variable *v = datum_shell_variable(s, name);
    const bool is_plain = rest.len == 0 || str_is(rest, "[@]") || str_is(rest, "[*]");
    const bool has_default =
        str_starts(rest, STR(":-")) || str_starts(rest, STR(":=")) || str_starts(rest, STR("-"));
    struct str other = str_slice(rest, rest.len && rest.p[0] == '-' ? 1 : 2, rest.len);
    if (str_starts(other, STR("\"")) && str_ends(other, STR("\"")) && other.len > 1)
        other = str_slice(other, 1, other.len - 1); // ${NAME:-"4"}
    const bool is_set = v && (v->count != 1 || v->words[0].text.len > 0);
    if (v && is_plain && is_left(s, v, is_quoted, written)) return;
    if (v && (is_plain || (has_default && is_set))) {
        put(s, v, is_quoted, is_quoted && rest.len > 0 && rest.p[1] == '@');
    } else if (has_default && !v && !strpbrk(str_z(s->arena, other), "$`'\"\\ ")) {
        buf_add(&s->word, other);
    } else {
        unknown(s, written);
    }
}

// A factor of "$(($NODES * 8))": a number, or a variable that is one, with its dollar sign or
// without.
static bool factor(struct shell *s, struct str text, int64_t *ret) {
    if (str_starts(text, STR("${")) && str_ends(text, STR("}")))
        text = str_slice(text, 2, text.len - 1);
    else if (str_starts(text, STR("$")))
        text = str_slice(text, 1, text.len);
    if (str_to_i64(text, ret)) return true;
    const struct shell_variable *v = datum_shell_variable(s, text);
    return v && v->count == 1 && v->words[0].is_known && str_to_i64(v->words[0].text, ret);
}

// "$(( … ))" of factors; no other arithmetic. False: not known.
static bool product(struct shell *s, struct str text, int64_t *ret) {
    *ret = 1;
    for (char sign = '*'; text.len > 0;) {
        ptrdiff_t end = 0;
        while (end < text.len && text.p[end] != '*' && text.p[end] != '/') end++;
        int64_t by = 0;
        if (!factor(s, str_trim(str_slice(text, 0, end)), &by) || by <= 0) return false;
        if (sign == '/')
            *ret /= by;
        else if (__builtin_mul_overflow(*ret, by, ret))
            return false;
        sign = end < text.len ? text.p[end] : 0;
        text = str_slice(text, end < text.len ? end + 1 : end, text.len);
    }
    return *ret > 0;
}

static void take_command(struct shell *s, ptrdiff_t begin) {
    int64_t value = 0;
    pass_brackets(s, '(', ')');
    const struct str written = str_slice(s->text, begin, s->at < s->text.len ? s->at : s->text.len);
    const bool is_sum = str_starts(written, STR("$((")) && str_ends(written, STR("))"));
    if (is_sum && product(s, str_slice(written, 3, written.len - 2), &value))
        buf_format(&s->word, "%lld", (long long)value);
    else
        unknown(s, written);
}

// At a dollar sign.
void datum_shell_take_dollar(struct shell *s, bool is_quoted) {
    const ptrdiff_t begin = s->at++;
    if (shell_peek(s, 0) == '(') {
        take_command(s, begin);
    } else if (shell_peek(s, 0) == '{') {
        pass_brackets(s, '{', '}');
        if (s->at > s->text.len) s->at = s->text.len;
        const ptrdiff_t end = s->at - 1 > begin + 2 ? s->at - 1 : begin + 2;
        take_braces(s, str_slice(s->text, begin + 2, end), str_slice(s->text, begin, s->at),
                    is_quoted);
    } else if (shell_is_name(shell_peek(s, 0))) {
        while (shell_is_name(shell_peek(s, 0)) &&
               !(str_is_digit(s->text.p[begin + 1]) && s->at > begin + 1))
            s->at++;
        const struct str written = str_slice(s->text, begin, s->at);
        const struct shell_variable *v =
            datum_shell_variable(s, str_slice(written, 1, written.len));
        if (v && !is_left(s, v, is_quoted, written))
            put(s, v, is_quoted, false);
        else if (!v)
            unknown(s, written);
    } else if (shell_peek(s, 0) && strchr("@*#?$!-", shell_peek(s, 0))) {
        s->at++;
        unknown(s, str_slice(s->text, begin, s->at));
    } else {
        buf_byte(&s->word, '$');
    }
}

void datum_shell_take_backticks(struct shell *s) {
    const ptrdiff_t begin = s->at++;
    while (s->at < s->text.len && shell_peek(s, 0) != '`') s->at++;
    if (s->at < s->text.len) s->at++;
    unknown(s, str_slice(s->text, begin, s->at));
}

int datum_shell_take_quotes(struct shell *s, struct fail *why) {
    const ptrdiff_t begin = s->at;
    const char quote = s->text.p[s->at++];
    if (s->word.count == 0) s->made.is_quoted = true; // --model="x" is a flag
    while (s->at < s->text.len && shell_peek(s, 0) != quote) {
        const char c = shell_peek(s, 0);
        if (c == '\n') {
            s->line++;
            s->line_begin = s->at + 1;
        }
        if (quote == '"' && c == '$') {
            datum_shell_take_dollar(s, true);
        } else if (quote == '"' && c == '`') {
            datum_shell_take_backticks(s);
        } else {
            const bool escapes = quote == '"' && c == '\\' && strchr("\"\\$`", shell_peek(s, 1));
            const bool joins = quote == '"' && c == '\\' && shell_peek(s, 1) == '\n';
            s->at += escapes || joins;
            if (!joins) buf_byte(&s->word, shell_peek(s, 0));
            s->at++;
            if (joins) {
                s->line++;
                s->line_begin = s->at;
            }
        }
    }
    if (s->at >= s->text.len)
        return datum_source_fail(s->source, begin, why, "a quoted string is never closed");
    s->at++;
    return 0;
}
