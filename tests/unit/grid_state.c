// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/os.h"
#include "job/grid/grid.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 4 };
static const struct grid_part whole;

static struct grid_rows empty_rows(struct arena *a) {
    struct grid_rows rows = {arena_new(a, struct grid_row, ROWS), ROWS};
    for (int i = 0; i < ROWS; i++) {
        rows.items[i].index = i;
        rows.items[i].setting.batch = 1 << i;
    }
    return rows;
}

static struct grid_trial some_trial(struct arena *a, enum launch_status status) {
    struct grid_trial t = {
        .status = status,
        .reason = status == LAUNCH_OK ? (struct str){0} : STR("CUDA out of \"memory\".\xff"),
        .steps = status == LAUNCH_OK ? 3 : 0,
        .seen_batch = 8,
        .peak_bytes = 123456789012,
        .times.ms = {1, (double)NAN, 3, 4, 5, 6, 19},
        .device_share = (double)NAN,
        .differs = status == LAUNCH_OK,
        .outputs = {.is_said = status == LAUNCH_OK,
                    .max_abs = 1e-3,
                    .mean_abs = 1e-4,
                    .max_rel = 0.25,
                    .mean_rel = (double)NAN,
                    .top1 = 0.5,
                    .samples = 8,
                    .reference = STR("torch")},
        .engine_version = STR("1.31"),
        .sample_count = status == LAUNCH_OK ? 3 : 0,
    };
    t.seconds_per_sample = arena_new(a, double, 4);
    for (int i = 0; i < t.sample_count; i++) t.seconds_per_sample[i] = 0.1 + i / 3.0;
    return t;
}

// What an interrupted run leaves: rows 0 (ran) and 1 (out of memory).
static void leave_two(struct arena *a, const char *identity, struct grid_state *s) {
    struct grid_rows rows = empty_rows(a);
    struct grid_trial ran = some_trial(a, LAUNCH_OK), out = some_trial(a, LAUNCH_OOM);
    struct str note;
    grid_state_open(a, str_of(identity), whole, false, &rows, s, &note);
    assert_int_equal(note.len, 0);
    assert_int_equal(s->taken, 0);
    grid_state_add(s, a, 0, &ran);
    grid_state_add(s, a, 1, &out);
    grid_state_close(s, false);
}

static void trials_come_back_as_they_were(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_state s;
    struct str note;
    leave_two(&a, "one", &s);
    struct grid_rows rows = empty_rows(&a);
    grid_state_open(&a, STR("one"), whole, false, &rows, &s, &note);
    assert_int_equal(note.len, 0);
    assert_int_equal(s.taken, 2);
    assert_true(s.began.len > 0);
    const struct grid_trial was = some_trial(&a, LAUNCH_OK), *is = &rows.items[0].trials[0];
    assert_int_equal(is->status, LAUNCH_OK);
    assert_int_equal(is->peak_bytes, was.peak_bytes);
    assert_memory_equal(is->seconds_per_sample, was.seconds_per_sample, 3 * sizeof(double));
    assert_true(isnan(is->times.h2d_ms) && isnan(is->device_share));
    assert_true(is->times.total_ms == 19);
    assert_true(is->differs && is->outputs.is_said);
    assert_true(is->outputs.max_abs == 1e-3 && is->outputs.mean_abs == 1e-4);
    assert_true(is->outputs.max_rel == 0.25 && is->outputs.top1 == 0.5);
    assert_true(isnan(is->outputs.mean_rel));
    assert_int_equal(is->outputs.samples, 8);
    assert_str(is->outputs.reference, "torch");
    assert_str(is->engine_version, "1.31");
    assert_int_equal(rows.items[0].status, GRID_DIFFERS);
    assert_false(rows.items[1].trials[0].differs || rows.items[1].outputs.is_said);
    assert_int_equal(rows.items[1].status, LAUNCH_OOM);
    assert_str(rows.items[1].reason, "CUDA out of \"memory\".?");
    assert_int_equal(rows.items[2].trial_count, 0);
    grid_state_close(&s, true);
    assert_false(os_exists(s.path.p));
}

static void another_run_takes_nothing(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_state s, other;
    struct str note;
    leave_two(&a, "mine", &s);
    struct grid_rows rows = empty_rows(&a);
    grid_state_open(&a, STR("yours"), whole, false, &rows, &other, &note);
    assert_int_equal(other.taken, 0);
    grid_state_close(&other, true);
    grid_state_open(&a, STR("mine"), whole, true, &rows, &other, &note); // --fresh
    assert_int_equal(other.taken, 0);
    grid_state_close(&other, false);
    grid_state_open(&a, STR("mine"), whole, false, &rows, &other, &note);
    assert_int_equal(other.taken, 0);
    grid_state_close(&other, true);
}

// Each part measures its own settings into a file that stays; who puts them together has all of
// them in the grid's order, without a word of an interrupted run, and removes the files at its end.
static void parts_are_put_together(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_state s;
    struct str note, paths[2];
    for (int64_t i = 1; i <= 2; i++) {
        const struct grid_part part = {i, 2};
        struct grid_rows rows = empty_rows(&a);
        grid_state_open(&a, STR("split"), part, false, &rows, &s, &note);
        grid_keep_part(&rows, part);
        assert_int_equal(rows.count, 2);
        for (ptrdiff_t k = 0; k < rows.count; k++) {
            struct grid_trial trial = some_trial(&a, LAUNCH_OK);
            trial.peak_bytes = rows.items[k].setting.batch;
            assert_int_equal(rows.items[k].index % 2, i - 1);
            grid_state_add(&s, &a, rows.items[k].index, &trial);
        }
        grid_state_close(&s, true);
        paths[i - 1] = s.path;
    }
    struct grid_rows rows = empty_rows(&a);
    grid_state_open(&a, STR("split"), (struct grid_part){0, 2}, true, &rows, &s, &note);
    assert_int_equal(s.joined, ROWS);
    assert_int_equal(s.taken, 0);
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(rows.items[i].trial_count, 1);
        assert_int_equal(rows.items[i].trials[0].peak_bytes, 1 << i);
    }
    grid_state_close(&s, true);
    assert_false(os_exists(paths[0].p) || os_exists(paths[1].p) || os_exists(s.path.p));
}

// Batches of one combination stay together: after an out-of-memory the larger ones are not tried.
static void combinations_stay_together(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_rows rows = empty_rows(&a);
    for (int i = 0; i < ROWS; i++) rows.items[i].setting.combination = i / 2;
    grid_keep_part(&rows, (struct grid_part){2, 2});
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.items[0].index, 2);
    assert_int_equal(rows.items[1].index, 3);
}

static void words_of_parts(void **state) {
    (void)state;
    static const char *const wrong[] = {"",      "2",     "0/4", "5/4", "all",
                                        "all/0", "2/4/1", "x/4", "-1/4"};
    struct grid_part part;
    struct fail why = {0};
    assert_int_equal(grid_read_part("2/4", &part, &why), 0);
    assert_int_equal(part.index, 2);
    assert_int_equal(part.count, 4);
    assert_int_equal(grid_read_part("all/4", &part, &why), 0);
    assert_int_equal(part.index, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(grid_read_part(wrong[i], &part, &why), FAIL_USAGE);
}

// A name is a hash: a file of another run under it is not ours.
static void a_file_of_another_identity_is_not_read(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_state s;
    struct str note, text;
    leave_two(&a, "first", &s);
    assert_int_equal(os_read(&a, s.path.p, 1 << 20, &text, NULL, NULL), 0);
    char *changed = str_z(&a, text);
    memcpy(strstr(changed, "first"), "other", 5);
    assert_int_equal(os_replace(&a, s.path.p, str_of(changed), NULL, NULL), 0);
    struct grid_rows rows = empty_rows(&a);
    grid_state_open(&a, STR("first"), whole, false, &rows, &s, &note);
    assert_int_equal(s.taken, 0);
    grid_state_close(&s, true);
}

// Each line cut at each place: never a crash, never a trial that was not there.
static void broken_lines_are_measured_again(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_state s;
    struct str note, text;
    leave_two(&a, "broken", &s);
    assert_int_equal(os_read(&a, s.path.p, 1 << 20, &text, NULL, NULL), 0);
    for (ptrdiff_t length = 0; length < text.len; length++) {
        struct arena_mark mark = arena_mark(&a);
        assert_int_equal(os_replace(&a, s.path.p, str_slice(text, 0, length), NULL, NULL), 0);
        struct grid_rows rows = empty_rows(&a);
        grid_state_open(&a, STR("broken"), whole, false, &rows, &s, &note);
        assert_true(s.taken <= 2);
        assert_int_equal(rows.items[0].trial_count + rows.items[1].trial_count, s.taken);
        // What is added behind a line that was cut short can be read again.
        struct grid_trial more = some_trial(&a, LAUNCH_OK);
        ptrdiff_t before = s.taken;
        grid_state_add(&s, &a, 3, &more);
        grid_state_close(&s, false);
        rows = empty_rows(&a);
        grid_state_open(&a, STR("broken"), whole, false, &rows, &s, &note);
        assert_int_equal(s.taken, before + 1);
        grid_state_close(&s, false);
        arena_rewind(&a, mark);
    }
    static const char *const odd[] = {"[]\n",
                                      "{\"row\":-1}\n",
                                      "{\"row\":99,\"status\":\"OK\"}\n",
                                      "{\"row\":0,\"status\":\"FINE\",\"steps\":1}\n",
                                      ("{\"row\":0,\"status\":\"OK\",\"steps\":1,"
                                       "\"seconds_per_sample\":[0]}\n"),
                                      "\xff\xfe\n"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct str with = str_format(&a, "%.*s%s", STR_ARG(text), odd[i]);
        assert_int_equal(os_replace(&a, s.path.p, with, NULL, NULL), 0);
        struct grid_rows rows = empty_rows(&a);
        grid_state_open(&a, STR("broken"), whole, false, &rows, &s, &note);
        assert_int_equal(s.taken, 2);
        assert_int_equal(s.broken_lines, 1);
        assert_true(note.len > 0);
        grid_state_close(&s, false);
    }
    unlink(s.path.p);
}

static void two_at_once_do_not_share(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_state s, second;
    struct str note;
    struct grid_rows rows = empty_rows(&a);
    grid_state_open(&a, STR("twice"), whole, false, &rows, &s, &note);
    grid_state_open(&a, STR("twice"), whole, false, &rows, &second, &note);
    assert_int_equal(second.fd, -1);
    assert_true(note.len > 0);
    struct grid_trial t = some_trial(&a, LAUNCH_OK);
    grid_state_add(&second, &a, 0, &t); // no effect, no crash
    grid_state_close(&second, true);
    assert_true(os_exists(s.path.p));
    grid_state_close(&s, true);
}

static void failures_are_not_kept(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_state s;
    struct str note;
    struct grid_rows rows = empty_rows(&a);
    struct grid_trial t = some_trial(&a, LAUNCH_OK);
    grid_state_open(&a, STR("failed"), whole, false, &rows, &s, &note);
    t.status = LAUNCH_FAILED;
    grid_state_add(&s, &a, 0, &t);
    t.status = LAUNCH_INTERRUPTED;
    grid_state_add(&s, &a, 1, &t);
    grid_state_close(&s, false);
    grid_state_open(&a, STR("failed"), whole, false, &rows, &s, &note);
    assert_int_equal(s.taken, 0);
    grid_state_close(&s, true);
}

static void a_folder_that_cannot_be_written_is_no_error(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct grid_state s;
    struct str note;
    struct grid_rows rows = empty_rows(&a);
    char *before = strdup(getenv("XDG_CACHE_HOME"));
    setenv("XDG_CACHE_HOME", "/dev/null/nowhere", 1);
    grid_state_open(&a, STR("x"), whole, false, &rows, &s, &note);
    assert_int_equal(s.fd, -1);
    assert_true(note.len > 0);
    setenv("XDG_CACHE_HOME", before, 1);
    free(before);
}

int main(void) {
    char folder[] = "/tmp/batchfit-bench-XXXXXX";
    if (!mkdtemp(folder)) return 1;
    setenv("XDG_CACHE_HOME", folder, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trials_come_back_as_they_were),
        cmocka_unit_test(another_run_takes_nothing),
        cmocka_unit_test(parts_are_put_together),
        cmocka_unit_test(combinations_stay_together),
        cmocka_unit_test(words_of_parts),
        cmocka_unit_test(a_file_of_another_identity_is_not_read),
        cmocka_unit_test(broken_lines_are_measured_again),
        cmocka_unit_test(two_at_once_do_not_share),
        cmocka_unit_test(failures_are_not_kept),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_no_error),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? rc : 1;
}
