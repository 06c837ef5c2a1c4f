// SPDX-License-Identifier: Apache-2.0
// The config as bytes: what must be refused before a YAML parser sees it (libfyaml 0.7.12 gives no
// document and no error for UTF-16, and stops silently at a NUL), in which format it is, places for
// messages, and hints for lines that are nearly a pair.
#include "records/config/tree_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_gap(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// U+FFFE and U+FFFF: PyYAML's reader rejects them anywhere (its NON_PRINTABLE, 6.0.3).
static int not_characters(const struct config *c, struct fail *why) {
    for (ptrdiff_t i = 0; i + 2 < c->text.len; i++) {
        const unsigned char *s = (const unsigned char *)c->text.p + i;
        if (s[0] == 0xEF && s[1] == 0xBF && s[2] >= 0xBE)
            return config_bytes_fail(c, i, why, "U+FFF%c, which is no character, expected text",
                                     s[2] == 0xBE ? 'E' : 'F');
    }
    return 0;
}

// libfyaml 0.7.12 loses track of its memory (fy_fetch_value) when a colon below an explicit key is
// followed by a tab: "? a:\t- b" frees twice, "? e: \t>" crashes at the end. PyYAML rejects such a
// tab as well.
static int breaks_parser(const struct config *c, struct fail *why) {
    const struct str t = c->text;
    bool explicit_key = false;
    for (ptrdiff_t i = 0; i < t.len; i++) {
        if (t.p[i] == '?' && (i == 0 || is_gap(t.p[i - 1])) &&
            (i + 1 == t.len || is_gap(t.p[i + 1]))) {
            explicit_key = true;
        }
        if (t.p[i] != ':' || !explicit_key) continue;
        ptrdiff_t next = i + 1;
        while (next < t.len && (t.p[next] == ' ' || t.p[next] == '\t')) next++;
        if (memchr(t.p + i, '\t', (size_t)(next - i))) {
            return config_bytes_fail(
                c, i + 1, why, "a tab after the colon of an explicit key (?), expected spaces");
        }
    }
    return 0;
}

// libfyaml 0.7.12 looks at every blank behind a word again and again: its time is the square of
// their number, half a second for all that are let through.
static int delays_parser(const struct config *c, struct fail *why) {
    static const int64_t most = INT64_C(250) * 1000 * 1000;
    int64_t run = 0, squares = 0;
    for (ptrdiff_t i = 0; i < c->text.len; i++) {
        const bool is_blank = c->text.p[i] == ' ' || c->text.p[i] == '\t';
        run = is_blank ? run + 1 : 0;
        squares += is_blank ? 2 * run - 1 : 0;
        if (squares > most)
            return config_bytes_fail(c, i, why, "too many blanks in a row, expected a config");
    }
    return 0;
}

int config_bytes_check(const struct config *c, struct fail *why) {
    int status = datum_source_check(&(struct datum_source){.name = c->name, .text = c->text}, why);
    if (!status && c->format <= CONFIG_JSON) status = delays_parser(c, why);
    if (status || c->format != CONFIG_YAML) return status;
    status = not_characters(c, why);
    return status ? status : breaks_parser(c, why);
}

int config_bytes_fail(const struct config *c, ptrdiff_t at, struct fail *why, const char *format,
                      ...) {
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return datum_source_fail(&(struct datum_source){.name = c->name, .text = c->text}, at, why,
                             "%s", message);
}

ptrdiff_t config_bytes_line_begin(struct str text, ptrdiff_t at) {
    while (at > 0 && text.p[at - 1] != '\n' && text.p[at - 1] != '\r') at--;
    if (at == 0 && str_starts(text, STR("\xEF\xBB\xBF"))) return 3;
    return at;
}

ptrdiff_t config_bytes_line_end(struct str text, ptrdiff_t at) {
    while (at < text.len && text.p[at] != '\n' && text.p[at] != '\r') at++;
    return at;
}

struct str config_bytes_ending(struct str text, ptrdiff_t at) {
    if (at >= text.len) return (struct str){0};
    if (text.p[at] == '\r' && at + 1 < text.len && text.p[at + 1] == '\n') {
        return str_slice(text, at, at + 2);
    }
    if (text.p[at] == '\r' || text.p[at] == '\n') return str_slice(text, at, at + 1);
    return (struct str){0};
}

struct str config_bytes_ending_before(struct str text, ptrdiff_t line) {
    if (line > 1 && text.p[line - 1] == '\n' && text.p[line - 2] == '\r')
        return str_slice(text, line - 2, line);
    return line > 0 ? config_bytes_ending(text, line - 1) : (struct str){0};
}

static bool is_word(char c) {
    return str_is_alnum(c) || c == '_';
}

// Spellings of a pair that are none, with what to do instead.
static const struct {
    struct str bytes;
    const char *what;
} look_alikes[] = {
    {{"\xC2\xA0", 2}, "a no-break space (U+00A0)"},
    {{"\xE3\x80\x80", 3}, "a full-width space (U+3000)"},
    {{"\xEF\xBC\x9A", 3}, "a full-width colon (U+FF1A)"},
    {{"\xE2\x80\x8B", 3}, "a zero-width space (U+200B)"},
    {{"\xEF\xBC\x9D", 3}, "a full-width equals sign (U+FF1D)"},
};

static bool begins_value(char c) {
    return is_word(c) || c == '"' || c == '\'' || c == '.' || c == '-';
}

// Whether the line is KEY:VALUE, a pair but for the missing blank.
static bool lacks_blank(struct str line) {
    ptrdiff_t colon = 0;
    while (colon < line.len && is_word(line.p[colon])) colon++;
    return colon > 0 && colon + 1 < line.len && line.p[colon] == ':' &&
           begins_value(line.p[colon + 1]);
}

// The same for one key, anywhere in the line: "{batch_size:16}".
static bool key_lacks_blank(struct str line, struct str key) {
    ptrdiff_t at = str_find(line, key), end = at + key.len;
    if (at < 0 || end + 1 >= line.len || line.p[end] != ':' || !begins_value(line.p[end + 1]))
        return false;
    return at == 0 || strchr(" {,", line.p[at - 1]);
}

// The line without its comment, and with nothing between its quotes: what stands in these is no
// pair.
static struct str bare(struct arena *a, struct str line) {
    struct buf b = buf_new(a);
    char quote = 0;
    for (ptrdiff_t i = 0; i < line.len; i++) {
        const char c = line.p[i], before = i > 0 ? line.p[i - 1] : ' ';
        if (quote && c != quote) continue;
        if (!quote && c == '#' && strchr(" \t", before)) break;
        if (quote)
            quote = 0;
        else if ((c == '"' || c == '\'') && strchr(" \t{[,:", before))
            quote = c;
        buf_byte(&b, c);
    }
    return str_trim(buf_str(&b));
}

struct str config_bytes_hint(struct arena *a, struct str text, struct str key) {
    if (str_starts(text, STR("\xEF\xBB\xBF"))) text = str_slice(text, 3, text.len);
    int number = 0;
    while (text.p) {
        struct str line = str_line(&text);
        number++;
        struct str trimmed = bare(a, str_trim(line));
        for (size_t i = 0; i < sizeof look_alikes / sizeof *look_alikes; i++) {
            ptrdiff_t at = str_find(trimmed, look_alikes[i].bytes);
            if (at >= 0 && (key.len == 0 || str_find(trimmed, key) >= 0)) {
                return str_format(a,
                                  "%s in line %d: YAML takes it as text, not as a space or a colon",
                                  look_alikes[i].what, number);
            }
        }
        if (key.len ? key_lacks_blank(trimmed, key) : lacks_blank(trimmed)) {
            return str_format(
                a, "no space after the colon in line %d: YAML reads \"%.*s\" as one word", number,
                (int)(trimmed.len < 40 ? trimmed.len : 40), trimmed.p);
        }
    }
    return (struct str){0};
}

static struct str at_line(struct arena *a, const struct config *c, ptrdiff_t at, const char *what) {
    int line, column;
    datum_source_place(c->text, at, &line, &column);
    return str_format(a, "%.*s:%d:%d: %s", STR_ARG(c->name), line, column, what);
}

static const char tab_message[] =
    "a tab between words, which PyYAML rejects: the trainer will not load this file";
static const char break_message[] =
    "a line end that not every YAML parser accepts (U+0085, U+2028 or U+2029)";

// Looks for tabs from `at` to `end`, where no quoted text or block scalar is; skips comments.
static ptrdiff_t tab_between(struct str text, ptrdiff_t at, ptrdiff_t end) {
    for (; at < end; at++) {
        if (text.p[at] == '\t') return at;
        const bool starts = at == 0 || text.p[at - 1] == ' ' || text.p[at - 1] == '\n' ||
                            text.p[at - 1] == '\r' || text.p[at - 1] == '\t';
        if (text.p[at] == '#' && starts) at = config_bytes_line_end(text, at);
    }
    return -1;
}

static ptrdiff_t find_odd_break(struct str text) {
    static const struct str breaks[] = {{"\xC2\x85", 2}, {"\xE2\x80\xA8", 3}, {"\xE2\x80\xA9", 3}};
    ptrdiff_t first = -1;
    for (int i = 0; i < 3; i++) {
        if (!memchr(text.p, breaks[i].p[0], (size_t)text.len)) continue;
        ptrdiff_t at = str_find(text, breaks[i]);
        if (at >= 0 && (first < 0 || at < first)) first = at;
    }
    return first;
}

struct str config_bytes_unwritable(struct arena *a, const struct config *c,
                                   struct config_node *const *scalars, ptrdiff_t count) {
    ptrdiff_t odd = find_odd_break(c->text);
    if (odd >= 0) return at_line(a, c, odd, break_message);
    if (c->format == CONFIG_JSON || !memchr(c->text.p, '\t', (size_t)c->text.len)) {
        return (struct str){0};
    }
    ptrdiff_t at = 0;
    for (ptrdiff_t i = 0; i <= count; i++) {
        const struct config_node *n = i < count ? scalars[i] : NULL;
        if (n && (n->style == STYLE_EMPTY || n->style == STYLE_PLAIN)) continue;
        ptrdiff_t tab = tab_between(c->text, at, n ? n->begin : c->text.len);
        if (tab >= 0) return at_line(a, c, tab, tab_message);
        if (n) at = n->end;
    }
    return (struct str){0};
}

// "#!/bin/bash", "#!/usr/bin/env -S zsh -e"
static bool is_for_shell(struct str text) {
    static const char *const shells[] = {"sh", "bash", "zsh", "dash", "ksh", NULL};
    struct str line = str_line(&text);
    if (!str_starts(line, STR("#!"))) return false;
    while (line.len > 0)
        if (str_is_one_of(str_last(str_trim(str_cut(&line, ' ')), '/'), shells)) return true;
    return false;
}

enum config_format config_bytes_format(struct str name, struct str text) {
    static const struct {
        const char *end;
        enum config_format format;
    } rows[] = {
        {".json", CONFIG_JSON},     {".py", CONFIG_PYTHON},       {".toml", CONFIG_TOML},
        {".sh", CONFIG_SHELL},      {".ini", CONFIG_FOREIGN},     {".cfg", CONFIG_FOREIGN},
        {".ipynb", CONFIG_FOREIGN}, {".jsonnet", CONFIG_FOREIGN}, {".libsonnet", CONFIG_FOREIGN},
        {".yaml", CONFIG_YAML},     {".yml", CONFIG_YAML},        {".bash", CONFIG_SHELL},
        {".slurm", CONFIG_SHELL},   {".sbatch", CONFIG_SHELL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (str_ends(name, str_of(rows[i].end))) return rows[i].format;
    }
    return is_for_shell(text) ? CONFIG_SHELL : CONFIG_YAML;
}
