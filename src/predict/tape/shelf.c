// SPDX-License-Identifier: Apache-2.0
#include "predict/tape/shelf.h"

#include "predict/tape/tape_int.h"

static const char own_folder[] = "data/templates";

// What only templates have.
static void fill_entry(const struct tsv *t, struct tape_shelf_entry *e) {
    struct str model = e->entry.header.model;
    e->name = tsv_cell(t, "name");
    e->family = str_starts(model, STR("hf:")) ? str_slice(model, 3, model.len) : model;
    e->is_grouped = str_is(tsv_cell(t, "grouped"), "true");
    e->is_tied = str_is(tsv_cell(t, "tied"), "true");
    e->is_single = str_is(tsv_cell(t, "single"), "true");
    e->is_fused = str_is(tsv_cell(t, "fused"), "true");
}

static ptrdiff_t count_lines(struct str text) {
    ptrdiff_t lines = 0;
    for (; text.len > 0; lines++) str_cut(&text, '\n');
    return lines;
}

int tape_shelf_open(struct arena *a, const char *folder, struct tape_shelf *ret, struct fail *why) {
    struct tape_shelf s = {.folder = str_of(folder)};
    struct tape_index index;
    struct tape_shelf_entry e;
    int rc = tape_index_open(a, s.folder, own_folder, &index, why);
    if (rc == 0) arena_expect(a, &s.entries, &s.count, &s.capacity, count_lines(index.table.rest));
    while (rc >= 0 && (rc = tape_index_next(&index, &e.entry, why)) == 1) {
        fill_entry(&index.table, &e);
        *arena_push(a, &s.entries, &s.count, &s.capacity) = e;
    }
    if (rc < 0) return rc;
    *ret = s;
    return 0;
}

int tape_shelf_load(struct arena *a, const struct tape_shelf *s, const struct tape_shelf_entry *e,
                    struct tape_template **ret, struct fail *why) {
    struct str bytes, text;
    int code = tape_store_text(a, s->folder, own_folder, e->entry.file, &bytes, why);
    if (code == 0) {
        code =
            tape_unpack_part(a, e->entry.file, bytes, e->entry.offset, e->entry.length, &text, why);
    }
    return code < 0 ? code : tape_template_read(a, e->name, text, ret, why);
}
