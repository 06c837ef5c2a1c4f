// SPDX-License-Identifier: Apache-2.0
// The two tables, and what is looked up in them.
#include "base/data.h"
#include "predict/shape/shape_int.h"

#include <assert.h>
#include <stddef.h>

#define SIZE(member, most) \
    { #member, offsetof(struct shape, member), (most) }
// Far above all that was ever trained, so that no product of them overflows.
const struct shape_size shape_sizes[SHAPE_SIZES] = {
    SIZE(hidden, 1 << 20),
    SIZE(layers, 1 << 14),
    SIZE(heads, 1 << 14),
    SIZE(kv_heads, 1 << 14),
    SIZE(head_dim, 1 << 14),
    SIZE(intermediate, 1 << 22),
    SIZE(vocabulary, 1 << 24),
    SIZE(positions, INT64_C(1) << 32),
    SIZE(experts, 1 << 14),
    SIZE(active, 1 << 14),
    SIZE(expert_intermediate, 1 << 22),
};

int64_t *shape_size_at(struct shape *s, int size) {
    return (int64_t *)(void *)((char *)s + shape_sizes[size].offset);
}

static int bad_cell(const struct tsv *t, const char *column, struct fail *why) {
    return fail_set(why, FAIL_INPUT, "%.*s:%d: %s '%.*s' is not a number of it", STR_ARG(t->name),
                    t->line, column, STR_ARG(tsv_cell(t, column)));
}

// An empty cell is 0.
static int read_number(const struct tsv *t, const char *column, int64_t most, int64_t *ret,
                       struct fail *why) {
    struct str cell = tsv_cell(t, column);
    *ret = 0;
    if (cell.len == 0) return 0;
    if (str_to_i64(cell, ret) && *ret >= 0 && *ret <= most) return 0;
    return bad_cell(t, column, why);
}

// "KEY", "KEY|OTHER", and either with "=VALUE"
static int read_key(const struct tsv *t, const char *column, struct shape_key *ret,
                    struct fail *why) {
    struct str usual = tsv_cell(t, column);
    ret->other = str_cut(&usual, '=');
    ret->path = str_cut(&ret->other, '|');
    ret->usual = str_is(usual, "4x") ? SHAPE_FOUR_HIDDEN : 0;
    if (!usual.p || ret->usual || str_to_i64(usual, &ret->usual)) return 0;
    return bad_cell(t, column, why);
}

static int read_family(const struct tsv *t, struct shape_family *f, struct fail *why) {
    struct {
        const char *column;
        int64_t *number, most;
    } numbers[] = {{"matrices", &f->matrices, 8},     {"norms", &f->norms, 8},
                   {"outside", &f->outside, 1 << 20}, {"tower", &f->tower, INT64_C(1) << 40},
                   {"table", &f->table, 8},           {"cycle", &f->cycle, 64}};
    f->type = tsv_cell(t, "type");
    f->kind = tsv_cell(t, "kind");
    f->biases = tsv_cell(t, "biases");
    f->qk = tsv_cell(t, "qk");
    f->linear = tsv_cell(t, "linear");
    f->fixed = tsv_cell(t, "fixed");
    f->tied = str_is(tsv_cell(t, "tied"), "1");
    f->is_pooled = str_is(tsv_cell(t, "pooled"), "1");
    f->has_table = tsv_cell(t, "table").len > 0;
    int rc = read_key(t, "types", &f->types, why);
    for (int i = 0; rc == 0 && i < SHAPE_SIZES; i++)
        rc = read_key(t, shape_sizes[i].name, &f->keys[i], why);
    for (size_t i = 0; rc == 0 && i < sizeof numbers / sizeof *numbers; i++)
        rc = read_number(t, numbers[i].column, numbers[i].most, numbers[i].number, why);
    return rc;
}

// The two tables as they are read: families only for a row, or a config.json.
struct shape_files {
    struct tsv families, rows;
    struct shape_family *items;
    ptrdiff_t count, capacity;
};

static int read_families(struct arena *a, struct shape_files *files, struct fail *why) {
    int rc;
    while ((rc = tsv_next(&files->families, why)) == 1) {
        struct shape_family f = {.type = {0}};
        rc = read_family(&files->families, &f, why);
        if (rc < 0) return rc;
        *arena_push(a, &files->items, &files->count, &files->capacity) = f;
    }
    return rc;
}

// Families whose models are published in few bits, though they are trained in 16.
static struct str published_in(struct str type) {
    return str_is(type, "gpt_oss") ? STR("MXFP4") : (struct str){0};
}

static int read_row(const struct shape_table *table, struct shape_row *row, struct fail *why) {
    struct tsv *t = &table->files->rows;
    struct shape *s = arena_new(table->arena, struct shape, 1);
    int rc = tsv_split(t, row->text, why);
    if (rc < 0) return rc;
    const struct shape_family *f = shape_family_find(table, tsv_cell(t, "type"));
    if (!f) {
        return fail_set(why, FAIL_INPUT, "%.*s:%d: families.tsv has no '%.*s'", STR_ARG(t->name),
                        t->line, STR_ARG(tsv_cell(t, "type")));
    }
    s->ids = row->ids;
    s->type = f->type;
    s->kind = f->kind;
    s->tower = f->tower;
    s->tied = str_is(tsv_cell(t, "tied"), "1");
    s->more = tsv_cell(t, "more");
    s->quant = published_in(s->type);
    s->source = tsv_cell(t, "source");
    rc = read_number(t, "parameters", INT64_MAX, &s->parameters, why);
    for (int i = 0; rc == 0 && i < SHAPE_SIZES; i++)
        rc = read_number(t, shape_sizes[i].name, shape_sizes[i].most, shape_size_at(s, i), why);
    row->shape = s;
    return rc;
}

static struct str cell_at(struct str line, int column) {
    for (int i = 0; i < column; i++) (void)str_cut(&line, '\t');
    return column < 0 ? (struct str){0} : str_trim(str_cut(&line, '\t'));
}

// What we ship is right (tests/unit/shape.c reads all of it); of the user's own a wrong row is
// said.
int shape_load(struct arena *a, struct shape_table *ret_table, struct fail *why) {
    struct shape_files *files = arena_new(a, struct shape_files, 1);
    struct shape_table table = {.arena = a, .files = files};
    int rc = tsv_find(a, "data/families.tsv", &files->families, why);
    bool is_ours = data_is_embedded(files->families.rest);
    if (rc == 0 && !is_ours) rc = read_families(a, files, why);
    if (rc == 0) rc = tsv_find(a, "data/shapes.tsv", &files->rows, why);
    is_ours = is_ours && data_is_embedded(files->rows.rest);
    int ids = rc == 0 ? tsv_column(&files->rows, "ids") : -1;
    for (struct str line; rc == 0 && tsv_line(&files->rows, &line);) {
        struct shape_row *row = arena_push(a, &table.rows, &table.count, &table.capacity);
        *row = (struct shape_row){.ids = cell_at(line, ids), .text = line};
        if (!is_ours) rc = read_row(&table, row, why);
    }
    if (rc == 0) *ret_table = table;
    return rc;
}

const struct shape *shape_at(const struct shape_table *t, ptrdiff_t at) {
    struct shape_row *row = &t->rows[at];
    if (!row->shape) (void)read_row(t, row, NULL);
    assert(row->shape);
    return row->shape;
}

const struct shape_family *shape_family_find(const struct shape_table *t, struct str type) {
    struct shape_files *files = t->files;
    if (files->count == 0) (void)read_families(t->arena, files, NULL);
    for (ptrdiff_t i = 0; i < files->count; i++) {
        if (str_equal(files->items[i].type, type)) return &files->items[i];
    }
    return NULL;
}

bool shape_knows_layer(const struct shape_table *t, struct str name) {
    for (ptrdiff_t i = 0; i < t->files->count; i++)
        if (str_has_name(t->files->items[i].linear, name)) return true;
    return false;
}

static struct str without_owner(struct str id) {
    struct str owner = str_cut(&id, '/');
    return id.p ? id : owner;
}

static bool has_name(const struct shape_row *row, struct str name, bool is_short) {
    for (struct str rest = row->ids; rest.p;) {
        struct str id = str_cut(&rest, ',');
        if (str_equal_nocase(is_short ? without_owner(id) : id, name)) return true;
    }
    return false;
}

const struct shape *shape_find(const struct shape_table *t, struct str name) {
    for (int is_short = 0; is_short < 2; is_short++) {
        ptrdiff_t found = 0;
        int count = 0;
        for (ptrdiff_t i = 0; i < t->count; i++) {
            if (!has_name(&t->rows[i], name, is_short)) continue;
            found = i;
            count++;
        }
        if (count == 1) return shape_at(t, found);
    }
    return NULL;
}

// How the names end under which others upload a model with weights in few bits.
static const struct {
    const char *ending, *quant;
} copies[] = {
    {"-unsloth-bnb-4bit", "4-bit weights with some layers in 16"}, // unsloth's dynamic ones
    {"-bnb-4bit", "nf4"}, // most with double quantisation, which needs less and no name says
    {"-bnb-8bit", "8-bit weights"},
    {"-GPTQ-Int4", "GPTQ"},
    {"-GPTQ-Int8", "GPTQ"},
    {"-GPTQ", "GPTQ"},
    {"-AWQ", "AWQ"},
    {"-AWQ-INT4", "AWQ"},
    {"-FP8", "FP8 weights"},
    {"-fp16", ""},
    {NULL, ""},
};

static bool ends_nocase(struct str name, struct str ending) {
    return name.len > ending.len &&
           str_equal_nocase(str_slice(name, name.len - ending.len, name.len), ending);
}

// Meta's models are spelled with its name before theirs, and without it.
static struct str without_maker(struct str id) {
    struct str maker = STR("meta-"), name = without_owner(id);
    bool has = name.len > maker.len && str_equal_nocase(str_slice(name, 0, maker.len), maker);
    return has ? str_slice(name, maker.len, name.len) : name;
}

// The only row that has a name of that end, and which of its names; NULL: none has, or several.
static const struct shape *find_bare(const struct shape_table *t, struct str wanted,
                                     struct str *ret_id) {
    ptrdiff_t found = -1;
    for (ptrdiff_t row = 0; row < t->count; row++) {
        for (struct str rest = t->rows[row].ids; rest.p;) {
            const struct str id = str_cut(&rest, ',');
            if (!str_equal_nocase(without_maker(id), wanted)) continue;
            if (found >= 0 && found != row) return NULL;
            if (found < 0) *ret_id = id;
            found = row;
        }
    }
    return found < 0 ? NULL : shape_at(t, found);
}

// How the names end of models that were taught to follow instructions, which changes no size.
static const char *const taught[] = {"-Instruct", "-Chat", "-it", NULL};

const struct shape *shape_find_copy(const struct shape_table *t, struct str name,
                                    struct shape *ret) {
    int i = 0;
    if (!shape_is_id(name)) return NULL;
    while (copies[i].ending && !ends_nocase(name, str_of(copies[i].ending))) i++;
    struct str ending = str_of(copies[i].ending), wanted = without_maker(name);
    wanted.len -= ending.len;
    struct str id;
    const struct shape *found = find_bare(t, wanted, &id);
    for (int k = 0; !found && taught[k]; k++) {
        if (ends_nocase(wanted, str_of(taught[k])))
            found = find_bare(t, str_slice(wanted, 0, wanted.len - str_of(taught[k]).len), &id);
    }
    if (!found) return NULL;
    *ret = *found;
    ret->ids = id;
    if (copies[i].ending) ret->quant = str_of(copies[i].quant);
    return found;
}

struct str shape_id(const struct shape *s) {
    struct str rest = s->ids;
    return str_cut(&rest, ',');
}

// Owner and name are of letters, digits, '-', '_' and '.', and no path begins or ends so.
bool shape_is_id(struct str name) {
    struct str owner = str_cut(&name, '/');
    return name.p && str_is_made_of(owner, "-_.") && str_is_made_of(name, "-_.") &&
           str_is_alnum(owner.p[0]) && name.p[0] != '.';
}
