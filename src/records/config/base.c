// SPDX-License-Identifier: Apache-2.0
// Files that a YAML or JSON config is laid over: _BASE_ (detectron2, PaddleDetection), __include__
// (RT-DETR), _base_ (PaddleSeg), BASE (Swin).
#include "records/config/dialect_int.h"
#include "records/config/layer_int.h"

static bool is_remote(struct str path) {
    return str_find(path, STR("://")) >= 0 || str_starts(path, STR("~"));
}

static int laid(struct layers *l, ptrdiff_t file, struct str keys, struct config_node **ret);

static int lay_over(struct layers *l, ptrdiff_t from, const struct config_node *name,
                    struct str keys, struct config_node **base) {
    const struct config_node *n = config_node_follow((struct config_node *)name);
    struct layer_file *f = NULL;
    struct config_node *root;
    struct str because = STR("not in the project, not read");
    if (n->kind != NODE_SCALAR || n->text.len == 0) return 0;
    struct str path = n->text;
    if (!is_remote(path)) {
        path = datum_source_beside(l->arena, l->files[from].path, n->text);
        int status = config_layer_load(l, path, &f, &because);
        if (status) return status;
    }
    if (!f) {
        config_layer_missing(l, path, because);
        return 0;
    }
    if (f->is_open) return config_layer_circle(l, l->files[from].path, n, path);
    int status = laid(l, f - l->files, keys, &root);
    if (status) return status;
    *base = config_layer_merge(l, *base, root);
    return *base ? 0 : FAIL_INPUT;
}

// The keys that name other files are no values of the config.
static struct config_node *without(struct layers *l, struct config_node *root, struct str keys) {
    struct config_node *n = config_layer_map(l, root);
    for (int i = 0; i + 1 < root->count; i += 2) {
        struct str rest = keys;
        bool names_files = false;
        while (rest.len > 0 && !names_files)
            names_files = str_equal(str_cut(&rest, ' '), root->items[i]->text);
        if (!names_files && !root->items[i]->is_replaced)
            config_layer_add(l, n, root->items[i], root->items[i + 1]);
    }
    config_index_build(l->arena, n);
    return n;
}

// What a file says together with those it is laid over: the later base wins over the earlier, and
// the file over all of them.
static int laid(struct layers *l, ptrdiff_t file, struct str keys, struct config_node **ret) {
    struct config_node *base = NULL, *root = l->files[file].root;
    int status = 0;
    *ret = l->files[file].whole;
    if (*ret) return 0;
    l->files[file].is_open = true;
    for (struct str rest = keys; rest.len > 0 && !status;) {
        struct config_node *names = config_map_find(root, str_cut(&rest, ' '), false).value;
        if (!names) continue;
        names = config_node_follow(names);
        for (int i = 0; names->kind == NODE_LIST && i < names->count && !status; i++)
            status = lay_over(l, file, names->items[i], keys, &base);
        if (names->kind == NODE_SCALAR) status = lay_over(l, file, names, keys, &base);
    }
    l->files[file].is_open = false;
    if (status) return status;
    // Of the config itself they stay: they tell its dialect.
    *ret = file == 0 ? root : without(l, root, keys);
    if (base) *ret = config_layer_merge(l, base, *ret);
    l->files[file].whole = *ret;
    return *ret ? 0 : FAIL_INPUT;
}

static struct config_node *hydra_defaults(const struct config *c) {
    struct config_node *n = config_map_find(c->root, STR("defaults"), false).value;
    n = n ? config_node_follow(n) : NULL;
    return n && n->kind == NODE_LIST && c->format == CONFIG_YAML ? n : NULL;
}

int config_layers_read(struct arena *a, const struct datum_loader *loader, layer_reader *parse,
                       struct config *config, struct fail *why) {
    struct layers l = {.arena = a, .loader = loader, .parse = parse, .config = config, .why = why};
    struct dialects *all = arena_new(a, struct dialects, 1);
    struct str keys = {0};
    struct config_node *own = config->root, *root = own;
    if (!loader || !own || own->kind != NODE_MAP) return 0;
    *arena_push(a, &l.files, &l.file_count, &l.file_capacity) =
        (struct layer_file){.path = config->name, .text = config->text, .root = own};
    // Python follows its own bases; nothing is laid under TOML or a script, and none is edited.
    if (config->format > CONFIG_JSON) return config_layer_beside(&l, &config->root);
    int status = config_dialects_load(a, all, why);
    for (ptrdiff_t i = 0; i < all->count && !status; i++) {
        if (str_is(all->items[i].id, "*")) keys = all->items[i].inherit;
    }
    if (status) return status;
    config->dialects = all;
    config->is_layered = true;
    struct config_node *defaults = hydra_defaults(config);
    if (defaults) {
        status = config_hydra_compose(&l, defaults);
        return status ? status : config_layer_beside(&l, &config->root);
    }
    status = laid(&l, 0, keys, &root);
    if (!status) status = config_layer_beside(&l, &root);
    if (status || root == own) return status;
    config->own = own;
    config->root = root;
    return 0;
}
