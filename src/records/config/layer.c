// SPDX-License-Identifier: Apache-2.0
// The files that a YAML or JSON config is made of: each is read once, and what they say is laid on
// each other in one tree in which each node knows its file. The config's own tree stays beside it,
// for only that one is edited.
#include "records/config/layer_int.h"

#include <string.h>

enum { FILES_MAX = 200, NODES_MAX = 250 * 1000, LEVELS_MAX = 200 };

// --- Files ---------------------------------------------------------------------------------------

void config_layer_missing(struct layers *l, struct str path, struct str because) {
    struct str note = str_format(l->arena, "%.*s: %.*s: what it sets is not known", STR_ARG(path),
                                 STR_ARG(because));
    l->config->is_partial = true;
    str_list_add_new(l->arena, &l->config->notes, note);
}

int config_layer_circle(struct layers *l, struct str from, const struct config_node *at,
                        struct str path) {
    return fail_set(l->why, FAIL_INPUT, "%.*s:%d:%d: the config includes itself by way of %.*s",
                    STR_ARG(from), at->line, at->column, STR_ARG(path));
}

// The bytes of the nodes are another file's: nothing may be written there.
static void mark(struct config_node *n, unsigned char file) {
    n->file = file;
    n->begin = n->end = -1;
    if (n->kind != NODE_MAP && n->kind != NODE_LIST) return;
    for (int i = 0; i < n->count; i++) mark(n->items[i], file);
}

static bool is_empty(struct str text) {
    while (text.p && text.len > 0) {
        const struct str line = str_trim(str_line(&text));
        if (line.len > 0 && line.p[0] != '#' && !str_is(line, "---")) return false;
    }
    return true;
}

// By its name; a file of another name is JSON where it begins so: DeepSpeed's may have any.
static bool is_json(const struct layer_file *f) {
    static const char *const yaml[] = {".yaml", ".yml"};
    for (int i = 0; i < 2; i++)
        if (str_ends(f->path, str_of(yaml[i]))) return false;
    return str_ends(f->path, STR(".json")) || str_starts(str_trim(f->text), STR("{"));
}

static int parse_file(struct layers *l, struct layer_file *f) {
    struct config c = {.name = f->path,
                       .text = f->text,
                       .is_group = l->composes,
                       .format = is_json(f) ? CONFIG_JSON : CONFIG_YAML};
    str_list_add(l->arena, &l->config->files, f->path);
    if (is_empty(f->text)) {
        f->root = arena_new(l->arena, struct config_node, 1);
        *f->root = (struct config_node){.kind = NODE_MAP, .line = 1, .column = 1};
        return 0;
    }
    int status = config_bytes_check(&c, l->why);
    if (status == 0) status = l->parse(l->arena, &c, l->why);
    f->root = c.root;
    if (status == 0) mark(f->root, (unsigned char)l->config->files.count);
    return status;
}

int config_layer_load(struct layers *l, struct str path, struct layer_file **ret,
                      struct str *ret_because) {
    struct fail why = {0};
    struct str text;
    *ret = NULL;
    for (ptrdiff_t i = 0; i < l->file_count; i++) {
        if (!str_equal(l->files[i].path, path)) continue;
        *ret = &l->files[i];
        return 0;
    }
    *ret_because = STR("too many files for one config");
    if (l->file_count >= FILES_MAX) return 0;
    if (l->loader->read(l->loader->self, l->arena, path, &text, &why)) {
        *ret_because = str_copy(l->arena, str_of(why.message));
        return 0;
    }
    struct layer_file *f = arena_push(l->arena, &l->files, &l->file_count, &l->file_capacity);
    *f = (struct layer_file){.path = path, .text = text};
    *ret = f;
    return parse_file(l, f);
}

// --- One tree ------------------------------------------------------------------------------------

struct config_node *config_layer_map(struct layers *l, const struct config_node *at) {
    struct config_node *n = arena_new(l->arena, struct config_node, 1);
    *n = (struct config_node){.kind = NODE_MAP,
                              .flow = at->flow,
                              .style = at->style,
                              .file = at->file,
                              .line = at->line,
                              .column = at->column,
                              .begin = at->begin,
                              .end = at->end};
    l->nodes++;
    return n;
}

// The map grows by doubling; its index is built when it is complete.
void config_layer_add(struct layers *l, struct config_node *map, struct config_node *key,
                      struct config_node *value) {
    if ((map->count & (map->count - 1)) == 0) {
        struct config_node **more =
            arena_new(l->arena, struct config_node *, map->count == 0 ? 2 : 2 * map->count);
        if (map->count > 0) memcpy(more, map->items, (size_t)map->count * sizeof *more);
        map->items = more;
    }
    map->items[map->count++] = key;
    map->items[map->count++] = value;
    l->nodes += 2;
}

typedef void pair_taker(void *self, struct config_node *key, struct config_node *value);

// The pairs of a map: who takes them, and the maps that are being gone through.
struct merged {
    const struct merged *within; // NULL: the map itself
    const struct config_node *map;
    struct config_node *top;
    pair_taker *take;
    void *self;
    int depth;
};

static bool is_within(const struct merged *m, const struct config_node *map) {
    while (m && m->map != map) m = m->within;
    return m != NULL;
}

// Each pair of a map as PyYAML sees it, those of merged maps (<<) included: of a map that merges
// itself, nothing more.
static void each_merged(struct layers *l, const struct merged *within, struct config_node *map) {
    map = config_node_follow(map);
    struct merged m = *within;
    m.within = within;
    m.map = map;
    m.depth++;
    if (is_within(within, map)) return;
    l->is_deep |= m.depth > LEVELS_MAX;
    if (m.depth > LEVELS_MAX || ++l->nodes > NODES_MAX) return; // told when the tree is complete
    for (int i = 0; map->kind == NODE_LIST && i < map->count; i++)
        each_merged(l, &m, map->items[i]);
    for (int i = 0; map->kind == NODE_MAP && i + 1 < map->count; i += 2) {
        struct config_node *key = map->items[i];
        if (key->kind != NODE_SCALAR || key->is_replaced) continue;
        if (config_node_is_merge(key)) {
            each_merged(l, &m, map->items[i + 1]);
        } else if (config_map_find(m.top, key->text, true).key == key) {
            m.take(m.self, key, map->items[i + 1]);
        }
    }
}

static void each_pair(struct layers *l, struct config_node *map, pair_taker *take, void *self) {
    const struct merged m = {.top = map, .take = take, .self = self};
    each_merged(l, &m, map);
}

struct laying {
    struct layers *layers;
    struct config_node *base, *over, *result;
    int depth;
};

static struct config_node *lay(struct layers *l, struct config_node *base, struct config_node *over,
                               int depth);

// mmengine's _delete_ and PaddleSeg's _inherited_: the map stands alone.
static bool stands_alone(struct config_node *map) {
    struct config_node *drops = config_map_find(map, STR("_delete_"), true).value;
    struct config_node *keeps = config_map_find(map, STR("_inherited_"), true).value;
    return (drops && config_scalar_plain(config_node_follow(drops)->text).boolean) ||
           (keeps && str_equal_nocase(config_node_follow(keeps)->text, STR("false")));
}

static void take_over(void *self, struct config_node *key, struct config_node *value) {
    struct laying *y = self;
    struct config_node *below = y->base ? config_map_find(y->base, key->text, true).value : NULL;
    struct config_node *map = config_node_follow(value);
    const bool is_both = below && map->kind == NODE_MAP &&
                         config_node_follow(below)->kind == NODE_MAP && !stands_alone(map);
    if (is_both) value = lay(y->layers, config_node_follow(below), map, y->depth + 1);
    config_layer_add(y->layers, y->result, key, value);
}

static void take_base(void *self, struct config_node *key, struct config_node *value) {
    struct laying *y = self;
    if (!config_map_find(y->over, key->text, true).key)
        config_layer_add(y->layers, y->result, key, value);
}

static struct config_node *lay(struct layers *l, struct config_node *base, struct config_node *over,
                               int depth) {
    struct laying y = {l, base, over, config_layer_map(l, over), depth};
    l->is_deep |= depth > LEVELS_MAX;
    if (l->is_deep || l->nodes > NODES_MAX) return over;
    each_pair(l, over, take_over, &y);
    if (base) each_pair(l, base, take_base, &y);
    config_index_build(l->arena, y.result);
    return y.result;
}

struct config_node *config_layer_merge(struct layers *l, struct config_node *base,
                                       struct config_node *over) {
    struct config_node *n = lay(l, base, over, 0);
    if (l->nodes <= NODES_MAX && !l->is_deep) return n;
    if (l->is_deep) {
        fail_set(l->why, FAIL_INPUT, "%.*s:1:1: maps merged or nested deeper than %d levels",
                 STR_ARG(l->config->name), LEVELS_MAX);
        return NULL;
    }
    fail_set(l->why, FAIL_INPUT, "%.*s:1:1: more than %d values with the files it is laid over",
             STR_ARG(l->config->name), NODES_MAX);
    return NULL;
}

struct config config_own(const struct config *c) {
    struct config own = *c;
    if (c->own) own.root = c->own;
    return own;
}

struct str config_node_place(struct arena *a, const struct config *c, const struct config_node *n) {
    if (n->file == 0) return str_format(a, "line %d", n->line);
    return str_format(a, "%.*s:%d", STR_ARG(c->files.items[n->file - 1]), n->line);
}
