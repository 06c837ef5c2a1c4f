// SPDX-License-Identifier: Apache-2.0
#include "folder.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void what_cannot_be_read_below_is_empty(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    assert_int_equal(os_replace(&a, at(&a, "below"), STR("four"), NULL, &why), 0);
    assert_true(str_is(os_read_below(&a, folder, "/below", 4), "four"));
    assert_int_equal(os_read_below(&a, folder, "/below", 3).len, 0);
    assert_int_equal(os_read_below(&a, folder, "/nothing", 4).len, 0);
    assert_int_equal(os_read_below(&a, folder, "", 4).len, 0);
}

static void a_replaced_file_keeps_mode_and_link(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct str text;
    struct stat st;
    const char *file = at(&a, "train.yaml"), *link_name = at(&a, "link.yaml");
    assert_int_equal(os_replace(&a, file, STR("old\n"), NULL, &why), 0);
    chmod(file, 0640);
    assert_int_equal(symlink("train.yaml", link_name), 0);
    assert_int_equal(os_replace(&a, link_name, STR("new\n"), NULL, &why), 0);
    assert_int_equal(os_read(&a, file, 100, &text, NULL, &why), 0);
    assert_str(text, "new\n");
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(lstat(link_name, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void a_file_changed_meanwhile_is_not_replaced(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_stamp stamp;
    struct str text;
    const char *file = at(&a, "stamp.yaml");
    assert_int_equal(os_replace(&a, file, STR("a"), NULL, &why), 0);
    assert_int_equal(os_read(&a, file, 100, &text, &stamp, &why), 0);
    assert_int_equal(os_replace(&a, file, STR("bb"), NULL, &why), 0);
    assert_int_equal(os_replace(&a, file, STR("c"), &stamp, &why), FAIL_INPUT);
    assert_int_equal(os_read(&a, file, 100, &text, &stamp, &why), 0);
    assert_str(text, "bb");
    assert_int_equal(os_replace(&a, file, STR("c"), &stamp, &why), 0);
}

static void backups_never_overwrite(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_updated done;
    const char *file = at(&a, "b.yaml");
    os_replace(&a, file, STR("1"), NULL, &why);
    assert_int_equal(os_update(&a, file, STR("2"), NULL, &done, &why), 0);
    assert_true(str_ends(done.backup, STR("b.yaml.bak")));
    os_replace(&a, file, STR("1"), NULL, &why);
    assert_int_equal(os_update(&a, file, STR("3"), NULL, &done, &why), 0); // equal: the same one
    assert_true(str_ends(done.backup, STR("b.yaml.bak")));
    assert_int_equal(os_update(&a, file, STR("4"), NULL, &done, &why), 0);
    assert_true(str_ends(done.backup, STR("b.yaml.bak.1")));
}

static void reading_refuses_what_is_no_file(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct str text;
    assert_int_equal(os_read(&a, at(&a, "absent"), 100, &text, NULL, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "No such file"));
    assert_int_equal(os_read(&a, folder, 100, &text, NULL, &why), FAIL_INPUT);
    assert_int_equal(os_replace(&a, at(&a, "big"), STR("12345"), NULL, &why), 0);
    assert_int_equal(os_read(&a, at(&a, "big"), 4, &text, NULL, &why), FAIL_INPUT);
}

static void folders_and_processes(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    int status = -1;
    assert_int_equal(os_make_dirs(&a, at(&a, "x/y/z"), &why), 0);
    assert_int_equal(os_make_dirs(&a, at(&a, "x/y/z"), &why), 0);
    assert_true(os_exists(at(&a, "x/y/z")));
    char *const shell[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"exit 7"}, NULL};
    assert_int_equal(os_run(shell, &status, &why), 0);
    assert_int_equal(status, 7);
    char *const absent[] = {(char[]){"/no/such/program"}, NULL};
    assert_int_equal(os_run(absent, &status, &why), FAIL_MACHINE);
}

static int capture_of(struct arena *a, const char *script, int64_t deadline_ms,
                      struct os_captured *ret) {
    char *const shell[] = {(char[]){"sh"}, (char[]){"-c"}, str_z(a, str_of(script)), NULL};
    return os_capture(a, shell, deadline_ms, 1000, ret, NULL);
}

static void a_program_is_asked(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct os_captured c;
    assert_int_equal(capture_of(&a, "echo out; echo err >&2; exit 3", 10000, &c), 0);
    assert_str(c.out, "out\n");
    assert_str(c.err, "err\n");
    assert_int_equal(c.status, 3);
    assert_false(c.timed_out);
    assert_int_equal(capture_of(&a, "kill -9 $$", 10000, &c), 0);
    assert_int_equal(c.status, 128 + 9);
    assert_int_equal(capture_of(&a, "head -c 300000 /dev/zero; echo >&2", 10000, &c), 0);
    assert_int_equal(c.out.len, 1000);
    assert_int_equal(c.status, 0);
    char *const absent[] = {(char[]){"/no/such/program"}, NULL};
    assert_int_equal(os_capture(&a, absent, 1000, 100, &c, NULL), FAIL_MACHINE);
}

// Neither a program that hangs nor a grandchild that holds the pipes keeps us.
static void a_program_that_hangs_is_left(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct os_captured c;
    int64_t begin_ns = os_now_ns();
    assert_int_equal(capture_of(&a, "echo begun; sleep 60", 500, &c), 0);
    assert_true(c.timed_out);
    assert_str(c.out, "begun\n");
    assert_int_equal(capture_of(&a, "sleep 60 & echo begun", 10000, &c), 0);
    assert_false(c.timed_out);
    assert_int_equal(c.status, 0);
    assert_true(os_now_ns() - begin_ns < 30 * INT64_C(1000000000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_read_below_is_empty),
        cmocka_unit_test(a_replaced_file_keeps_mode_and_link),
        cmocka_unit_test(a_file_changed_meanwhile_is_not_replaced),
        cmocka_unit_test(backups_never_overwrite),
        cmocka_unit_test(reading_refuses_what_is_no_file),
        cmocka_unit_test(folders_and_processes),
        cmocka_unit_test(a_program_is_asked),
        cmocka_unit_test(a_program_that_hangs_is_left),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
