// SPDX-License-Identifier: Apache-2.0
// From an older schema to this program's, in one transaction. The version is SQLite's user_version;
// a version adds the columns that columns.c gives it, and what stands here. A database of a newer
// version is refused: what it holds is not ours to change.
#include "records/store/store_int.h"

#include <stdio.h>

struct migration {
    int version;
    const char *sql; // after its columns were added
};
// The narrow indexes are for `list runs` and for looking a question up among 100,000 runs
// (bench/store): a list goes along at_ms, names are looked for in the index of names alone.
static const struct migration migrations[] = {
    {1, "CREATE INDEX runs_at ON runs(at_ms);"
        "CREATE INDEX runs_model ON runs(model, at_ms);"
        "CREATE INDEX runs_gpu ON runs(gpu, at_ms);"
        "CREATE INDEX runs_kind ON runs(kind, at_ms);"},
    {2, "CREATE INDEX runs_question ON runs(question, at_ms);"
        "CREATE INDEX runs_predicted ON runs(gpu, at_ms) WHERE predicted_reserved_bytes > 0 "
        "AND reserved_bytes > 0 AND is_standin = 0;"},
};
enum { MIGRATIONS = sizeof migrations / sizeof *migrations };
const int store_version = 2;

static const char *const type_names[] = {
    [FIELD_TEXT] = "TEXT", [FIELD_WHOLE] = "INTEGER", [FIELD_REAL] = "REAL"};

int store_version_of(sqlite3 *db, int *ret_version) {
    sqlite3_stmt *read = NULL;
    int code = sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &read, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(read);
    if (code == SQLITE_ROW) *ret_version = sqlite3_column_int(read, 0);
    sqlite3_finalize(read);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

static int execute(sqlite3 *db, const char *sql) {
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int add_columns(sqlite3 *db, int version) {
    int code = SQLITE_OK;
    for (const struct store_column *c = store_columns; code == SQLITE_OK && c->since; c++) {
        char sql[160];
        if (c->since != version) continue;
        snprintf(sql, sizeof sql, "ALTER TABLE runs ADD COLUMN %s %s", c->field.name,
                 type_names[field_outside(&c->field)]);
        code = execute(db, sql);
    }
    return code;
}

// All columns at once: one by one SQLite reads the schema again for each.
static int create(sqlite3 *db, int version) {
    ARENA_AUTO a = {0};
    struct buf sql = buf_new(&a);
    // AUTOINCREMENT: a number that somebody wrote down never comes to mean another run.
    buf_add(&sql, STR("CREATE TABLE runs(id INTEGER PRIMARY KEY AUTOINCREMENT"));
    for (const struct store_column *c = store_columns; c->since; c++) {
        if (c->since <= version)
            buf_format(&sql, ", %s %s", c->field.name, type_names[field_outside(&c->field)]);
    }
    buf_byte(&sql, ')');
    return execute(db, buf_z(&sql));
}

static int bring_up(sqlite3 *db, int from, int to) {
    int code = from == 0 ? create(db, to) : SQLITE_OK;
    for (int i = 0; code == SQLITE_OK && i < MIGRATIONS; i++) {
        char sql[64];
        if (migrations[i].version <= from || migrations[i].version > to) continue;
        if (from > 0) code = add_columns(db, migrations[i].version);
        if (code == SQLITE_OK) code = execute(db, migrations[i].sql);
        snprintf(sql, sizeof sql, "PRAGMA user_version = %d", migrations[i].version);
        if (code == SQLITE_OK) code = execute(db, sql);
    }
    return code;
}

static int refuse_newer(struct str path, int found, struct fail *why) {
    fail_set(why, FAIL_INPUT, "%.*s: history version %d; this program supports up to %d",
             STR_ARG(path), found, store_version);
    return fail_hint(why, "use the newer batchfit that wrote it, or another folder: --store DIR");
}

int store_migrate(sqlite3 *db, struct str path, int version, struct fail *why) {
    int found = 0, code = store_version_of(db, &found);
    if (code != SQLITE_OK) return store_fail(db, path, "reading its version", why);
    if (found > version) return refuse_newer(path, found, why);
    if (found == version) return 0;
    code = execute(db, "BEGIN IMMEDIATE");
    if (code != SQLITE_OK) return store_fail(db, path, "changing its schema", why);
    code = store_version_of(db, &found); // another process may have been faster
    if (code == SQLITE_OK && found < version) code = bring_up(db, found, version);
    if (code == SQLITE_OK) code = execute(db, "COMMIT");
    if (code == SQLITE_OK) return found > version ? refuse_newer(path, found, why) : 0;
    return store_fail(db, path, "changing its schema", why); // who closes it rolls back
}
