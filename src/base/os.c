// SPDX-License-Identifier: Apache-2.0
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SMALL_MOST = 4 << 20 }; // the longest is /proc/cpuinfo: one or two KiB a thread

void os_close(const int *fd) {
    if (*fd >= 0) close(*fd);
}

bool os_is_below(struct str path, struct str folder) {
    return folder.len > 0 && path.len > folder.len && path.p[folder.len] == '/' &&
           str_starts(path, folder);
}

struct str os_plain_path(struct str path) {
    while (str_starts(path, STR("./"))) {
        ptrdiff_t at = 2;
        while (at < path.len && path.p[at] == '/') at++;
        if (at == path.len) break; // the folder itself
        path = str_slice(path, at, path.len);
    }
    return path;
}

struct str os_parent(struct str path) {
    const struct str above = str_before_last(path, '/');
    return above.len > 0 || path.len == 0 ? above : str_slice(path, 0, 1);
}

bool os_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
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
    int rc = read_all(a, fd, path, max_bytes, ret_text, why);
    if (rc == 0 && ret_stamp) *ret_stamp = (struct os_stamp){true, *ret_text};
    return rc;
}

static const char *kind_of(mode_t mode) {
    static const struct {
        mode_t kind;
        const char *name;
    } kinds[] = {
        {S_IFDIR, "a directory"}, {S_IFIFO, "a FIFO (a named pipe)"},
        {S_IFSOCK, "a socket"},   {S_IFCHR, "a device"},
        {S_IFBLK, "a device"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if ((mode & S_IFMT) == kinds[i].kind) return kinds[i].name;
    }
    return NULL;
}

int os_read_file(struct arena *a, const char *path, int64_t max_bytes, struct str *ret_text,
                 struct os_stamp *ret_stamp, struct fail *why) {
    struct stat st; // before it is opened: opening a FIFO waits for a writer
    const char *kind = stat(path, &st) == 0 ? kind_of(st.st_mode) : NULL;
    if (!kind) return os_read(a, path, max_bytes, ret_text, ret_stamp, why);
    fail_set(why, FAIL_INPUT, "%s: is %s, expected a regular file", path, kind);
    if (S_ISDIR(st.st_mode)) return FAIL_INPUT;
    return fail_hint(why, "save it as a file first: it is read more than once, and may be edited");
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

void os_sync_folder(const char *folder) {
    OS_FD fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) (void)fsync(fd);
}

static int make_dirs(struct arena *a, const char *path, mode_t mode, struct fail *why) {
    char *whole = str_z(a, str_of(path));
    for (char *p = whole + 1;; p++) {
        if (*p && *p != '/') continue;
        char kept = *p;
        *p = 0;
        if (mkdir(whole, mode) < 0 && errno != EEXIST) {
            return fail_set(why, FAIL_MACHINE, "%s: %s", whole, strerror(errno));
        }
        *p = kept;
        if (!kept) return 0;
    }
}

int os_make_dirs(struct arena *a, const char *path, struct fail *why) {
    return make_dirs(a, path, 0775, why);
}

int os_make_private_dirs(struct arena *a, const char *path, struct fail *why) {
    return make_dirs(a, path, 0700, why);
}

// proc(5): "SigCgt:\t0000000000014002".
bool os_signals_caught(const char *status, uint64_t *ret_bits) {
    static const char name[] = "SigCgt:";
    const char *at = strstr(status, name);
    uint64_t bits = 0;
    if (!at) return false;
    for (at += sizeof name - 1; *at == '\t' || *at == ' ';) at++;
    const char *begin = at;
    for (; (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f'); at++)
        bits = bits << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    *ret_bits = bits;
    return at > begin;
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
