// SPDX-License-Identifier: Apache-2.0
// What a file says that is no YAML (Python, TOML, a shell script), as the tree that the roles and
// guards are found in.
#include "records/config/tree_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct tree {
    struct arena *arena;
    struct config *config;
    struct fail *why;
    int count;
};

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
    if (++t->count > DATUM_MAX) {
        fail_set(t->why, FAIL_INPUT, "%.*s:1:1: more than %d values, expected a training config",
                 STR_ARG(t->config->name), DATUM_MAX);
        return NULL;
    }
    if (depth > DATUM_DEPTH_MAX) {
        fail_set(t->why, FAIL_INPUT, "%.*s:%d:%d: nested deeper than %d levels",
                 STR_ARG(t->config->name), v->line, v->column, DATUM_DEPTH_MAX);
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

int config_data_tree(struct arena *a, const struct datum *root, struct config *ret_config,
                     struct fail *why) {
    struct tree t = {.arena = a, .config = ret_config, .why = why};
    ret_config->root = make(&t, root, 0);
    return ret_config->root ? 0 : FAIL_INPUT;
}
