// SPDX-License-Identifier: Apache-2.0
// Asking a PostgreSQL server without ever waiting for long: libpq's calls that do not block
// (https://www.postgresql.org/docs/15/libpq-async.html), with a deadline. A server that closes a
// line which was idle, or is restarted, is asked once more on a new one: every statement here
// can be said twice.
#include "records/store/link_int.h"

#include "base/os.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t connect_ns = 5000000000, answer_ns = 20000000000, again_ns = 30000000000;
static const int64_t change_ns = 600000000000; // an index over millions of runs takes its time
enum { BUSY_TRIES = 40, BUSY_PAUSE_US = 100000, STATE_LETTERS = 5 };

// Idle lines are closed by the server, so that a training of days does not hold one (PostgreSQL 14
// and newer). The tables are in a schema of their own.
static const char greeting[] = "SET search_path TO batchfit";
static const char greeting_14[] =
    "SET search_path TO batchfit; SET idle_session_timeout TO '5s'; SET lock_timeout TO '10s'";
enum { VERSION_14 = 140000 };

static void be_silent(void *context, const PGresult *result) {
    (void)context;
    (void)result;
}

// --- The address ---------------------------------------------------------------------------------

static bool is_scheme(struct str address) {
    return str_starts(address, STR("postgresql://")) || str_starts(address, STR("postgres://"));
}

enum { HOST, HOSTADDR, PORT, DATABASE, SERVICE, USER, PARTS };

// What the address says of a part, as libpq calls it, and where libpq looks when it says nothing.
static const struct {
    const char *keyword, *variable;
} parts[PARTS] = {{"host", "PGHOST"},       {"hostaddr", "PGHOSTADDR"}, {"port", "PGPORT"},
                  {"dbname", "PGDATABASE"}, {"service", "PGSERVICE"},   {"user", "PGUSER"}};

// Host, port and database, by which people know it: what is the same history, whoever asks.
static struct str name_of(struct arena *a, const char *const *said) {
    const char *host = *said[HOST] ? said[HOST] : said[HOSTADDR];
    return str_format(a, "postgresql://%s%s%s/%s%s%s", host, *said[PORT] ? ":" : "", said[PORT],
                      said[DATABASE], *said[SERVICE] ? "?service=" : "", said[SERVICE]);
}

// The same with all else that leads to a database: what waits for one must not go to another. A
// database that nobody names is called as the user is.
static struct str identity_of(struct arena *a, struct str name, const char *const *said) {
    struct buf text = buf_new(a);
    bool is_named = *said[DATABASE] || *said[SERVICE];
    buf_add(&text, name);
    if (*said[HOST] && *said[HOSTADDR]) buf_format(&text, " hostaddr=%s", said[HOSTADDR]);
    for (int i = 0; i < USER; i++) {
        const char *usual = *said[i] ? NULL : getenv(parts[i].variable);
        if (!usual || !*usual) continue;
        is_named |= i == DATABASE || i == SERVICE;
        buf_format(&text, " %s=%s", parts[i].keyword, usual);
    }
    const char *user = *said[USER] ? said[USER] : getenv(parts[USER].variable);
    if (!is_named && user && *user) buf_format(&text, " user=%s", user);
    return buf_str(&text);
}

static void take_name(struct store_link *l, const PQconninfoOption *options) {
    const char *said[PARTS] = {"", "", "", "", "", ""};
    for (const PQconninfoOption *o = options; o->keyword; o++) {
        for (int i = 0; i < PARTS; i++)
            if (o->val && strcmp(o->keyword, parts[i].keyword) == 0) said[i] = o->val;
    }
    l->name = name_of(l->arena, said);
    l->identity = identity_of(l->arena, l->name, said);
}

int store_link_new(struct arena *a, struct str address, struct store_link **ret, struct fail *why) {
    struct store_link *l = arena_new(a, struct store_link, 1);
    *l = (struct store_link){.arena = a, .address = str_z(a, address)};
    *ret = l;
    if (!is_scheme(address)) {
        struct str rest = address, scheme = str_cut(&rest, ':');
        fail_set(why, FAIL_INPUT, "%.*s://…: not a place for a history", STR_ARG(scheme));
        return fail_hint(why, "a folder, or postgresql://HOST/DATABASE");
    }
    int rc = store_libpq_load(&l->pq, why);
    if (rc < 0) return rc;
    // Its own message would repeat the address, and so a password.
    PQconninfoOption *options = l->pq.conninfoParse(l->address, NULL);
    if (!options) {
        fail_set(why, FAIL_INPUT, "the history's address is not one that PostgreSQL takes");
        return fail_hint(why, "postgresql://USER@HOST:5432/DATABASE; special characters as %%40; "
                              "the password belongs in ~/.pgpass");
    }
    take_name(l, options);
    l->pq.conninfoFree(options);
    return 0;
}

void store_link_close(struct store_link *l) {
    if (l->conn) l->pq.finish(l->conn);
    l->conn = NULL;
}

// --- Waiting -------------------------------------------------------------------------------------

static bool wait_for(const struct store_link *l, short events, int64_t until_ns) {
    struct pollfd wait = {.fd = l->pq.socket(l->conn), .events = events};
    for (;;) {
        int64_t left = (until_ns - os_now_ns()) / 1000000;
        int ready = left > 0 ? poll(&wait, 1, (int)left) : 0;
        if (ready >= 0) return ready > 0;
    } // a signal
}

// libpq's message is of several lines; the first says it, behind the place, which the name is.
static int fail_line(struct store_link *l, const char *otherwise, struct fail *why) {
    static const char *const before[] = {"failed: ", "FATAL:"};
    struct str text = str_of(l->conn ? l->pq.errorMessage(l->conn) : "");
    struct str line = str_trim(str_line(&text));
    for (int i = 0; i < 2; i++) {
        ptrdiff_t at = str_find(line, str_of(before[i]));
        if (at >= 0) line = str_slice(line, at + (ptrdiff_t)strlen(before[i]), line.len);
    }
    line = str_trim(line);
    return fail_set(why, FAIL_MACHINE, "%.*s: %.*s", STR_ARG(l->name),
                    STR_ARG(line.len > 0 ? line : str_of(otherwise)));
}

// --- Connecting ----------------------------------------------------------------------------------

static int hint_refused(struct store_link *l, struct fail *why) {
    if (l->pq.connectionNeedsPassword(l->conn)) {
        return fail_hint(why, "put the password into ~/.pgpass (HOST:PORT:DATABASE:USER:PASSWORD, "
                              "mode 0600) or PGPASSWORD");
    }
    if (l->pq.connectionUsedPassword(l->conn) && strstr(why->message, "password"))
        return fail_hint(why, "check the user and the password: ~/.pgpass, PGPASSWORD");
    if (strstr(why->message, "does not exist"))
        return fail_hint(why, "an administrator makes a database: createdb -O USER DATABASE");
    return why->code;
}

static int connect_once(struct store_link *l, struct fail *why) {
    // The later ones win over the earlier: what is before the address is only a default.
    const char *const names[] = {"connect_timeout", "fallback_application_name", "dbname",
                                 "client_encoding", NULL};
    const char *const values[] = {"5", "batchfit", l->address, "UTF8", NULL};
    int64_t until = os_now_ns() + connect_ns;
    l->conn = l->pq.connectStartParams(names, values, 1);
    if (!l->conn) return fail_set(why, FAIL_MACHINE, "libpq: out of memory");
    PostgresPollingStatusType step = PGRES_POLLING_WRITING;
    while (l->pq.status(l->conn) != CONNECTION_BAD && step != PGRES_POLLING_OK &&
           step != PGRES_POLLING_FAILED) {
        if (!wait_for(l, step == PGRES_POLLING_READING ? POLLIN : POLLOUT, until)) {
            return fail_set(why, FAIL_MACHINE, "%.*s: no answer within %d s", STR_ARG(l->name),
                            (int)(connect_ns / 1000000000));
        }
        step = l->pq.connectPoll(l->conn);
    }
    if (l->pq.status(l->conn) == CONNECTION_OK && step == PGRES_POLLING_OK) return 0;
    fail_line(l, "cannot connect", why);
    return hint_refused(l, why);
}

// What passes by itself, in the server's words (src/backend/utils/init/postinit.c and
// postmaster.c); in another language it is not waited for, and the run waits on the disk.
static bool is_busy(const struct fail *why) {
    static const char *const words[] = {"too many", "connection slots", "starting up",
                                        "recovery mode", "shutting down"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strstr(why->message, words[i])) return true;
    }
    return false;
}

static int connect_server(struct store_link *l, struct fail *why) {
    int rc = FAIL_MACHINE;
    for (int i = 0; i < BUSY_TRIES; i++) {
        struct fail now = {0};
        rc = connect_once(l, &now);
        if (rc == 0) break;
        store_link_close(l);
        *why = now;
        if (!is_busy(&now)) break;
        usleep(BUSY_PAUSE_US);
    }
    return rc;
}

// --- Asking --------------------------------------------------------------------------------------

static int say(struct store_link *l, const char *sql, const char *const *values, int count,
               int64_t until, struct fail *why) {
    int sent = count > 0 ? l->pq.sendQueryParams(l->conn, sql, count, NULL, values, NULL, NULL, 0)
                         : l->pq.sendQuery(l->conn, sql);
    int left = sent ? l->pq.flush(l->conn) : -1;
    while (left > 0) {
        if (!wait_for(l, POLLIN | POLLOUT, until) || !l->pq.consumeInput(l->conn)) break;
        left = l->pq.flush(l->conn);
    }
    return left == 0 ? 0 : fail_line(l, "the connection was lost", why);
}

// The next result, or NULL after the last.
static int hear(struct store_link *l, int64_t until, PGresult **ret, struct fail *why) {
    while (l->pq.isBusy(l->conn)) {
        if (!wait_for(l, POLLIN, until)) {
            return fail_set(why, FAIL_MACHINE, "%.*s: stopped answering", STR_ARG(l->name));
        }
        if (!l->pq.consumeInput(l->conn)) return fail_line(l, "the connection was lost", why);
    }
    *ret = l->pq.getResult(l->conn);
    return 0;
}

static bool is_good(const struct store_link *l, const PGresult *result) {
    ExecStatusType status = l->pq.resultStatus(result);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

static int refused(struct store_link *l, const PGresult *result, char state[6], struct fail *why) {
    const char *said = l->pq.resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *code = l->pq.resultErrorField(result, PG_DIAG_SQLSTATE);
    if (code) memcpy(state, code, STATE_LETTERS);
    // Without a code it is libpq that speaks: the line broke. 57P0x: the server ends, or ends this
    // line (https://www.postgresql.org/docs/15/errcodes-appendix.html).
    if (!code || str_starts(str_of(code), STR("57P")))
        return fail_line(l, "the connection was lost", why);
    return fail_set(why, FAIL_INPUT, "%.*s: %s", STR_ARG(l->name), said ? said : "refused");
}

// All results are taken, as libpq wants it; the last good one is the answer.
static int ask_once(struct store_link *l, const char *sql, const char *const *values, int count,
                    PGresult **ret_result, char state[6], struct fail *why) {
    int64_t until = os_now_ns() + (l->is_changing ? change_ns : answer_ns);
    PGresult *last = NULL, *next = NULL;
    int rc = say(l, sql, values, count, until, why);
    while (rc != FAIL_MACHINE) {
        int heard = hear(l, until, &next, why);
        if (heard < 0) rc = heard;
        if (heard < 0 || !next) break;
        if (rc == 0 && !is_good(l, next)) rc = refused(l, next, state, why);
        if (last) l->pq.clear(last);
        last = next;
    }
    if (rc < 0 && last) l->pq.clear(last);
    *ret_result = rc < 0 ? NULL : last;
    if (rc == FAIL_MACHINE) store_link_close(l);
    return rc;
}

static int greet(struct store_link *l, struct fail *why) {
    char state[STATE_LETTERS + 1] = "";
    PGresult *result;
    bool is_14 = l->pq.serverVersion(l->conn) >= VERSION_14;
    l->pq.setNoticeReceiver(l->conn, be_silent, NULL);
    l->pq.setnonblocking(l->conn, 1);
    int rc = ask_once(l, is_14 ? greeting_14 : greeting, NULL, 0, &result, state, why);
    if (rc == 0) l->pq.clear(result);
    return rc;
}

int store_link_up(struct store_link *l, struct fail *why) {
    if (l->conn) return 0;
    // A server that did not answer is not waited for at every run.
    if (l->tried_ns == 0 || os_now_ns() - l->tried_ns > again_ns) {
        int rc = connect_server(l, &l->down);
        if (rc == 0) rc = greet(l, &l->down);
        if (rc == 0) {
            l->tried_ns = 0;
            return 0;
        }
        l->tried_ns = os_now_ns();
        store_link_close(l);
    }
    if (why) *why = l->down;
    return FAIL_MACHINE;
}

int store_link_ask(struct store_link *l, const char *sql, const char *const *values, int count,
                   PGresult **ret_result, char ret_state[6], struct fail *why) {
    char state[STATE_LETTERS + 1] = "";
    struct fail ignored;
    if (!why) why = &ignored;
    bool was_up = l->conn;
    int rc = store_link_up(l, why);
    if (rc == 0) rc = ask_once(l, sql, values, count, ret_result, state, why);
    if (rc == FAIL_MACHINE && was_up && !l->is_changing && store_link_up(l, why) == 0)
        rc = ask_once(l, sql, values, count, ret_result, state, why);
    if (rc < 0) *ret_result = NULL;
    if (ret_state) memcpy(ret_state, state, sizeof state);
    return rc;
}
