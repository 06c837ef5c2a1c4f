// SPDX-License-Identifier: Apache-2.0
// Paths: "train.batch_size", "stages[1].batch_size", "\"train.batch_size\"" for a key that has the
// dot in its name. Merge keys and aliases are followed as the trainer's parser does, never
// expanded.
#include "records/config/tree_int.h"

#include <math.h>
#include <string.h>

// Maps that one lookup may visit: merges of merges of merges must not take exponential time.
enum { VISITS_MAX = 2000 };

static int bad_path(struct fail *why, struct str path) {
    fail_set(why, FAIL_USAGE, "'%.*s' is not the path of a key", STR_ARG(path));
    return fail_hint(why, "write train.batch_size, stages[1].lr, or \"a.b\" for a key with a dot");
}

// Key in double quotes; \" and \\ inside. Returns what follows it, p NULL when it does not end.
static struct str quoted_key(struct arena *a, struct str rest, struct str *ret_key) {
    struct buf key = buf_new(a);
    for (ptrdiff_t i = 1; i < rest.len; i++) {
        if (rest.p[i] == '"') {
            *ret_key = key.count ? buf_str(&key) : STR("");
            return str_slice(rest, i + 1, rest.len);
        }
        if (rest.p[i] == '\\' && i + 1 < rest.len) i++;
        buf_byte(&key, rest.p[i]);
    }
    return (struct str){0};
}

static bool index_step(struct str *rest, struct step *ret_step) {
    ptrdiff_t end = 1;
    while (end < rest->len && rest->p[end] != ']') end++;
    if (end >= rest->len || !str_to_i64(str_slice(*rest, 1, end), &ret_step->index)) return false;
    *rest = str_slice(*rest, end + 1, rest->len);
    return ret_step->index >= 0;
}

static void bare_key(struct str *rest, struct step *ret_step) {
    ptrdiff_t end = 0;
    while (end < rest->len && rest->p[end] != '.' && rest->p[end] != '[') end++;
    ret_step->key = str_slice(*rest, 0, end);
    *rest = str_slice(*rest, end, rest->len);
}

int config_path_parse(struct arena *a, struct str path, struct steps *ret_steps, struct fail *why) {
    struct steps steps = {0};
    struct str rest = path;
    while (rest.len > 0) {
        struct step step = {.index = -1};
        if (rest.p[0] == '[') {
            if (!index_step(&rest, &step)) return bad_path(why, path);
        } else {
            if (steps.count > 0) {
                if (rest.p[0] != '.') return bad_path(why, path);
                rest = str_slice(rest, 1, rest.len);
            }
            if (rest.len > 0 && rest.p[0] == '"')
                rest = quoted_key(a, rest, &step.key);
            else
                bare_key(&rest, &step);
            if (!rest.p || !step.key.p || (step.key.len == 0 && rest.len == 0))
                return bad_path(why, path);
        }
        *arena_push(a, &steps.items, &steps.count, &steps.capacity) = step;
    }
    if (steps.count == 0) return bad_path(why, path);
    *ret_steps = steps;
    return 0;
}

struct str config_path_join(struct arena *a, struct str path, struct str key) {
    bool bare = key.len > 0;
    for (ptrdiff_t i = 0; i < key.len; i++) bare = bare && !strchr(".[]\"\\", key.p[i]);
    struct buf b = buf_new(a);
    buf_add(&b, path);
    if (path.len > 0) buf_byte(&b, '.');
    if (bare) {
        buf_add(&b, key);
        return buf_str(&b);
    }
    buf_byte(&b, '"');
    for (ptrdiff_t i = 0; i < key.len; i++) {
        if (key.p[i] == '"' || key.p[i] == '\\') buf_byte(&b, '\\');
        buf_byte(&b, key.p[i]);
    }
    buf_byte(&b, '"');
    return buf_str(&b);
}

struct config_node *config_node_follow(struct config_node *n) {
    // An anchor never names an alias, so one step is all there is.
    return n->kind == NODE_ALIAS ? n->target : n;
}

static bool own_key(struct config_node *map, struct str key, struct place *ret_place) {
    ptrdiff_t i = config_index_find(map, key);
    if (i < 0) return false;
    ret_place->map = map;
    ret_place->key = map->items[i];
    ret_place->value = map->items[i + 1];
    return true;
}

static bool find_merged(struct config_node *map, struct str key, int *visits,
                        struct place *ret_place);

static bool in_base(struct config_node *base, struct str key, int *visits,
                    struct place *ret_place) {
    base = config_node_follow(base);
    if (base->kind == NODE_MAP) {
        return own_key(base, key, ret_place) || find_merged(base, key, visits, ret_place);
    }
    for (ptrdiff_t i = 0; base->kind == NODE_LIST && i < base->count; i++) {
        if (config_node_follow(base->items[i])->kind != NODE_LIST &&
            in_base(base->items[i], key, visits, ret_place)) {
            return true; // of several bases the first wins
        }
    }
    return false;
}

static bool find_merged(struct config_node *map, struct str key, int *visits,
                        struct place *ret_place) {
    for (ptrdiff_t i = 0; map->merges && i + 1 < map->count; i += 2) {
        if (!config_node_is_merge(map->items[i])) continue;
        if (--*visits < 0) return false;
        if (in_base(map->items[i + 1], key, visits, ret_place)) return true;
    }
    return false;
}

struct place config_map_find(struct config_node *map, struct str key, bool merges) {
    struct place p = {.owner = map};
    if (own_key(map, key, &p)) return p;
    int visits = VISITS_MAX;
    if (merges && find_merged(map, key, &visits, &p)) p.inherited = true;
    return p;
}

struct place config_place_find(const struct config *c, const struct steps *steps) {
    struct place p = {.value = c->root};
    if (!c->root) return p;
    for (ptrdiff_t i = 0; i < steps->count; i++) {
        const struct step *step = &steps->items[i];
        struct config_node *from = p.value, *shared = p.shared;
        if (p.inherited || from->kind == NODE_ALIAS) shared = from;
        from = config_node_follow(from);
        p = (struct place){.shared = shared, .missing = i};
        if (step->index >= 0 ? from->kind != NODE_LIST : from->kind != NODE_MAP) return p;
        if (step->index < 0) {
            p = config_map_find(from, step->key, c->format == CONFIG_YAML);
        } else if (step->index < from->count) {
            p.value = from->items[step->index];
        }
        p.shared = shared;
        p.missing = i;
        if (!p.value) return p;
    }
    p.missing = steps->count;
    return p;
}

static void walk(struct arena *a, struct str path, struct config_node *n, pair_visitor *each,
                 void *self) {
    if (n->kind == NODE_MAP) {
        for (ptrdiff_t i = 0; i + 1 < n->count; i += 2) {
            struct config_node *key = n->items[i], *value = n->items[i + 1];
            if (key->kind != NODE_SCALAR || key->is_replaced) continue;
            each(self, path, n, key, value);
            if (value->kind == NODE_MAP || value->kind == NODE_LIST) {
                walk(a, config_path_join(a, path, key->text), value, each, self);
            }
        }
    }
    for (ptrdiff_t i = 0; n->kind == NODE_LIST && i < n->count; i++) {
        if (n->items[i]->kind != NODE_MAP && n->items[i]->kind != NODE_LIST) continue;
        walk(a, str_format(a, "%.*s[%td]", STR_ARG(path), i), n->items[i], each, self);
    }
}

void config_tree_walk(struct arena *a, const struct config *c, pair_visitor *each, void *self) {
    if (c->root) walk(a, STR(""), c->root, each, self);
}

// A block scalar's end mark lies behind the indentation of what follows, and behind blank lines
// that only belong to it when it keeps them ("|+": then its text ends with more than one line end).
static ptrdiff_t block_scalar_end(const struct config *c, const struct config_node *n) {
    ptrdiff_t end = n->end;
    while (end > n->begin && c->text.p[end - 1] == ' ') end--;
    bool keeps = str_ends(n->text, STR("\n\n"));
    while (!keeps && end > n->begin + 1) {
        ptrdiff_t line = config_bytes_line_begin(c->text, end - 1);
        if (str_trim(str_slice(c->text, line, end)).len > 0 || line <= n->begin) break;
        end = line;
    }
    return end;
}

ptrdiff_t config_node_outer_end(const struct config *c, const struct config_node *n) {
    if (n->kind == NODE_SCALAR) {
        if (n->style == STYLE_SINGLE || n->style == STYLE_DOUBLE) return n->end + 1;
        if (n->style == STYLE_LITERAL || n->style == STYLE_FOLDED) return block_scalar_end(c, n);
        return n->end;
    }
    if (n->kind == NODE_ALIAS || n->flow) return n->end;
    for (ptrdiff_t i = n->count - 1; i >= 0; i--) {
        ptrdiff_t end = config_node_outer_end(c, n->items[i]);
        if (end >= 0) return end;
    }
    return -1;
}

ptrdiff_t config_node_outer_begin(const struct config_node *n) {
    const bool quoted =
        n->kind == NODE_SCALAR && (n->style == STYLE_SINGLE || n->style == STYLE_DOUBLE);
    return n->begin - (quoted || n->kind == NODE_ALIAS);
}

struct users {
    struct arena *arena;
    const struct config_node *node;
    struct buf text;
    int count;
};

static void note_user(void *self, struct str path, struct config_node *map, struct config_node *key,
                      struct config_node *value) {
    (void)map;
    struct users *u = self;
    if (value->kind != NODE_ALIAS || value->target != u->node) return;
    if (u->count++ > 4) return;
    if (u->text.count) buf_add(&u->text, STR(", "));
    buf_add(&u->text, config_path_join(u->arena, path, key->text));
}

struct str config_anchor_users(struct arena *a, const struct config *c,
                               const struct config_node *n) {
    struct users u = {.arena = a, .node = n, .text = buf_new(a)};
    if (config_node_anchor(n).p) config_tree_walk(a, c, note_user, &u);
    if (u.count > 5) buf_format(&u.text, " and %d more", u.count - 5);
    return buf_str(&u.text);
}

struct config_value config_value_of(struct arena *a, const struct config *c, const struct place *p,
                                    struct str path) {
    struct config_value v = {.path = path, .number = NAN};
    if (!p->value) return v;
    const struct config_node *n = config_node_follow(p->value);
    struct scalar s = config_scalar_read(c, n);
    v.type = s.type;
    v.integer = s.integer;
    v.number = s.number;
    v.boolean = s.boolean;
    v.line = p->value->line;
    v.column = p->value->column;
    if (p->value->file > 0) v.file = c->files.items[p->value->file - 1];
    if (p->key && p->key->rare) v.spelled = p->key->rare->spelled;
    v.text = n->kind == NODE_SCALAR ? n->text : n->kind == NODE_LIST ? STR("[list]") : STR("{map}");
    (void)a;
    return v;
}

int config_get(struct arena *a, const struct config *c, struct str path,
               struct config_value *ret_value, struct fail *why) {
    struct fail unheard;
    struct steps steps;
    int status = config_path_parse(a, path, &steps, why ? why : &unheard);
    if (status) return status;
    struct place p = config_place_find(c, &steps);
    *ret_value = config_value_of(a, c, &p, path);
    return 0;
}

struct str config_node_text(struct arena *a, const struct config_node *n, char between) {
    if (n->kind == NODE_SCALAR) return n->text;
    struct buf all = buf_new(a);
    for (ptrdiff_t i = 0; n->kind == NODE_LIST && i < n->count; i++) {
        const struct config_node *item = config_node_follow(n->items[i]);
        if (item->kind != NODE_SCALAR) continue;
        if (all.count > 0) buf_byte(&all, between);
        buf_add(&all, item->text);
    }
    return buf_str(&all);
}
