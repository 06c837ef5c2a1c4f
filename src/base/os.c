// SPDX-License-Identifier: Apache-2.0
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SMALL_MOST = 4 << 20 }; // the longest is /proc/cpuinfo: one or two KiB a thread

void os_close(const int *fd) {
    if (*fd >= 0) close(*fd);
}

bool os_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

static struct os_stamp stamp_of(const struct stat *st) {
    return (struct os_stamp){true, st->st_dev, st->st_ino, st->st_size, st->st_mtim};
}

static bool stamp_same(const struct os_stamp *a, const struct stat *st) {
    struct os_stamp b = stamp_of(st);
    return a->device == b.device && a->inode == b.inode && a->size == b.size &&
           a->modified.tv_sec == b.modified.tv_sec && a->modified.tv_nsec == b.modified.tv_nsec;
}

static int read_all(struct arena *a, int fd, const char *path, int64_t max_bytes,
                    struct str *ret_text, struct fail *why) {
    struct buf text = buf_new(a);
    char chunk[1 << 14]; // files of /proc are small, and compilers clear it
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_set(why, FAIL_MACHINE, "%s: %s", path, strerror(errno));
        if (n == 0) break;
        buf_add(&text, (struct str){chunk, n});
        if (text.count > max_bytes) {
            return fail_set(why, FAIL_INPUT, "%s: larger than %lld bytes", path,
                            (long long)max_bytes);
        }
    }
    *ret_text = buf_str(&text);
    return 0;
}

int os_read(struct arena *a, const char *path, int64_t max_bytes, struct str *ret_text,
            struct os_stamp *ret_stamp, struct fail *why) {
    OS_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return fail_set(why, FAIL_INPUT, "%s: %s", path, strerror(errno));
    }
    if (S_ISDIR(st.st_mode)) return fail_set(why, FAIL_INPUT, "%s: is a directory", path);
    if (S_ISREG(st.st_mode) && st.st_size > max_bytes) {
        return fail_set(why, FAIL_INPUT, "%s: %lld bytes; at most %lld are read", path,
                        (long long)st.st_size, (long long)max_bytes);
    }
    if (ret_stamp) *ret_stamp = stamp_of(&st);
    return read_all(a, fd, path, max_bytes, ret_text, why);
}

struct str os_read_below(struct arena *a, const char *root, const char *path, int64_t max_bytes) {
    struct str text = {0};
    int rc = os_read(a, str_format(a, "%s%s", root, path).p, max_bytes, &text, NULL, NULL);
    return rc == 0 ? text : (struct str){0};
}

struct str os_read_small(struct arena *a, const char *root, const char *path) {
    return os_read_below(a, root, path, SMALL_MOST);
}

int os_read_head(struct arena *a, const char *path, int64_t max_bytes, struct str *ret_text,
                 struct fail *why) {
    OS_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_set(why, FAIL_INPUT, "%s: %s", path, strerror(errno));
    char *text = arena_new(a, char, max_bytes);
    int64_t count = 0;
    while (count < max_bytes) {
        ssize_t n = read(fd, text + count, (size_t)(max_bytes - count));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_set(why, FAIL_INPUT, "%s: %s", path, strerror(errno));
        if (n == 0) break;
        count += n;
    }
    *ret_text = (struct str){text, count};
    return 0;
}

static int by_text(const void *a, const void *b) {
    return strcmp(((const struct str *)a)->p, ((const struct str *)b)->p);
}

int os_list(struct arena *a, const char *path, const char *suffix, struct str **ret_names,
            ptrdiff_t *ret_count, struct fail *why) {
    DIR *folder = opendir(path);
    if (!folder && errno != ENOENT) {
        return fail_set(why, FAIL_MACHINE, "%s: %s", path, strerror(errno));
    }
    struct str *names = NULL;
    ptrdiff_t count = 0, capacity = 0;
    for (const struct dirent *d; folder && (d = readdir(folder));) {
        struct str name = str_of(d->d_name);
        if (name.p[0] == '.' || !str_ends(name, str_of(suffix))) continue;
        *arena_push(a, &names, &count, &capacity) = str_copy(a, name);
    }
    if (folder) closedir(folder);
    if (count > 0) qsort(names, (size_t)count, sizeof *names, by_text);
    *ret_names = names;
    *ret_count = count;
    return 0;
}

int os_write(int fd, struct str text) {
    while (text.len > 0) {
        ssize_t n = write(fd, text.p, (size_t)text.len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? -errno : -EIO;
        text = str_slice(text, n, text.len);
    }
    return 0;
}

// Mode first, so that the new file is never more open than the old one; the owner only as far as
// this user may set it.
static int write_like(int fd, struct str text, const struct stat *like) {
    if (like && fchmod(fd, like->st_mode & 07777) < 0) return -errno;
    if (like && fchown(fd, like->st_uid, like->st_gid) < 0 && errno != EPERM) return -errno;
    int rc = os_write(fd, text);
    if (rc < 0) return rc;
    return fsync(fd) < 0 ? -errno : 0;
}

void os_sync_folder(const char *folder) {
    OS_FD fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) (void)fsync(fd);
}

static int write_failed(const char *path, int error, struct fail *why) {
    fail_set(why, FAIL_MACHINE, "%s: cannot write: %s", path, strerror(error));
    return fail_hint(why, error == ENOSPC || error == EDQUOT
                              ? "free some space; the old file is untouched"
                              : "check the permissions of the file and its folder; the old file "
                                "is untouched");
}

// Where a write must go: through symlinks, also one whose target does not exist yet.
static struct str real_target(struct arena *a, const char *path) {
    char *resolved = realpath(path, NULL);
    struct str target = str_copy(a, str_of(resolved ? resolved : path));
    free(resolved);
    return target;
}

int os_replace(struct arena *a, const char *path, struct str text, const struct os_stamp *stamp,
               struct fail *why) {
    char *target = str_z(a, real_target(a, path));
    char *folder = dirname(str_z(a, str_of(target)));
    struct stat st;
    bool exists = stat(target, &st) == 0;
    if (stamp && stamp->known && (!exists || !stamp_same(stamp, &st))) {
        fail_set(why, FAIL_INPUT, "%s: changed by someone else since it was read", path);
        return fail_hint(why, "run the command again on the new file");
    }
    if (exists && !S_ISREG(st.st_mode)) {
        return fail_set(why, FAIL_INPUT, "%s: not a regular file",
                        path); // /dev/null stays a device
    }
    if (exists && access(target, W_OK) < 0) return write_failed(path, errno, why);
    char *temporary = str_z(a, str_format(a, "%s/.batchfit-XXXXXX", folder));
    OS_FD fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) return write_failed(path, errno, why);
    mode_t mask = umask(0);
    umask(mask);
    const struct stat fresh = {.st_mode = 0666 & ~mask, .st_uid = getuid(), .st_gid = getgid()};
    int rc = write_like(fd, text, exists ? &st : &fresh);
    if (rc == 0 && rename(temporary, target) < 0) rc = -errno;
    if (rc < 0) {
        unlink(temporary);
        return write_failed(path, -rc, why);
    }
    os_sync_folder(folder);
    return 0;
}

static int backup_to(struct arena *a, const char *name, struct str text, const struct stat *like) {
    char *temporary = str_z(a, str_format(a, "%s.XXXXXX", name));
    OS_FD fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) return -errno;
    int rc = write_like(fd, text, like);
    // link, not rename: it never overwrites a backup that appeared meanwhile. File systems without
    // hard links (FAT, some network mounts) have the renaming that does the same.
    if (rc == 0 && link(temporary, name) < 0) {
        bool no_links = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
        rc = -errno;
        if (no_links && renameat2(AT_FDCWD, temporary, AT_FDCWD, name, RENAME_NOREPLACE) == 0)
            rc = 0;
    }
    unlink(temporary);
    return rc;
}

int os_backup(struct arena *a, const char *path, struct str *ret_path, struct fail *why) {
    struct str text, old;
    struct stat st;
    if (stat(path, &st) < 0) return fail_set(why, FAIL_MACHINE, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return fail_set(why, FAIL_INPUT, "%s: not a regular file", path);
    int rc = os_read(a, path, INT64_C(1) << 30, &text, NULL, why);
    if (rc < 0) return rc;
    if (access(path, W_OK) < 0) return write_failed(path, errno, why);
    for (int i = 0; i < 1000; i++) {
        struct str name = i ? str_format(a, "%s.bak.%d", path, i) : str_format(a, "%s.bak", path);
        if (!os_exists(name.p)) {
            rc = backup_to(a, name.p, text, &st);
            if (rc < 0 && rc != -EEXIST) return write_failed(name.p, -rc, why);
            if (rc == -EEXIST) continue;
        } else if (os_read(a, name.p, INT64_C(1) << 30, &old, NULL, NULL) < 0 ||
                   !str_equal(old, text)) {
            continue;
        }
        *ret_path = name;
        return 0;
    }
    return fail_set(why, FAIL_MACHINE, "%s: a thousand backups already exist; delete some", path);
}

int os_make_dirs(struct arena *a, const char *path, struct fail *why) {
    char *whole = str_z(a, str_of(path));
    for (char *p = whole + 1;; p++) {
        if (*p && *p != '/') continue;
        char kept = *p;
        *p = 0;
        if (mkdir(whole, 0775) < 0 && errno != EEXIST) {
            return fail_set(why, FAIL_MACHINE, "%s: %s", whole, strerror(errno));
        }
        *p = kept;
        if (!kept) return 0;
    }
}

int64_t os_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t os_wall_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t os_wall_ahead_ns(void) {
    int64_t ahead_ns = 0, least_ns = INT64_MAX;
    for (int i = 0; i < 8 && least_ns > 50000; i++) {
        int64_t before_ns = os_now_ns(), wall_ns = os_wall_ns(), took_ns = os_now_ns() - before_ns;
        if (took_ns >= least_ns) continue;
        least_ns = took_ns;
        ahead_ns = wall_ns - before_ns - took_ns / 2;
    }
    return ahead_ns;
}

int os_run(char *const argv[], int *ret_status, struct fail *why) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    pid_t child;
    int error = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) return fail_set(why, FAIL_MACHINE, "%s: %s", argv[0], strerror(error));
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return fail_set(why, FAIL_MACHINE, "waitpid: %s", strerror(errno));
    }
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}
