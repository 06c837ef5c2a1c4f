// SPDX-License-Identifier: Apache-2.0
// The history in PostgreSQL, for a fleet: the tables of SQLite's, in a schema `batchfit` of their
// own, made by the first that adds a run. Whatever keeps a run from being stored there (the server
// is down, full, read-only, of another version; a wrong password) makes it wait on this machine's
// disk (spool.c); whoever opens the store next sends it.
#include "records/store/link_int.h"

#include "base/out.h"

#include <math.h>
#include <string.h>

enum { STATE_BYTES = 6 };
static const char grants[] = "its owner grants it: GRANT USAGE ON SCHEMA batchfit TO you; GRANT "
                             "SELECT, INSERT ON ALL TABLES "
                             "IN SCHEMA batchfit TO you";
static const char others[] =
    "the schema batchfit there is not batchfit's, or was changed: use a database without one";

// What to do, by the server's code (https://www.postgresql.org/docs/15/errcodes-appendix.html).
static const struct {
    const char *state, *hint;
} hints[] = {
    {"42501", grants},
    {"25006", "it can only be read (a standby?): name the server that takes changes"},
    {"42P07", others},
    {"42P01", others},
    {"42703", others},
    {"42804", others},
    {"22P02", others},
};

static int with_hint(const char *state, int rc, struct fail *why) {
    for (size_t i = 0; rc < 0 && i < sizeof hints / sizeof *hints; i++) {
        if (strcmp(state, hints[i].state) == 0) return fail_hint(why, "%s", hints[i].hint);
    }
    return rc;
}

// --- The schema ----------------------------------------------------------------------------------

static int execute(struct store *s, const char *sql, const char *what, struct fail *why) {
    char state[STATE_BYTES];
    PGresult *result;
    int rc = store_link_ask(s->link, sql, NULL, 0, &result, state, why);
    if (rc == 0) s->link->pq.clear(result);
    if (rc == FAIL_INPUT) fail_wrap(why, "%s", what);
    return with_hint(state, rc, why);
}

static int find_version(struct store *s, int *ret_version, struct fail *why) {
    const struct store_libpq *pq = &s->link->pq;
    char state[STATE_BYTES];
    PGresult *result;
    int64_t version = 0;
    *ret_version = 0;
    int rc = store_link_ask(s->link, "SELECT version FROM batchfit.version", NULL, 0, &result,
                            state, why);
    // No such table, no such schema: there is no history yet.
    if (rc == FAIL_INPUT && (strcmp(state, "42P01") == 0 || strcmp(state, "3F000") == 0)) return 0;
    if (rc < 0) return with_hint(state, rc, why);
    int rows = pq->ntuples(result);
    bool good =
        rows == 0 || (rows == 1 && str_to_i64(str_of(pq->getvalue(result, 0, 0)), &version) &&
                      version > 0 && version < INT32_MAX);
    pq->clear(result);
    *ret_version = (int)version;
    if (good) return 0;
    fail_set(why, FAIL_INPUT, "%.*s: its schema batchfit has no version", STR_ARG(s->path));
    return fail_hint(why, "%s", others);
}

static int change(struct store *s, struct fail *why) {
    s->link->is_changing = true;
    int rc = store_migrate(s, store_version, why);
    s->link->is_changing = false;
    if (rc < 0) store_link_close(s->link); // which rolls back
    if (rc == 0) s->link->version = store_version;
    return rc;
}

static int check(struct store *s, struct fail *why) {
    struct store_link *l = s->link;
    int rc = find_version(s, &l->version, why);
    if (rc == 0 && l->version > store_version) rc = store_refuse_newer(s, l->version, why);
    if (rc == 0 && l->version > 0 && l->version < store_version) rc = change(s, why);
    l->is_checked = rc == 0;
    l->is_refused = rc == FAIL_INPUT;
    if (rc < 0) l->down = *why;
    return rc;
}

// The server answers, what it has is ours, and what had waited was sent.
static int ready(struct store *s, struct fail *why) {
    struct store_link *l = s->link;
    struct fail ignored;
    if (!why) why = &ignored;
    if (l->is_refused) {
        *why = l->down;
        return why->code;
    }
    bool was_up = l->conn && l->is_checked;
    int rc = store_link_up(l, why);
    if (rc == 0 && !l->is_checked) rc = check(s, why);
    if (rc < 0 || was_up || l->is_sending) return rc;
    l->is_sending = true;
    store_spool_send(&l->spool, s, NULL); // what does not go now goes another time
    l->is_sending = false;
    return l->conn ? 0 : store_link_up(l, why);
}

// --- Adding --------------------------------------------------------------------------------------

// What is no UTF-8 the server would not take, nor a NUL.
static const char *text_value(struct arena *a, struct str text) {
    struct buf clean = buf_new(a);
    if (text.len == 0) return NULL;
    while (text.len > 0) {
        struct str before = text;
        uint32_t c = clean_next(&text);
        if (c == CLEAN_BROKEN)
            buf_add(&clean, STR("\xef\xbf\xbd"));
        else if (c != 0)
            buf_add(&clean, str_slice(before, 0, before.len - text.len));
    }
    return buf_z(&clean);
}

static const char *value_of(struct arena *a, const struct store_column *c,
                            const struct store_run *run) {
    enum field_type type = field_outside(&c->field);
    if (type == FIELD_TEXT) return text_value(a, field_text(run, &c->field));
    if (type == FIELD_REAL) {
        double real = field_real(run, &c->field);
        return isnan(real) ? NULL : str_format(a, "%.17g", real).p;
    }
    int64_t whole = field_whole(run, &c->field);
    return whole >= 0 ? str_format(a, "%lld", (long long)whole).p : NULL;
}

static int column_count(void) {
    int count = 0;
    for (const struct store_column *c = store_columns; c->since; c++) count++;
    return count;
}

static const char *insert(struct arena *a, ptrdiff_t rows, int columns) {
    struct buf sql = buf_new(a);
    int value = 1;
    buf_format(&sql, "INSERT INTO runs(%.*s) VALUES", STR_ARG(store_column_names(a, "")));
    for (ptrdiff_t i = 0; i < rows; i++) {
        for (int k = 0; k < columns; k++) {
            buf_add(&sql, k ? STR(", ") : i ? STR("), (") : STR(" ("));
            buf_format(&sql, "$%d", value++);
        }
    }
    buf_add(&sql, STR(") ON CONFLICT (uid) DO NOTHING RETURNING id"));
    return buf_z(&sql);
}

static int add(struct store *s, const struct store_run *runs, ptrdiff_t count, int64_t *ret_id,
               ptrdiff_t *ret_new, struct fail *why) {
    ARENA_AUTO a = {0};
    const struct store_libpq *pq = &s->link->pq;
    char state[STATE_BYTES] = "";
    PGresult *result;
    int columns = column_count(), n = 0;
    const char **values = arena_new(&a, const char *, count *columns);
    int rc = ready(s, why);
    if (rc == 0 && s->link->version == 0) rc = change(s, why);
    if (rc < 0) return rc;
    for (ptrdiff_t i = 0; i < count; i++) {
        for (const struct store_column *c = store_columns; c->since; c++) {
            values[n++] = value_of(&a, c, &runs[i]);
        }
    }
    rc = store_link_ask(s->link, insert(&a, count, columns), values, n, &result, state, why);
    if (rc < 0) return with_hint(state, rc, why);
    int new = pq->ntuples(result);
    if (ret_new) *ret_new = new;
    if (ret_id && (new == 0 || !str_to_i64(str_of(pq->getvalue(result, new - 1, 0)), ret_id)))
        *ret_id = -1;
    pq->clear(result);
    return 0;
}

static int keep(struct store *s, const struct store_run *run, struct fail *why) {
    struct store_spool *spool = &s->link->spool;
    struct fail full = {0};
    int64_t waiting = 0;
    if (store_spool_add(spool, run, &full) < 0) {
        fail_wrap(why, "%s", full.message);
        return why->code;
    }
    store_spool_count(spool, &waiting);
    s->note = str_format(s->arena, "%lld %s in %.*s/%.*s until the server takes %s: %s%s%s",
                         (long long)waiting, waiting == 1 ? "run waits" : "runs wait",
                         STR_ARG(spool->folder), STR_ARG(spool->name), waiting == 1 ? "it" : "them",
                         why->message, why->hint[0] ? "; " : "", why->hint);
    return 0;
}

// --- Finding -------------------------------------------------------------------------------------

static void read_cell(const struct store_libpq *pq, struct arena *a, const PGresult *from, int row,
                      int at, const struct store_column *c, struct store_run *run) {
    enum field_type type = field_outside(&c->field);
    if (pq->getisnull(from, row, at)) return;
    struct str text = {pq->getvalue(from, row, at), pq->getlength(from, row, at)};
    int64_t whole;
    double real;
    if (type == FIELD_TEXT)
        field_set_text(run, &c->field, str_copy(a, text));
    else if (type == FIELD_WHOLE && str_to_i64(text, &whole))
        field_set_whole(run, &c->field, whole);
    else if (type == FIELD_REAL && str_to_double(text, &real))
        field_set_real(run, &c->field, real);
}

static struct store_run read_row(const struct store_libpq *pq, struct arena *a,
                                 const PGresult *from, int row) {
    struct store_run run = store_run_unknown();
    int at = 1;
    str_to_i64(str_of(pq->getvalue(from, row, 0)), &run.id);
    for (const struct store_column *c = store_columns; c->since; c++) {
        read_cell(pq, a, from, row, at++, c, &run);
    }
    return run;
}

static int ask(struct store *s, const char *sql, const char *const *values, int count,
               PGresult **ret_result, struct fail *why) {
    char state[STATE_BYTES] = "";
    int64_t waiting = 0;
    int rc = ready(s, why);
    *ret_result = NULL;
    if (rc == 0 && s->link->version == 0) return 0; // no history yet
    if (rc == 0) rc = store_link_ask(s->link, sql, values, count, ret_result, state, why);
    with_hint(state, rc, why);
    if (rc < 0 && why && !why->hint[0] && store_spool_count(&s->link->spool, &waiting) == 0 &&
        waiting > 0) {
        fail_hint(why, "%lld %s in %.*s/%.*s until the server takes %s", (long long)waiting,
                  waiting == 1 ? "run waits" : "runs wait", STR_ARG(s->link->spool.folder),
                  STR_ARG(s->link->spool.name), waiting == 1 ? "it" : "them");
    }
    return rc;
}

static int find(struct store *s, struct arena *a, const struct store_query *q,
                struct store_found *ret, struct fail *why) {
    const struct store_libpq *pq = &s->link->pq;
    const char *values[STORE_VALUES];
    PGresult *result;
    *ret = (struct store_found){0};
    for (int i = 0; i < q->count; i++) {
        const struct store_value *v = &q->values[i];
        // An empty text is not NULL here; a filter has none.
        values[i] =
            v->is_text ? text_value(a, v->text) : str_format(a, "%lld", (long long)v->whole).p;
    }
    int rc = ask(s, q->sql.p, values, q->count, &result, why);
    if (rc < 0 || !result) return rc;
    for (int row = 0; row < pq->ntuples(result); row++) {
        *arena_push(a, &ret->items, &ret->count, &ret->capacity) = read_row(pq, a, result, row);
    }
    pq->clear(result);
    return 0;
}

// Counting a million takes longer than all else: of a large table it is what the last VACUUM or
// ANALYZE found (https://www.postgresql.org/docs/15/catalog-pg-class.html).
static int count_rows(struct store *s, struct store_number *ret, struct fail *why) {
    static const char sql[] =
        "SELECT CASE WHEN reltuples < 100000 THEN (SELECT count(*) FROM runs) "
        "ELSE reltuples::BIGINT END, reltuples >= 100000 FROM pg_class "
        "WHERE oid = 'batchfit.runs'::regclass";
    const struct store_libpq *pq = &s->link->pq;
    PGresult *result;
    int rc = ask(s, sql, NULL, 0, &result, why);
    *ret = (struct store_number){0};
    if (rc < 0 || !result) return rc;
    if (pq->ntuples(result) == 1) {
        str_to_i64(str_of(pq->getvalue(result, 0, 0)), &ret->runs);
        ret->is_rough = *pq->getvalue(result, 0, 1) == 't';
    }
    pq->clear(result);
    return 0;
}

static void close_server(struct store *s) {
    store_link_close(s->link);
    store_close(s->link->spool.store);
    s->link->spool.store = NULL;
}

int store_open_server(struct arena *a, struct str address, struct str folder,
                      struct store **ret_store, struct fail *why) {
    struct store_link *l;
    int rc = store_link_new(a, address, &l, why);
    *ret_store = NULL;
    if (rc < 0) return rc;
    struct store *s = arena_new(a, struct store, 1);
    *s = (struct store){.engine = &store_server, .arena = a, .path = l->name, .link = l};
    l->spool = (struct store_spool){
        .arena = a,
        .folder = folder,
        .name = str_format(a, "waiting-%016llx.db", (unsigned long long)str_hash(l->identity))};
    ready(s, NULL); // what is wrong is said by what is asked next
    *ret_store = s;
    return 0;
}

const struct store_engine store_server = {
    .types = {[FIELD_TEXT] = "TEXT", [FIELD_WHOLE] = "BIGINT", [FIELD_REAL] = "DOUBLE PRECISION"},
    .id = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    // The number is ours alone: "batchfit" as letters.
    .begin = "BEGIN; SELECT pg_advisory_xact_lock(7089075258759997812); "
             "CREATE SCHEMA IF NOT EXISTS batchfit; "
             "CREATE TABLE IF NOT EXISTS version(version INTEGER NOT NULL)",
    .set_version = {"DELETE FROM version; INSERT INTO version VALUES(", ")"},
    .is_lateral = true,
    .close = close_server,
    .execute = execute,
    .version = find_version,
    .add = add,
    .keep = keep,
    .find = find,
    .count = count_rows,
};
