// SPDX-License-Identifier: Apache-2.0
// Runs that wait for their server: a history of SQLite's beside this machine's own, one for each
// server. A run keeps its uid, and the server takes a uid once: whoever is killed between sending
// and forgetting sends again, and nothing is there twice.
#include "records/store/store_int.h"

#include "base/os.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

static struct str path_of(const struct store_spool *spool, const char *suffix) {
    return str_format(spool->arena, "%.*s/%.*s%s", STR_ARG(spool->folder), STR_ARG(spool->name),
                      suffix);
}

static int open_spool(struct store_spool *spool, struct fail *why) {
    if (spool->store) return 0;
    if (spool->folder.len == 0)
        return fail_set(why, FAIL_MACHINE, "no folder in which runs could wait: HOME is not set");
    int rc = store_open_file(spool->arena, spool->folder, str_z(spool->arena, spool->name),
                             &spool->store, why);
    if (rc < 0 || spool->store->unwritable.len == 0) return rc;
    fail_set(why, FAIL_MACHINE, "%s", spool->store->unwritable.p);
    store_close(spool->store);
    spool->store = NULL;
    return FAIL_MACHINE;
}

int store_spool_add(struct store_spool *spool, const struct store_run *run, struct fail *why) {
    int rc = open_spool(spool, why);
    return rc < 0 ? rc : store_add(spool->store, run, NULL, why);
}

int store_spool_count(struct store_spool *spool, int64_t *ret_count) {
    *ret_count = 0;
    if (spool->folder.len == 0 || !os_exists(path_of(spool, "").p)) return 0;
    struct store_number number = {0};
    int rc = open_spool(spool, NULL);
    if (rc == 0) rc = store_count(spool->store, &number, NULL);
    *ret_count = number.runs;
    return rc;
}

// The numbers of what is forgotten lie between the first and the last: later runs have higher ones.
static int forget(struct store_spool *spool, const struct store_run *runs, ptrdiff_t count,
                  struct fail *why) {
    char sql[96];
    snprintf(sql, sizeof sql, "DELETE FROM runs WHERE id BETWEEN %lld AND %lld",
             (long long)runs[0].id, (long long)runs[count - 1].id);
    return spool->store->engine->execute(spool->store, sql, "forgetting what was sent", why);
}

// One by one: those that the server refuses do not hold up the others.
static int send_single(struct store_spool *spool, struct store *to, const struct store_run *runs,
                       ptrdiff_t count, struct fail *why) {
    for (ptrdiff_t i = 0; i < count; i++) {
        int rc = to->engine->add(to, &runs[i], 1, NULL, NULL, why);
        if (rc == 0) rc = forget(spool, &runs[i], 1, why);
        if (rc == FAIL_MACHINE) return rc;
    }
    return 0;
}

static int send_all(struct store_spool *spool, struct store *to, struct fail *why) {
    ARENA_AUTO a = {0};
    struct store_filter part = {.above_id = -1, .limit = STORE_AT_ONCE};
    for (;;) {
        struct arena_mark mark = arena_mark(&a);
        struct store_run *runs;
        ptrdiff_t count;
        int rc = store_find(spool->store, &a, &part, &runs, &count, why);
        if (rc < 0 || count == 0) return rc;
        part.above_id = runs[count - 1].id;
        rc = to->engine->add(to, runs, count, NULL, NULL, why);
        if (rc == 0) rc = forget(spool, runs, count, why);
        if (rc == FAIL_INPUT) rc = send_single(spool, to, runs, count, why);
        if (rc < 0) return rc;
        arena_rewind(&a, mark);
    }
}

int store_spool_send(struct store_spool *spool, struct store *to, struct fail *why) {
    int64_t waiting = 0;
    int rc = store_spool_count(spool, &waiting);
    if (rc < 0 || waiting == 0) return rc;
    OS_FD lock = open(path_of(spool, ".lock").p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) != 0) return 0;
    return send_all(spool, to, why);
}
