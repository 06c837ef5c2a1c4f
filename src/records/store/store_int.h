// SPDX-License-Identifier: Apache-2.0
// What the files of this room share: the two databases behind one table of calls, and the SQL that
// both speak.
#pragma once

#include "records/store/store.h"

#include <sqlite3.h>

// Values in SQL are $1, $2, …: PostgreSQL's parameters; SQLite takes them for names and numbers
// them as they come (https://sqlite.org/lang_expr.html#varparam).
struct store_value {
    bool is_text;
    struct str text;
    int64_t whole;
};
enum { STORE_VALUES = 14 };
struct store_query {
    struct str sql;
    struct store_value values[STORE_VALUES];
    int count;
};

struct store_found {
    struct store_run *items;
    ptrdiff_t count, capacity;
};

// A database, and the words in which the two differ. All calls fill `why`.
struct store_engine {
    const char *types[3];       // of columns, by what field_outside gives
    const char *id;             // the type of the rows' number
    const char *begin;          // of a change of the schema: one process at a time
    const char *set_version[2]; // before the number, behind it
    bool is_lateral;            // it has LATERAL, and its planner needs it
    void (*close)(struct store *s);
    int (*execute)(struct store *s, const char *sql, const char *what, struct fail *why);
    int (*version)(struct store *s, int *ret_version, struct fail *why);
    // One transaction. ret_id: of the last; ret_new: how many were not there yet.
    int (*add)(struct store *s, const struct store_run *runs, ptrdiff_t count, int64_t *ret_id,
               ptrdiff_t *ret_new, struct fail *why);
    // For a run that could not be added, for the cause that `why` holds: it waits on the disk, or
    // `why` is what it was. NULL: there is no such place.
    int (*keep)(struct store *s, const struct store_run *run, struct fail *why);
    int (*find)(struct store *s, struct arena *a, const struct store_query *q,
                struct store_found *ret, struct fail *why);
    int (*count)(struct store *s, struct store_number *ret, struct fail *why);
};
extern const struct store_engine store_sqlite, store_server;

// When what was added is on the disk: when store_add returns, or with the next that is.
enum store_safety { STORE_SAFETY_UNSET, STORE_SAFE, STORE_SOON_SAFE };

struct store {
    const struct store_engine *engine;
    struct arena *arena;
    struct str path;       // for messages: the file, or the address less its password
    struct str unwritable; // why nothing can be stored; empty: it can
    struct str note;
    // SQLite
    sqlite3 *db;
    sqlite3_stmt *add;        // prepared once
    enum store_safety safety; // as the connection was told last
    struct str folder;
    struct store_link *link; // PostgreSQL
};

// --- SQLite --------------------------------------------------------------------------------------

// FOLDER/NAME. As store_open says; ret_store is NULL when it fails.
int store_open_file(struct arena *a, struct str folder, const char *name, struct store **ret_store,
                    struct fail *why);
// SQLite's last error as ours: FAIL_INPUT for a damaged file, else FAIL_MACHINE.
int store_fail(const struct store *s, const char *what, struct fail *why);
bool store_is_damage(sqlite3 *db); // its last error

// --- PostgreSQL ----------------------------------------------------------------------------------

// `folder`: where runs wait.
int store_open_server(struct arena *a, struct str address, struct str folder,
                      struct store **ret_store, struct fail *why);

// Runs that wait for their server: a SQLite database of their own, one for each server.
struct store_spool {
    struct arena *arena;
    struct str folder, name; // of the file
    struct store *store;     // NULL: not opened yet
};
int store_spool_add(struct store_spool *spool, const struct store_run *run, struct fail *why);
int store_spool_count(struct store_spool *spool, int64_t *ret_count); // 0 when there is none
// Sends what waits and forgets what arrived; those that the server refuses stay. 0 also when
// another process is at it.
int store_spool_send(struct store_spool *spool, struct store *to, struct fail *why);

// --- Both ----------------------------------------------------------------------------------------

enum { STORE_AT_ONCE = 500 };   // rows in one transaction of a copy
extern const int store_version; // of the schema that this program writes
struct str store_new_uid(struct arena *a);
struct str store_column_names(struct arena *a, const char *before); // "x.a, x.b" with "x."
struct store_query store_query_of(struct arena *a, const struct store_filter *filter,
                                  bool is_lateral);
struct store_query store_query_of_groups(struct arena *a, enum store_group by, int64_t since_ms,
                                         int64_t busy_since_ms, int64_t limit);
// Brings the schema from the version it has up to `version`; many processes may try at once.
// FAIL_INPUT: it is newer.
int store_migrate(struct store *s, int version, struct fail *why);
int store_refuse_newer(const struct store *s, int found, struct fail *why);
