// SPDX-License-Identifier: Apache-2.0
// What libfyaml and YAML 1.2 take and PyYAML 6.0.3, with which most trainers read their configs,
// does not take, or reads otherwise (found with the yaml-test-suite). Tabs and line ends are in
// bytes.c, and are refused before an edit; all this is only said, because a trainer may have a
// reader of its own.
#include "records/config/tree_int.h"

#include <string.h>

struct search {
    struct arena *arena;
    const struct config *config;
    const struct config_node *at;
    const char *what;
};

static bool found(struct search *f, const struct config_node *n, const char *what) {
    f->at = n;
    f->what = what;
    return true;
}

// The tags of its safe loader (constructor.py).
static bool is_known_tag(struct str tag) {
    static const char *const names[] = {"null",      "bool", "int",   "float", "binary",
                                        "timestamp", "omap", "pairs", "set",   "str",
                                        "seq",       "map",  NULL};
    static const struct str spaces[] = {{"tag:yaml.org,2002:", 18}, {"!!", 2}};
    if (tag.len == 0 || str_is(tag, "!")) return true;
    for (int i = 0; i < 2; i++) {
        if (str_starts(tag, spaces[i]))
            return str_is_one_of(str_slice(tag, spaces[i].len, tag.len), names);
    }
    return str_is_one_of(tag, names);
}

static bool is_anchor(struct str name) {
    return name.len == 0 || str_is_made_of(name, "-_");
}

static int two_digits(struct str s, ptrdiff_t at) {
    return (s.p[at] - '0') * 10 + s.p[at + 1] - '0';
}

// 2026-02-30: it looks like a date, so Python makes one, or fails.
static bool is_no_day(struct str s) {
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (s.len != 10 || s.p[4] != '-' || s.p[7] != '-') return false;
    for (int i = 0; i < 10; i++) {
        if (i != 4 && i != 7 && !str_is_digit(s.p[i])) return false;
    }
    const int year = two_digits(s, 0) * 100 + two_digits(s, 2);
    const int month = two_digits(s, 5), day = two_digits(s, 8);
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return year == 0 || month < 1 || month > 12 || day < 1 || day > days[month - 1] ||
           (month == 2 && day == 29 && !leap);
}

static bool check_plain(struct search *f, const struct config_node *n, bool in_flow) {
    if (n->kind != NODE_SCALAR || n->style != STYLE_PLAIN) return false;
    if (str_is(n->text, "=")) return found(f, n, "a plain = (quote it)");
    if (str_is(n->text, "<<") && !n->is_key)
        return found(f, n, "a plain << that is no key (quote it)");
    if (is_no_day(n->text)) return found(f, n, "a date that no calendar has (quote it)");
    if (in_flow && str_starts(n->text, STR(":")))
        return found(f, n, "a colon that begins a value in braces (quote it)");
    if (in_flow && str_find(n->text, STR("?")) >= 0)
        return found(f, n, "a question mark within braces or brackets (quote it)");
    return false;
}

// Behind all that belongs to a node; -1: not known.
static ptrdiff_t last_byte(const struct config *c, const struct config_node *n) {
    while ((n->kind == NODE_MAP || n->kind == NODE_LIST) && !n->flow) {
        if (n->count == 0) return n->begin;
        n = n->items[n->count - 1];
    }
    return n->begin < 0 ? -1 : config_node_outer_end(c, n);
}

// Whether a question mark stands before the colon of a key that is empty. It stands close by: to
// the end of the file for each key would be long.
enum { NEAR = 4096 };
static bool is_asked(const struct config *c, const struct config_node *map, int i) {
    const struct str t = c->text;
    const struct config_node *value = map->items[i + 1];
    ptrdiff_t at = map->begin, end = map->flow ? map->end : t.len;
    if (i > 0) at = last_byte(c, map->items[i - 1]);
    if (i > 0 && at < 0) at = last_byte(c, map->items[i - 2]);
    if (value->kind != NODE_SCALAR || value->style != STYLE_EMPTY)
        end = config_node_outer_begin(value);
    else if (i + 2 < map->count && map->items[i + 2]->begin >= 0)
        end = config_node_outer_begin(map->items[i + 2]);
    if (at < 0) return true; // nobody knows, nor where it is far
    const bool is_far = end > at + NEAR;
    if (is_far) end = at + NEAR;
    for (; at < end; at++) {
        if (t.p[at] == '?') return true;
        const bool comment = t.p[at] == '#' && at > 0 && strchr(" \t\r\n", t.p[at - 1]);
        if (comment) at = config_bytes_line_end(t, at);
    }
    return is_far;
}

// {key
// : value}. After a question mark the colon may stand there.
static bool colon_is_below(const struct config *c, const struct config_node *key) {
    if (key->kind != NODE_SCALAR || key->begin < 0) return false;
    const struct str t = c->text;
    ptrdiff_t before = config_node_outer_begin(key) - 1, at = config_node_outer_end(c, key);
    while (before >= 0 && strchr(" \n\r", t.p[before])) before--;
    if (before >= 0 && t.p[before] == '?') return false;
    bool is_below = false;
    for (; at < t.len && strchr(" \n\r#", t.p[at]); at++) {
        if (t.p[at] == '#') at = config_bytes_line_end(t, at);
        is_below = is_below || (at < t.len && (t.p[at] == '\n' || t.p[at] == '\r'));
    }
    return is_below && at < t.len && t.p[at] == ':';
}

// A list that was not complete yet when the parser came to the merge: it is in that list.
static bool merges_no_map(const struct config_node *map, int i) {
    const struct config_node *base = config_node_follow(map->items[i + 1]);
    if (!map->merges || !config_node_is_merge(map->items[i]) || base->kind != NODE_LIST)
        return false;
    for (int k = 0; k < base->count; k++) {
        if (config_node_follow(base->items[k])->kind != NODE_MAP) return true;
    }
    return false;
}

static bool check_key(struct search *f, const struct config_node *map, int i) {
    const struct config_node *key = map->items[i];
    const struct config_node *n = config_node_follow((struct config_node *)key);
    if (n && (n->kind == NODE_LIST || n->kind == NODE_MAP))
        return found(f, key, "a list or a map as a key");
    if (key->kind == NODE_SCALAR && key->style == STYLE_EMPTY && !is_asked(f->config, map, i))
        return found(f, map->items[i + 1]->begin < 0 ? map : map->items[i + 1],
                     "a colon without a key");
    if (merges_no_map(map, i))
        return found(f, map->items[i + 1], "a merge (<<) of something other than a map");
    if (map->flow && colon_is_below(f->config, key))
        return found(f, key, "a key in braces whose colon is in another line");
    return false;
}

static bool check_node(struct search *f, const struct config_node *n, bool in_flow) {
    if (!is_known_tag(config_node_tag(n)))
        return found(f, n, "a tag that its safe loader does not know");
    if (!is_anchor(config_node_anchor(n)))
        return found(f, n, "an anchor with other characters than letters, digits, - and _");
    if (check_plain(f, n, in_flow)) return true;
    for (int i = 0; n->kind != NODE_ALIAS && i < n->count; i++) {
        if (n->kind == NODE_MAP && i % 2 == 0 && check_key(f, n, i)) return true;
        if (check_node(f, n->items[i], n->flow)) return true;
    }
    return false;
}

// What stands before the content: a directive wants a ---, and nothing can end there.
static bool check_beginning(struct search *f) {
    struct str rest = f->config->text;
    struct config_node *at = arena_new(f->arena, struct config_node, 1);
    bool is_directed = false;
    at->column = 1;
    if (str_starts(rest, STR("\xEF\xBB\xBF"))) rest = str_slice(rest, 3, rest.len);
    while (rest.len > 0) {
        const struct str line = str_line(&rest), trimmed = str_trim(line);
        at->line++;
        if (trimmed.len == 0 || trimmed.p[0] == '#') continue;
        if (str_starts(line, STR("...")))
            return found(f, at, "an end of a document (...) before its begin");
        if (line.p[0] != '%')
            return is_directed && !str_starts(line, STR("---")) &&
                   found(f, at, "a directive (%) without a --- after it");
        is_directed = true;
    }
    return false;
}

struct str config_pyyaml_refuses(struct arena *a, const struct config *c) {
    struct search f = {.arena = a, .config = c};
    if (!c->root || c->format != CONFIG_YAML) return (struct str){0};
    if (!check_beginning(&f) && !check_node(&f, c->root, false)) return (struct str){0};
    return str_format(
        a, "%.*s:%d:%d: %s: PyYAML, with which most trainers read it, does not take this",
        STR_ARG(c->name), f.at->line, f.at->column, f.what);
}
