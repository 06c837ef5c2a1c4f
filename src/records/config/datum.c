// SPDX-License-Identifier: Apache-2.0
// Values by reference, and the tree that is made of them.
#include "records/config/datum_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SMALL_MAP = 12 }; // pairs

struct datum *config_datum_new(struct data *d, enum datum_kind kind, int line, int column) {
    struct datum *v = arena_new(d->arena, struct datum, 1);
    *v = (struct datum){.kind = kind, .line = line, .column = column};
    if (kind == DATUM_LIST) v->list = arena_new(d->arena, struct datum_list, 1);
    if (kind == DATUM_MAP) v->map = arena_new(d->arena, struct datum_map, 1);
    d->count++;
    return v;
}

struct datum *config_datum_integer(struct data *d, int64_t value, const struct datum *at) {
    struct datum *v = config_datum_new(d, DATUM_INT, at->line, at->column);
    v->file = at->file;
    v->integer = value;
    return v;
}

struct datum *config_datum_float(struct data *d, double value, const struct datum *at) {
    struct datum *v = config_datum_new(d, DATUM_FLOAT, at->line, at->column);
    v->file = at->file;
    v->number = value;
    return v;
}

struct datum *config_datum_at(struct data *d, const struct datum *v, int line, int column) {
    struct datum *at = arena_new(d->arena, struct datum, 1);
    *at = *v;
    at->line = line;
    at->column = column;
    d->count++;
    return at;
}

void config_datum_push(struct data *d, struct datum *list, struct datum *item) {
    struct datum_list *l = list->list;
    *arena_push(d->arena, &l->items, &l->count, &l->capacity) = item;
}

// --- Maps ----------------------------------------------------------------------------------------

static int32_t *slot_of(const struct datum_map *m, struct str key) {
    uint64_t i = str_hash(key) & (uint64_t)(m->slot_count - 1);
    while (m->slots[i] && !str_equal(m->pairs[m->slots[i] - 1].key, key)) {
        i = (i + 1) & (uint64_t)(m->slot_count - 1);
    }
    return &m->slots[i];
}

static struct datum_pair *pair_of(const struct datum_map *m, struct str key) {
    if (m->slots) {
        const int32_t at = *slot_of(m, key);
        return at ? &m->pairs[at - 1] : NULL;
    }
    for (ptrdiff_t i = 0; i < m->count; i++) {
        if (str_equal(m->pairs[i].key, key)) return &m->pairs[i];
    }
    return NULL;
}

static void index_pairs(struct data *d, struct datum_map *m) {
    m->slot_count = m->slot_count ? m->slot_count * 4 : 64;
    m->slots = arena_new(d->arena, int32_t, m->slot_count);
    for (ptrdiff_t i = 0; i < m->count; i++) *slot_of(m, m->pairs[i].key) = (int32_t)(i + 1);
}

struct datum_pair *config_datum_find(const struct datum *map, struct str key) {
    struct datum_pair *p = pair_of(map->map, key);
    return p && p->value ? p : NULL;
}

struct datum_pair *config_datum_set(struct data *d, struct datum *map, struct str key,
                                    struct datum *value, int line, int column) {
    struct datum_map *m = map->map;
    struct datum_pair *p = pair_of(m, key);
    if (!p) {
        p = arena_push(d->arena, &m->pairs, &m->count, &m->capacity);
        if (m->count > SMALL_MAP && m->count * 2 > m->slot_count)
            index_pairs(d, m);
        else if (m->slots)
            *slot_of(m, key) = (int32_t)m->count;
        *p = (struct datum_pair){.key = key};
        if (m->slots) *slot_of(m, key) = (int32_t)m->count;
    }
    p->value = value;
    p->line = line;
    p->column = column;
    p->spelled = (struct str){0};
    return p;
}

// --- Copies --------------------------------------------------------------------------------------

struct datum *config_datum_copy(struct data *d, const struct datum *v) {
    struct datum *copy = config_datum_at(d, v, v->line, v->column);
    if (v->kind == DATUM_LIST) {
        copy->list = arena_new(d->arena, struct datum_list, 1);
        for (ptrdiff_t i = 0; i < v->list->count; i++)
            config_datum_push(d, copy, v->list->items[i]);
        d->count += (int)v->list->count;
    }
    if (v->kind != DATUM_MAP) return copy;
    copy->map = arena_new(d->arena, struct datum_map, 1);
    for (ptrdiff_t i = 0; i < v->map->count; i++) {
        const struct datum_pair *p = &v->map->pairs[i];
        if (p->value)
            config_datum_set(d, copy, p->key, p->value, p->line, p->column)->spelled = p->spelled;
        d->count++;
    }
    return copy;
}

struct datum *config_datum_deep(struct data *d, const struct datum *v, int depth) {
    struct datum *copy = config_datum_copy(d, v);
    if (depth > DATA_DEPTH_MAX || d->count > DATA_MAX) return copy; // told when the tree is made
    for (ptrdiff_t i = 0; v->kind == DATUM_LIST && i < copy->list->count; i++)
        copy->list->items[i] = config_datum_deep(d, copy->list->items[i], depth + 1);
    for (ptrdiff_t i = 0; v->kind == DATUM_MAP && i < copy->map->count; i++)
        copy->map->pairs[i].value = config_datum_deep(d, copy->map->pairs[i].value, depth + 1);
    return copy;
}

// --- The tree ------------------------------------------------------------------------------------

struct tree {
    struct arena *arena;
    struct config *config;
    struct fail *why;
    int count;
};

int config_data_too_many(const struct config *c, struct fail *why) {
    return fail_set(why, FAIL_INPUT, "%.*s:1:1: more than %d values, expected a training config",
                    STR_ARG(c->name), DATA_MAX);
}

// The fewest digits that give the same number again.
static struct str float_text(struct arena *a, double number) {
    char text[40];
    double again;
    if (isnan(number) || isinf(number)) return STR(".nan");
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (str_to_double(str_of(text), &again) && again == number) break;
    }
    const bool plain = strspn(text, "-0123456789") == strlen(text);
    return str_format(a, "%s%s", text, plain ? ".0" : "");
}

static struct str scalar_text(struct arena *a, const struct datum *v) {
    switch (v->kind) {
    case DATUM_BOOL:
        return v->boolean ? STR("true") : STR("false");
    case DATUM_INT:
        return str_format(a, "%lld", (long long)v->integer);
    case DATUM_FLOAT:
        return float_text(a, v->number);
    case DATUM_NULL:
        return STR("null");
    default:
        return v->text;
    }
}

static struct config_node *make(struct tree *t, const struct datum *v, int depth);

static struct config_node *key_of(struct tree *t, const struct datum_pair *p, unsigned char file) {
    struct config_node *key = arena_new(t->arena, struct config_node, 1);
    *key = (struct config_node){.kind = NODE_SCALAR,
                                .style = STYLE_DOUBLE,
                                .is_key = true,
                                .file = file,
                                .line = p->line,
                                .column = p->column,
                                .begin = -1,
                                .end = -1,
                                .text = p->key};
    if (p->spelled.len == 0) return key;
    key->rare = arena_new(t->arena, struct config_rare, 1);
    key->rare->spelled = p->spelled;
    return key;
}

static bool make_map(struct tree *t, struct config_node *n, const struct datum_map *m, int depth) {
    n->kind = NODE_MAP;
    n->items = arena_new(t->arena, struct config_node *, 2 * m->count);
    for (ptrdiff_t i = 0; i < m->count; i++) {
        if (!m->pairs[i].value) continue;
        struct config_node *value = make(t, m->pairs[i].value, depth + 1);
        if (!value) return false;
        n->items[n->count++] = key_of(t, &m->pairs[i], value->file);
        n->items[n->count++] = value;
    }
    config_index_build(t->arena, n);
    return true;
}

static bool make_list(struct tree *t, struct config_node *n, const struct datum_list *l,
                      int depth) {
    n->kind = NODE_LIST;
    n->items = arena_new(t->arena, struct config_node *, l->count);
    for (ptrdiff_t i = 0; i < l->count; i++) {
        n->items[i] = make(t, l->items[i], depth + 1);
        if (!n->items[i]) return false;
        n->count++;
    }
    return true;
}

static struct config_node *make(struct tree *t, const struct datum *v, int depth) {
    struct config_node *n = arena_new(t->arena, struct config_node, 1);
    *n = (struct config_node){.kind = NODE_SCALAR,
                              .file = v->file,
                              .line = v->line,
                              .column = v->column,
                              .begin = -1,
                              .end = -1};
    if (++t->count > DATA_MAX) {
        config_data_too_many(t->config, t->why);
        return NULL;
    }
    if (depth > DATA_DEPTH_MAX) {
        fail_set(t->why, FAIL_INPUT, "%.*s:%d:%d: nested deeper than %d levels",
                 STR_ARG(t->config->name), v->line, v->column, DATA_DEPTH_MAX);
        return NULL;
    }
    if (v->kind == DATUM_UNKNOWN || v->is_open) n->style = STYLE_UNKNOWN;
    n->flow = v->kind >= DATUM_LIST;
    if (v->kind == DATUM_MAP) return make_map(t, n, v->map, depth) ? n : NULL;
    if (v->kind == DATUM_LIST) return make_list(t, n, v->list, depth) ? n : NULL;
    if (v->kind == DATUM_TEXT) n->style = STYLE_SINGLE;
    n->text = scalar_text(t->arena, v);
    return n;
}

int config_data_tree(struct data *d, const struct datum *root, struct config *ret_config,
                     struct fail *why) {
    struct tree t = {.arena = d->arena, .config = ret_config, .why = why};
    if (d->count > DATA_MAX) return config_data_too_many(ret_config, why);
    ret_config->root = make(&t, root, 0);
    return ret_config->root ? 0 : FAIL_INPUT;
}
