// SPDX-License-Identifier: Apache-2.0
// TOML 1.0 (toml.io/en/v1.0.0): keys, tables, lists. What Python's tomllib refuses is refused here,
// too; tests/outside/toml compares the two. Dates stay texts.
#include "records/datum/datum_int.h"

#include <string.h>

// A key with dots: "a.'b c'.d".
struct key {
    struct str *items;
    ptrdiff_t count, capacity;
    ptrdiff_t at; // in the text
    int line, column;
};

static int value(struct toml *t, struct datum **ret);

static void comment(struct toml *t) {
    if (datum_toml_peek(t) != '#') return;
    while (t->at < t->text.len && !strchr("\r\n", datum_toml_peek(t))) t->at++;
}

// Blanks, comments and empty lines.
static void gap(struct toml *t) {
    do {
        datum_toml_blanks(t);
        comment(t);
    } while (datum_toml_line_end(t));
}

static int key_part(struct toml *t, struct str *ret) {
    const char c = datum_toml_peek(t);
    const ptrdiff_t begin = t->at;
    if (c == '"' || c == '\'') return datum_toml_string(t, false, ret);
    while (str_is_alnum(datum_toml_peek(t)) || datum_toml_peek(t) == '_' ||
           datum_toml_peek(t) == '-')
        t->at++;
    *ret = str_slice(t->text, begin, t->at);
    return ret->len ? 0 : datum_toml_fail(t, begin, "a key is missing");
}

static int read_key(struct toml *t, struct key *ret) {
    *ret = (struct key){.at = t->at, .line = t->line, .column = (int)(t->at - t->line_begin) + 1};
    for (;;) {
        struct str part;
        int status = key_part(t, &part);
        if (status) return status;
        *arena_push(t->data.arena, &ret->items, &ret->count, &ret->capacity) = part;
        datum_toml_blanks(t);
        if (datum_toml_peek(t) != '.') return 0;
        if (ret->count > DATUM_DEPTH_MAX)
            return datum_toml_fail(t, t->at, "nested deeper than %d levels", DATUM_DEPTH_MAX);
        t->at++;
        datum_toml_blanks(t);
    }
}

static int twice(struct toml *t, const struct key *k, struct str part) {
    return datum_toml_fail(t, k->at, "'%.*s' is defined twice, or is not a table",
                           part.len < 60 ? (int)part.len : 60, part.p);
}

static struct datum *new_table(struct toml *t, const struct key *k) {
    return datum_new(&t->data, DATUM_MAP, k->line, k->column);
}

// The table of one part of a header: the last of a list of tables.
static struct datum *enter(struct toml *t, struct datum *map, const struct key *k,
                           struct str part) {
    struct datum_pair *p = datum_find(map, part);
    if (!p) return datum_set(&t->data, map, part, new_table(t, k), k->line, k->column)->value;
    struct datum *v = p->value;
    if (v->is_fixed) return NULL;
    if (v->kind == DATUM_LIST && v->is_array) return v->list->items[v->list->count - 1];
    return v->kind == DATUM_MAP ? v : NULL;
}

// --- Values --------------------------------------------------------------------------------------

static int pair_value(struct toml *t, struct datum **ret) {
    if (datum_toml_peek(t) != '=') return datum_toml_fail(t, t->at, "'=' expected behind a key");
    t->at++;
    datum_toml_blanks(t);
    return value(t, ret);
}

// "a.b.c = 1" in a table in braces: the tables on the way are this one's own.
static int set_inline(struct toml *t, struct datum *map, const struct key *k, struct datum *v) {
    for (ptrdiff_t i = 0; i + 1 < k->count; i++) {
        struct datum_pair *p = datum_find(map, k->items[i]);
        if (p && (p->value->kind != DATUM_MAP || p->value->is_fixed))
            return twice(t, k, k->items[i]);
        if (!p) p = datum_set(&t->data, map, k->items[i], new_table(t, k), k->line, k->column);
        map = p->value;
    }
    const struct str last = k->items[k->count - 1];
    if (datum_find(map, last)) return twice(t, k, last);
    datum_set(&t->data, map, last, v, k->line, k->column);
    return 0;
}

static int inline_table(struct toml *t, struct datum *map) {
    t->at++;
    datum_toml_blanks(t);
    if (datum_toml_peek(t) == '}') {
        t->at++;
        return 0;
    }
    for (;;) {
        struct key k;
        struct datum *v;
        int status = read_key(t, &k);
        if (!status) status = pair_value(t, &v);
        if (!status) status = set_inline(t, map, &k, v);
        if (status) return status;
        datum_toml_blanks(t);
        const char c = datum_toml_peek(t);
        if (c != ',' && c != '}') return datum_toml_fail(t, t->at, "',' or '}' expected");
        t->at++;
        if (c == '}') return 0;
        datum_toml_blanks(t);
    }
}

static int array(struct toml *t, struct datum *list) {
    t->at++;
    for (;;) {
        struct datum *v;
        gap(t);
        if (datum_toml_peek(t) == ']') break;
        int status = value(t, &v);
        if (status) return status;
        datum_push(&t->data, list, v);
        gap(t);
        if (datum_toml_peek(t) == ']') break;
        if (datum_toml_peek(t) != ',') return datum_toml_fail(t, t->at, "',' or ']' expected");
        t->at++;
    }
    t->at++;
    return 0;
}

static int value(struct toml *t, struct datum **ret) {
    const char c = datum_toml_peek(t);
    const enum datum_kind kind = c == '{' ? DATUM_MAP : c == '[' ? DATUM_LIST : DATUM_TEXT;
    struct datum *v = datum_new(&t->data, kind, t->line, (int)(t->at - t->line_begin) + 1);
    int status;
    if (t->data.count > DATUM_MAX) return datum_too_many(t->source, t->why);
    if (t->depth >= DATUM_DEPTH_MAX)
        return datum_toml_fail(t, t->at, "nested deeper than %d levels", DATUM_DEPTH_MAX);
    t->depth++;
    if (kind == DATUM_MAP)
        status = inline_table(t, v);
    else if (kind == DATUM_LIST)
        status = array(t, v);
    else if (c == '"' || c == '\'')
        status = datum_toml_string(t, true, &v->text);
    else
        status = datum_toml_word(t, v);
    t->depth--;
    v->is_fixed = kind != DATUM_TEXT;
    *ret = v;
    return status;
}

// --- Lines ---------------------------------------------------------------------------------------

static int key_line(struct toml *t, struct datum *table) {
    struct key k;
    struct datum *v, *map = table;
    int status = read_key(t, &k);
    if (!status) status = pair_value(t, &v);
    for (ptrdiff_t i = 0; i + 1 < k.count && !status; i++) {
        map = enter(t, map, &k, k.items[i]);
        if (!map || map->is_header) return twice(t, &k, k.items[i]);
        *arena_push(t->data.arena, &t->pending, &t->pending_count, &t->pending_capacity) = map;
    }
    if (status) return status;
    const struct str last = k.items[k.count - 1];
    if (datum_find(map, last)) return twice(t, &k, last);
    datum_set(&t->data, map, last, v, k.line, k.column);
    return 0;
}

static int close_header(struct toml *t, const char *end) {
    if (!datum_toml_has(t, str_of(end))) return datum_toml_fail(t, t->at, "'%s' expected", end);
    t->at += (ptrdiff_t)strlen(end);
    for (ptrdiff_t i = 0; i < t->pending_count; i++) t->pending[i]->is_header = true;
    t->pending_count = 0;
    return 0;
}

// [a.b]
static int table_line(struct toml *t, struct datum *root, struct datum **ret_table) {
    struct key k;
    t->at++;
    datum_toml_blanks(t);
    int status = read_key(t, &k);
    if (!status) status = close_header(t, "]");
    if (status) return status;
    struct datum *map = root;
    for (ptrdiff_t i = 0; i < k.count; i++) {
        struct datum_pair *p = datum_find(map, k.items[i]);
        if (i + 1 == k.count && p && p->value->kind != DATUM_MAP) return twice(t, &k, k.items[i]);
        map = enter(t, map, &k, k.items[i]);
        if (!map) return twice(t, &k, k.items[i]);
    }
    if (map->is_header) return twice(t, &k, k.items[k.count - 1]);
    map->is_header = true;
    *ret_table = map;
    return 0;
}

// [[a.b]]
static int array_line(struct toml *t, struct datum *root, struct datum **ret_table) {
    struct key k;
    t->at += 2;
    datum_toml_blanks(t);
    int status = read_key(t, &k);
    if (!status) status = close_header(t, "]]");
    if (status) return status;
    struct datum *map = root;
    for (ptrdiff_t i = 0; i + 1 < k.count; i++) {
        map = enter(t, map, &k, k.items[i]);
        if (!map) return twice(t, &k, k.items[i]);
    }
    const struct str last = k.items[k.count - 1];
    struct datum_pair *p = datum_find(map, last);
    if (!p) {
        struct datum *list = datum_new(&t->data, DATUM_LIST, k.line, k.column);
        list->is_array = true;
        p = datum_set(&t->data, map, last, list, k.line, k.column);
    }
    if (p->value->kind != DATUM_LIST || !p->value->is_array) return twice(t, &k, last);
    *ret_table = new_table(t, &k);
    datum_push(&t->data, p->value, *ret_table);
    return 0;
}

static int document(struct toml *t, struct datum *root) {
    struct datum *table = root;
    for (;;) {
        gap(t);
        if (t->at >= t->text.len) return 0;
        int status = datum_toml_has(t, STR("[["))  ? array_line(t, root, &table)
                     : datum_toml_has(t, STR("[")) ? table_line(t, root, &table)
                                                   : key_line(t, table);
        if (status) return status;
        datum_toml_blanks(t);
        comment(t);
        if (t->at < t->text.len && !datum_toml_line_end(t))
            return datum_toml_fail(t, t->at, "the end of the line expected");
    }
}

int datum_toml_read(struct arena *a, struct datum_source *source, const struct datum **ret_root,
                    struct fail *why) {
    struct toml t = {
        .data = {.arena = a}, .source = source, .why = why, .text = source->text, .line = 1};
    struct datum *root = datum_new(&t.data, DATUM_MAP, 1, 1);
    root->is_header = true;
    *ret_root = root;
    return document(&t, root);
}
