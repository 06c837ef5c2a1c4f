// SPDX-License-Identifier: Apache-2.0
// The proof of an edit: the new text is parsed, and its nodes are compared with the old tree as
// they come: a second tree of a large file would not fit. Every node is equal, targets say what was
// asked, and the only new pairs are those that were asked for.
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

static const struct insertion *insertion_of(const struct patch *p, const struct config_node *map,
                                            const struct config_node *key) {
    for (ptrdiff_t i = 0; i < p->insertion_count; i++) {
        if (p->insertions[i].map == map && str_equal(p->insertions[i].key, key->text)) {
            return &p->insertions[i];
        }
    }
    return NULL;
}

enum { LEVELS = 256 }; // more than parse.c opens

struct proof {
    const struct patch *patch;
    const struct config *new;
    struct level {
        const struct config_node *old;
        int next;     // of its items
        int inserted; // pairs that were found
    } levels[LEVELS];
    int depth;
    // A pair that was asked for: its key has come, its value follows.
    const struct config_edit *edit;
    bool is_inside; // of a map of such values
    int child;      // keys and values that have come there
};

static bool take_value(struct proof *f, const struct config_node *n) {
    const struct config_edit *e = f->edit;
    if (!e->children) {
        f->edit = NULL;
        return says(f->new, n, e);
    }
    if (!f->is_inside) {
        f->is_inside = true;
        f->child = 0;
        return n->kind == NODE_MAP;
    }
    const int i = f->child++;
    if (i >= 2 * e->child_count) return false;
    return i % 2 == 0 ? n->kind == NODE_SCALAR && str_equal(n->text, e->children[i / 2].path)
                      : says(f->new, n, &e->children[i / 2]);
}

static bool take_end(struct proof *f) {
    if (f->edit) {
        const bool all = f->is_inside && f->child == 2 * f->edit->child_count;
        f->edit = NULL;
        f->is_inside = false;
        return all;
    }
    if (f->depth == 0) return false;
    const struct level *top = &f->levels[--f->depth];
    int wanted = 0;
    for (ptrdiff_t i = 0; i < f->patch->insertion_count; i++) {
        wanted += f->patch->insertions[i].map == top->old;
    }
    return top->next == top->old->count && top->inserted == wanted;
}

// The node of the old tree that stands where this one does; NULL: none.
static const struct config_node *old_of(struct proof *f) {
    if (f->depth == 0) return f->patch->config->root;
    struct level *top = &f->levels[f->depth - 1];
    return top->next < top->old->count ? top->old->items[top->next++] : NULL;
}

static bool is_inserted(struct proof *f, const struct config_node *n) {
    struct level *top = f->depth ? &f->levels[f->depth - 1] : NULL;
    if (!top || top->old->kind != NODE_MAP || top->next % 2 || n->kind != NODE_SCALAR) return false;
    const struct insertion *in = insertion_of(f->patch, top->old, n);
    if (!in) return false;
    f->edit = in->edit;
    top->inserted++;
    return true;
}

static bool take_node(struct proof *f, const struct config_node *n) {
    if (f->edit) return take_value(f, n);
    if (is_inserted(f, n)) return true;
    const struct config_node *old = old_of(f);
    if (!old || !str_equal(config_node_anchor(old), config_node_anchor(n)) ||
        !str_equal(config_node_tag(old), config_node_tag(n))) {
        return false;
    }
    const struct config_edit *e = target_of(f->patch, old);
    if (e) return says(f->new, n, e);
    if (old->kind != n->kind || old->style != n->style || old->flow != n->flow) return false;
    if (n->kind == NODE_SCALAR || n->kind == NODE_ALIAS) return str_equal(old->text, n->text);
    if (f->depth == LEVELS) return false;
    f->levels[f->depth++] = (struct level){.old = old};
    return true;
}

static int take(void *self, const struct config_node *n, bool ends) {
    return (ends ? take_end(self) : take_node(self, n)) ? 0 : FAIL_NO;
}

int config_patch_verify(struct patch *p) {
    const struct str name = p->config->name;
    struct config new = {.name = name, .text = p->result.text, .format = p->config->format};
    struct proof *f = arena_new(p->arena, struct proof, 1);
    struct fail inner = {0};
    f->patch = p;
    f->new = &new;
    int status = config_nodes_visit(p->arena, &new, take, f, &inner);
    if (status == 0 && f->depth == 0 && !f->edit) return 0;
    if (status == 0 || status == FAIL_NO) {
        fail_set(p->why, FAIL_INPUT,
                 "%.*s: the edit would change more than the requested keys; nothing was changed",
                 STR_ARG(name));
    } else {
        fail_set(p->why, FAIL_INPUT,
                 "%.*s: the edit would break the file (%.300s); nothing was changed", STR_ARG(name),
                 inner.message);
    }
    return fail_hint(p->why, "edit this key by hand");
}
