// SPDX-License-Identifier: Apache-2.0
// The history as a file of SQLite's: opening, damage, adding, finding. Every run is its own
// transaction with synchronous=FULL: it is on the disk when store_add returns. What was only
// predicted, and can be predicted again, has NORMAL, which leaves out two of five waits for the
// disk: a power loss may take the last answer away (it could harm the file where the journal is
// deleted, and it is not: https://sqlite.org/pragma.html#pragma_synchronous). The rollback journal
// is used: it works between machines on network file systems, where the shared memory of a
// write-ahead log does not, and an answer that opens, adds one row and closes takes less time with
// it. It is truncated, not deleted: that alone is on the disk, too, when the transaction is (its
// file's size, not its name).
#include "records/store/store_int.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { BUSY_MS = 10000, OPEN_TRIES = 50, OPEN_PAUSE_US = 20000, NAMES_MAX = 100 };

// --- Opening -------------------------------------------------------------------------------------

// The file is made by us, so that nobody else may read it; SQLite gives its journal the same mode.
static int make_file(const struct store *s, struct fail *why) {
    int rc = os_make_private_dirs(s->arena, s->folder.p, why);
    if (rc < 0) return rc;
    bool is_new = !os_exists(s->path.p);
    OS_FD fd = open(s->path.p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return fail_set(why, FAIL_MACHINE, "%s: %s", s->path.p, strerror(errno));
    if (is_new) os_sync_folder(s->folder.p);
    return 0;
}

static int run_sql(struct store *s, const char *sql) {
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL);
}

static int execute(struct store *s, const char *sql, const char *what, struct fail *why) {
    return run_sql(s, sql) == SQLITE_OK ? 0 : store_fail(s, what, why);
}

// SQLite's code.
static int read_version(struct store *s, int *ret_version) {
    sqlite3_stmt *read = NULL;
    int code = sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &read, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(read);
    if (code == SQLITE_ROW) *ret_version = sqlite3_column_int(read, 0);
    sqlite3_finalize(read);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

static int find_version(struct store *s, int *ret_version, struct fail *why) {
    int code = read_version(s, ret_version);
    return code == SQLITE_OK ? 0 : store_fail(s, "reading its version", why);
}

// An earlier version's file has a write-ahead log: to change that needs the file alone for a moment
// and does not wait for it.
static int set_journal(struct store *s) {
    int code = SQLITE_BUSY;
    for (int i = 0; i < OPEN_TRIES && (code & 0xff) == SQLITE_BUSY; i++) {
        if (i > 0) usleep(OPEN_PAUSE_US);
        code = run_sql(s, "PRAGMA journal_mode = TRUNCATE");
    }
    return code;
}

// Outside of a transaction only.
static int set_safety(struct store *s, enum store_safety safety) {
    static const char *const sql[] = {[STORE_SAFE] = "PRAGMA synchronous = FULL",
                                      [STORE_SOON_SAFE] = "PRAGMA synchronous = NORMAL"};
    if (s->safety == safety) return SQLITE_OK;
    s->safety = safety;
    return run_sql(s, sql[safety]);
}

static int open_writing(struct store *s, struct fail *why) {
    int code = sqlite3_open_v2(s->path.p, &s->db, SQLITE_OPEN_READWRITE, NULL);
    if (code == SQLITE_OK) code = sqlite3_extended_result_codes(s->db, 1);
    if (code == SQLITE_OK) code = sqlite3_busy_timeout(s->db, BUSY_MS);
    int version = 0;
    if (code == SQLITE_OK) code = read_version(s, &version);
    if (code == SQLITE_OK && version <= store_version) code = set_journal(s);
    if (code == SQLITE_OK && version < store_version) code = set_safety(s, STORE_SAFE);
    if (code != SQLITE_OK) return store_fail(s, "opening", why);
    return version == store_version ? 0 : store_migrate(s, store_version, why);
}

static const char *journal_path(const struct store *s) {
    return str_format(s->arena, "%s-journal", s->path.p).p;
}

// A journal that is not empty is of one that is writing just now, or was killed at it.
static bool is_at_rest(const struct store *s) {
    struct stat st;
    return stat(journal_path(s), &st) != 0 || st.st_size == 0;
}

// In a folder that may not be written, or has no room, a database at rest can be read as a file
// that does not change.
static int open_reading(struct store *s, struct fail *why) {
    struct arena *a = s->arena;
    struct buf uri = buf_new(a);
    int version = 0;
    buf_add(&uri, STR("file:"));
    for (ptrdiff_t i = 0; i < s->path.len; i++) {
        unsigned char c = (unsigned char)s->path.p[i];
        if (c == '%' || c == '?' || c == '#')
            buf_format(&uri, "%%%02X", c);
        else
            buf_byte(&uri, (char)c);
    }
    if (is_at_rest(s)) buf_add(&uri, STR("?immutable=1"));
    int code = sqlite3_open_v2(buf_z(&uri), &s->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    if (code == SQLITE_OK) code = sqlite3_extended_result_codes(s->db, 1);
    if (code == SQLITE_OK) code = read_version(s, &version);
    if (code != SQLITE_OK) return store_fail(s, "opening", why);
    if (version == store_version) return 0;
    return fail_set(why, FAIL_MACHINE,
                    "%.*s: schema version %d, this program's is %d, and it is read-only",
                    STR_ARG(s->path), version, store_version);
}

static void close_db(struct store *s) {
    sqlite3_finalize(s->add);
    sqlite3_close(s->db);
    s->add = NULL;
    s->db = NULL;
    s->safety = STORE_SAFETY_UNSET;
}

// --- Damage --------------------------------------------------------------------------------------

static int move(const char *from, const char *to, struct fail *why) {
    if (rename(from, to) == 0 || errno == ENOENT) return 0;
    return fail_set(why, FAIL_MACHINE, "%s: cannot be moved away: %s", from, strerror(errno));
}

// With its journal, which would be taken for the new one's.
static int move_aside(const struct store *s, struct str *ret_moved, struct fail *why) {
    struct arena *a = s->arena;
    char date[32];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", &utc);
    struct str to = str_format(a, "%s.damaged-%s", s->path.p, date);
    for (int i = 1; i < NAMES_MAX && os_exists(to.p); i++) {
        to = str_format(a, "%s.damaged-%s.%d", s->path.p, date, i);
    }
    *ret_moved = to;
    int rc = is_at_rest(s) ? 0 : move(journal_path(s), str_format(a, "%s-journal", to.p).p, why);
    return rc < 0 ? rc : move(s->path.p, to.p, why);
}

// Reads every page, so only when there is reason to doubt.
static bool is_sound(struct store *s) {
    sqlite3_stmt *check = NULL;
    int code = sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &check, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(check);
    bool sound =
        code == SQLITE_ROW && str_is(str_of((const char *)sqlite3_column_text(check, 0)), "ok");
    sqlite3_finalize(check);
    return sound;
}

// After an error that is damage: a new database instead of the damaged one, which is moved aside.
// One process at a time, and only if the file is damaged still: another may have been faster.
static int begin_anew(struct store *s, struct fail *why) {
    OS_FD lock =
        open(str_format(s->arena, "%s.lock", s->path.p).p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct str moved = {0};
    if (lock >= 0) flock(lock, LOCK_EX);
    close_db(s);
    int rc = open_writing(s, why);
    if (rc == 0 && is_sound(s)) return 0;
    if (rc < 0 && !store_is_damage(s->db)) return rc;
    close_db(s);
    rc = move_aside(s, &moved, why);
    if (rc == 0) rc = make_file(s, why);
    if (rc == 0) rc = open_writing(s, why);
    if (rc < 0) return rc;
    s->note = str_format(s->arena,
                         "the history was damaged: it was moved to %.*s, and a new one was started",
                         STR_ARG(moved));
    return 0;
}

int store_open_file(struct arena *a, struct str folder, const char *name, struct store **ret_store,
                    struct fail *why) {
    struct fail first = {0};
    struct store *s = arena_new(a, struct store, 1);
    *ret_store = NULL;
    *s = (struct store){.engine = &store_sqlite,
                        .arena = a,
                        .folder = str_of(str_z(a, folder)),
                        .path = str_format(a, "%.*s/%s", STR_ARG(folder), name)};
    int rc = make_file(s, &first);
    if (rc == 0) rc = open_writing(s, &first);
    if (rc < 0 && s->db && store_is_damage(s->db)) rc = begin_anew(s, &first);
    if (rc == FAIL_MACHINE) {
        s->unwritable = str_copy(a, str_of(first.message));
        close_db(s);
        if (open_reading(s, NULL) == 0) rc = 0;
    }
    if (rc < 0) {
        close_db(s);
        if (why) *why = first;
        return rc;
    }
    *ret_store = s;
    return 0;
}

// --- Adding --------------------------------------------------------------------------------------

static const char adding[] = "storing a run";

static int bind(sqlite3_stmt *to, int at, const struct store_column *c,
                const struct store_run *run) {
    enum field_type type = field_outside(&c->field);
    // SQLite stores a NaN as NULL (https://sqlite.org/c3ref/bind_blob.html).
    if (type == FIELD_REAL) return sqlite3_bind_double(to, at, field_real(run, &c->field));
    if (type == FIELD_TEXT) {
        struct str text = field_text(run, &c->field);
        return sqlite3_bind_text64(to, at, text.len > 0 ? text.p : NULL, (sqlite3_uint64)text.len,
                                   SQLITE_STATIC, SQLITE_UTF8);
    }
    int64_t whole = field_whole(run, &c->field);
    return whole >= 0 ? sqlite3_bind_int64(to, at, whole) : sqlite3_bind_null(to, at);
}

static int prepare_add(struct store *s) {
    ARENA_AUTO a = {0};
    struct buf sql = buf_new(&a);
    if (s->add) return SQLITE_OK;
    buf_format(&sql, "INSERT INTO runs(%.*s) VALUES(", STR_ARG(store_column_names(&a, "")));
    for (const struct store_column *c = store_columns; c->since; c++) {
        buf_add(&sql, c == store_columns ? STR("?") : STR(", ?"));
    }
    buf_add(&sql, STR(") ON CONFLICT(uid) DO NOTHING"));
    return sqlite3_prepare_v3(s->db, buf_z(&sql), -1, SQLITE_PREPARE_PERSISTENT, &s->add, NULL);
}

static int add_one(struct store *s, const struct store_run *run, int64_t *ret_id,
                   ptrdiff_t *ret_new, struct fail *why) {
    int code = prepare_add(s), at = 1;
    for (const struct store_column *c = store_columns; code == SQLITE_OK && c->since; c++) {
        code = bind(s->add, at++, c, run);
    }
    if (code == SQLITE_OK) code = sqlite3_step(s->add);
    int rc = code == SQLITE_DONE ? 0 : store_fail(s, adding, why);
    if (rc == 0 && ret_id) *ret_id = sqlite3_last_insert_rowid(s->db);
    if (rc == 0 && ret_new) *ret_new += sqlite3_changes(s->db);
    // Gives up the write lock; after a failed step it repeats that step's code.
    code = sqlite3_reset(s->add);
    return rc < 0 || code == SQLITE_OK ? rc : store_fail(s, adding, why);
}

static bool is_measured(const struct store_run *run) {
    return !str_is(run->kind, "fit") || run->steps >= 0 || run->peak_bytes >= 0 ||
           run->reserved_bytes >= 0;
}

static int add_all(struct store *s, const struct store_run *runs, ptrdiff_t count, int64_t *ret_id,
                   ptrdiff_t *ret_new, struct fail *why) {
    const bool is_soon = count == 1 && !is_measured(runs);
    if (set_safety(s, is_soon ? STORE_SOON_SAFE : STORE_SAFE) != SQLITE_OK)
        return store_fail(s, adding, why);
    if (count == 1) return add_one(s, runs, ret_id, ret_new, why);
    int rc = execute(s, "BEGIN IMMEDIATE", adding, why);
    if (rc < 0) return rc;
    for (ptrdiff_t i = 0; rc == 0 && i < count; i++) {
        rc = add_one(s, &runs[i], ret_id, ret_new, why);
    }
    if (rc == 0) rc = execute(s, "COMMIT", adding, why);
    if (rc < 0) run_sql(s, "ROLLBACK");
    return rc;
}

static int add(struct store *s, const struct store_run *runs, ptrdiff_t count, int64_t *ret_id,
               ptrdiff_t *ret_new, struct fail *why) {
    ptrdiff_t new = 0;
    int rc = add_all(s, runs, count, ret_id, &new, why);
    if (rc == FAIL_INPUT) { // damaged
        new = 0;
        rc = begin_anew(s, why);
        if (rc == 0) rc = add_all(s, runs, count, ret_id, &new, why);
    }
    if (ret_new) *ret_new = new;
    return rc;
}

// --- Finding -------------------------------------------------------------------------------------

static int bind_values(sqlite3_stmt *to, const struct store_query *q) {
    int code = SQLITE_OK;
    for (int i = 0; code == SQLITE_OK && i < q->count; i++) {
        const struct store_value *v = &q->values[i];
        code = v->is_text ? sqlite3_bind_text64(to, i + 1, v->text.p, (sqlite3_uint64)v->text.len,
                                                SQLITE_STATIC, SQLITE_UTF8)
                          : sqlite3_bind_int64(to, i + 1, v->whole);
    }
    return code;
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

static int find_rows(struct store *s, struct arena *a, const struct store_query *q,
                     struct store_found *ret, struct fail *why) {
    sqlite3_stmt *read = NULL;
    *ret = (struct store_found){0};
    int code = sqlite3_prepare_v2(s->db, q->sql.p, -1, &read, NULL);
    if (code == SQLITE_OK) code = bind_values(read, q);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(read);
        if (code != SQLITE_ROW) break;
        *arena_push(a, &ret->items, &ret->count, &ret->capacity) = read_row(a, read);
    }
    int rc = code == SQLITE_DONE ? 0 : store_fail(s, "looking up runs", why);
    sqlite3_finalize(read);
    return rc;
}

static int find(struct store *s, struct arena *a, const struct store_query *q,
                struct store_found *ret, struct fail *why) {
    int rc = find_rows(s, a, q, ret, why);
    if (rc != FAIL_INPUT || s->unwritable.len > 0) return rc; // FAIL_INPUT: damaged
    rc = begin_anew(s, why);
    return rc < 0 ? rc : find_rows(s, a, q, ret, why);
}

static int count_rows(struct store *s, struct store_number *ret, struct fail *why) {
    sqlite3_stmt *read = NULL;
    *ret = (struct store_number){0};
    int code = sqlite3_prepare_v2(s->db, "SELECT count(*) FROM runs", -1, &read, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(read);
    if (code == SQLITE_ROW) ret->runs = sqlite3_column_int64(read, 0);
    int rc = code == SQLITE_ROW ? 0 : store_fail(s, "counting", why);
    sqlite3_finalize(read);
    return rc;
}

const struct store_engine store_sqlite = {
    .types = {[FIELD_TEXT] = "TEXT", [FIELD_WHOLE] = "INTEGER", [FIELD_REAL] = "REAL"},
    // AUTOINCREMENT: a number that somebody wrote down never comes to mean another run.
    .id = "INTEGER PRIMARY KEY AUTOINCREMENT",
    .begin = "BEGIN IMMEDIATE",
    .set_version = {"PRAGMA user_version = ", ""},
    .close = close_db,
    .execute = execute,
    .version = find_version,
    .add = add,
    .find = find,
    .count = count_rows,
};
