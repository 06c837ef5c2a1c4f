// SPDX-License-Identifier: Apache-2.0
#include "predict/tape/catalogue.h"

#include "predict/tape/tape_int.h"

static const char own_folder[] = "data/templates";

// What only templates have.
static void fill_entry(const struct tsv *t, struct tape_catalogue_entry *e) {
    struct str model = e->entry.header.model;
    e->name = tsv_cell(t, "name");
    e->family = str_starts(model, STR("hf:")) ? str_slice(model, 3, model.len) : model;
    e->is_grouped = str_is(tsv_cell(t, "grouped"), "true");
    e->is_tied = str_is(tsv_cell(t, "tied"), "true");
    e->is_single = str_is(tsv_cell(t, "single"), "true");
    e->is_fused = str_is(tsv_cell(t, "fused"), "true");
}

int tape_catalogue_open(struct arena *a, const char *folder, struct str family,
                        struct tape_catalogue *ret, struct fail *why) {
    struct tape_index index;
    struct tape_catalogue_entry e;
    *ret = (struct tape_catalogue){0};
    int rc = tape_index_open(a, str_of(folder), own_folder, &index, why);
    while (rc >= 0 && (rc = tape_index_next(&index, family, &e.entry, why)) == 1) {
        fill_entry(&index.table, &e);
        if (family.len > 0 && !str_equal(e.family, family)) continue;
        *arena_push(a, &ret->entries, &ret->count, &ret->capacity) = e;
    }
    return rc;
}

// Of ours every one is run through by tests/unit/tape_catalogue.c.
int tape_catalogue_load(struct arena *a, const char *folder, const struct tape_catalogue_entry *e,
                        struct tape_template **ret, struct fail *why) {
    struct str bytes, text;
    int code = tape_store_text(a, str_of(folder), own_folder, e->entry.file, &bytes, why);
    if (code == 0) {
        code =
            tape_unpack_part(a, e->entry.file, bytes, e->entry.offset, e->entry.length, &text, why);
    }
    if (code == 0) code = tape_template_parse(a, e->name, text, ret, why);
    return code == 0 && folder ? tape_template_check(a, *ret, why) : code;
}
