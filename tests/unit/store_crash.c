// SPDX-License-Identifier: Apache-2.0
// Many writers at once, and writers that are killed: what store_add has reported as stored is
// there. With an address (tests/store/with-postgres) it is PostgreSQL that they write to.
#include "unit.h"

#include "base/os.h"
#include "records/store/store_int.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 6, EACH = 25, KILLS = 40 };

static char folder[64];
static const char *address, *place;
static struct arena arena;

static int setup(void **state) {
    (void)state;
    strcpy(folder, "/tmp/batchfit-store-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    setenv("BATCHFIT_STORE", folder, 1); // where runs wait for a server
    place = address ? address : folder;
    if (!address) return 0;
    struct store *s;
    if (store_open(&arena, str_of(place), &s, NULL) < 0) return -1;
    int rc = s->engine->execute(s, "DROP SCHEMA IF EXISTS batchfit CASCADE", "test", NULL);
    store_close(s);
    return rc;
}

static int teardown(void **state) {
    (void)state;
    char *argv[] = {(char *)"rm", (char *)"-rf", folder, NULL};
    int status;
    arena_clear(&arena);
    return os_run(argv, &status, NULL);
}

static int add(struct store *s, int64_t writer, int64_t number) {
    struct store_run run = store_run_unknown();
    run.kind = STR("trial");
    run.at_ms = number;
    run.workers = writer;
    run.plan.batch = number;
    return store_add(s, &run, NULL, NULL);
}

// Whether each pair (writer, number) below the count is there exactly once, and nothing doubled.
static void assert_stored(int writer, int64_t count, int64_t at_most) {
    struct store *s;
    struct store_run *runs;
    struct fail why = {0};
    ptrdiff_t found;
    struct store_filter filter = {0};
    if (store_open(&arena, str_of(place), &s, &why) < 0) fail_msg("%s", why.message);
    assert_int_equal(store_note(s).len, 0); // not damaged
    if (store_find(s, &arena, &filter, &runs, &found, &why) < 0) fail_msg("%s", why.message);
    int64_t seen = 0, most = 0;
    for (ptrdiff_t i = 0; i < found; i++) {
        if (runs[i].workers != writer) continue;
        seen++;
        if (runs[i].plan.batch > most) most = runs[i].plan.batch;
    }
    assert_int_equal(seen, most); // 1, 2, …, most
    assert_in_range(seen, count, at_most);
    store_close(s);
}

static void writer_child(int writer) {
    struct store *s;
    if (store_open(&arena, str_of(place), &s, NULL) < 0) _exit(1);
    for (int i = 1; i <= EACH; i++) {
        if (add(s, writer, i) < 0) _exit(2);
    }
    store_close(s);
    _exit(0);
}

// They also make the database: all open it when it is not there yet.
static void writers_at_once(void **state) {
    (void)state;
    pid_t children[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        children[i] = fork();
        if (children[i] == 0) writer_child(i);
    }
    for (int i = 0; i < WRITERS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    for (int i = 0; i < WRITERS; i++) assert_stored(i, EACH, EACH);
}

// Writes the number of each run to the pipe after it was reported as stored.
static void victim(int writer, int report) {
    struct store *s;
    if (store_open(&arena, str_of(place), &s, NULL) < 0) _exit(1);
    for (int64_t i = 1;; i++) {
        if (add(s, writer, i) < 0) _exit(2);
        if (write(report, &i, sizeof i) != sizeof i) _exit(3);
    }
}

static void kill_9_loses_nothing_reported(void **state) {
    (void)state;
    int64_t all = 0;
    // On a busy machine some die before they come to store anything: then more of them, and later.
    for (int round = 0; round < KILLS || (all <= KILLS && round < 10 * KILLS); round++) {
        int ends[2], status;
        int64_t number, last = 0;
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid_t child = fork();
        if (child == 0) victim(round, ends[1]);
        close(ends[1]);
        // At another moment each time: while the file is made and while runs are added.
        usleep((useconds_t)(500 + 1700 * round % 30000 + round / KILLS * 30000));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        while (read(ends[0], &number, sizeof number) == sizeof number) last = number;
        close(ends[0]);
        assert_stored(round, last, last + 1);
        all += last;
    }
    assert_true(all > KILLS); // else nothing was tried
}

int main(int argc, char **argv) {
    address = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writers_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(kill_9_loses_nothing_reported, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
