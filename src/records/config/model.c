// SPDX-License-Identifier: Apache-2.0
// Which model, where one key does not say it: the models of an ensemble, and OpenMMLab's type with
// the depth or size beside it, which is the backbone of a larger model unless that is a classifier;
// and what stands around the backbone of a team's own config.
#include "records/config/dialect_int.h"

static void add_model(struct reader *r, const struct config_node *each, const char *const *keys) {
    const struct config_node *n = config_node_follow((struct config_node *)each);
    if (n->kind != NODE_MAP) return;
    for (int i = 0; keys[i]; i++) {
        struct config_node *name =
            config_map_find((struct config_node *)n, str_of(keys[i]), true).value;
        if (!name || config_node_follow(name)->kind != NODE_SCALAR) continue;
        const struct str text = config_node_follow(name)->text;
        if (text.len > 0 && !str_list_has(&r->reading->models, text))
            str_list_add(r->arena, &r->reading->models, text);
        return;
    }
}

// models: {fold_0: {name: …}, fold_1: {name: …}}: one training after the other.
static void find_ensemble(struct reader *r, const struct dialect *every) {
    static const char *const keys[] = {"name", "model_name", "backbone", "arch", NULL};
    struct config_reading *to = r->reading;
    struct matches m = {0};
    struct str_list places = {0};
    struct str rest = every ? every->models : (struct str){0};
    if (to->values[CONFIG_MODEL].line > 0) return;
    while (rest.len > 0) config_braces_expand(r->arena, str_cut(&rest, ' '), &places);
    for (ptrdiff_t i = 0; i < places.count && m.count == 0; i++)
        config_scope_find(&r->scope, places.items[i], &m);
    if (m.count == 0) return;
    const struct config_node *all = config_node_follow(m.items[0].place.value);
    for (ptrdiff_t i = all->kind == NODE_MAP; i < all->count; i += 1 + (all->kind == NODE_MAP))
        add_model(r, all->items[i], keys);
    if (to->models.count == 0) return;
    struct config_value *v = &to->values[CONFIG_MODEL];
    *v = config_value_of(r->arena, r->config, &m.items[0].place, m.items[0].path);
    v->text = to->models.items[0];
    v->type = CONFIG_TEXT;
}

static struct config_node *scalar_at(struct config_node *map, struct str key) {
    struct config_node *n = map ? config_map_find(map, key, true).value : NULL;
    n = n ? config_node_follow(n) : NULL;
    return n && n->kind == NODE_SCALAR && n->style != STYLE_UNKNOWN && n->text.len > 0 ? n : NULL;
}

// backbone = dict(type='ResNet', depth=50): ResNet50; arch='tiny': SwinTransformer-tiny.
static void join_size(struct reader *r, struct config_value *v, const struct match *m) {
    struct str keys = r->dialect->backbone_with;
    while (keys.len > 0) {
        const struct config_node *n = scalar_at(m->place.map, str_cut(&keys, ' '));
        if (!n) continue;
        const bool is_number = config_scalar_read(r->config, n).type == CONFIG_INT;
        v->text = str_format(r->arena, "%.*s%s%.*s", STR_ARG(v->text), is_number ? "" : "-",
                             STR_ARG(n->text));
        return;
    }
}

static void find_backbone(struct reader *r) {
    struct config_value *v = &r->reading->values[CONFIG_MODEL];
    const struct str when = r->dialect->backbone_when;
    struct matches m = {0};
    struct str terms;
    if (r->dialect->backbone_with.len == 0 || v->line == 0 || v->type != CONFIG_TEXT) return;
    const bool has_name = str_ends(v->path, STR("backbone.model_name")); // of a library's model
    if (when.len > 0 && !has_name && !str_ends(v->path, STR("backbone.type"))) return;
    if (when.len == 0 || config_scope_is(&r->scope, when, &terms)) {
        if (has_name) return;
        config_scope_find(&r->scope, v->path, &m);
        if (m.count > 0) join_size(r, v, &m.items[0]);
        return;
    }
    config_scope_find(&r->scope, STR("model.type"), &m);
    if (m.count == 0 || !scalar_at(m.items[0].place.map, STR("type"))) return;
    *v = config_value_of(r->arena, r->config, &m.items[0].place, m.items[0].path);
}

// "${oc.env:MODEL}" is nobody's name.
static void drop_template(struct reader *r) {
    struct config_value *v = &r->reading->values[CONFIG_MODEL];
    if (v->line <= 0 || str_find(v->text, STR("${")) < 0) return;
    r->reading->unnamed = str_format(r->arena, "%.*s (line %d: %.*s) is filled in when it runs",
                                     STR_ARG(v->path), v->line, STR_ARG(v->text));
    v->text = (struct str){0};
}

// Of what sections and flat name beside a backbone: not the model itself or its
// family again (ConvNeXt of convnext_base), and nothing of a model of texts, whose heads are guards
// of their own.
static bool is_around(const struct reader *r, const struct config_guard *g) {
    const struct config_value *model = &r->reading->values[CONFIG_MODEL];
    if (str_equal(g->path, model->path) || g->value.len == 0) return false;
    // Where no model is named, it may itself be the one.
    if (model->text.len == 0 && (g->traits & CONFIG_AROUND)) return false;
    if (r->reading->values[CONFIG_SEQUENCE_LENGTH].line > 0) return false;
    for (ptrdiff_t i = 0; i + g->value.len <= model->text.len; i++)
        if (str_equal_nocase(str_slice(model->text, i, i + g->value.len), g->value)) return false;
    return true;
}

static bool is_no_other(void *context, const struct config_guard *g) {
    const bool is_asked =
        str_is(g->kind, "segmentation") && !str_ends(g->path, STR("encoder_name"));
    return !is_asked || is_around(context, g);
}

void config_reader_model(struct reader *r, const struct dialect *every) {
    static const char *const teams[] = {"sections", "flat", NULL};
    find_ensemble(r, every);
    find_backbone(r);
    drop_template(r);
    if (r->dialect && str_is_one_of(r->dialect->id, teams))
        config_keep_guards(r->reading, is_no_other, r);
}
