// SPDX-License-Identifier: Apache-2.0
// Placeholders in the user's command. The words are read as one text whose word ends are places of
// their own, because {name:TEXT} may begin in one word and end in another. Text that is put in for
// {name} never splits a word; blanks and word ends that the user wrote inside TEXT do. Braces that
// are no placeholders are balanced, so that {"a":{"b":1}} comes out as it went in.
#include "measure/trial/trial.h"

#include "base/near.h"

#include <string.h>

enum { DEPTH_MAX = 16 };

struct expander {
    struct arena *arena;
    char *const *argv; // NULL-ended
    ptrdiff_t word, at;
    const struct trial_command_value *values;
    int count;
    bool is_one_word; // blanks of TEXT stay
    // The word that is being made; it is dropped when it is empty, may be, and nothing was put in.
    struct buf made;
    bool may_drop, was_filled;
    char **words;
    ptrdiff_t word_count, word_capacity;
    struct fail *why;
};

// Braces within one TEXT, or within one word outside of any.
struct braces {
    int singles, doubles; // open ones that are left alone, open "{{"
};

static char here(const struct expander *x) {
    return x->argv[x->word] ? x->argv[x->word][x->at] : 0; // 0: the word's end
}

static char next(const struct expander *x) {
    return here(x) ? x->argv[x->word][x->at + 1] : 0;
}

static bool begins_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// The name of a placeholder that begins at this brace, its end in *ret_end; empty: none does. Axes
// may be keys of a config: train.lr, weight-decay.
static struct str name_at(const char *brace, const char **ret_end) {
    const char *p = brace + 1;
    if (!begins_name(*p)) return (struct str){0};
    while (begins_name(*p) || (*p >= '0' && *p <= '9') || *p == '-' || *p == '.') p++;
    if (*p != '}' && *p != ':') return (struct str){0};
    *ret_end = p;
    return (struct str){brace + 1, p - brace - 1};
}

static const struct trial_command_value *find_value(const struct expander *x, struct str name) {
    for (int i = 0; i < x->count; i++) {
        if (str_equal(x->values[i].name, name)) return &x->values[i];
    }
    return NULL;
}

static int fail_unknown(struct expander *x, struct str name) {
    struct near near = {.typed = name};
    for (int i = 0; i < x->count; i++) near_offer(&near, x->values[i].name);
    fail_set(x->why, FAIL_USAGE, "{%.*s}: unknown placeholder", STR_ARG(name));
    struct str names = near_text(x->arena, &near);
    if (names.len > 0)
        return fail_hint(x->why, "nearest: %.*s; literal braces are written {{ and }}",
                         STR_ARG(names));
    return fail_hint(x->why, "literal braces are written {{ and }}");
}

static void end_word(struct expander *x, bool next_may_drop) {
    if (x->made.count > 0 || x->was_filled || !x->may_drop)
        *arena_push(x->arena, &x->words, &x->word_count, &x->word_capacity) = buf_z(&x->made);
    x->made = buf_new(x->arena);
    x->may_drop = next_may_drop;
    x->was_filled = false;
}

static void add(struct expander *x, bool emits, char c) {
    if (emits) buf_byte(&x->made, c);
}

static int expand(struct expander *x, int depth, bool emits);

// {name} or {name:TEXT}, at its brace.
static int expand_placeholder(struct expander *x, struct str name, const char *end, int depth,
                              bool emits) {
    const struct trial_command_value *value = find_value(x, name);
    if (!value) return fail_unknown(x, name);
    x->at = end + 1 - x->argv[x->word];
    if (*end == '}') {
        if (!emits) return 0;
        buf_add(&x->made, value->text);
        x->was_filled = true;
        return 0;
    }
    if (depth == DEPTH_MAX)
        return fail_set(x->why, FAIL_USAGE, "braces nested deeper than %d", DEPTH_MAX);
    x->may_drop = true;
    int rc = expand(x, depth + 1, emits && !value->off);
    if (rc > 0) return fail_set(x->why, FAIL_USAGE, "{%.*s: no closing }", STR_ARG(name));
    return rc;
}

static int expand_open(struct expander *x, struct braces *b, int depth, bool emits) {
    const char *end;
    struct str name = name_at(x->argv[x->word] + x->at, &end);
    if (name.len > 0) return expand_placeholder(x, name, end, depth, emits);
    if (next(x) == '{') {
        b->doubles++;
        x->at++;
    } else {
        b->singles++;
    }
    x->at++;
    add(x, emits, '{');
    return 0;
}

// True: this brace ends the TEXT.
static bool expand_close(struct expander *x, struct braces *b, int depth, bool emits) {
    bool is_double = next(x) == '}' && b->singles == 0 && (b->doubles > 0 || depth == 0);
    bool is_literal = is_double || b->singles > 0 || depth == 0;
    x->at += is_double ? 2 : 1;
    if (is_double && b->doubles > 0) b->doubles--;
    if (!is_double && b->singles > 0) b->singles--;
    if (is_literal) add(x, emits, '}');
    return !is_literal;
}

// True: there is a further word.
static bool expand_word_end(struct expander *x, struct braces *b, int depth) {
    x->word++;
    x->at = 0;
    if (depth == 0) *b = (struct braces){0};
    end_word(x, depth > 0 && x->argv[x->word] && here(x) != 0);
    return x->argv[x->word] != NULL;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n';
}

// To the end of this TEXT (0), or of the command (1: at depth 0 that is what was asked for).
static int expand(struct expander *x, int depth, bool emits) {
    struct braces b = {0};
    for (;;) {
        char c = here(x);
        if (c == 0) {
            if (!expand_word_end(x, &b, depth)) return 1;
        } else if (c == '{') {
            int rc = expand_open(x, &b, depth, emits);
            if (rc < 0) return rc;
        } else if (c == '}') {
            if (expand_close(x, &b, depth, emits)) return 0;
        } else {
            x->at++;
            if (depth > 0 && is_blank(c) && !x->is_one_word) {
                if (emits && (x->made.count > 0 || x->was_filled)) end_word(x, true);
            } else {
                add(x, emits, c);
            }
        }
    }
}

static int expand_all(struct arena *a, char *const *argv, bool is_one_word,
                      const struct trial_command_value *values, int count, char ***ret_words,
                      ptrdiff_t *ret_count, struct fail *why) {
    struct expander x = {.arena = a,
                         .argv = argv,
                         .values = values,
                         .count = count,
                         .is_one_word = is_one_word,
                         .made = buf_new(a),
                         .why = why};
    int rc = argv[0] ? expand(&x, 0, true) : 1;
    if (rc < 0) return rc;
    *ret_count = x.word_count;
    *arena_push(a, &x.words, &x.word_count, &x.word_capacity) = NULL;
    *ret_words = x.words;
    return 0;
}

int trial_command_expand(struct arena *a, char *const *argv,
                         const struct trial_command_value *values, int count, char ***ret_argv,
                         struct fail *why) {
    char **words;
    ptrdiff_t n;
    int rc = expand_all(a, argv, false, values, count, &words, &n, why);
    if (rc < 0) return rc;
    if (n == 0) return fail_set(why, FAIL_USAGE, "the command is empty");
    *ret_argv = words;
    return 0;
}

int trial_command_expand_text(struct arena *a, struct str text,
                              const struct trial_command_value *values, int count,
                              struct str *ret_text, struct fail *why) {
    char *const argv[] = {str_z(a, text), NULL};
    char **words;
    ptrdiff_t n;
    int rc = expand_all(a, argv, true, values, count, &words, &n, why);
    if (rc < 0) return rc;
    *ret_text = n > 0 ? str_of(words[0]) : STR("");
    return 0;
}

bool trial_command_mentions(char *const *argv, struct str name) {
    for (; *argv; argv++) {
        for (const char *p = *argv, *end; *p; p++) {
            if (*p != '{') continue;
            struct str found = name_at(p, &end);
            if (str_equal(found, name)) return true;
            if (found.len == 0 && p[1] == '{') p++;
        }
    }
    return false;
}

// Letters, digits, what no shell looks at, and all that is not ASCII. '=' makes the first word an
// assignment.
static bool is_plain(const char *word, bool is_first) {
    if (!*word) return false;
    for (; *word; word++) {
        bool is_letter =
            begins_name(*word) || (*word >= '0' && *word <= '9') || (unsigned char)*word >= 0x80;
        if (!is_letter && !strchr("@%+:,./-=", *word)) return false;
        if (is_first && *word == '=') return false;
    }
    return true;
}

static void quote(struct buf *b, const char *word) {
    buf_byte(b, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            buf_add(b, STR("'\\''"));
        else
            buf_byte(b, *word);
    }
    buf_byte(b, '\'');
}

struct str trial_command_text(struct arena *a, char *const *argv) {
    struct buf b = buf_new(a);
    for (ptrdiff_t i = 0; argv[i]; i++) {
        if (i) buf_byte(&b, ' ');
        if (is_plain(argv[i], i == 0))
            buf_add(&b, str_of(argv[i]));
        else
            quote(&b, argv[i]);
    }
    return buf_str(&b);
}
