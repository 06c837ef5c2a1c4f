// SPDX-License-Identifier: Apache-2.0
// From an older schema to this program's, in one transaction, for both databases. The version is
// SQLite's user_version, in PostgreSQL a table's one row; a version adds the columns that columns.c
// gives it, and what stands here. A database of a newer version is refused: what it holds is not
// ours to change.
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
    {3, "CREATE UNIQUE INDEX runs_uid ON runs(uid);"},
};
enum { MIGRATIONS = sizeof migrations / sizeof *migrations };
const int store_version = 3;

static const char changing[] = "changing its schema";

static int execute(struct store *s, const char *sql, struct fail *why) {
    return s->engine->execute(s, sql, changing, why);
}

static const char *type_of(const struct store *s, const struct store_column *c) {
    return s->engine->types[field_outside(&c->field)];
}

static int add_columns(struct store *s, int version, struct fail *why) {
    int rc = 0;
    for (const struct store_column *c = store_columns; rc == 0 && c->since; c++) {
        char sql[160];
        if (c->since != version) continue;
        snprintf(sql, sizeof sql, "ALTER TABLE runs ADD COLUMN %s %s", c->field.name,
                 type_of(s, c));
        rc = execute(s, sql, why);
    }
    return rc;
}

// All columns at once: one by one SQLite reads the schema again for each.
static int create(struct store *s, int version, struct fail *why) {
    ARENA_AUTO a = {0};
    struct buf sql = buf_new(&a);
    buf_format(&sql, "CREATE TABLE runs(id %s", s->engine->id);
    for (const struct store_column *c = store_columns; c->since; c++) {
        if (c->since <= version) buf_format(&sql, ", %s %s", c->field.name, type_of(s, c));
    }
    buf_byte(&sql, ')');
    return execute(s, buf_z(&sql), why);
}

static int bring_up(struct store *s, int from, int to, struct fail *why) {
    int rc = from == 0 ? create(s, to, why) : 0;
    for (int i = 0; rc == 0 && i < MIGRATIONS; i++) {
        char sql[64];
        if (migrations[i].version <= from || migrations[i].version > to) continue;
        if (from > 0) rc = add_columns(s, migrations[i].version, why);
        if (rc == 0) rc = execute(s, migrations[i].sql, why);
        snprintf(sql, sizeof sql, "%s%d%s", s->engine->set_version[0], migrations[i].version,
                 s->engine->set_version[1]);
        if (rc == 0) rc = execute(s, sql, why);
    }
    return rc;
}

int store_refuse_newer(const struct store *s, int found, struct fail *why) {
    fail_set(why, FAIL_INPUT, "%.*s: history version %d; this program supports up to %d",
             STR_ARG(s->path), found, store_version);
    return fail_hint(why, "use the newer batchfit that wrote it, or another place: --store DIR");
}

int store_migrate(struct store *s, int version, struct fail *why) {
    int found = 0, rc = s->engine->version(s, &found, why);
    if (rc < 0) return rc;
    if (found > version) return store_refuse_newer(s, found, why);
    if (found == version) return 0;
    rc = execute(s, s->engine->begin, why);
    if (rc < 0) return rc;
    rc = s->engine->version(s, &found, why); // another process may have been faster
    if (rc == 0 && found < version) rc = bring_up(s, found, version, why);
    if (rc == 0) rc = execute(s, "COMMIT", why);
    if (rc < 0) return rc; // who closes it rolls back
    return found > version ? store_refuse_newer(s, found, why) : 0;
}
