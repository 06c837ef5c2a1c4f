// SPDX-License-Identifier: Apache-2.0
// Hydra's defaults list, as hydra-core 1.3 composes it: each entry is a file of a group, laid at
// its package in the order of the list; "override" entries choose for the whole tree, of the outer
// files first; entries are expanded from the last to the first, and what is interpolated at the
// end.
#include "records/config/layer_int.h"

enum { ENTRIES_MAX = 500, DEPTH_MAX = 40 };

struct choice {
    struct str key; // "data", "db@source"
    struct config_node *value;
    struct config_node *at;
    bool is_used;
};
// An entry of a defaults list, or the file itself (_self_).
struct element {
    struct str group, package; // group: without a leading "/"; package: as it is written
    bool has_package, is_absolute, is_self, is_group, is_optional, is_override;
    struct config_node *value; // of a group: its option; else the path
};
// Where it stands: of the file whose list it is in.
struct from {
    struct str folder, package, file;
    int depth;
};
// What is laid on the others, in the order from the last to the first.
struct piece {
    struct str package, path, because;
    struct config_node *root; // NULL: not at hand
};
struct hydra {
    struct layers *layers;
    struct choice *choices, *known; // overrides; what was taken
    ptrdiff_t choice_count, choice_capacity, known_count, known_capacity;
    struct piece *pieces;
    ptrdiff_t piece_count, piece_capacity;
    int entries;
};

// --- Names ---------------------------------------------------------------------------------------

static struct str dotted(struct arena *a, struct str path) {
    return str_of(str_z_swapped(a, path, '/', '.'));
}

static struct str joined(struct arena *a, struct str above, char sign, struct str below) {
    if (above.len == 0 || below.len == 0) return above.len ? above : below;
    return str_format(a, "%.*s%c%.*s", STR_ARG(above), sign, STR_ARG(below));
}

// "optional override /db@:source" and the like.
static struct element element_of(struct config_node *item) {
    struct element e = {0};
    struct config_node *n = config_node_follow(item);
    struct str name = n->text;
    if (n->kind == NODE_MAP && n->count >= 2) {
        name = n->items[0]->text;
        e.is_group = true;
        e.value = config_node_follow(n->items[1]);
    }
    while (e.is_group && name.len > 0) {
        struct str rest = name, word = str_cut(&rest, ' ');
        if (str_is(word, "optional"))
            e.is_optional = true;
        else if (str_is(word, "override"))
            e.is_override = true;
        else
            break;
        name = str_trim(rest);
    }
    const ptrdiff_t at = str_find(name, STR("@"));
    if (at >= 0) {
        e.has_package = true;
        e.package = str_slice(name, at + 1, name.len);
        if (str_is(e.package, "_here_")) e.package = STR("");
        name = str_slice(name, 0, at);
    }
    e.is_self = !e.is_group && str_is(name, "_self_");
    e.is_absolute = str_starts(name, STR("/"));
    if (e.is_absolute) name = str_slice(name, 1, name.len);
    e.group = name;
    return e;
}

// Of an entry that is no group: the folder of its path.
static struct str own_group(const struct element *e) {
    return e->is_group ? e->group : str_before_last(e->group, '/');
}

static struct str group_path(struct arena *a, const struct element *e, const struct from *from) {
    return e->is_absolute ? own_group(e) : joined(a, from->folder, '/', own_group(e));
}

static struct str behind_global(struct str package) {
    const struct str word = STR("_global_");
    for (ptrdiff_t i = package.len - word.len; i >= 0; i--) {
        if (!str_equal(str_slice(package, i, i + word.len), word)) continue;
        return str_slice(package, i + word.len + 1 < package.len ? i + word.len + 1 : package.len,
                         package.len);
    }
    return package;
}

// header empty: the file has none.
static struct str final_package(struct arena *a, const struct element *e, const struct from *from,
                                struct str header) {
    struct str package = e->package;
    const struct str group = dotted(a, group_path(a, e, from));
    const ptrdiff_t hole = str_find(package, STR("_group_"));
    if (hole >= 0)
        package = str_format(a, "_global_.%.*s%.*s%.*s", (int)hole, package.p, STR_ARG(group),
                             (int)(package.len - hole - 7), package.p + hole + 7);
    if (!e->has_package && header.len > 0 && !str_is(header, "_group_")) {
        const bool is_global = str_starts(header, STR("_global_"));
        package = is_global ? header : str_format(a, "_global_.%.*s", STR_ARG(header));
    } else if (!e->has_package) {
        package = dotted(a, own_group(e));
    }
    return behind_global(joined(a, from->package, '.', package));
}

static struct str override_key(struct arena *a, const struct element *e, const struct from *from) {
    const struct str group = group_path(a, e, from);
    const struct str package = final_package(a, e, from, (struct str){0});
    if (str_equal(dotted(a, group), package)) return group;
    return str_format(a, "%.*s@%.*s", STR_ARG(group),
                      STR_ARG(package.len ? package : STR("_global_")));
}

// "# @package model.net" above the first line that is no comment.
static struct str header_of(struct str text) {
    while (text.p && text.len > 0) {
        struct str line = str_trim(str_line(&text));
        if (line.len == 0) continue;
        if (line.p[0] != '#') break;
        while (line.len > 0 && line.p[0] == '#') line = str_slice(line, 1, line.len);
        line = str_trim(line);
        if (str_starts(line, STR("@package "))) return str_trim(str_slice(line, 9, line.len));
    }
    return (struct str){0};
}

// --- The list ------------------------------------------------------------------------------------

static struct choice *choice_of(struct choice *items, ptrdiff_t count, struct str key) {
    for (ptrdiff_t i = 0; i < count; i++) {
        if (str_equal(items[i].key, key)) return &items[i];
    }
    return NULL;
}

static void add_piece(struct hydra *h, struct piece piece) {
    *arena_push(h->layers->arena, &h->pieces, &h->piece_count, &h->piece_capacity) = piece;
}

static bool is_null(const struct config_node *n) {
    return n->kind == NODE_SCALAR && n->style != STYLE_SINGLE && n->style != STYLE_DOUBLE &&
           config_scalar_plain(n->text).type == CONFIG_NULL;
}

// Hydra's own settings are no training.
static bool is_hydras(struct str group) {
    return str_is(group, "hydra") || str_starts(group, STR("hydra/"));
}

// "${data}_${model}": what was chosen for them. False: one of them is not known.
static bool filled_in(struct hydra *h, struct str *text) {
    struct buf b = buf_new(h->layers->arena);
    for (struct str rest = *text; rest.len > 0;) {
        const ptrdiff_t open = str_find(rest, STR("${"));
        if (open < 0) {
            buf_add(&b, rest);
            break;
        }
        struct str key = str_slice(rest, open + 2, rest.len);
        const ptrdiff_t close = str_find(key, STR("}"));
        if (close < 0) return false;
        buf_add(&b, str_slice(rest, 0, open));
        rest = str_slice(key, close + 1, key.len);
        const struct choice *c = choice_of(h->known, h->known_count, str_slice(key, 0, close));
        if (!c || c->value->kind != NODE_SCALAR) return false;
        buf_add(&b, c->value->text);
    }
    *text = buf_str(&b);
    return true;
}

static int expand_file(struct hydra *h, const struct element *e, const struct from *from,
                       struct str config, const struct config_node *at);

// The option of a group, or the file of a path.
static int expand_option(struct hydra *h, const struct element *e, const struct from *from,
                         const struct config_node *option) {
    struct arena *a = h->layers->arena;
    struct str name = option ? option->text : str_slice(e->group, own_group(e).len, e->group.len);
    struct str path = joined(a, group_path(a, e, from), '/', name);
    if (str_starts(name, STR("/")))
        path = joined(a, group_path(a, e, from), '/', str_slice(name, 1, name.len));
    if (str_is(name, "???") || !filled_in(h, &path)) {
        add_piece(h, (struct piece){.package = final_package(a, e, from, (struct str){0}),
                                    .path = override_key(a, e, from),
                                    .because = STR("to be chosen on the command line")});
        return 0;
    }
    return expand_file(h, e, from, path, option ? option : e->value);
}

static int expand(struct hydra *h, struct element *e, const struct from *from,
                  struct config_node *at) {
    struct arena *a = h->layers->arena;
    const struct str key = override_key(a, e, from);
    struct choice *chosen = choice_of(h->choices, h->choice_count, key);
    if (e->is_group && chosen) {
        chosen->is_used = true;
        e->value = chosen->value;
    }
    if (!e->is_group) return expand_option(h, e, from, NULL);
    if (e->value->kind == NODE_LIST) {
        int status = 0;
        for (int i = e->value->count - 1; i >= 0 && !status; i--)
            status = expand_option(h, e, from, config_node_follow(e->value->items[i]));
        return status;
    }
    *arena_push(a, &h->known, &h->known_count, &h->known_capacity) =
        (struct choice){.key = key, .value = e->value, .at = at};
    return is_null(e->value) ? 0 : expand_option(h, e, from, e->value);
}

static bool is_interpolated(const struct element *e) {
    const struct str text = e->is_group && e->value ? e->value->text : e->group;
    return str_find(text, STR("${")) >= 0;
}

static void note_overrides(struct hydra *h, const struct config_node *list,
                           const struct from *from) {
    struct arena *a = h->layers->arena;
    for (int i = 0; i < list->count; i++) {
        const struct element e = element_of(list->items[i]);
        if (!e.is_override) continue;
        const struct str key = override_key(a, &e, from);
        if (choice_of(h->choices, h->choice_count, key)) continue;
        *arena_push(a, &h->choices, &h->choice_count, &h->choice_capacity) =
            (struct choice){key, e.value, list->items[i], is_hydras(e.group)};
    }
}

// What comes out for the entries that wait for the choices of the others, at their place.
static int expand_late(struct hydra *h, struct element *e, const struct from *from,
                       struct config_node *at, ptrdiff_t place) {
    const ptrdiff_t before = h->piece_count;
    int status = expand(h, e, from, at);
    const ptrdiff_t more = h->piece_count - before;
    struct piece *late = arena_new(h->layers->arena, struct piece, more + 1);
    for (ptrdiff_t i = 0; i < more; i++) late[i] = h->pieces[before + i];
    for (ptrdiff_t i = before - 1; i >= place; i--) h->pieces[i + more] = h->pieces[i];
    for (ptrdiff_t i = 0; i < more; i++) h->pieces[place + i] = late[i];
    return status;
}

static int expand_list(struct hydra *h, const struct config_node *list, const struct from *from,
                       struct piece self) {
    struct arena *a = h->layers->arena;
    ptrdiff_t *places = arena_new(a, ptrdiff_t, list->count + 1);
    struct element *elements = arena_new(a, struct element, list->count + 1);
    bool has_self = false;
    int status = 0;
    note_overrides(h, list, from);
    for (int i = 0; i < list->count; i++) {
        elements[i] = element_of(list->items[i]);
        has_self = has_self || elements[i].is_self;
    }
    if (!has_self) add_piece(h, self);
    for (int i = list->count - 1; i >= 0 && !status; i--) {
        struct element *e = &elements[i];
        places[i] = -1;
        if (e->is_self)
            add_piece(h, self);
        else if (e->is_override || e->group.len == 0 || is_hydras(e->group))
            continue;
        else if (is_interpolated(e))
            places[i] = h->piece_count;
        else
            status = expand(h, e, from, list->items[i]);
    }
    // From the first to the last, so that the places of the others stay.
    for (int i = 0; i < list->count && !status; i++) {
        if (places[i] >= 0) status = expand_late(h, &elements[i], from, list->items[i], places[i]);
    }
    return status;
}

static struct config_node *list_of(const struct config_node *root) {
    if (root->kind != NODE_MAP) return NULL;
    struct config_node *n =
        config_map_find((struct config_node *)root, STR("defaults"), false).value;
    n = n ? config_node_follow(n) : NULL;
    return n && n->kind == NODE_LIST ? n : NULL;
}

// Without the list itself, which is no value.
static struct config_node *content_of(struct layers *l, struct config_node *root) {
    if (root->kind != NODE_MAP) return root;
    struct config_node *n = config_layer_map(l, root);
    for (int i = 0; i + 1 < root->count; i += 2) {
        if (!str_is(root->items[i]->text, "defaults") && !root->items[i]->is_replaced)
            config_layer_add(l, n, root->items[i], root->items[i + 1]);
    }
    config_index_build(l->arena, n);
    return n;
}

static int expand_content(struct hydra *h, struct config_node *root, const struct from *from,
                          struct piece self) {
    const struct config_node *list = list_of(root);
    self.root = content_of(h->layers, root);
    if (list) return expand_list(h, list, from, self);
    add_piece(h, self);
    return 0;
}

static bool is_in_chain(const struct layers *l, const struct layer_file *f) {
    return f == &l->files[0] || f->is_open;
}

static int expand_file(struct hydra *h, const struct element *e, const struct from *from,
                       struct str config, const struct config_node *at) {
    struct layers *l = h->layers;
    struct arena *a = l->arena;
    struct layer_file *f;
    struct str because;
    const bool has_suffix = str_ends(config, STR(".yaml")) || str_ends(config, STR(".yml"));
    const struct str name = has_suffix ? config : str_format(a, "%.*s.yaml", STR_ARG(config));
    const struct str path = datum_source_beside(a, l->files[0].path, name);
    int status = config_layer_load(l, path, &f, &because);
    if (status) return status;
    if (!f) {
        if (e->is_optional) return 0;
        add_piece(h, (struct piece){.package = final_package(a, e, from, (struct str){0}),
                                    .path = path,
                                    .because = because});
        return 0;
    }
    if (is_in_chain(l, f) || from->depth > DEPTH_MAX || ++h->entries > ENTRIES_MAX)
        return config_layer_circle(l, from->file, at ? at : f->root, path);
    const struct from inner = {.folder = str_before_last(config, '/'),
                               .package = final_package(a, e, from, header_of(f->text)),
                               .file = path,
                               .depth = from->depth + 1};
    f->is_open = true;
    const ptrdiff_t place = f - l->files;
    status = expand_content(h, f->root, &inner, (struct piece){.package = inner.package});
    l->files[place].is_open = false;
    return status;
}

// --- The tree ------------------------------------------------------------------------------------

static struct config_node *key_node(struct layers *l, struct str text,
                                    const struct config_node *at) {
    struct config_node *key = config_layer_map(l, at);
    key->kind = NODE_SCALAR;
    key->is_key = true;
    key->begin = key->end = -1;
    key->text = text;
    return key;
}

// The values at their package: "a.b" is {a: {b: …}}.
static struct config_node *placed(struct layers *l, struct str package, struct config_node *root) {
    for (; package.len > 0; package = str_before_last(package, '.')) {
        struct config_node *above = config_layer_map(l, root);
        above->begin = above->end = -1;
        config_layer_add(l, above, key_node(l, str_last(package, '.'), root), root);
        config_index_build(l->arena, above);
        root = above;
    }
    return root;
}

// The layers below have values at the package of a file that is not at hand: which are meant is not
// known.
static void note_missing(struct hydra *h, const struct piece *p, struct config_node *root) {
    struct layers *l = h->layers;
    struct str because = p->because;
    struct steps steps = {0};
    struct config whole = {.root = root, .format = CONFIG_YAML};
    if (p->package.len > 0 && config_path_parse(l->arena, p->package, &steps, NULL)) root = NULL;
    if (root && root->count > 0 && config_place_find(&whole, &steps).value)
        because = str_format(l->arena, "%.*s (it wins over what is read of %.*s)", STR_ARG(because),
                             STR_ARG(p->package.len ? p->package : STR("all")));
    config_layer_missing(l, p->path, because);
}

static void note_unused(struct hydra *h) {
    struct layers *l = h->layers;
    for (ptrdiff_t i = 0; i < h->choice_count; i++) {
        const struct choice *c = &h->choices[i];
        if (c->is_used) continue;
        l->config->is_partial = true;
        str_list_format(l->arena, &l->config->notes,
                        "line %d: override %.*s: no file at hand has it in its defaults: give the "
                        "config that is run with this one",
                        c->at->line, STR_ARG(c->key));
    }
}

static void note_order(struct hydra *h, const struct config_node *list,
                       const struct config_node *content) {
    bool has_self = false, has_group = false;
    for (int i = 0; i < list->count; i++) {
        const struct element e = element_of(list->items[i]);
        has_self = has_self || e.is_self;
        has_group = has_group || !(e.is_override || is_hydras(e.group));
    }
    if (has_self || !has_group || content->count == 0) return;
    str_list_add(h->layers->arena, &h->layers->config->notes,
                 STR("defaults without _self_: this file wins over its groups, as in Hydra 1.1 and "
                     "later (in 1.0 they win)"));
}

int config_hydra_compose(struct layers *l, const struct config_node *defaults) {
    struct hydra h = {.layers = l};
    struct config *c = l->config;
    struct config_node *root = NULL, *own = c->root;
    const struct element primary = {.has_package = false};
    const struct from top = {.file = c->name};
    const struct from from = {
        .package = final_package(l->arena, &primary, &top, header_of(c->text)), .file = c->name};
    l->composes = true;
    int status = expand_content(&h, own, &from, (struct piece){.package = from.package});
    l->composes = false;
    if (status) return status;
    note_unused(&h);
    note_order(&h, defaults, content_of(l, own));
    for (ptrdiff_t i = h.piece_count - 1; i >= 0; i--) {
        const struct piece *p = &h.pieces[i];
        if (!p->root) {
            note_missing(&h, p, root);
            continue;
        }
        if (p->root->kind != NODE_MAP && p->package.len == 0) {
            return fail_set(l->why, FAIL_INPUT, "%.*s:%d:%d: a list at the top of the config",
                            STR_ARG(c->files.items[p->root->file - 1]), p->root->line,
                            p->root->column);
        }
        root = config_layer_merge(l, root, placed(l, p->package, p->root));
        if (!root) return FAIL_INPUT;
    }
    // The list stays in the tree: it tells a config of Hydra's.
    struct config_node *list = config_layer_map(l, own);
    const struct place at = config_map_find(own, STR("defaults"), false);
    config_layer_add(l, list, at.key, at.value);
    config_index_build(l->arena, list);
    c->own = own;
    c->root = config_layer_merge(l, root, list);
    c->is_composed = true;
    return c->root ? 0 : FAIL_INPUT;
}
