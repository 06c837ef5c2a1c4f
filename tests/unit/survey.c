// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/os.h"
#include "base/unit.h"
#include "records/survey/survey.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct survey_record measured(int64_t batch, int64_t accumulation, const char *status) {
    struct survey_record r = survey_record_unknown();
    r.date = STR("2026-11-20T10:00:00Z");
    r.card = STR("NVIDIA GeForce RTX 3090");
    r.key = STR("rtx_3090");
    r.plan.model = STR("resnet50");
    r.plan.precision = r.adapted = PLAN_AMP_FP16;
    r.torch = STR("2.6.0");
    r.status = str_of(status);
    r.capacity_bytes = 24 * UNIT_GIB;
    r.charged_bytes = batch * UNIT_GIB / 4;
    r.plan.batch = batch;
    r.plan.accumulation = accumulation;
    r.plan.ranks = 1;
    return r;
}

static const struct survey_question asked = {
    .plan = {.model = STR("resnet50"), .precision = PLAN_AMP_FP16},
    .effective = 48,
    .margin = (double)NAN};

static ptrdiff_t lines(struct str text) {
    ptrdiff_t n = 0;
    while (text.len > 0) n += str_line(&text).len > 0;
    return n;
}

// How many lines of `after` are not in `before`.
static ptrdiff_t new_lines(struct str before, struct str after) {
    ptrdiff_t n = 0;
    while (after.len > 0) n += str_find(before, str_line(&after)) < 0;
    return n;
}

static void what_is_written_is_read(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct survey_file file = {.machine = STR("0123456789abcdef"), .name = STR("연구실 1")}, again;
    struct fail why = {0};
    struct survey_record r = measured(48, 1, "OK");
    r.samples_per_s = 412.345678;
    survey_add(&a, &file, &r);
    struct str text = survey_write(&a, &file);
    if (survey_read(&a, STR("f"), text, &again, NULL, &why)) fail_msg("%s", why.message);
    assert_str(again.machine, "0123456789abcdef");
    assert_str(again.name, "연구실 1");
    assert_int_equal(again.count, 1);
    assert_int_equal(again.records[0].plan.batch, 48);
    assert_int_equal(again.records[0].plan.image_size, 0);
    assert_true(fabs(again.records[0].samples_per_s - 412.346) < 1e-9);
    assert_true(again.records[0].plan.optimizer.len == 0);
    assert_true(str_equal(survey_write(&a, &again), text));
}

static void a_new_measurement_is_one_line(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct survey_file file = {.machine = STR("0123456789abcdef")};
    struct survey_record r;
    for (int64_t batch = 4; batch <= 48; batch *= 2) {
        r = measured(batch, 48 / batch, "OK");
        survey_add(&a, &file, &r);
    }
    struct str before = survey_write(&a, &file);
    r = measured(24, 2, "OK");
    survey_add(&a, &file, &r);
    struct str more = survey_write(&a, &file);
    assert_int_equal(lines(more), lines(before) + 1);
    assert_int_equal(new_lines(before, more), 1);
    r.status = STR("OOM"); // measured again: the line changes, none is added
    r.date = STR("2026-11-21T10:00:00Z");
    r.capacity_bytes -= 20 * UNIT_MIB; // another driver
    survey_add(&a, &file, &r);
    struct str changed = survey_write(&a, &file);
    assert_int_equal(lines(changed), lines(more));
    assert_int_equal(new_lines(more, changed), 1);
    r.date = STR("2026-11-19T10:00:00Z"); // older: nothing
    r.status = STR("OK");
    survey_add(&a, &file, &r);
    assert_true(str_equal(survey_write(&a, &file), changed));
    r.capacity_bytes = 12 * UNIT_GIB; // another GPU of the name
    survey_add(&a, &file, &r);
    assert_int_equal(lines(survey_write(&a, &file)), lines(changed) + 1);
}

static void two_branches_are_joined(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct survey_file file = {.machine = STR("0123456789abcdef")}, again;
    struct survey_record older = measured(48, 1, "OK"), newer = measured(48, 1, "OOM");
    newer.date = STR("2026-11-21T10:00:00Z");
    survey_add(&a, &file, &older);
    struct str one = survey_write(&a, &file);
    survey_add(&a, &file, &newer);
    struct str two = survey_write(&a, &file), head = str_line(&two);
    struct str both = str_format(&a, "%.*s%.*s", STR_ARG(one), STR_ARG(two));
    assert_true(head.len > 0);
    assert_int_equal(lines(both), 3);
    assert_int_equal(survey_read(&a, STR("f"), both, &again, NULL, NULL), 0);
    assert_int_equal(again.count, 1);
    assert_str(again.records[0].status, "OOM");
}

// However many came, each is read again; in a machine's file the newest stay.
static void a_file_of_many(void **state) {
    (void)state;
    enum { MORE = 700, MANY = SURVEY_RECORDS_MOST + MORE };
    ARENA_AUTO a = {0};
    struct survey_file file = {.machine = STR("0123456789abcdef")}, again;
    struct fail why = {0};
    for (int i = 0; i < 2 * MANY; i++) { // each twice
        struct survey_record r = measured(1 + i % MANY, 1, i < MANY ? "OOM" : "OK");
        r.date = str_format(&a, "2026-11-%02dT10:00:00Z", i % MANY < MORE ? 10 : 11);
        survey_add(&a, &file, &r);
    }
    assert_int_equal(survey_read(&a, STR("f"), survey_write(&a, &file), &again, NULL, &why), 0);
    assert_int_equal(again.count, MANY);
    assert_int_equal(survey_drop_oldest(&again), MORE);
    struct str text = survey_write(&a, &again);
    assert_int_equal(survey_read(&a, STR("f"), text, &again, NULL, &why), 0);
    assert_int_equal(again.count, SURVEY_RECORDS_MOST);
    assert_int_equal(survey_drop_oldest(&again), 0);
    for (ptrdiff_t i = 0; i < again.count; i++) {
        assert_str(again.records[i].status, "OK"); // of two of one second, what came later
        assert_true(again.records[i].plan.batch > MORE);
    }
}

static void unsound_values_are_named(void **state) {
    (void)state;
    struct survey_record r = measured(48, 1, "OK");
    assert_null(survey_unsound(&r));
    r.torch = STR("2.6\n");
    assert_string_equal(survey_unsound(&r), "torch");
    r = measured(48, 1, "OK");
    r.plan.model = (struct str){"\xff", 1};
    assert_string_equal(survey_unsound(&r), "model");
    r = measured(0, 1, "OK");
    assert_string_equal(survey_unsound(&r), "batch");
    r = measured(48, 1, "FAILED");
    assert_string_equal(survey_unsound(&r), "status");
    r = measured(48, 1, "OK");
    r.date = STR("2026-11-20 10:00");
    assert_string_equal(survey_unsound(&r), "date");
    r = measured(48, 1, "OK");
    r.samples_per_s = -1;
    assert_string_equal(survey_unsound(&r), "samples_per_s");
}

// One machine with these records, asked.
static struct survey_merged judge(struct arena *a, struct survey_file *files, ptrdiff_t count,
                                  struct survey_question q) {
    struct survey_folder folder = {.files = files, .count = count};
    struct survey_merged m;
    survey_judge(a, &folder, &q, &m);
    return m;
}

static void refuted_batches_are_no_answer(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct survey_record records[] = {measured(48, 1, "OK"), measured(24, 2, "OOM"),
                                      measured(16, 3, "OK")};
    struct survey_file file = {.machine = STR("1"), .records = records, .count = 3};
    struct survey_merged m = judge(&a, &file, 1, asked);
    assert_int_equal(m.cards[0].choices[0].record->plan.batch, 48); // of the same time: not since
    records[1].date = STR("2026-11-21T10:00:00Z");
    m = judge(&a, &file, 1, asked);
    assert_int_equal(m.cards[0].choices[0].record->plan.batch, 16);
    assert_int_equal(m.cards[0].choices[0].stopped->plan.batch, 24);
    records[1].torch = STR("2.7.0"); // only that counts now, and nothing ran with it
    m = judge(&a, &file, 1, asked);
    assert_null(m.cards[0].choices[0].record);
    assert_int_equal(m.cards[0].taken, -1);
}

static void the_margin_narrows(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct survey_record records[] = {measured(48, 1, "OK"), measured(24, 2, "OK")}; // 12 and 6 GiB
    struct survey_file file = {.machine = STR("1"), .records = records, .count = 2};
    struct survey_question q = asked;
    q.margin = 0.49;
    assert_int_equal(judge(&a, &file, 1, q).cards[0].choices[0].record->plan.batch, 48);
    q.margin = 0.51;
    assert_int_equal(judge(&a, &file, 1, q).cards[0].choices[0].record->plan.batch, 24);
    q.margin = 0.9;
    assert_int_equal(judge(&a, &file, 1, q).cards[0].taken, -1);
}

static void conflicts_and_preferences(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct survey_record x = measured(48, 1, "OK"), y = measured(16, 3, "OK"),
                         z = measured(24, 2, "OK");
    x.samples_per_s = 400, y.samples_per_s = 300, z.samples_per_s = 350;
    z.date = STR("2026-11-22T10:00:00Z");
    struct survey_file files[] = {{.machine = STR("1"), .records = &x, .count = 1},
                                  {.machine = STR("2"), .records = &y, .count = 1},
                                  {.machine = STR("3"), .records = &z, .count = 1}};
    struct survey_question q = asked;
    struct survey_merged m = judge(&a, files, 3, q);
    assert_true(m.cards[0].is_conflict);
    assert_int_equal(m.cards[0].taken, 1);
    q.prefer = SURVEY_NEWEST;
    assert_int_equal(judge(&a, files, 3, q).cards[0].taken, 2);
    q.prefer = SURVEY_FASTEST;
    assert_int_equal(judge(&a, files, 3, q).cards[0].taken, 0);
    assert_false(judge(&a, files, 1, q).cards[0].is_conflict);
    y.plan.precision = y.adapted = PLAN_FP32; // suits that GPU: of the question
    m = judge(&a, files, 3, asked);
    assert_true(m.cards[0].is_conflict && m.cards[0].count == 3);
}

static void another_effective_batch_is_not_used(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct survey_record x[] = {measured(48, 1, "OK"), measured(32, 1, "OK")},
                         y = measured(16, 2, "OK");
    x[1].date = STR("2025-11-20T10:00:00Z");
    struct survey_file files[] = {{.machine = STR("1"), .records = x, .count = 2},
                                  {.machine = STR("2"), .records = &y, .count = 1}};
    struct survey_merged m = judge(&a, files, 2, asked);
    assert_int_equal(m.differing, 1);
    assert_false(m.parts[0].differs); // an old one with another is no fault
    assert_true(m.parts[1].differs);
    assert_int_equal(m.parts[1].effective, 32);
    assert_int_equal(m.cards[0].count, 1);
    y.plan.ranks = 2;
    y.plan.batch = 12; // 12 x 2 x 2 = 48
    assert_int_equal(judge(&a, files, 2, asked).differing, 0);
    y.plan.ranks = 1;
    struct survey_question q = asked;
    q.effective = 0; // not said: not checked
    m = judge(&a, files, 2, q);
    assert_int_equal(m.differing, 0);
    assert_int_equal(m.cards[0].count, 2);
}

static void a_folder_names_what_it_leaves_out(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    char folder[] = "/tmp/batchfit-team-XXXXXX";
    struct survey_file file = {.machine = STR("0123456789abcdef")};
    struct survey_folder f;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(survey_open(&a, str_format(&a, "%s/none", folder), &f, NULL), 0);
    assert_int_equal(f.count + f.left_count, 0);
    struct survey_record r = measured(48, 1, "OK");
    survey_add(&a, &file, &r);
    struct str good = survey_path(&a, str_of(folder), file.machine);
    struct str bad = survey_path(&a, str_of(folder), STR("fedcba9876543210"));
    assert_int_equal(os_replace(&a, good.p, survey_write(&a, &file), NULL, NULL), 0);
    assert_int_equal(os_replace(&a, bad.p, STR("{\n<<<<<<< HEAD\n"), NULL, NULL), 0);
    assert_int_equal(survey_open(&a, str_of(folder), &f, NULL), 0);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.left_count, 1);
    assert_int_equal(f.left[0].line, 2);
    unlink(good.p);
    unlink(bad.p);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_new_measurement_is_one_line),
        cmocka_unit_test(two_branches_are_joined),
        cmocka_unit_test(a_file_of_many),
        cmocka_unit_test(unsound_values_are_named),
        cmocka_unit_test(refuted_batches_are_no_answer),
        cmocka_unit_test(the_margin_narrows),
        cmocka_unit_test(conflicts_and_preferences),
        cmocka_unit_test(another_effective_batch_is_not_used),
        cmocka_unit_test(a_folder_names_what_it_leaves_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
