// SPDX-License-Identifier: Apache-2.0
// The proof of an edit: the new text is parsed and walked beside the old tree. Every node is equal,
// targets say what was asked, and the only new pairs are those that were asked for.
#include "records/config/patch_int.h"

static const struct config_edit *target_of(const struct patch *p, const struct config_node *n) {
    for (ptrdiff_t i = 0; i < p->target_count; i++) {
        if (p->targets[i].node == n) return p->targets[i].edit;
    }
    return NULL;
}

static bool says(const struct config *new, const struct config_node *n,
                 const struct config_edit *e) {
    if (n->kind != NODE_SCALAR) return false;
    const struct scalar is = config_scalar_read(new, n), want = config_patch_wanted(e);
    return config_patch_same_value(is, n->text, want, e->value);
}

static bool says_children(const struct config *new, const struct config_node *n,
                          const struct config_edit *e) {
    if (n->kind != NODE_MAP || n->count != 2 * (ptrdiff_t)e->child_count) return false;
    for (int i = 0; i < e->child_count; i++) {
        if (!str_equal(n->items[2 * i]->text, e->children[i].path) ||
            !says(new, n->items[2 * i + 1], &e->children[i])) {
            return false;
        }
    }
    return true;
}

static const struct insertion *insertion_of(const struct patch *p, const struct config_node *map,
                                            const struct config_node *key) {
    for (ptrdiff_t i = 0; i < p->insertion_count; i++) {
        if (p->insertions[i].map == map && str_equal(p->insertions[i].key, key->text)) {
            return &p->insertions[i];
        }
    }
    return NULL;
}

static bool same(const struct patch *p, const struct config *new, const struct config_node *old,
                 const struct config_node *n);

static bool same_items(const struct patch *p, const struct config *new,
                       const struct config_node *old, const struct config_node *n) {
    ptrdiff_t i = 0, found = 0, wanted = 0;
    for (ptrdiff_t k = 0; k < p->insertion_count; k++) wanted += p->insertions[k].map == old;
    for (ptrdiff_t j = 0; j < n->count;) {
        const struct insertion *in =
            n->kind == NODE_MAP && j % 2 == 0 ? insertion_of(p, old, n->items[j]) : NULL;
        if (in) {
            const struct config_node *value = n->items[j + 1];
            if (in->edit->children ? !says_children(new, value, in->edit)
                                   : !says(new, value, in->edit))
                return false;
            found++;
            j += 2;
        } else {
            if (i >= old->count || !same(p, new, old->items[i], n->items[j])) return false;
            i++;
            j++;
        }
    }
    return i == old->count && found == wanted;
}

static bool same(const struct patch *p, const struct config *new, const struct config_node *old,
                 const struct config_node *n) {
    const struct config_edit *e = target_of(p, old);
    if (!str_equal(old->anchor, n->anchor) || !str_equal(old->tag, n->tag)) return false;
    if (e) return says(new, n, e);
    if (old->kind != n->kind || old->style != n->style || old->flow != n->flow ||
        !str_equal(old->text, n->text)) {
        return false;
    }
    return old->kind == NODE_SCALAR || old->kind == NODE_ALIAS || same_items(p, new, old, n);
}

int config_patch_verify(struct patch *p) {
    struct config new;
    struct fail inner = {0};
    const struct str name = p->config->name;
    if (config_parse(p->arena, name, p->result.text, &new, &inner)) {
        fail_set(p->why, FAIL_INPUT,
                 "%.*s: the edit would break the file (%.300s); nothing was changed", STR_ARG(name),
                 inner.message);
        return fail_hint(p->why, "edit this key by hand");
    }
    if (!new.unwritable.len && same(p, &new, p->config->root, new.root)) return 0;
    fail_set(p->why, FAIL_INPUT,
             "%.*s: the edit would change more than the requested keys; nothing was changed",
             STR_ARG(name));
    return fail_hint(p->why, "edit this key by hand");
}
