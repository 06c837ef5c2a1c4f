// SPDX-License-Identifier: Apache-2.0
// Updates of a config: nobody's text is lost, nobody may read more than before.
#include "folder.h"

#include "base/os.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void expect_text(struct arena *a, const char *path, const char *expected) {
    struct str text;
    assert_int_equal(os_read(a, path, 1000, &text, NULL, NULL), 0);
    assert_true(str_is(text, expected));
}

static int count_names(const char *start) {
    char command[256];
    snprintf(command, sizeof command, "exit $(ls -A %s | grep -c '^%s')", folder, start);
    return WEXITSTATUS(system(command));
}

// --- Access --------------------------------------------------------------------------------------

enum { ACL_OWNER = 1, ACL_USER = 2, ACL_GROUP = 4, ACL_MASK = 16, ACL_OTHERS = 32 };
struct acl {
    uint32_t version;
    struct {
        uint16_t tag, rights;
        uint32_t id;
    } entries[5];
};
// rw for the owner and user 12345, nothing for the group and others; the mask makes 0660 of it.
static const struct acl list = {
    2,
    {{ACL_OWNER, 6, UINT32_MAX},
     {ACL_USER, 6, 12345},
     {ACL_GROUP, 0, UINT32_MAX},
     {ACL_MASK, 6, UINT32_MAX},
     {ACL_OTHERS, 0, UINT32_MAX}},
};
static const char acl_name[] = "system.posix_acl_access";

static bool has_list(const char *path) {
    struct acl there;
    return getxattr(path, acl_name, &there, sizeof there) == sizeof there &&
           memcmp(&there, &list, sizeof list) == 0;
}

// Before: the list was gone, and the group had the mask's rights.
static void lists_and_attributes_are_kept(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_updated done;
    struct stat st;
    char value[8] = "";
    const char *file = at(&a, "acl.yaml");
    put(file, "a: 1\n");
    assert_int_equal(chmod(file, 0600), 0);
    if (setxattr(file, acl_name, &list, sizeof list, 0) < 0) {
        print_message("# %s has no ACL\n", folder);
        skip();
    }
    assert_int_equal(setxattr(file, "user.team", "vision", 6, 0), 0);
    assert_int_equal(os_update(&a, file, STR("a: 2\n"), NULL, &done, &why), 0);
    const char *const both[] = {file, done.backup.p};
    for (int i = 0; i < 2; i++) {
        assert_true(has_list(both[i]));
        assert_int_equal(getxattr(both[i], "user.team", value, sizeof value), 6);
        assert_memory_equal(value, "vision", 6);
        assert_int_equal(stat(both[i], &st), 0);
        assert_int_equal(st.st_mode & 07777, 0660);
    }
    expect_text(&a, file, "a: 2\n");
    expect_text(&a, done.backup.p, "a: 1\n");
}

// A folder's default list would let others read what they could not.
static void a_folders_default_list_opens_nothing(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_updated done;
    struct stat st;
    const char *inner = at(&a, "default"), *file = at(&a, "default/c.yaml");
    assert_int_equal(mkdir(inner, 0700), 0);
    put(file, "a: 1\n");
    assert_int_equal(chmod(file, 0640), 0);
    if (setxattr(inner, "system.posix_acl_default", &list, sizeof list, 0) < 0) skip();
    assert_int_equal(os_update(&a, file, STR("a: 2\n"), NULL, &done, &why), 0);
    assert_false(has_list(file));
    assert_int_equal(getxattr(file, acl_name, NULL, 0), -1);
    assert_int_equal(getxattr(done.backup.p, acl_name, NULL, 0), -1);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
}

// An equal backup that more may read than the file is not the backup of this file.
static void a_backup_is_never_more_open(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_updated done;
    struct stat st;
    const char *file = at(&a, "secret.yaml");
    put(file, "a: 1\n");
    put(at(&a, "secret.yaml.bak"), "a: 1\n");
    assert_int_equal(chmod(file, 0600), 0);
    assert_int_equal(chmod(at(&a, "secret.yaml.bak"), 0644), 0);
    assert_int_equal(os_update(&a, file, STR("a: 2\n"), NULL, &done, &why), 0);
    assert_true(str_ends(done.backup, STR(".bak.1")));
    assert_int_equal(stat(done.backup.p, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

// As another user than root: a group that cannot be given keeps no rights.
static void a_strange_group_gets_nothing(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    if (getuid() != 0) skip(); // only root can make such a file
    const char *file = at(&a, "theirs.yaml");
    put(file, "a: 1\n");
    assert_int_equal(chmod(file, 0660), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(chown(file, 12345, 54321), 0);
    pid_t child = fork();
    if (child == 0) {
        struct os_updated done;
        struct stat st;
        if (setgid(12345) < 0 || setuid(12345) < 0) _exit(1);
        if (os_update(&a, file, STR("a: 2\n"), NULL, &done, NULL) < 0) _exit(2);
        if (stat(file, &st) < 0 || st.st_gid != 12345) _exit(3);
        if ((st.st_mode & 07777) != 0600) _exit(4);
        if (stat(done.backup.p, &st) < 0 || (st.st_mode & 0007) != 0) _exit(5);
        _exit(done.notes.count == 1 ? 0 : 6);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(status, 0);
}

// --- Names ---------------------------------------------------------------------------------------

static void other_names_are_told(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_updated done;
    const char *file = at(&a, "one.yaml"), *other = at(&a, "two.yaml");
    put(file, "a: 1\n");
    assert_int_equal(link(file, other), 0);
    assert_int_equal(os_update(&a, file, STR("a: 2\n"), NULL, &done, &why), 0);
    assert_int_equal(done.notes.count, 1);
    assert_true(str_find(done.notes.items[0], STR("2 names")) > 0);
    expect_text(&a, other, "a: 1\n");
    put(other, "a: 3\n"); // what is written under the other name is not the backup's
    expect_text(&a, done.backup.p, "a: 1\n");
}

static void a_symlink_to_nothing_stays_one(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_updated done;
    struct stat st;
    const char *alias = at(&a, "dangling.yaml");
    assert_int_equal(symlink("made.yaml", alias), 0);
    assert_int_equal(os_update(&a, alias, STR("a: 1\n"), NULL, &done, &why), 0);
    assert_int_equal(done.notes.count, 1);
    assert_true(str_find(done.notes.items[0], STR("made.yaml")) > 0);
    assert_int_equal(lstat(alias, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    expect_text(&a, at(&a, "made.yaml"), "a: 1\n");
    assert_int_equal(symlink("circle.yaml", at(&a, "circle.yaml")), 0);
    assert_int_equal(os_update(&a, at(&a, "circle.yaml"), STR("a"), NULL, &done, &why),
                     FAIL_MACHINE);
}

// The backup is the very file that was replaced: what an editor still writes into it is not lost.
static void a_late_save_is_in_the_backup(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_updated done;
    const char *file = at(&a, "late.yaml");
    put(file, "a: 1\n");
    FILE *editor = fopen(file, "r+");
    assert_int_equal(os_update(&a, file, STR("a: 2\n"), NULL, &done, &why), 0);
    fputs("a: 5\n", editor);
    fclose(editor);
    expect_text(&a, done.backup.p, "a: 5\n");
    expect_text(&a, file, "a: 2\n");
}

// --- Others --------------------------------------------------------------------------------------

static void a_file_that_appeared_is_not_replaced(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_updated done;
    const struct os_stamp absent = {0};
    const char *file = at(&a, "fresh.yaml");
    assert_int_equal(os_update(&a, file, STR("a: 1\n"), &absent, &done, &why), 0);
    assert_int_equal(done.backup.len, 0);
    assert_int_equal(os_update(&a, file, STR("a: 2\n"), &absent, &done, &why), FAIL_INPUT);
    expect_text(&a, file, "a: 1\n");
}

// Same length, same second: the bytes tell.
static void the_loser_changes_nothing(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_updated done;
    struct os_stamp stamp;
    struct str text;
    struct stat st;
    const char *file = at(&a, "lost.yaml");
    put(file, "a: 1\n");
    assert_int_equal(os_read_file(&a, file, 100, &text, &stamp, &why), 0);
    assert_int_equal(stat(file, &st), 0);
    put(file, "a: 7\n");
    const struct timespec times[] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
    assert_int_equal(os_update(&a, file, STR("a: 2\n"), &stamp, &done, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "changed by someone else"));
    expect_text(&a, file, "a: 7\n");
    assert_int_equal(count_names("lost.yaml"), 1);
    assert_int_equal(count_names(".batchfit~"), 0);
}

// A lock that its holder keeps is waited for; one of a dead process is none.
static void writers_wait_for_each_other(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_updated done;
    const char *file = at(&a, "locked.yaml");
    put(file, "a: 1\n");
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t holder = fork();
    if (holder == 0) {
        int fd = open(folder, O_RDONLY);
        if (flock(fd, LOCK_EX) < 0 || write(ready[1], "x", 1) != 1) _exit(1);
        usleep(200000);
        put(file, "a: 3\n");
        abort(); // without letting go of it
    }
    char byte;
    struct os_stamp stamp = {true, STR("a: 1\n")};
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(os_update(&a, file, STR("a: 2\n"), &stamp, &done, &why), FAIL_INPUT);
    expect_text(&a, file, "a: 3\n");
    waitpid(holder, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

static void what_killed_writes_left_goes(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct os_updated done;
    const char *file = at(&a, "kill.yaml");
    put(file, "a: 1\n");
    put(at(&a, ".batchfit~abc123"), "a: ");
    put(at(&a, ".batchfit~abc124.kill.yaml"), "a: 1\n");  // the backup has it
    put(at(&a, ".batchfit~abc125.kill.yaml"), "a: 9\n");  // nobody else has it
    put(at(&a, ".batchfit~abc126.other.yaml"), "b: 9\n"); // another config's
    put(at(&a, ".batchfit~notes.txt"), "mine\n");
    put(at(&a, ".batchfit-config"), "mine, too\n"); // a name that people type
    put(at(&a, ".batchfit-models.kill.yaml"), "a: 7\n");
    assert_int_equal(os_update(&a, file, STR("a: 2\n"), NULL, &done, &why), 0);
    assert_int_equal(count_names(".batchfit~"), 2);
    expect_text(&a, at(&a, ".batchfit~notes.txt"), "mine\n");
    expect_text(&a, at(&a, ".batchfit~abc126.other.yaml"), "b: 9\n");
    expect_text(&a, at(&a, ".batchfit-config"), "mine, too\n");
    expect_text(&a, at(&a, ".batchfit-models.kill.yaml"), "a: 7\n");
    expect_text(&a, at(&a, "kill.yaml.bak.1"), "a: 9\n");
    assert_int_equal(done.notes.count, 1);
}

static void only_files_are_configs(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct str text;
    const char *fifo = at(&a, "fifo.yaml");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const char *const paths[] = {fifo, "/dev/zero", folder};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(os_read_file(&a, paths[i], 100, &text, NULL, &why), FAIL_INPUT);
        assert_non_null(strstr(why.message, "expected a regular file"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_attributes_are_kept),
        cmocka_unit_test(a_folders_default_list_opens_nothing),
        cmocka_unit_test(a_backup_is_never_more_open),
        cmocka_unit_test(a_strange_group_gets_nothing),
        cmocka_unit_test(other_names_are_told),
        cmocka_unit_test(a_symlink_to_nothing_stays_one),
        cmocka_unit_test(a_late_save_is_in_the_backup),
        cmocka_unit_test(a_file_that_appeared_is_not_replaced),
        cmocka_unit_test(the_loser_changes_nothing),
        cmocka_unit_test(writers_wait_for_each_other),
        cmocka_unit_test(what_killed_writes_left_goes),
        cmocka_unit_test(only_files_are_configs),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
