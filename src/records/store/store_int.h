// SPDX-License-Identifier: Apache-2.0
// What the files of this room share: the connection, and how SQLite's errors become ours.
#ifndef STORE_STORE_INT_H
#define STORE_STORE_INT_H

#include "records/store/store.h"

#include <sqlite3.h>

struct store {
    struct arena *arena;
    sqlite3 *db;
    sqlite3_stmt *add;       // prepared once
    struct str folder, path; // path: of history.db
    bool is_shared;          // on a network file system
    struct str unwritable;   // why nothing can be stored; empty: it can
    struct str note;
};

// SQLite's last error as ours: FAIL_INPUT for a damaged file, else FAIL_MACHINE.
int store_fail(sqlite3 *db, struct str path, const char *what, struct fail *why);
bool store_is_damage(sqlite3 *db); // its last error
// After an error that is damage: a new database instead of the damaged one, which is moved aside.
// One process at a time, and only if the file is damaged still: another may have been faster.
int store_begin_anew(struct store *s, struct fail *why);

extern const int store_version; // of the schema that this program writes
// Brings the schema from the version it has up to `version`; many processes may try at once.
// FAIL_INPUT: it is newer.
int store_migrate(sqlite3 *db, struct str path, int version, struct fail *why);
int store_version_of(sqlite3 *db, int *ret_version); // SQLite's code

#endif
