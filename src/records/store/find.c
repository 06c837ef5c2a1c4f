// SPDX-License-Identifier: Apache-2.0
// Looking runs up. A filter becomes a condition of fixed texts with bound values: nothing that a
// user writes is ever part of the SQL.
#include "records/store/store_int.h"

#include <math.h>

// What narrows: a condition, and the value that it takes.
struct term {
    const char *sql;
    bool is_text;
    struct str text;
    int64_t whole;
    bool applies;
};
enum { TERMS = 12 };

// As people write names: "rtx3060" is "NVIDIA GeForce RTX 3060".
#define AS_WRITTEN(name) "replace(replace(replace(lower(" name "), ' ', ''), '_', ''), '-', '')"

// Part of a name is looked for among the few distinct names, each found by one step in the index (a
// loose index scan, by recursion), then the rows by their index.
#define NAMED_LIKE(column)                                                                   \
    column " IN (WITH RECURSIVE names(name) AS (SELECT min(" column ") FROM runs UNION ALL " \
           "SELECT (SELECT min(" column ") FROM runs WHERE " column " > name) FROM names "   \
           "WHERE name IS NOT NULL) SELECT name FROM names WHERE instr(" AS_WRITTEN(         \
               "name") ", " AS_WRITTEN("?") "))"

static int terms_of(const struct store_filter *f, struct term *ret_terms) {
    const struct term terms[TERMS] = {
        {"kind = ?", true, f->kind, 0, f->kind.len > 0},
        {"question = ?", true, f->question, 0, f->question.len > 0},
        {"status = ?", true, f->status, 0, f->status.len > 0},
        {"gpu = ?", true, f->gpu, 0, f->gpu.len > 0},
        {"model = ?", true, f->model, 0, f->model.len > 0},
        {NAMED_LIKE("gpu"), true, f->gpu_like, 0, f->gpu_like.len > 0},
        {NAMED_LIKE("model"), true, f->model_like, 0, f->model_like.len > 0},
        {"at_ms >= ?", false, {0}, f->since_ms, f->since_ms > 0},
        {"id = ?", false, {0}, f->id, f->id > 0},
        {"is_standin = ?", false, {0}, 0, f->only_real || f->only_predicted},
        // The first two as in the index runs_predicted.
        {"predicted_reserved_bytes > 0 AND reserved_bytes > 0 AND is_standin = 0 AND "
         "coalesce(alloc_retries, 0) <= ?",
         false,
         {0},
         0,
         f->only_predicted},
    };
    int n = 0;
    for (int i = 0; i < TERMS; i++) {
        if (terms[i].applies) ret_terms[n++] = terms[i];
    }
    return n;
}

static struct str query(struct arena *a, const struct term *terms, int count) {
    struct buf sql = buf_new(a);
    buf_add(&sql, STR("SELECT id"));
    for (const struct store_column *c = store_columns; c->since; c++) {
        buf_format(&sql, ", %s", c->field.name);
    }
    buf_add(&sql, STR(" FROM runs"));
    for (int i = 0; i < count; i++) buf_format(&sql, "%s%s", i ? " AND " : " WHERE ", terms[i].sql);
    buf_add(&sql, STR(" ORDER BY at_ms DESC, id DESC LIMIT ?"));
    return str_of(buf_z(&sql));
}

static int bind_terms(sqlite3_stmt *to, const struct term *terms, int count, int64_t limit) {
    int code = SQLITE_OK;
    for (int i = 0; code == SQLITE_OK && i < count; i++) {
        const struct term *t = &terms[i];
        code = t->is_text ? sqlite3_bind_text64(to, i + 1, t->text.p, (sqlite3_uint64)t->text.len,
                                                SQLITE_STATIC, SQLITE_UTF8)
                          : sqlite3_bind_int64(to, i + 1, t->whole);
    }
    return code == SQLITE_OK ? sqlite3_bind_int64(to, count + 1, limit > 0 ? limit : -1) : code;
}

static void read_cell(struct arena *a, sqlite3_stmt *from, int at, const struct store_column *c,
                      struct store_run *run) {
    enum field_type type = field_outside(&c->field);
    if (sqlite3_column_type(from, at) == SQLITE_NULL) return;
    if (type == FIELD_TEXT) {
        const char *text = (const char *)sqlite3_column_text(from, at);
        struct str view = {text, text ? sqlite3_column_bytes(from, at) : 0};
        field_set_text(run, &c->field, str_copy(a, view));
    } else if (type == FIELD_WHOLE) {
        field_set_whole(run, &c->field, sqlite3_column_int64(from, at));
    } else {
        field_set_real(run, &c->field, sqlite3_column_double(from, at));
    }
}

static struct store_run read_row(struct arena *a, sqlite3_stmt *from) {
    struct store_run run = store_run_unknown();
    int at = 1;
    run.id = sqlite3_column_int64(from, 0);
    for (const struct store_column *c = store_columns; c->since; c++) {
        read_cell(a, from, at++, c, &run);
    }
    return run;
}

static int find(struct store *s, struct arena *a, const struct store_filter *filter,
                struct store_run **ret_runs, ptrdiff_t *ret_count, struct fail *why) {
    struct term terms[TERMS];
    struct {
        struct store_run *items;
        ptrdiff_t count, capacity;
    } found = {0};
    int count = terms_of(filter, terms);
    sqlite3_stmt *read = NULL;
    int code = sqlite3_prepare_v2(s->db, query(a, terms, count).p, -1, &read, NULL);
    if (code == SQLITE_OK) code = bind_terms(read, terms, count, filter->limit);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(read);
        if (code != SQLITE_ROW) break;
        *arena_push(a, &found.items, &found.count, &found.capacity) = read_row(a, read);
    }
    int rc = code == SQLITE_DONE ? 0 : store_fail(s->db, s->path, "looking up runs", why);
    sqlite3_finalize(read);
    *ret_runs = found.items;
    *ret_count = found.count;
    return rc;
}

int store_find(struct store *s, struct arena *a, const struct store_filter *filter,
               struct store_run **ret_runs, ptrdiff_t *ret_count, struct fail *why) {
    int rc = find(s, a, filter, ret_runs, ret_count, why);
    if (rc != FAIL_INPUT || s->unwritable.len > 0) return rc; // FAIL_INPUT: damaged
    rc = store_begin_anew(s, why);
    return rc < 0 ? rc : find(s, a, filter, ret_runs, ret_count, why);
}

int store_count(struct store *s, int64_t *ret_count, struct fail *why) {
    sqlite3_stmt *read = NULL;
    int code = sqlite3_prepare_v2(s->db, "SELECT count(*) FROM runs", -1, &read, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(read);
    if (code == SQLITE_ROW) *ret_count = sqlite3_column_int64(read, 0);
    int rc = code == SQLITE_ROW ? 0 : store_fail(s->db, s->path, "counting", why);
    sqlite3_finalize(read);
    return rc;
}
