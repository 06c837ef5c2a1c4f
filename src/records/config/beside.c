// SPDX-License-Identifier: Apache-2.0
// The DeepSpeed or FSDP file that a trainer's config or script names, and accelerate's of a script:
// each stands in the tree where its name does, so that stage and offload are found by the rows that
// find them in one file. The file of settings that a script gives its program lies under the
// options beside it.
#include "records/config/layer_int.h"

enum { FOLDERS_MAX = 8, LEVELS_MAX = 4 };

struct naming {
    const char *above;                // only in a map of that name; NULL: in any
    const char *keys[4], *endings[4]; // no ending: any file
    const char *lacks;                // what is not known where the file is not at hand
};
static const struct naming deepspeed = {
    .keys = {"deepspeed", "deepspeed_config"},
    .endings = {".json"},
    .lacks = "its ZeRO stage and offload are not known",
};
// accelerate's key for it, which holds nothing but a file.
static const struct naming deepspeed_file = {
    .keys = {"deepspeed_config_file"},
    .lacks = "its ZeRO stage and offload are not known",
};
// transformers' TrainingArguments take JSON there (training_args.py, _process_fsdp_args).
static const struct naming fsdp = {
    .keys = {"fsdp_config"},
    .endings = {".json"},
    .lacks = "its version, offload and checkpointing are not known",
};
// accelerate launch --config_file FILE train.py
static const struct naming accelerate = {
    .above = "launcher",
    .keys = {"config_file"},
    .endings = {".yaml", ".yml", ".json"},
    .lacks = "its processes, precision and sharding are not known",
};

static bool ends(struct str text, const char *const *endings) {
    if (!*endings) return text.len > 0;
    while (*endings && !str_ends(text, str_of(*endings))) endings++;
    return *endings;
}

static bool names_file(const struct naming *n, struct str above, const struct config_node *key,
                       const struct config_node *value) {
    return key->kind == NODE_SCALAR && str_is_one_of(key->text, n->keys) &&
           value->kind == NODE_SCALAR && ends(value->text, n->endings) &&
           (!n->above || str_is(above, n->above));
}

// Trainers take the name from the folder in which they are started: this one, or, when the config
// is asked about from elsewhere, one above the config.
static int find(struct layers *l, struct str name, struct layer_file **ret,
                struct str *ret_because) {
    struct str because;
    int status = config_layer_load(l, name, ret, ret_because);
    for (int i = 0; i < FOLDERS_MAX && !status && !*ret && !str_starts(name, STR("/")); i++) {
        struct str path = datum_source_beside(l->arena, l->files[0].path, name);
        status = config_layer_load(l, path, ret, &because);
        name = str_format(l->arena, "../%.*s", STR_ARG(name));
    }
    return status;
}

static int put(struct layers *l, const struct naming *n, struct config_node *map, struct str above,
               int depth, struct config_node **ret) {
    struct config_node *changed = NULL;
    int status = 0;
    *ret = map;
    for (int i = 0; i + 1 < map->count && !status && depth < LEVELS_MAX; i += 2) {
        struct config_node *key = map->items[i], *value = map->items[i + 1], *now = value;
        struct layer_file *f;
        struct str because;
        if (key->is_replaced) continue;
        if (value->kind == NODE_MAP) status = put(l, n, value, key->text, depth + 1, &now);
        if (names_file(n, above, key, value)) {
            status = find(l, value->text, &f, &because);
            if (!status && f) now = f->root;
            if (!status && !f)
                str_list_format(l->arena, &l->config->notes, "line %d: %.*s: %.*s: %s", value->line,
                                STR_ARG(value->text), STR_ARG(because), n->lacks);
        }
        if (status || now == value) continue;
        if (!changed) {
            changed = config_layer_map(l, map);
            for (int k = 0; k + 1 < map->count; k += 2)
                config_layer_add(l, changed, map->items[k], map->items[k + 1]);
        }
        changed->items[i + 1] = now;
    }
    if (!changed || status) return status;
    config_index_build(l->arena, changed);
    *ret = changed;
    return 0;
}

// A program that takes such a file takes options over it. What stands in one that is not at hand
// nobody knows.
static int put_settings(struct layers *l, struct config_node **root) {
    struct config_node *launcher = config_map_find(*root, STR("launcher"), false).value;
    const bool is_map = launcher && launcher->kind == NODE_MAP;
    struct config_node *name =
        is_map ? config_map_find(launcher, STR("settings"), false).value : NULL;
    struct layer_file *f = NULL;
    struct str because = {0};
    if (!name || name->style == STYLE_UNKNOWN) return 0;
    const int status = find(l, name->text, &f, &because);
    if (status) return status;
    if (!f) {
        (*root)->style = STYLE_UNKNOWN;
        str_list_format(l->arena, &l->config->notes,
                        "line %d: %.*s: %.*s: its settings are not known", name->line,
                        STR_ARG(name->text), STR_ARG(because));
        return 0;
    }
    struct config_node *merged = config_layer_merge(l, f->root, *root);
    if (merged) *root = merged;
    name->text = STR(""); // they are known
    return merged ? 0 : FAIL_INPUT;
}

int config_layer_beside(struct layers *l, struct config_node **root) {
    // accelerate's first: it may name one of DeepSpeed's
    static const struct naming *const all[] = {&accelerate, &deepspeed, &deepspeed_file, &fsdp};
    int status = put_settings(l, root);
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++)
        status = put(l, all[i], *root, (struct str){0}, 0, root);
    return status;
}
