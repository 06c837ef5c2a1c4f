// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "job/answer/tta.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static struct arena arena;

static const char *file_of(const char *text) {
    static char path[] = "/tmp/batchfit-unit-tta-XXXXXX";
    snprintf(path, sizeof path, "/tmp/batchfit-unit-tta-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void the_shipped_scores_say_whose_they_are(void **state) {
    struct answer_tta_table table;
    struct fail why = {0};
    (void)state;
    if (answer_tta_table_load(&arena, NULL, &table, &why) < 0) fail_msg("%s", why.message);
    assert_int_equal(table.count, 4);
    for (ptrdiff_t i = 0; i < table.count; i++) {
        const struct answer_tta_type *t = &table.items[i];
        if (!isnan(t->f1_low)) assert_true(str_find(t->source, STR("team's table")) == 0);
        if (str_is(t->name, "none")) assert_int_equal(t->views, 1);
        if (str_is(t->name, "essential")) assert_int_equal(t->views, 5);
        if (str_is(t->name, "comprehensive")) assert_true(t->views == 15 && isnan(t->f1_high));
        if (str_is(t->name, "legacy")) assert_true(t->views == 3 && isnan(t->f1_low));
    }
}

static void broken_tables_are_refused_with_their_line(void **state) {
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"name\tviews\tf1_low\tf1_high\tsource\na\t0\t\t\t\n", ":2: views is \"0\""},
        {"name\tviews\tf1_low\tf1_high\tsource\n# a word\na\t1001\t\t\t\n", ":3: views is"},
        {"name\tviews\tf1_low\tf1_high\tsource\na\t2\tnan\t\t\n", ":2: f1_low is \"nan\""},
        {"name\tviews\tf1_low\tf1_high\tsource\na\t2\t-0.1\t\t\n", ":2: f1_low is \"-0.1\""},
        {"name\tviews\tf1_low\tf1_high\tsource\na\t2\t0.9\t1.1\t\n", ":2: f1_high is \"1.1\""},
        {"name\tviews\tf1_low\tf1_high\tsource\na\t2\t0.9\t0.8\t\n", ":2: f1_high is \"0.8\""},
        {"name\tviews\tf1_low\tf1_high\tsource\n\t2\t\t\t\n", ":2: name is \"\""},
        {"name\tviews\tf1_low\tf1_high\tsource\n", "lists no types"},
        {"type\tforwards\na\t2\n", ":2: name is \"\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer_tta_table table;
        struct fail why = {0};
        const char *path = file_of(cases[i].text);
        int rc = answer_tta_table_load(&arena, path, &table, &why);
        unlink(path);
        assert_int_equal(rc, FAIL_INPUT);
        if (!strstr(why.message, cases[i].expected)) fail_msg("%s", why.message);
    }
}

static void a_table_without_a_source_names_its_file(void **state) {
    struct answer_tta_table table;
    struct fail why = {0};
    const char *path = file_of("name\tviews\tf1_low\nflips\t2\t0.9\n");
    (void)state;
    assert_int_equal(answer_tta_table_load(&arena, path, &table, &why), 0);
    unlink(path);
    assert_true(str_is(table.items[0].source, path));
    assert_true(isnan(table.items[0].f1_high));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shipped_scores_say_whose_they_are),
        cmocka_unit_test(broken_tables_are_refused_with_their_line),
        cmocka_unit_test(a_table_without_a_source_names_its_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
