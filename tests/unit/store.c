// SPDX-License-Identifier: Apache-2.0
// The history on a real disk: where it is, older and newer schemas, damage, and folders and disks
// that take nothing. What it has in common with PostgreSQL's: store_both.c.
#include "unit.h"

#include "base/os.h"
#include "records/store/store_int.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct place {
    struct arena arena;
    char folder[64];
};

static int setup(void **state) {
    struct place *p = calloc(1, sizeof *p);
    strcpy(p->folder, "/tmp/batchfit-store-XXXXXX");
    *state = p;
    return mkdtemp(p->folder) ? 0 : -1;
}

static int teardown(void **state) {
    struct place *p = *state;
    char *argv[] = {(char *)"rm", (char *)"-rf", p->folder, NULL};
    int status;
    int rc = os_run(argv, &status, NULL);
    arena_clear(&p->arena);
    free(p);
    return rc;
}

static struct store *open_at(struct place *p) {
    struct store *s = NULL;
    struct fail why = {0};
    if (store_open(&p->arena, str_of(p->folder), &s, &why) < 0) fail_msg("%s", why.message);
    return s;
}

static char *path_of(struct place *p, const char *name) {
    return str_z(&p->arena, str_format(&p->arena, "%s/%s", p->folder, name));
}

static struct store_run run_of(const char *kind, const char *model, int64_t batch) {
    struct store_run run = store_run_unknown();
    run.kind = str_of(kind);
    run.plan.model = str_of(model);
    run.plan.batch = batch;
    run.at_ms = 1000 * batch;
    run.is_standin = 0;
    return run;
}

static int64_t add(struct store *s, const struct store_run *run) {
    struct fail why = {0};
    int64_t id = 0;
    if (store_add(s, run, &id, &why) < 0) fail_msg("%s", why.message);
    return id;
}

static struct store_run *find(struct store *s, struct place *p, struct store_filter filter,
                              ptrdiff_t expected) {
    struct store_run *runs;
    struct fail why = {0};
    ptrdiff_t count;
    if (store_find(s, &p->arena, &filter, &runs, &count, &why) < 0) fail_msg("%s", why.message);
    assert_int_equal(count, expected);
    return runs;
}

static void only_the_user_may_read_it(void **state) {
    struct place *p = *state;
    static const char *const names[] = {"history.db", "history.db-journal"};
    struct store *s = open_at(p);
    struct store_run run = run_of("trial", "m", 1);
    add(s, &run);
    for (int i = 0; i < 2; i++) {
        struct stat st;
        assert_int_equal(stat(path_of(p, names[i]), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    store_close(s);
}

static void the_option_wins_over_the_variables(void **state) {
    struct place *p = *state;
    setenv("HOME", "/h", 1);
    unsetenv("XDG_STATE_HOME");
    unsetenv("BATCHFIT_STORE");
    assert_str(store_place(&p->arena, NULL), "/h/.local/state/batchfit");
    setenv("XDG_STATE_HOME", "relative", 1); // to be ignored, says the specification
    assert_str(store_folder(&p->arena, NULL), "/h/.local/state/batchfit");
    setenv("XDG_STATE_HOME", "/x", 1);
    assert_str(store_folder(&p->arena, NULL), "/x/batchfit");
    setenv("BATCHFIT_STORE", "/s", 1);
    assert_str(store_place(&p->arena, ""), "/s");
    assert_str(store_place(&p->arena, "/o"), "/o");
    // What lies beside the history lies on this machine's disk.
    assert_str(store_place(&p->arena, "postgresql://h/d"), "postgresql://h/d");
    assert_str(store_folder(&p->arena, "postgresql://h/d"), "/s");
    setenv("BATCHFIT_STORE", "postgresql://h/d", 1);
    assert_str(store_place(&p->arena, NULL), "postgresql://h/d");
    assert_str(store_folder(&p->arena, NULL), "/x/batchfit");
    unsetenv("BATCHFIT_STORE");
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_int_equal(store_folder(&p->arena, NULL).len, 0);
    struct store *s;
    struct fail why = {0};
    assert_int_equal(store_open(&p->arena, (struct str){0}, &s, &why), FAIL_MACHINE);
    assert_non_null(strstr(why.message, "HOME"));
}

// --- Versions ------------------------------------------------------------------------------------

static void run_sql(struct place *p, const char *sql) {
    sqlite3 *db;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path_of(p, "history.db"), &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) fail_msg("%s", message);
    sqlite3_close(db);
}

// The schema of version 1 as it was; never to be changed with the program's.
static const char version_1[] =
    "CREATE TABLE runs(id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER, kind TEXT, version "
    "TEXT,"
    " is_standin INTEGER, model TEXT, library TEXT, image_size INTEGER, sequence_length INTEGER,"
    " target_length INTEGER, batch INTEGER, accumulation INTEGER, ranks INTEGER, workers INTEGER,"
    " precision TEXT, optimizer TEXT, layout TEXT, checkpointing INTEGER, ema INTEGER,"
    " inference INTEGER, device TEXT, gpu TEXT, gpu_hash TEXT, capacity_bytes INTEGER,"
    " limit_bytes INTEGER, driver TEXT, cuda TEXT, torch TEXT, command_hash TEXT, setting TEXT,"
    " status TEXT, steps INTEGER, seen_batch INTEGER, allocated_bytes INTEGER,"
    " reserved_bytes INTEGER, peak_bytes INTEGER, charged_bytes INTEGER, alloc_retries INTEGER,"
    " samples_per_s REAL, samples_per_s_low REAL, samples_per_s_high REAL, io_ms REAL, h2d_ms REAL,"
    " forward_ms REAL, backward_ms REAL, optimizer_ms REAL, other_ms REAL, total_ms REAL,"
    " device_share REAL, energy_joules REAL, seconds REAL, predicted_bytes INTEGER,"
    " predicted_reserved_bytes INTEGER, predicted_upper_bytes INTEGER);"
    "CREATE INDEX runs_at ON runs(at_ms); CREATE INDEX runs_model ON runs(model, at_ms);"
    "CREATE INDEX runs_gpu ON runs(gpu, at_ms); CREATE INDEX runs_kind ON runs(kind, at_ms);"
    "INSERT INTO runs(at_ms, kind, model, batch, peak_bytes) VALUES(7000, 'trial', 'old', 7, 70);"
    "PRAGMA user_version = 1;";

static void version_1_is_brought_up(void **state) {
    struct place *p = *state;
    run_sql(p, version_1);
    struct store *s = open_at(p);
    struct store_run run = run_of("trial", "new", 8);
    run.question = STR("q");
    assert_int_equal(add(s, &run), 2);
    struct store_run *back = find(s, p, (struct store_filter){0}, 2);
    assert_str(back[0].question, "q");
    assert_str(back[1].plan.model, "old");
    assert_int_equal(back[1].plan.batch, 7);
    assert_int_equal(back[1].peak_bytes, 70);
    assert_int_equal(back[1].covered, -1);
    int version;
    assert_int_equal(s->engine->version(s, &version, NULL), 0);
    assert_int_equal(version, store_version);
    store_close(s);
}

static struct str schema(struct place *p, sqlite3 *db) {
    struct buf text = buf_new(&p->arena);
    sqlite3_stmt *read;
    const char *sql = "SELECT 'column', name, type FROM pragma_table_info('runs') "
                      "UNION ALL SELECT 'index', name, sql FROM sqlite_master WHERE type = 'index' "
                      "ORDER BY 1, 2";
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &read, NULL), SQLITE_OK);
    while (sqlite3_step(read) == SQLITE_ROW) {
        buf_format(&text, "%s %s\n", (const char *)sqlite3_column_text(read, 1),
                   (const char *)sqlite3_column_text(read, 2));
    }
    sqlite3_finalize(read);
    return buf_str(&text);
}

// One by one from each older version, and from nothing, to the same schema.
static void every_version_leads_to_the_same_schema(void **state) {
    struct place *p = *state;
    struct str last = {0};
    for (int from = 0; from <= store_version; from++) {
        sqlite3 *db;
        assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
        for (int v = from; v <= store_version; v++) {
            struct fail why = {0};
            struct store s = {.engine = &store_sqlite, .path = STR("memory"), .db = db};
            if (v > 0 && store_migrate(&s, v, &why) < 0) fail_msg("%s", why.message);
        }
        struct str now = schema(p, db);
        if (from > 0) assert_true(str_equal(last, now));
        last = now;
        sqlite3_close(db);
    }
    assert_true(str_find(last, STR("each_s")) >= 0);
}

static void a_newer_version_is_refused(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_run run = run_of("trial", "m", 1);
    struct fail why = {0};
    add(s, &run);
    store_close(s);
    run_sql(p, "PRAGMA user_version = 99");
    assert_int_equal(store_open(&p->arena, str_of(p->folder), &s, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "version 99"));
    assert_non_null(strstr(why.hint, "--store"));
    run_sql(p, "PRAGMA user_version = 3"); // nothing was touched
    s = open_at(p);
    find(s, p, (struct store_filter){0}, 1);
    store_close(s);
}

// --- Damage --------------------------------------------------------------------------------------

static void overwrite(struct place *p, off_t at, int bytes) {
    OS_FD fd = open(path_of(p, "history.db"), O_WRONLY);
    assert_true(fd >= 0);
    for (int i = 0; i < bytes; i++) {
        char c = (char)(i * 37 + 11);
        assert_int_equal(pwrite(fd, &c, 1, at + i), 1);
    }
}

static ptrdiff_t files_like(struct place *p, const char *part) {
    struct str *names;
    ptrdiff_t count, n = 0;
    assert_int_equal(os_list(&p->arena, p->folder, "", &names, &count, NULL), 0);
    for (ptrdiff_t i = 0; i < count; i++) n += str_find(names[i], str_of(part)) >= 0;
    return n;
}

static void fill_pages(struct place *p) {
    struct store *s = open_at(p);
    for (int i = 1; i <= 200; i++) {
        struct store_run run = run_of("trial", "some model's name", i);
        add(s, &run);
    }
    store_close(s);
}

static void a_damaged_head_is_moved_aside(void **state) {
    struct place *p = *state;
    fill_pages(p);
    overwrite(p, 0, 200);
    struct store *s = open_at(p);
    assert_true(str_find(store_note(s), STR("history.db.damaged-")) >= 0);
    struct store_run run = run_of("trial", "m", 1);
    add(s, &run);
    find(s, p, (struct store_filter){0}, 1);
    store_close(s);
    assert_int_equal(files_like(p, ".damaged-"), 1);
    s = open_at(p); // and is not told again
    assert_int_equal(store_note(s).len, 0);
    store_close(s);
}

// Damage that opening does not see, in the pages of the table: met when reading or writing.
static void damaged_pages_are_met_later(void **state) {
    struct place *p = *state;
    fill_pages(p);
    struct stat st;
    assert_int_equal(stat(path_of(p, "history.db"), &st), 0);
    overwrite(p, 4096, (int)st.st_size - 4096);
    struct store *s = open_at(p);
    struct store_run run = run_of("trial", "m", 1);
    add(s, &run);
    find(s, p, (struct store_filter){0}, 1);
    assert_true(store_note(s).len > 0);
    store_close(s);
    assert_int_equal(files_like(p, ".damaged-"), 1);
}

static void a_text_file_is_moved_aside(void **state) {
    struct place *p = *state;
    OS_FD fd = open(path_of(p, "history.db"), O_WRONLY | O_CREAT, 0600);
    for (int i = 0; i < 500; i++) assert_int_equal(write(fd, "not a database\n", 15), 15);
    struct store *s = open_at(p);
    assert_true(store_note(s).len > 0);
    store_close(s);
}

static void an_empty_file_is_a_new_history(void **state) {
    struct place *p = *state;
    OS_FD fd = open(path_of(p, "history.db"), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    struct store *s = open_at(p);
    assert_int_equal(store_note(s).len, 0);
    store_close(s);
    assert_int_equal(files_like(p, ".damaged-"), 0);
}

// --- What takes nothing --------------------------------------------------------------------------

// In a child that is not root: root may write everywhere. Its exit status is the answer.
static int as_nobody(int (*act)(struct place *p), struct place *p) {
    pid_t child = fork();
    if (child == 0) {
        if (getuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(90);
        _exit(act(p));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int read_only_child(struct place *p) {
    struct store *s;
    struct fail why = {0};
    struct store_run run = run_of("trial", "m", 2), *runs;
    ptrdiff_t count;
    if (store_open(&p->arena, str_of(p->folder), &s, &why) < 0) return 1;
    struct store_filter filter = {0};
    if (store_find(s, &p->arena, &filter, &runs, &count, &why) < 0 || count != 1) return 2;
    if (store_add(s, &run, NULL, &why) != FAIL_MACHINE) return 3;
    if (!strstr(why.message, "history.db")) return 4;
    store_close(s);
    return 0;
}

static void a_read_only_folder_is_still_read(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_run run = run_of("trial", "m", 1);
    add(s, &run);
    store_close(s);
    assert_int_equal(chmod(path_of(p, "history.db"), 0444), 0);
    assert_int_equal(chmod(p->folder, 0555), 0);
    assert_int_equal(as_nobody(read_only_child, p), 0);
    assert_int_equal(chmod(p->folder, 0755), 0);
    assert_int_equal(chmod(path_of(p, "history.db"), 0600), 0);
    s = open_at(p);
    find(s, p, (struct store_filter){0}, 1);
    store_close(s);
}

static int no_folder_child(struct place *p) {
    struct store *s;
    struct fail why = {0};
    int rc = store_open(&p->arena, str_format(&p->arena, "%s/deeper/one", p->folder), &s, &why);
    return rc == FAIL_MACHINE && why.message[0] ? 0 : 1;
}

static void a_folder_that_cannot_be_made_is_told(void **state) {
    struct place *p = *state;
    assert_int_equal(chmod(p->folder, 0555), 0);
    assert_int_equal(as_nobody(no_folder_child, p), 0);
    assert_int_equal(chmod(p->folder, 0755), 0);
}

// The file may not grow, as on a full disk. What was stored before is there afterwards.
static int full_child(struct place *p) {
    struct store *s;
    struct fail why = {0};
    int stored = 0;
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {200000, 200000};
    if (store_open(&p->arena, str_of(p->folder), &s, &why) < 0) return 101;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 102;
    while (stored < 100) {
        struct store_run run = run_of("trial", "m", stored + 1);
        run.each_s =
            str_of(str_z(&p->arena, (struct str){(char[20000]){[0 ... 19999] = '7'}, 20000}));
        int rc = store_add(s, &run, NULL, &why);
        if (rc < 0) return rc == FAIL_MACHINE && why.message[0] ? stored : 103;
        stored++;
    }
    return 104;
}

static void a_full_disk_loses_nothing_stored(void **state) {
    struct place *p = *state;
    pid_t child = fork();
    if (child == 0) _exit(full_child(p));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    int stored = WEXITSTATUS(status);
    assert_in_range(stored, 1, 99);
    struct store *s = open_at(p);
    find(s, p, (struct store_filter){0}, stored);
    struct store_run run = run_of("trial", "m", 1000);
    add(s, &run);
    store_close(s);
}

// As the connection was told last: SQLite's 1 is NORMAL, 2 is FULL.
static int synchronous(struct store *s) {
    sqlite3_stmt *read;
    assert_int_equal(sqlite3_prepare_v2(s->db, "PRAGMA synchronous", -1, &read, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(read), SQLITE_ROW);
    int found = sqlite3_column_int(read, 0);
    sqlite3_finalize(read);
    return found;
}

static void what_was_measured_waits_for_the_disk(void **state) {
    struct place *p = *state;
    struct store_run predicted = run_of("fit", "m", 1), chosen = run_of("fit", "m", 2);
    struct store_run trial = run_of("trial", "m", 3);
    predicted.predicted_reserved_bytes = chosen.predicted_reserved_bytes = 1 << 30;
    chosen.reserved_bytes = 1 << 30;
    const struct {
        const struct store_run *run;
        int synchronous;
    } rows[] = {{&predicted, 1}, {&trial, 2}, {&predicted, 1}, {&chosen, 2}};
    for (int i = 0; i < 2; i++) { // a new file, and one that is there
        struct store *s = open_at(p);
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            add(s, rows[r].run);
            assert_int_equal(synchronous(s), rows[r].synchronous);
        }
        store_close(s);
    }
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(only_the_user_may_read_it),
        CASE(the_option_wins_over_the_variables),
        CASE(version_1_is_brought_up),
        CASE(every_version_leads_to_the_same_schema),
        CASE(a_newer_version_is_refused),
        CASE(a_damaged_head_is_moved_aside),
        CASE(damaged_pages_are_met_later),
        CASE(a_text_file_is_moved_aside),
        CASE(an_empty_file_is_a_new_history),
        CASE(a_read_only_folder_is_still_read),
        CASE(a_folder_that_cannot_be_made_is_told),
        CASE(a_full_disk_loses_nothing_stored),
        CASE(what_was_measured_waits_for_the_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
