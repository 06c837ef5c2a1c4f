// SPDX-License-Identifier: Apache-2.0
#include "records/store/store_int.h"

bool store_is_damage(sqlite3 *db) {
    int code = db ? sqlite3_errcode(db) : SQLITE_NOMEM; // the primary code
    return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

int store_fail(const struct store *s, const char *what, struct fail *why) {
    sqlite3 *db = s->db;
    struct str path = s->path;
    int code = db ? sqlite3_extended_errcode(db) : SQLITE_NOMEM;
    if (store_is_damage(db)) {
        return fail_set(why, FAIL_INPUT, "%.*s: %s: the file is damaged (%s)", STR_ARG(path), what,
                        sqlite3_errstr(code));
    }
    const char *text = code == SQLITE_READONLY_DBMOVED ? "the file was moved or deleted meanwhile"
                                                       : sqlite3_errstr(code);
    return fail_set(why, FAIL_MACHINE, "%.*s: %s: %s", STR_ARG(path), what, text);
}
