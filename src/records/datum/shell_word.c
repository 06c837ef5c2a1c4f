// SPDX-License-Identifier: Apache-2.0
// A shell script's words: quotes, continued lines, comments, variables that the script itself sets.
// What is set in an if or a loop, comes from the environment or from another command is unknown.
#include "records/datum/datum_int.h"

#include <string.h>

enum { WORDS_MAX = 100 * 1000 };

// The words of NAME=value, or of NAME=(a b c).
struct variable {
    struct str name;
    struct shell_word *words;
    ptrdiff_t count, capacity;
    bool has_flags; // in some case other than that of the words
};
struct shell {
    struct arena *arena;
    struct datum_source *source;
    struct str text;
    ptrdiff_t at, line_begin;
    int line, depth; // of if, for, while, case
    struct shell_commands *commands;
    struct shell_command command; // so far
    struct variable *variables;
    ptrdiff_t variable_count, variable_capacity;
    struct str here; // the word that ends a text behind <<
    ptrdiff_t words; // of all commands
    struct buf word;
    struct shell_word made;          // the word that is being read; text is in `word`
    bool has_word, in_list, may_run; // behind && and ||
};

static char peek(const struct shell *s, ptrdiff_t ahead) {
    return s->at + ahead < s->text.len ? s->text.p[s->at + ahead] : 0;
}

static bool is_name(char c) {
    return str_is_alnum(c) || c == '_';
}

static struct variable *variable_of(struct shell *s, struct str name) {
    for (ptrdiff_t i = 0; i < s->variable_count; i++) {
        if (str_equal(s->variables[i].name, name)) return &s->variables[i];
    }
    return NULL;
}

// --- Words ---------------------------------------------------------------------------------------

static void begin_word(struct shell *s) {
    if (s->has_word) return;
    s->has_word = true;
    s->word = buf_new(s->arena);
    s->made = (struct shell_word){
        .line = s->line, .column = (int)(s->at - s->line_begin) + 1, .is_known = true};
}

static void end_word(struct shell *s) {
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

// A word that stands elsewhere, from another place on: its gaps are as far from there.
static void move_gaps(struct shell *s, struct shell_word *w, const struct shell_word *from,
                      ptrdiff_t by) {
    for (ptrdiff_t i = 0; i < from->gap_count; i++)
        *arena_push(s->arena, &w->gaps, &w->gap_count, &w->gap_capacity) =
            (struct shell_gap){from->gaps[i].begin + by, from->gaps[i].end + by};
}

static void next_word(struct shell *s, const struct shell_word *place) {
    end_word(s);
    begin_word(s);
    s->made.line = place->line;
    s->made.column = place->column;
}

// A text falls apart at its blanks; what is unknown of it is so in the words that have it.
static void put_text(struct shell *s, const struct shell_word *from,
                     const struct shell_word *place) {
    ptrdiff_t gap = 0;
    for (ptrdiff_t i = 0; i < from->text.len && s->words < WORDS_MAX; i++) {
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

// Without quotes a text falls apart at its blanks; of a list, "${ARGS[@]}", every word is one as it
// stands there, and an empty list is none.
static void put(struct shell *s, const struct variable *v, bool is_quoted, bool is_list) {
    if (is_list && s->word.count == 0 && v->count == 0) s->made.is_quoted = false;
    for (ptrdiff_t i = 0; i < v->count && s->words < WORDS_MAX; i++) {
        const struct shell_word *from = &v->words[i], place = s->made;
        const bool is_apart = !is_quoted && (from->is_known || from->gap_count > 0);
        if (i > 0) next_word(s, &place);
        if (is_list && s->word.count == 0) s->made.is_quoted = from->is_quoted;
        if (is_apart)
            put_text(s, from, &place);
        else if (from->is_known)
            buf_add(&s->word, from->text);
        else
            unknown(s, from->text);
    }
}

static bool holds_flags(const struct variable *v, bool is_sure) {
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
static bool is_left(struct shell *s, const struct variable *v, bool is_quoted, struct str written) {
    const bool is_list = str_ends(written, STR("[@]}")), is_text = is_quoted && !is_list;
    const bool is_empty = v->count == 1 && !v->words[0].is_known && v->words[0].text.len == 0;
    const bool is_flags = v->has_flags || (!is_list && holds_flags(v, false));
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
    while (end < inside.len && is_name(inside.p[end])) end++;
    struct str name = str_slice(inside, 0, end), rest = str_slice(inside, end, inside.len);
    const struct variable *v = variable_of(s, name);
    const bool is_plain = rest.len == 0 || str_is(rest, "[@]") || str_is(rest, "[*]");
    const bool has_default =
        str_starts(rest, STR(":-")) || str_starts(rest, STR(":=")) || str_starts(rest, STR("-"));
    const struct str other = str_slice(rest, rest.len && rest.p[0] == '-' ? 1 : 2, rest.len);
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

// At a dollar sign.
static void take_dollar(struct shell *s, bool is_quoted) {
    const ptrdiff_t begin = s->at++;
    if (peek(s, 0) == '(') {
        pass_brackets(s, '(', ')');
        unknown(s, str_slice(s->text, begin, s->at < s->text.len ? s->at : s->text.len));
    } else if (peek(s, 0) == '{') {
        pass_brackets(s, '{', '}');
        if (s->at > s->text.len) s->at = s->text.len;
        const ptrdiff_t end = s->at - 1 > begin + 2 ? s->at - 1 : begin + 2;
        take_braces(s, str_slice(s->text, begin + 2, end), str_slice(s->text, begin, s->at),
                    is_quoted);
    } else if (is_name(peek(s, 0))) {
        while (is_name(peek(s, 0)) && !(str_is_digit(s->text.p[begin + 1]) && s->at > begin + 1))
            s->at++;
        const struct str written = str_slice(s->text, begin, s->at);
        const struct variable *v = variable_of(s, str_slice(written, 1, written.len));
        if (v && !is_left(s, v, is_quoted, written))
            put(s, v, is_quoted, false);
        else if (!v)
            unknown(s, written);
    } else if (peek(s, 0) && strchr("@*#?$!-", peek(s, 0))) {
        s->at++;
        unknown(s, str_slice(s->text, begin, s->at));
    } else {
        buf_byte(&s->word, '$');
    }
}

static void take_backticks(struct shell *s) {
    const ptrdiff_t begin = s->at++;
    while (s->at < s->text.len && peek(s, 0) != '`') s->at++;
    if (s->at < s->text.len) s->at++;
    unknown(s, str_slice(s->text, begin, s->at));
}

static int take_quotes(struct shell *s, struct fail *why) {
    const ptrdiff_t begin = s->at;
    const char quote = s->text.p[s->at++];
    if (s->word.count == 0) s->made.is_quoted = true; // --model="x" is a flag
    while (s->at < s->text.len && peek(s, 0) != quote) {
        const char c = peek(s, 0);
        if (c == '\n') {
            s->line++;
            s->line_begin = s->at + 1;
        }
        if (quote == '"' && c == '$') {
            take_dollar(s, true);
        } else if (quote == '"' && c == '`') {
            take_backticks(s);
        } else {
            const bool escapes = quote == '"' && c == '\\' && strchr("\"\\$`", peek(s, 1));
            const bool joins = quote == '"' && c == '\\' && peek(s, 1) == '\n';
            s->at += escapes || joins;
            if (!joins) buf_byte(&s->word, peek(s, 0));
            s->at++;
            if (joins) {
                s->line++;
                s->line_begin = s->at;
            }
        }
    }
    if (s->at >= s->text.len)
        return datum_source_fail(s->source, begin, why, "a text in quotes is never closed");
    s->at++;
    return 0;
}

// --- Commands ------------------------------------------------------------------------------------

static void drop_word(struct shell_command *c) {
    memmove(c->words, c->words + 1, (size_t)(c->count - 1) * sizeof *c->words);
    c->count--;
}

static ptrdiff_t assigns(const struct shell_word *w) {
    ptrdiff_t i = 0;
    while (i < w->text.len && is_name(w->text.p[i])) i++;
    if (i + 1 < w->text.len && w->text.p[i] == '+' && w->text.p[i + 1] == '=') return i + 1;
    return i > 0 && i < w->text.len && w->text.p[i] == '=' && !str_is_digit(w->text.p[0]) ? i : -1;
}

static void set_variable(struct shell *s, const struct shell_word *w, const struct shell_word *more,
                         ptrdiff_t count) {
    const ptrdiff_t equals = assigns(w);
    const bool appends = w->text.p[equals - 1] == '+';
    const struct str name = str_slice(w->text, 0, equals - appends);
    struct variable *v = variable_of(s, name);
    if (!v) {
        if (s->variable_count > 2000) return; // looked for one by one
        v = arena_push(s->arena, &s->variables, &s->variable_count, &s->variable_capacity);
        *v = (struct variable){.name = name};
    }
    const bool is_sure = s->depth == 0 && !s->may_run;
    if (!appends) {
        v->has_flags = !is_sure && (v->has_flags || holds_flags(v, true));
        v->count = 0;
    }
    struct shell_word first = *w;
    first.text = str_slice(w->text, equals + 1, w->text.len);
    first.is_known = first.is_known && is_sure;
    first.gap_count = first.gap_capacity = 0;
    if (is_sure) move_gaps(s, &first, w, -(equals + 1));
    s->words += first.text.len / 64; // X=$X$X
    if (appends && v->count == 1 && count == 0) {
        struct shell_word *old = &v->words[0];
        if (is_sure) move_gaps(s, old, &first, old->text.len);
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

// "for x in 1 2 3": x is unknown.
static void loop(struct shell *s, const struct shell_command *c) {
    if (c->count < 2) return;
    const struct shell_word w = {.text = str_format(s->arena, "%.*s=", STR_ARG(c->words[1].text)),
                                 .is_known = false};
    if (assigns(&w) > 0) set_variable(s, &w, NULL, 0);
}

// The words of the shell itself in front of a command. False: there is no command left.
static bool strip(struct shell *s, struct shell_command *c) {
    static const char *const opens[] = {"if", "while", "until", "case", "for", "select", NULL};
    static const char *const closes[] = {"fi", "done", "esac", NULL};
    static const char *const others[] = {
        "then", "else",     "elif", "do",    "!",      "{",       "}",        "time", "nohup",
        "exec", "function", "env",  "local", "export", "declare", "readonly", NULL};
    while (c->count > 0 && !c->words[0].is_quoted) {
        const struct str first = c->words[0].text;
        if (str_is_one_of(first, opens)) {
            s->depth++;
            if (str_is(first, "for") || str_is(first, "select")) {
                loop(s, c);
                return false;
            }
        } else if (str_is_one_of(first, closes)) {
            s->depth -= s->depth > 0;
        } else if (!str_is_one_of(first, others)) {
            return true;
        }
        drop_word(c);
    }
    return c->count > 0;
}

static void end_command(struct shell *s) {
    end_word(s);
    struct shell_command c = s->command;
    s->command = (struct shell_command){0};
    if (c.count == 0 || !strip(s, &c)) return;
    ptrdiff_t i = 0;
    while (i < c.count && assigns(&c.words[i]) > 0) i++;
    if (i < c.count) { // variables in front of a command are the command's alone
        c.environment = c.words;
        c.environment_count = i;
        c.words += i;
        c.count -= i;
        c.capacity = c.count;
        *arena_push(s->arena, &s->commands->items, &s->commands->count, &s->commands->capacity) = c;
        return;
    }
    for (i = 0; i < c.count; i++) set_variable(s, &c.words[i], NULL, 0);
}

// "NAME=(": its words, up to the bracket that closes it.
static int take_list(struct shell *s, struct fail *why);

// The body of "read -r -d '' NAME <<EOF": its words, of which only the shell knows those with a $.
static void read_here(struct shell *s, struct str body, int line) {
    const ptrdiff_t count = s->commands->count;
    const struct shell_command *c = count > 0 ? &s->commands->items[count - 1] : NULL;
    struct shell_command words = {0};
    if (!c || c->count < 2 || !str_is(c->words[0].text, "read")) return;
    const struct shell_word name = {
        .text = str_format(s->arena, "%.*s=", STR_ARG(c->words[c->count - 1].text))};
    if (assigns(&name) <= 0) return;
    for (; body.len > 0; line++) {
        struct str rest = str_line(&body);
        while (rest.len > 0 && words.count < WORDS_MAX - s->words) {
            const struct str text = str_trim(str_cut(&rest, ' '));
            if (text.len == 0 || str_is(text, "\\")) continue;
            const bool is_known = str_find(text, STR("$")) < 0 && str_find(text, STR("`")) < 0;
            *arena_push(s->arena, &words.words, &words.count, &words.capacity) =
                (struct shell_word){.text = text, .line = line, .column = 1, .is_known = is_known};
        }
    }
    if (words.count > 0) set_variable(s, &name, words.words, words.count);
}

static void end_line(struct shell *s) {
    s->at++;
    s->line++;
    s->line_begin = s->at;
    if (s->here.len == 0) return;
    const struct str all = str_slice(s->text, s->at, s->text.len);
    const int first = s->line;
    ptrdiff_t end = 0;
    struct str rest = str_slice(s->text, s->at, s->text.len);
    while (rest.len > 0) {
        const struct str line = str_line(&rest);
        s->at = rest.p ? rest.p - s->text.p : s->text.len;
        s->line++;
        if (str_equal(str_trim(line), s->here)) break;
        end = rest.p ? s->at - (all.p - s->text.p) : all.len;
        if (!rest.p) break;
    }
    read_here(s, str_slice(all, 0, end), first);
    if (!rest.p) s->at = s->text.len;
    s->line_begin = s->at;
    s->here = (struct str){0};
}

// "<<EOF", "<<-'EOF'", "> file", "2>&1"
static void redirection(struct shell *s) {
    const bool is_here = peek(s, 0) == '<' && peek(s, 1) == '<' && peek(s, 2) != '<';
    end_word(s);
    while (peek(s, 0) && strchr("<>&-|", peek(s, 0))) s->at++;
    while (peek(s, 0) == ' ' || peek(s, 0) == '\t') s->at++;
    const ptrdiff_t begin = s->at;
    while (s->at < s->text.len && !strchr(" \t\r\n;&|<>()", peek(s, 0))) s->at++;
    struct str word = str_slice(s->text, begin, s->at);
    if (!is_here) return;
    while (word.len > 0 && strchr("'\"\\", word.p[0])) word = str_slice(word, 1, word.len);
    while (word.len > 0 && strchr("'\"", word.p[word.len - 1])) word.len--;
    s->here = word;
}

// One character, or what it begins. 1: a bracket has closed a list.
static int step(struct shell *s, struct fail *why) {
    const char c = peek(s, 0);
    if (c == '\\' && (peek(s, 1) == '\n' || (peek(s, 1) == '\r' && peek(s, 2) == '\n'))) {
        end_word(s);
        s->at += peek(s, 1) == '\r' ? 2 : 1;
        end_line(s);
    } else if (c == ' ' || c == '\t' || c == '\r') {
        end_word(s);
        s->at++;
    } else if (c == '#' && !s->has_word) {
        while (s->at < s->text.len && peek(s, 0) != '\n') s->at++;
    } else if (c == '\n') {
        s->in_list ? end_word(s) : end_command(s);
        if (!s->in_list) s->may_run = false;
        end_line(s);
    } else if (c == '(' && s->has_word && s->word.count > 0 &&
               s->word.items[s->word.count - 1] == '=') {
        return take_list(s, why);
    } else if (c == ')' && s->in_list) {
        end_word(s);
        s->at++;
        return 1;
    } else if (strchr(";&|()", c)) {
        const bool is_chain = (c == '&' || c == '|') && peek(s, 1) == c;
        s->in_list ? end_word(s) : end_command(s);
        if (!s->in_list) s->may_run = is_chain;
        s->at += 1 + is_chain;
    } else if (c == '<' || c == '>') {
        redirection(s);
    } else {
        begin_word(s);
        if (c == '\'' || c == '"') return take_quotes(s, why);
        if (c == '$') {
            take_dollar(s, false);
        } else if (c == '`') {
            take_backticks(s);
        } else {
            s->at += c == '\\' && s->at + 1 < s->text.len;
            buf_byte(&s->word, s->text.p[s->at++]);
        }
    }
    return 0;
}

static int take_list(struct shell *s, struct fail *why) {
    const ptrdiff_t begin = s->at++;
    if (s->in_list)
        return datum_source_fail(s->source, begin, why,
                                 "a list in a list, expected a shell script");
    end_word(s);
    const ptrdiff_t first = s->command.count;
    s->in_list = true;
    int status = 0;
    while (s->at < s->text.len && status == 0 && s->words < WORDS_MAX) status = step(s, why);
    s->in_list = false;
    if (status < 0) return status;
    const struct shell_word name = s->command.words[first - 1];
    if (assigns(&name) > 0)
        set_variable(s, &name, s->command.words + first, s->command.count - first);
    s->command.count = first - 1;
    return 0;
}

int datum_shell_commands(struct arena *a, struct datum_source *source, struct shell_commands *ret,
                         struct fail *why) {
    struct shell s = {
        .arena = a, .source = source, .text = source->text, .line = 1, .commands = ret};
    while (s.at < s.text.len) {
        const int status = step(&s, why);
        if (status < 0) return status;
        if (s.words >= WORDS_MAX)
            return fail_set(why, FAIL_INPUT,
                            "%.*s:1:1: more than %d words, expected a shell script",
                            STR_ARG(source->name), WORDS_MAX);
    }
    end_command(&s);
    return 0;
}
