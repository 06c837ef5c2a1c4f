// SPDX-License-Identifier: Apache-2.0
// Folders from which data and code are read: whose they must be.
#include "folder.h"

#include "base/data.h"
#include "base/os.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SOMEBODY = 65534 };

static char cache[128], leaf[256];

static int make_home(void **state) {
    if (make_folder(state) != 0) return -1;
    snprintf(cache, sizeof cache, "%s/.cache", folder);
    snprintf(leaf, sizeof leaf, "%s/.cache/batchfit", folder);
    for (int i = 0; i < 3; i++) {
        static const char *const variables[] = {"XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR"};
        unsetenv(variables[i]);
    }
    return setenv("HOME", folder, 1) || mkdir(cache, 0777) || mkdir(leaf, 0700) ? -1 : 0;
}

static bool is_used(void) {
    ARENA_AUTO a = {0};
    return str_equal(os_cache_dir(&a), str_of(leaf));
}

static void what_others_may_write_to_is_not_used(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    assert_true(is_used());
    chmod(cache, 0777); // a folder that another puts there instead is not ours
    assert_true(is_used());
    chmod(leaf, 0777);
    assert_false(is_used());
    chmod(leaf, 0700);
    assert_int_equal(os_home_note(&a).len, 0);
    setenv("HOME", "relative", 1);
    assert_false(is_used());
    assert_null(os_home());
    setenv("HOME", folder, 1);
    assert_true(is_used());
}

static void what_is_another_users_is_not_used(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *const owned[] = {leaf, cache, folder};
    if (geteuid() != 0) skip(); // nobody else can give a folder away
    for (int i = 0; i < 3; i++) {
        assert_int_equal(chown(owned[i], SOMEBODY, SOMEBODY), 0);
        assert_false(is_used());
        assert_int_equal(os_home_note(&a).len > 0, i == 2);
        assert_int_equal(chown(owned[i], 0, 0), 0);
        assert_true(is_used());
    }
    setenv("XDG_CACHE_HOME", cache, 1);
    assert_true(is_used());
    assert_int_equal(chown(cache, SOMEBODY, SOMEBODY), 0);
    assert_false(is_used());
    assert_true(str_find(os_home_note(&a), STR("XDG_CACHE_HOME")) >= 0);
    assert_int_equal(chown(cache, 0, 0), 0);
    unsetenv("XDG_CACHE_HOME");
}

static void without_home_it_is_that_of_the_password_database(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct passwd *own = getpwuid(geteuid());
    unsetenv("HOME");
    struct str found = os_data_dir(&a);
    assert_false(str_starts(found, STR("/tmp/.")));
    if (own && os_trusts(own->pw_dir, own->pw_dir)) {
        assert_true(str_starts(found, str_of(own->pw_dir)));
    }
    setenv("HOME", folder, 1);
}

static void what_was_changed_is_written_again(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct str laid, text, again;
    assert_int_equal(data_lay_out(&a, "python/", "python", &laid, NULL), 0);
    const char *file = str_format(&a, "%.*s/start.py", STR_ARG(laid)).p;
    assert_int_equal(os_read(&a, file, 1 << 20, &text, NULL, NULL), 0);
    for (int i = 0; i < 3; i++) { // longer, as long, gone
        struct buf b = buf_new(&a);
        buf_add(&b, text);
        if (i == 0) buf_add(&b, STR("import evil\n"));
        if (i == 1) b.items[text.len / 2] ^= 1;
        assert_int_equal(os_replace(&a, file, buf_str(&b), NULL, NULL), 0);
        if (i == 2) unlink(file);
        assert_int_equal(data_lay_out(&a, "python/", "python", &again, NULL), 0);
        assert_true(str_equal(laid, again));
        assert_int_equal(os_read(&a, file, 1 << 20, &again, NULL, NULL), 0);
        assert_true(str_equal(text, again));
    }
    setenv("TMPDIR", cache, 1);
    chmod(laid.p, 0777);
    assert_int_equal(data_lay_out(&a, "python/", "python", &again, NULL), 0);
    assert_false(str_equal(laid, again));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_others_may_write_to_is_not_used),
        cmocka_unit_test(what_is_another_users_is_not_used),
        cmocka_unit_test(without_home_it_is_that_of_the_password_database),
        cmocka_unit_test(what_was_changed_is_written_again),
    };
    return cmocka_run_group_tests(tests, make_home, drop_folder);
}
