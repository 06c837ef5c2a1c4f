// SPDX-License-Identifier: Apache-2.0
// The store of tapes: rows of index.tsv and the first lines of the user's recordings. Nothing but
// these is read until a tape is loaded, and of the index that we ship only the rows that are asked
// for: it has a thousand, and a question is about one model.
#include "predict/tape/store.h"

#include "base/os.h"
#include "predict/tape/tape_int.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

enum { ROWS_EXPECTED = 2048 }; // as many tapes are shipped, and some recorded
enum { HEAD_BYTES = 1 << 16 }; // of a recording: its header is about 1 KiB
static const char own_folder[] = "data/tapes";

enum cell_type { CELL_TEXT, CELL_NUMBER, CELL_FLAG };
static const struct column {
    const char *name;
    enum cell_type type;
    size_t offset; // in struct tape_entry
} columns[] = {
    {"file", CELL_TEXT, offsetof(struct tape_entry, file)},
    {"offset", CELL_NUMBER, offsetof(struct tape_entry, offset)},
    {"length", CELL_NUMBER, offsetof(struct tape_entry, length)},
    {"image_least", CELL_NUMBER, offsetof(struct tape_entry, image.least)},
    {"image_most", CELL_NUMBER, offsetof(struct tape_entry, image.most)},
    {"image_step", CELL_NUMBER, offsetof(struct tape_entry, image.step)},
    {"aliases", CELL_TEXT, offsetof(struct tape_entry, aliases)},
#define HEADER(key, type) \
    { #key, type, offsetof(struct tape_entry, header.key) }
    HEADER(model, CELL_TEXT),
    HEADER(library, CELL_TEXT),
    HEADER(torch, CELL_TEXT),
    HEADER(recorder, CELL_TEXT),
    HEADER(rules, CELL_TEXT),
    HEADER(mode, CELL_TEXT),
    HEADER(image_size, CELL_NUMBER),
    HEADER(sequence_length, CELL_NUMBER),
    HEADER(target_length, CELL_NUMBER),
    HEADER(precision, CELL_TEXT),
    HEADER(layout, CELL_TEXT),
    HEADER(optimizer, CELL_TEXT),
    HEADER(accumulation, CELL_NUMBER),
    HEADER(checkpointing, CELL_FLAG),
    HEADER(ema, CELL_FLAG),
    HEADER(grad_scaler, CELL_FLAG),
    HEADER(cudnn_benchmark, CELL_FLAG),
    HEADER(prefetch, CELL_FLAG),
    HEADER(zero_grad, CELL_TEXT),
    HEADER(attention, CELL_TEXT),
    HEADER(classes, CELL_NUMBER),
    HEADER(parameters, CELL_NUMBER),
    HEADER(adapter, CELL_TEXT),
    HEADER(shard, CELL_TEXT),
    HEADER(loss, CELL_TEXT),
    HEADER(quant, CELL_TEXT),
    HEADER(weights, CELL_TEXT),
#undef HEADER
};

enum { COLUMN_COUNT = sizeof columns / sizeof *columns };
static_assert(COLUMN_COUNT <= sizeof((struct tape_index){0}.columns) / sizeof(int),
              "struct tape_index has a place for every column");

// An empty cell leaves a field unknown.
static bool fill_number(struct str cell, int64_t *ret) {
    *ret = TAPE_UNKNOWN;
    return cell.len == 0 || (str_to_i64(cell, ret) && *ret >= 0);
}

static bool fill_flag(struct str cell, int *ret) {
    bool is_true = str_is(cell, "true") || str_is(cell, "1");
    *ret = cell.len > 0 ? is_true : TAPE_UNKNOWN;
    return cell.len == 0 || is_true || str_is(cell, "false") || str_is(cell, "0");
}

static int fill_field(const struct tsv *t, const struct column *c, struct str cell, void *to,
                      struct fail *why) {
    static const char *const what[] = {
        [CELL_NUMBER] = "a whole number", [CELL_FLAG] = "true or false"};
    bool is_good = true;
    if (c->type == CELL_TEXT) *(struct str *)to = cell;
    if (c->type == CELL_NUMBER) is_good = fill_number(cell, to);
    if (c->type == CELL_FLAG) is_good = fill_flag(cell, to);
    if (is_good) return 0;
    return fail_set(why, FAIL_INPUT, "%.*s:%d: %s '%.*s' is not %s", STR_ARG(t->name), t->line,
                    c->name, STR_ARG(cell), what[c->type]);
}

int tape_index_open(struct arena *a, struct str folder, const char *own, struct tape_index *ret,
                    struct fail *why) {
    struct str text, name = str_format(a, "%s/index.tsv", own);
    int rc = tape_store_text(a, folder, own, STR("index.tsv"), &text, why);
    if (rc == FAIL_BUG && folder.len == 0) { // the program was built without them
        *ret = (struct tape_index){.table.name = name};
        return 0;
    }
    if (rc == 0) rc = tsv_open(&ret->table, name, text, why);
    for (int i = 0; rc == 0 && i < COLUMN_COUNT; i++)
        ret->columns[i] = tsv_column(&ret->table, columns[i].name);
    return rc;
}

// The entry of the row in the table's cells.
static int read_entry(const struct tape_index *index, struct tape_entry *e, struct fail *why) {
    const struct tsv *t = &index->table;
    int rc = 0;
    *e = (struct tape_entry){.shipped = true, .header = tape_header_unknown()};
    for (int i = 0; i < COLUMN_COUNT; i++) {
        struct str cell = index->columns[i] < 0 ? (struct str){0} : t->cells[index->columns[i]];
        rc = fill_field(t, &columns[i], cell, (char *)e + columns[i].offset, why);
        if (rc < 0) return rc;
    }
    if (e->file.len > 0 && e->header.model.len > 0 && e->offset >= 0 && e->length >= 0) return 1;
    return fail_set(why, FAIL_INPUT, "%.*s:%d: a row needs file, offset, length and model",
                    STR_ARG(t->name), t->line);
}

int tape_index_next(struct tape_index *index, struct str having, struct tape_entry *e,
                    struct fail *why) {
    int rc = 0;
    for (struct str line; rc == 0 && tsv_line(&index->table, &line);)
        if (str_find(line, having) >= 0) rc = tsv_split(&index->table, line, why);
    return rc == 1 ? read_entry(index, e, why) : rc;
}

int tape_store_text(struct arena *a, struct str folder, const char *own, struct str name,
                    struct str *ret, struct fail *why) {
    if (folder.len == 0) {
        struct str path = str_format(a, "%s/%.*s", own, STR_ARG(name));
        return data_find(a, path.p, ret, why);
    }
    struct str path = str_format(a, "%.*s/%.*s", STR_ARG(folder), STR_ARG(name));
    return os_read(a, path.p, TAPE_TEXT_MAX, ret, NULL, why);
}

// Ours is right (tests/unit/tape_store.c reads all of it); of the user's own a wrong row is said.
static int read_row(const struct tape_store *s, struct tape_row *row, struct fail *why) {
    struct tape_entry *e = arena_new(s->arena, struct tape_entry, 1);
    int rc = tsv_split(&s->index->table, row->text, why);
    if (rc == 1) rc = read_entry(s->index, e, why);
    if (rc == 1) row->entry = e;
    return rc;
}

static int open_bundles(struct arena *a, struct tape_store *s, struct fail *why) {
    struct tape_index *index = s->index = arena_new(a, struct tape_index, 1);
    int rc = tape_index_open(a, s->folder, own_folder, index, why);
    bool is_ours = data_is_embedded(index->table.rest);
    if (rc == 0) arena_expect(a, &s->rows, &s->count, &s->capacity, ROWS_EXPECTED);
    for (struct str line; rc >= 0 && tsv_line(&index->table, &line);) {
        struct tape_row *row = arena_push(a, &s->rows, &s->count, &s->capacity);
        *row = (struct tape_row){.text = line};
        if (!is_ours) rc = read_row(s, row, why);
    }
    return rc < 0 ? rc : 0;
}

struct tape_store tape_store_of(struct arena *a, const struct tape_entry *entry) {
    struct tape_row *row = arena_new(a, struct tape_row, 1);
    row->entry = entry;
    return (struct tape_store){.arena = a, .rows = row, .count = 1, .capacity = 1};
}

const struct tape_entry *tape_store_at(const struct tape_store *s, ptrdiff_t at) {
    struct tape_row *row = &s->rows[at];
    if (!row->entry) (void)read_row(s, row, NULL);
    assert(row->entry);
    return row->entry;
}

const struct tape_entry *tape_store_next(const struct tape_store *s, struct str model,
                                         ptrdiff_t *at) {
    while (*at < s->count) {
        const struct tape_row *row = &s->rows[*at];
        ptrdiff_t i = (*at)++;
        if (!row->entry && str_find(row->text, model) < 0) continue;
        const struct tape_entry *e = tape_store_at(s, i);
        if (tape_entry_is_model(e, model)) return e;
    }
    return NULL;
}

// Only the first line is kept.
static int read_first_line(struct arena *a, struct str path, struct tape_header *ret,
                           struct fail *why) {
    ARENA_AUTO scratch = {.escape = a->escape};
    struct str head;
    struct tape_header h;
    int code = os_read_head(&scratch, path.p, HEAD_BYTES, &head, why);
    if (code == 0) code = tape_read_header(&scratch, path, head, &h, why);
    return code < 0 ? code : tape_header_parse(a, path, str_copy(a, h.json), ret, why);
}

static void add_recording(struct arena *a, struct tape_store *s, struct str path) {
    struct tape_entry *e = arena_new(a, struct tape_entry, 1);
    struct fail fail;
    *e = (struct tape_entry){.file = path, .length = -1, .offset = -1};
    int code = read_first_line(a, path, &e->header, &fail);
    if (code == 0 && e->header.batch_count == 1)
        code = fail_set(&fail, FAIL_INPUT, "%.*s: of batch %lld alone, so for --tape alone",
                        STR_ARG(path), (long long)e->header.batches[0]);
    if (code == 0) {
        *arena_push(a, &s->rows, &s->count, &s->capacity) = (struct tape_row){.entry = e};
        return;
    }
    struct str message = str_copy(a, str_of(fail.message));
    *arena_push(a, &s->broken, &s->broken_count, &s->broken_capacity) =
        (struct tape_broken){path, message};
}

static struct str recordings_folder(struct arena *a, const char *given) {
    if (given) return str_of(given);
    const char *own = getenv("BATCHFIT_TAPES");
    if (own && *own) return str_of(own);
    return str_format(a, "%.*s/tapes", STR_ARG(os_data_dir(a)));
}

static int open_recordings(struct arena *a, const char *given, struct tape_store *s,
                           struct fail *why) {
    struct str folder = recordings_folder(a, given), *names;
    ptrdiff_t count;
    int code = os_list(a, str_z(a, folder), ".tape", &names, &count, why);
    for (ptrdiff_t i = 0; code == 0 && i < count; i++) {
        add_recording(a, s, str_format(a, "%.*s/%.*s", STR_ARG(folder), STR_ARG(names[i])));
    }
    return code;
}

int tape_store_open(struct arena *a, struct tape_places places, struct tape_store *ret,
                    struct fail *why) {
    struct tape_store s = {.arena = a, .folder = str_of(places.bundles)};
    int code = open_recordings(a, places.recorded, &s, why);
    if (code == 0) code = open_bundles(a, &s, why);
    if (code == 0) *ret = s;
    return code;
}

static int load_text(struct arena *a, const struct tape_store *s, const struct tape_entry *e,
                     struct str *ret, struct fail *why) {
    struct str bytes;
    int code = tape_store_text(a, s->folder, own_folder, e->file, &bytes, why);
    return code < 0 ? code : tape_unpack_part(a, e->file, bytes, e->offset, e->length, ret, why);
}

int tape_store_load(struct arena *a, const struct tape_store *s, const struct tape_entry *e,
                    struct tape *ret, struct fail *why) {
    struct str bytes, text;
    if (!e->shipped) {
        int code = os_read(a, str_z(a, e->file), TAPE_TEXT_MAX, &bytes, NULL, why);
        return code < 0 ? code : tape_read(a, e->file, bytes, ret, why);
    }
    int code = load_text(a, s, e, &text, why);
    return code < 0 ? code : tape_read(a, e->header.model, text, ret, why);
}

int tape_store_load_template(struct arena *a, const struct tape_store *s,
                             const struct tape_entry *e, struct tape_template **ret,
                             struct fail *why) {
    struct str text;
    int code = load_text(a, s, e, &text, why);
    return code < 0 ? code : tape_template_read(a, e->header.model, text, ret, why);
}

// "timm:resnet50" is also called "resnet50".
static bool is_name(struct str name, struct str asked) {
    ptrdiff_t colon = str_find(name, STR(":"));
    if (str_equal(name, asked)) return true;
    return colon >= 0 && str_equal(str_slice(name, colon + 1, name.len), asked);
}

bool tape_entry_is_model(const struct tape_entry *e, struct str model) {
    if (is_name(e->header.model, model)) return true;
    for (struct str rest = e->aliases; rest.len > 0;) {
        if (is_name(str_trim(str_cut(&rest, ',')), model)) return true;
    }
    return false;
}
