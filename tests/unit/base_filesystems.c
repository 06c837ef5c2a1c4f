// SPDX-License-Identifier: Apache-2.0
// Updates of a config on file systems that lack calls: no hard links, no renaming with flags, no
// modes, no sync. Nobody's text is lost, and what two make at once is the first one's.
#include "folder.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int no_link, no_flags, no_mode, no_sync; // what the calls say; 0: they work
static const char *rival;                       // is made by somebody else as a link is tried

int __real_link(const char *from, const char *to);
int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __real_fchmod(int fd, mode_t mode);
int __real_fsync(int fd);
int __wrap_link(const char *from, const char *to);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_fchmod(int fd, mode_t mode);
int __wrap_fsync(int fd);

static bool fails(int error) {
    if (error) errno = error;
    return error;
}

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

int __wrap_link(const char *from, const char *to) {
    if (rival) put(rival, "theirs\n");
    return fails(no_link) ? -1 : __real_link(from, to);
}

int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
    return fails(no_flags) ? -1 : __real_renameat2(from_fd, from, to_fd, to, flags);
}

int __wrap_fchmod(int fd, mode_t mode) {
    return fails(no_mode) ? -1 : __real_fchmod(fd, mode);
}

int __wrap_fsync(int fd) {
    return fails(no_sync) ? -1 : __real_fsync(fd);
}

static void expect(struct arena *a, const char *path, const char *text) {
    struct str now;
    assert_int_equal(os_read(a, path, 1000, &now, NULL, NULL), 0);
    assert_true(str_is(now, text));
}

static int names_in_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "exit $(ls -A %s | wc -l)", folder);
    return WEXITSTATUS(system(command));
}

static const struct lack {
    int link, flags, mode, sync;
} lacks[] = {
    {EPERM, EINVAL, 0, 0},       {EPERM, EINVAL, EPERM, EINVAL},
    {EOPNOTSUPP, ENOSYS, 0, 0},  {ENOSYS, EOPNOTSUPP, EOPNOTSUPP, EINVAL},
    {EINVAL, EINVAL, ENOSYS, 0}, {EMLINK, EPERM, 0, 0},
    {EINVAL, 0, EINVAL, EINVAL}, {0, EINVAL, 0, 0},
};
enum { LACKS = sizeof lacks / sizeof *lacks };

static void take(const struct lack *l) {
    no_link = l->link, no_flags = l->flags, no_mode = l->mode, no_sync = l->sync;
}

static void an_update_keeps_the_old_text_beside(void **state) {
    (void)state;
    for (int i = 0; i < LACKS; i++) {
        ARENA_AUTO a = {0};
        struct os_updated done;
        struct fail why = {0};
        const char *path = at(&a, "train.yaml"), *first = at(&a, "train.yaml.bak");
        put(path, "old\n");
        take(&lacks[i]);
        int rc = os_update(&a, path, STR("new\n"), NULL, &done, &why);
        if (rc == 0) rc = os_update(&a, path, STR("newer\n"), NULL, &done, &why);
        take(&(struct lack){0});
        if (rc < 0) fail_msg("case %d: %s", i, why.message);
        expect(&a, path, "newer\n");
        expect(&a, first, "old\n");
        expect(&a, at(&a, "train.yaml.bak.1"), "new\n");
        assert_int_equal(names_in_folder(), 3);
        assert_int_equal(unlink(path) + unlink(first) + unlink(at(&a, "train.yaml.bak.1")), 0);
    }
}

static void a_new_file_is_made_and_one_made_meanwhile_is_left(void **state) {
    (void)state;
    for (int i = 0; i < LACKS; i++) {
        ARENA_AUTO a = {0};
        struct fail why = {0};
        const struct os_stamp absent = {0};
        const char *path = at(&a, "made.yaml");
        take(&lacks[i]);
        int rc = os_replace(&a, path, STR("new\n"), &absent, &why);
        take(&(struct lack){0});
        if (rc < 0) fail_msg("case %d: %s", i, why.message);
        expect(&a, path, "new\n");
        assert_int_equal(unlink(path), 0);
        take(&lacks[i]);
        rival = path;
        rc = os_replace(&a, path, STR("new\n"), &absent, &why);
        rival = NULL;
        take(&(struct lack){0});
        assert_int_equal(rc, FAIL_INPUT);
        expect(&a, path, "theirs\n");
        assert_int_equal(names_in_folder(), 1);
        assert_int_equal(unlink(path), 0);
    }
}

static void what_cannot_be_written_is_untouched(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct os_updated done;
    struct fail why = {0};
    const char *path = at(&a, "train.yaml");
    put(path, "old\n");
    take(&(struct lack){.link = EIO});
    assert_int_equal(os_update(&a, path, STR("new\n"), NULL, &done, &why), FAIL_MACHINE);
    take(&(struct lack){.sync = EIO});
    assert_int_equal(os_update(&a, path, STR("new\n"), NULL, &done, &why), FAIL_MACHINE);
    take(&(struct lack){.mode = EIO});
    assert_int_equal(os_update(&a, path, STR("new\n"), NULL, &done, &why), FAIL_MACHINE);
    take(&(struct lack){0});
    expect(&a, path, "old\n");
    assert_int_equal(names_in_folder(), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_update_keeps_the_old_text_beside, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(a_new_file_is_made_and_one_made_meanwhile_is_left,
                                        make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_is_untouched, make_folder,
                                        drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
