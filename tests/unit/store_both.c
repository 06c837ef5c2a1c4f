// SPDX-License-Identifier: Apache-2.0
// The history, whichever database it is in: what comes back, what a filter takes, versions, copies.
// Without an argument it is SQLite's, with an address (tests/store/with-postgres) PostgreSQL's.
#include "unit.h"

#include "base/os.h"
#include "records/store/link_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *address; // NULL: a folder for each test

struct place {
    struct arena arena;
    char folder[64];
    struct str place;
};

static struct store *open_place(struct place *p, struct str place) {
    struct store *s = NULL;
    struct fail why = {0};
    if (store_open(&p->arena, place, &s, &why) < 0) fail_msg("%s", why.message);
    return s;
}

static struct store *open_at(struct place *p) {
    return open_place(p, p->place);
}

static void run_sql(struct store *s, const char *sql) {
    struct fail why = {0};
    if (s->engine->execute(s, sql, "test", &why) < 0) fail_msg("%s", why.message);
}

static int setup(void **state) {
    struct place *p = calloc(1, sizeof *p);
    strcpy(p->folder, "/tmp/batchfit-store-XXXXXX");
    *state = p;
    if (!mkdtemp(p->folder)) return -1;
    setenv("BATCHFIT_STORE", p->folder, 1); // where runs wait for a server
    p->place = str_of(address ? address : p->folder);
    if (!address) return 0;
    struct store *s = open_at(p);
    run_sql(s, "DROP SCHEMA IF EXISTS batchfit CASCADE");
    store_close(s);
    return 0;
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
    assert_int_equal(store_note(s).len, 0); // it waits nowhere
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

// Every column gets a value of its own, so that no two can be exchanged; a precision and a switch
// have few.
static void fill(struct arena *a, struct store_run *run) {
    int n = 0;
    for (const struct store_column *c = store_columns; c->since; c++, n++) {
        const struct field *f = &c->field;
        if (f->type == FIELD_TEXT) field_set_text(run, f, str_format(a, "%s %d", f->name, n));
        if (field_outside(f) == FIELD_WHOLE) field_set_whole(run, f, 1000000000000 + n);
        if (f->type == FIELD_REAL) field_set_real(run, f, n + 0.125);
    }
    run->plan.precision = PLAN_BF16;
}

static void assert_same(const struct store_run *x, const struct store_run *y) {
    for (const struct store_column *c = store_columns; c->since; c++) {
        const struct field *f = &c->field;
        if (field_outside(f) == FIELD_TEXT) {
            assert_true(str_equal(field_text(x, f), field_text(y, f)));
        } else if (field_outside(f) == FIELD_WHOLE) {
            assert_int_equal(field_whole(x, f), field_whole(y, f));
        } else {
            double u = field_real(x, f), v = field_real(y, f);
            assert_true(u == v || (isnan(u) && isnan(v)));
        }
    }
}

static void every_column_comes_back(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_run run = store_run_unknown();
    fill(&p->arena, &run);
    assert_int_equal(add(s, &run), 1);
    store_close(s);
    s = open_at(p);
    struct store_run *back = find(s, p, (struct store_filter){0}, 1);
    assert_same(&run, back);
    assert_int_equal(back->id, 1);
    store_close(s);
}

static void unknown_stays_unknown(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_run run = store_run_unknown();
    run.uid = STR("u");
    add(s, &run);
    assert_same(&run, find(s, p, (struct store_filter){0}, 1));
    store_close(s);
}

static void zero_is_not_unknown(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_run run = run_of("trial", "m", 0);
    run.alloc_retries = 0;
    run.times.io_ms = 0;
    add(s, &run);
    struct store_run *back = find(s, p, (struct store_filter){0}, 1);
    assert_int_equal(back->alloc_retries, 0);
    assert_true(back->times.io_ms == 0);
    store_close(s);
}

static void filters_narrow(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_run runs[] = {run_of("trial", "timm:resnet50", 1),
                               run_of("trial", "timm:swin_t", 2),
                               run_of("bench", "timm:resnet50", 3), run_of("trial", "100%_x", 4)};
    runs[1].gpu = STR("NVIDIA GeForce RTX 3060");
    runs[1].is_standin = 1;
    runs[2].question = STR("q1");
    for (int i = 0; i < 4; i++) add(s, &runs[i]);
    struct store_run *all = find(s, p, (struct store_filter){0}, 4);
    assert_int_equal(all[0].plan.batch, 4); // the newest first
    assert_int_equal(all[3].plan.batch, 1);
    assert_int_equal(find(s, p, (struct store_filter){.limit = 2}, 2)[1].plan.batch, 3);
    find(s, p, (struct store_filter){.kind = STR("trial")}, 3);
    find(s, p, (struct store_filter){.model = STR("timm:resnet50")}, 2);
    find(s, p, (struct store_filter){.model_like = STR("ResNet")}, 2);
    find(s, p, (struct store_filter){.model_like = STR("%")}, 1);
    find(s, p, (struct store_filter){.model_like = STR("s"), .kind = STR("trial")}, 2);
    assert_int_equal(
        find(s, p, (struct store_filter){.model_like = STR("timm"), .limit = 2}, 2)[1].plan.batch,
        2);
    find(s, p, (struct store_filter){.model_like = STR("' OR 1=1 --")}, 0);
    find(s, p, (struct store_filter){.gpu_like = STR("rtx 3060")}, 1);
    find(s, p, (struct store_filter){.question = STR("q1")}, 1);
    find(s, p, (struct store_filter){.since_ms = 3000}, 2);
    find(s, p, (struct store_filter){.only_real = true}, 3);
    find(s, p, (struct store_filter){.kind = STR("trial"), .only_real = true, .since_ms = 2}, 2);
    assert_int_equal(find(s, p, (struct store_filter){.id = 3}, 1)->plan.batch, 3);
    store_close(s);
}

static void only_predicted_wants_both_and_no_retries(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    for (int i = 0; i < 5; i++) {
        struct store_run run = run_of("trial", "m", i + 1);
        run.reserved_bytes = i == 1 ? -1 : 100;
        run.predicted_reserved_bytes = i == 2 ? -1 : 100;
        run.alloc_retries = i == 3 ? 2 : -1;
        run.is_standin = i == 4;
        add(s, &run);
    }
    assert_int_equal(find(s, p, (struct store_filter){.only_predicted = true}, 1)->plan.batch, 1);
    store_close(s);
}

static void what_is_not_there_yet_is_empty(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_number all = {-1, true};
    find(s, p, (struct store_filter){0}, 0);
    assert_int_equal(store_count(s, &all, NULL), 0);
    assert_int_equal(all.runs, 0);
    assert_false(all.is_rough);
    store_close(s);
}

static void no_utf8_is_stored_all_the_same(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_run run = run_of("trial", "model \xff\xc3", 1);
    run.reason = STR("a NUL\0, \xed\x95\x9c\xea\xb5\xad\xec\x96\xb4 and 'quotes\\");
    add(s, &run);
    struct store_run *back = find(s, p, (struct store_filter){0}, 1);
    assert_true(str_starts(back->plan.model, STR("model ")));
    assert_true(str_find(back->reason, STR("\xed\x95\x9c\xea\xb5\xad\xec\x96\xb4 and 'quotes\\")) >
                0);
    store_close(s);
}

// --- Once, and no more ---------------------------------------------------------------------------

static void every_run_has_a_uid_of_its_own(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_run run = run_of("trial", "m", 1);
    add(s, &run);
    add(s, &run);
    struct store_run *back = find(s, p, (struct store_filter){0}, 2);
    assert_int_equal(back[0].uid.len, 32);
    assert_false(str_equal(back[0].uid, back[1].uid));
    store_close(s);
}

static void a_uid_is_stored_once(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_run run = run_of("trial", "m", 1);
    run.uid = STR("the same");
    add(s, &run);
    run.plan.batch = 2;
    add(s, &run);
    assert_int_equal(find(s, p, (struct store_filter){0}, 1)->plan.batch, 1);
    store_close(s);
}

// From a file to this database and back to another file, twice: more than fits in one transaction.
static void copied_twice_nothing_is_there_twice(void **state) {
    enum { RUNS = 2 * STORE_AT_ONCE + 7 };
    struct place *p = *state;
    struct store_copied n;
    struct str names[2] = {str_format(&p->arena, "%s/from", p->folder),
                           str_format(&p->arena, "%s/back", p->folder)};
    struct store *from = open_place(p, names[0]), *s = open_at(p), *back = open_place(p, names[1]);
    struct store_run *runs = arena_new(&p->arena, struct store_run, RUNS);
    const struct store_filter all = {0}, some = {.model_like = STR("odd")};
    for (int i = 0; i < RUNS; i++) {
        runs[i] = run_of("trial", i % 2 ? "odd" : "even", i + 1);
        runs[i].uid = store_new_uid(&p->arena);
    }
    assert_int_equal(from->engine->add(from, runs, RUNS, NULL, NULL, NULL), 0);
    assert_int_equal(store_copy(from, s, &some, &n, NULL), 0);
    assert_int_equal(n.copied, RUNS / 2);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(store_copy(from, s, &all, &n, NULL), 0);
        assert_int_equal(n.copied, round ? 0 : RUNS - RUNS / 2);
        assert_int_equal(n.present, round ? RUNS : RUNS / 2);
        assert_int_equal(store_copy(s, back, &all, &n, NULL), 0);
        assert_int_equal(n.copied, round ? 0 : RUNS);
    }
    struct store_run *there = find(back, p, all, RUNS);
    for (int i = 0; i < RUNS; i++) assert_same(&there[i], &runs[RUNS - 1 - i]);
    store_close(back);
    store_close(s);
    store_close(from);
}

// Two that are alike, of a time when runs had no uid.
static void old_runs_are_copied_once(void **state) {
    struct place *p = *state;
    struct store_copied n;
    const struct store_filter all = {0};
    struct store *from = open_place(p, str_format(&p->arena, "%s/from", p->folder));
    struct store *s = open_at(p);
    run_sql(from, "INSERT INTO runs(at_ms, kind, batch) VALUES(7, 'trial', 3), (7, 'trial', 3)");
    for (int round = 0; round < 2; round++) {
        assert_int_equal(store_copy(from, s, &all, &n, NULL), 0);
        assert_int_equal(n.copied, round ? 0 : 2);
    }
    find(s, p, all, 2);
    store_close(s);
    store_close(from);
}

// --- Versions ------------------------------------------------------------------------------------

static void set_version(struct store *s, int version) {
    char sql[96];
    snprintf(sql, sizeof sql, "%s%d%s", s->engine->set_version[0], version,
             s->engine->set_version[1]);
    run_sql(s, sql);
}

// Step by step from each older version: what is written comes back.
static void every_version_is_brought_up(void **state) {
    struct place *p = *state;
    struct store_run run = store_run_unknown();
    fill(&p->arena, &run);
    for (int from = 1; from <= store_version; from++) {
        struct store *s = open_at(p);
        struct fail why = {0};
        run_sql(s, address ? "DROP SCHEMA IF EXISTS batchfit CASCADE" : "DROP TABLE runs");
        if (!address) set_version(s, 0);
        if (address) s->link->is_changing = true;
        for (int v = from; v <= store_version; v++) {
            if (store_migrate(s, v, &why) < 0) fail_msg("%s", why.message);
        }
        store_close(s);
        s = open_at(p);
        add(s, &run);
        assert_same(&run, find(s, p, (struct store_filter){0}, 1));
        store_close(s);
    }
}

static void an_older_one_is_brought_up_when_it_is_opened(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct fail why = {0};
    run_sql(s, address ? "DROP SCHEMA IF EXISTS batchfit CASCADE" : "DROP TABLE runs");
    if (!address) set_version(s, 0);
    if (store_migrate(s, 1, &why) < 0) fail_msg("%s", why.message);
    run_sql(s, "INSERT INTO runs(at_ms, kind, batch) VALUES(7, 'trial', 3)");
    store_close(s);
    s = open_at(p);
    struct store_run *back = find(s, p, (struct store_filter){0}, 1);
    assert_int_equal(back->plan.batch, 3);
    assert_int_equal(back->uid.len, 0);
    store_close(s);
}

// Of a newer version it is left alone; what a server would have got waits.
static void a_newer_version_is_refused(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_run run = run_of("trial", "m", 1), *runs;
    struct store_filter all = {0};
    struct fail why = {0};
    ptrdiff_t count;
    add(s, &run);
    set_version(s, 99);
    store_close(s);
    int rc = store_open(&p->arena, p->place, &s, &why);
    if (address) {
        assert_int_equal(rc, 0);
        rc = store_find(s, &p->arena, &all, &runs, &count, &why);
        assert_int_equal(store_add(s, &run, NULL, NULL), 0);
        assert_true(str_find(store_note(s), STR("1 run waits in ")) == 0);
        assert_true(str_find(store_note(s), STR("version 99")) > 0);
        store_close(s);
    }
    assert_int_equal(rc, FAIL_INPUT);
    assert_non_null(strstr(why.message, "version 99"));
    assert_non_null(strstr(why.hint, "--store"));
    if (!address) return;
    s = open_at(p);
    set_version(s, store_version);
    store_close(s);
    s = open_at(p); // it is sent
    find(s, p, all, 2);
    store_close(s);
}

static void add_timed(struct store *s, const char *kind, const char *model, const char *card,
                      int64_t at_ms, double seconds, int64_t peak) {
    struct store_run run = run_of(kind, model, 8);
    run.device = STR("cuda");
    run.gpu = STR("NVIDIA L4");
    run.gpu_hash = str_of(card);
    run.at_ms = at_ms;
    run.seconds = seconds;
    run.peak_bytes = peak;
    run.capacity_bytes = 1000;
    add(s, &run);
}

// What was before the window is cut off, what is not real or not on a GPU left out.
static void groups_are_counted(void **state) {
    struct place *p = *state;
    struct store *s = open_at(p);
    struct store_run *rows, fake = run_of("run", "fake", 8);
    struct fail why = {0};
    ptrdiff_t count;
    add_timed(s, "run", "small", "aaaa", 2000000, 500, 400);
    add_timed(s, "run", "small", "aaaa", 2500000, 100, 500);
    add_timed(s, "trial", "small", "bbbb", 2600000, 50, 300);
    add_timed(s, "run", "large", "bbbb", 1100000, 400, 900); // the last 100 s of it count
    add_timed(s, "run", "old", "cccc", 500000, 60, 900);
    add_timed(s, "fit", "small", "aaaa", 2500000, 1000, 1);
    fake.is_standin = 1, fake.device = STR("cuda"), fake.at_ms = 2000000;
    add(s, &fake);
    fake.is_standin = 0, fake.device = STR("cpu");
    add(s, &fake);
    const struct {
        enum store_group by;
        int64_t since_ms;
        const char *names[3]; // the most time first
        int64_t runs[3];
        double seconds[3];
    } cases[] = {
        {STORE_BY_MODEL, 1000000, {"small", "large"}, {3, 1}, {650, 100}},
        {STORE_BY_CARD, 0, {"aaaa", "bbbb", "cccc"}, {2, 2, 1}, {600, 150, 0}},
        {STORE_BY_SPARE, 1000000, {"small"}, {2}, {600}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (store_grouped(s, &p->arena, cases[i].by, cases[i].since_ms, 1000000, 10, &rows, &count,
                          &why) < 0)
            fail_msg("%s", why.message);
        ptrdiff_t expected = 0;
        while (expected < 3 && cases[i].names[expected]) expected++;
        assert_int_equal(count, expected);
        for (ptrdiff_t k = 0; k < count; k++) {
            bool is_card = cases[i].by == STORE_BY_CARD;
            assert_true(str_is(is_card ? rows[k].gpu_hash : rows[k].plan.model, cases[i].names[k]));
            assert_true(str_is(rows[k].gpu, "NVIDIA L4"));
            assert_int_equal(rows[k].id, cases[i].runs[k]);
            assert_true(fabs(rows[k].seconds - cases[i].seconds[k]) < 1e-6);
            assert_int_equal(rows[k].capacity_bytes, 1000);
        }
    }
    assert_int_equal(rows[0].peak_bytes, 500);
    store_close(s);
}

int main(int argc, char **argv) {
    address = argc > 1 ? argv[1] : NULL;
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(every_column_comes_back),
        CASE(unknown_stays_unknown),
        CASE(zero_is_not_unknown),
        CASE(filters_narrow),
        CASE(only_predicted_wants_both_and_no_retries),
        CASE(what_is_not_there_yet_is_empty),
        CASE(no_utf8_is_stored_all_the_same),
        CASE(every_run_has_a_uid_of_its_own),
        CASE(a_uid_is_stored_once),
        CASE(copied_twice_nothing_is_there_twice),
        CASE(old_runs_are_copied_once),
        CASE(every_version_is_brought_up),
        CASE(an_older_one_is_brought_up_when_it_is_opened),
        CASE(a_newer_version_is_refused),
        CASE(groups_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
