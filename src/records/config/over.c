// SPDX-License-Identifier: Apache-2.0
// Edits of a config that others are laid under: a value of another file gets a line of its own in
// this one, where that one wins.
#include "records/config/dialect_int.h"

#include <string.h>

// "a.b" of "a.b.c", and "c".
static struct str path_above(struct arena *a, const struct steps *steps, ptrdiff_t count) {
    struct str path = {0};
    for (ptrdiff_t i = 0; i < count; i++) path = config_path_join(a, path, steps->items[i].key);
    return path;
}

int config_layer_edit(struct arena *a, const struct config *c, struct config_edit *e,
                      struct fail *why) {
    struct steps steps;
    const struct config own = config_own(c);
    if (!c->own || e->children) return 0;
    int status = config_path_parse(a, e->path, &steps, why);
    if (status) return status;
    const struct place in = config_place_find(&own, &steps), all = config_place_find(c, &steps);
    const bool is_own = in.value && (!all.value || all.value->file == 0);
    if (is_own || (!all.value && !e->insert)) return 0;
    if (in.value || c->is_composed) {
        // A group of Hydra's: whether this file wins over it is the order's to say.
        if (!all.value) return 0;
        struct str place = config_node_place(a, c, all.value);
        return fail_set(why, FAIL_INPUT, "%.*s is in %.*s, which is not written", STR_ARG(e->path),
                        STR_ARG(place));
    }
    if (all.value) {
        struct str place = config_node_place(a, c, all.value);
        e->insert = true;
        e->note = str_format(a, "%.*s comes from %.*s; the line here wins over it",
                             STR_ARG(e->path), STR_ARG(place));
    }
    if (in.missing + 1 == steps.count && in.owner) return 0;
    if (in.missing + 2 != steps.count || !in.owner)
        return fail_set(why, FAIL_INPUT, "%.*s has no section for %.*s", STR_ARG(c->name),
                        STR_ARG(e->path));
    struct config_edit *child = arena_new(a, struct config_edit, 1);
    *child = *e;
    child->path = steps.items[steps.count - 1].key;
    e->path = path_above(a, &steps, steps.count - 1);
    e->children = child;
    e->child_count = 1;
    e->after = (struct str){0};
    return 0;
}

// Two keys of one new section are one edit.
static bool joins(struct arena *a, struct config_edits *edits, const struct config_edit *e) {
    for (ptrdiff_t i = 0; i < edits->count && e->children; i++) {
        struct config_edit *other = &edits->items[i];
        if (!other->children || !str_equal(other->path, e->path)) continue;
        struct config_edit *both = arena_new(a, struct config_edit, other->child_count + 1);
        memcpy(both, other->children, (size_t)other->child_count * sizeof *both);
        both[other->child_count++] = e->children[0];
        other->children = both;
        if (e->note.len > 0)
            other->note = str_format(a, "%.*s\n%.*s", STR_ARG(other->note), STR_ARG(e->note));
        return true;
    }
    return false;
}

int config_layer_edits(struct arena *a, const struct config *c, struct config_edits *edits,
                       struct fail *why) {
    struct config_edits all = {0};
    for (ptrdiff_t i = 0; i < edits->count; i++) {
        struct config_edit e = edits->items[i];
        int status = config_layer_edit(a, c, &e, why);
        if (status) return status;
        if (!joins(a, &all, &e)) config_edits_add(a, &all, e);
    }
    *edits = all;
    return 0;
}
