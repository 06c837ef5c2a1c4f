// SPDX-License-Identifier: Apache-2.0
// The line to a PostgreSQL server: libpq, loaded when an address is opened, and one statement at a
// time with a time in which it must be answered.
#pragma once

#include "records/store/store_int.h"

#include <libpq-fe.h>

// The functions of libpq that we call.
#define STORE_LIBPQ_CALLS(X)   \
    X(conninfoParse)           \
    X(conninfoFree)            \
    X(connectStartParams)      \
    X(connectPoll)             \
    X(connectionNeedsPassword) \
    X(connectionUsedPassword)  \
    X(status)                  \
    X(socket)                  \
    X(serverVersion)           \
    X(errorMessage)            \
    X(finish)                  \
    X(setNoticeReceiver)       \
    X(sendQuery)               \
    X(sendQueryParams)         \
    X(flush)                   \
    X(setnonblocking)          \
    X(consumeInput)            \
    X(isBusy)                  \
    X(getResult)               \
    X(resultStatus)            \
    X(resultErrorField)        \
    X(ntuples)                 \
    X(getisnull)               \
    X(getvalue)                \
    X(getlength)               \
    X(clear)                   \
    X(freemem)
#define STORE_LIBPQ_MEMBER(name) __typeof__(PQ##name) *(name);
struct store_libpq {
    STORE_LIBPQ_CALLS(STORE_LIBPQ_MEMBER)
};
int store_libpq_load(struct store_libpq *ret_library, struct fail *why);

struct store_link {
    struct arena *arena;
    struct store_libpq pq;
    char *address;
    struct str name;     // the address less user and password
    struct str identity; // of the database: the name, and what the environment adds to it
    PGconn *conn;        // NULL: there is none
    int64_t tried_ns;    // when the last one failed; 0: never
    struct fail down;    // why
    int version;         // of the schema; 0: nothing is there
    bool is_changing;    // within a change of the schema: nothing may be said twice
    bool is_checked;     // the version was read
    bool is_refused;     // what is there is not for us: `down` says why
    bool is_sending;     // what had waited
    struct store_spool spool;
};

// Reads the address; says nothing to the server.
int store_link_new(struct arena *a, struct str address, struct store_link **ret, struct fail *why);
void store_link_close(struct store_link *l);
// Connects where it is not. FAIL_MACHINE: it does not answer, or lets us not in.
int store_link_up(struct store_link *l, struct fail *why);
// One statement with values, or several without. FAIL_MACHINE: the line broke, or time is over;
// FAIL_INPUT: the server refused it. ret_result is to be cleared; NULL when it failed. `ret_state`
// (it may be NULL) is the server's code of five letters.
int store_link_ask(struct store_link *l, const char *sql, const char *const *values, int count,
                   PGresult **ret_result, char ret_state[6], struct fail *why);
