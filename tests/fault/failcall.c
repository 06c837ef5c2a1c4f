// SPDX-License-Identifier: Apache-2.0
// A library to preload (LD_PRELOAD) that makes one call into the system go wrong.
//
//     FAILCALL=CALL:N:WHAT    CALL is a name of the table below, or any (all but malloc); N counts
//                             from 1, or is -1: every time; WHAT is an errno number, "kill"
//                             (SIGKILL instead of the call), "half" (for write: half of it, then
//                             SIGKILL), or "run" (first the shell command in FAILCALL_RUN)
//     FAILCALL_FIRED=FILE     is created when it happens: without it the N-th call never came
//     FAILCALL_TRACE=FILE     gets a line for each path that is synced or renamed to, in their
//     order
//
// Names with 64 are what 64-bit file offsets turn the plain ones into.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { KILL = -1, HALF = -2, RUN = -3 };
enum call {
    CALL_WRITE,
    CALL_FSYNC,
    CALL_RENAME,
    CALL_EXCHANGE,
    CALL_OPEN,
    CALL_LINK,
    CALL_CHMOD,
    CALL_CHOWN,
    CALL_UNLINK,
    CALL_STAT,
    CALL_READ,
    CALL_LOCK,
    CALL_ATTRIBUTE,
    CALL_MALLOC,
    CALL_ANY
};
static const char *const names[] = {"write", "fsync", "rename",    "exchange", "open",
                                    "link",  "chmod", "chown",     "unlink",   "stat",
                                    "read",  "lock",  "attribute", "malloc",   "any"};

static enum call wanted;
static int what;
static atomic_long left; // 0: nothing to do (also before the constructor has run)

__attribute__((constructor)) static void read_environment(void) {
    const char *spec = getenv("FAILCALL");
    char name[16], how[16];
    long n;
    if (!spec || sscanf(spec, "%15[^:]:%ld:%15s", name, &n, how) != 3) return;
    while (wanted < CALL_ANY && strcmp(name, names[wanted]) != 0) wanted++;
    what = strcmp(how, "kill") == 0   ? KILL
           : strcmp(how, "half") == 0 ? HALF
           : strcmp(how, "run") == 0  ? RUN
                                      : atoi(how);
    left = n;
}

static void tell(void) {
    const char *path = getenv("FAILCALL_FIRED");
    if (path) (void)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0666);
}

static void run(void) {
    const char *command = getenv("FAILCALL_RUN");
    unsetenv("LD_PRELOAD");
    if (!command || system(command) != 0) abort();
}

// True when this is the call: errno is set then, or the process is gone.
static int fires(enum call call) {
    if (call != wanted && (wanted != CALL_ANY || call == CALL_MALLOC)) return 0;
    if (left == 0 || (left > 0 && --left != 0)) return 0;
    tell();
    if (what == KILL) raise(SIGKILL);
    if (what == RUN) run();
    errno = what;
    return what > 0;
}

static void trace(const char *call, const char *path) {
    const char *file = getenv("FAILCALL_TRACE");
    int fd =
        file ? (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    if (fd < 0) return;
    dprintf(fd, "%s %s\n", call, path);
    (void)syscall(SYS_close, fd);
}

static void trace_fd(const char *call, int fd) {
    char link[32], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    (void)syscall(SYS_readlink, link, path, sizeof path - 1);
    trace(call, path);
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

// Not through dlsym: it allocates.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *malloc(size_t size) {
    return fires(CALL_MALLOC) ? NULL : __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    return fires(CALL_MALLOC) ? NULL : __libc_calloc(count, size);
}
void *realloc(void *p, size_t size) {
    return fires(CALL_MALLOC) ? NULL : __libc_realloc(p, size);
}

ssize_t write(int fd, const void *data, size_t size) {
    long before = left;
    if (fires(CALL_WRITE)) return -1;
    if (what == HALF && before == 1 && left == 0) {
        (void)syscall(SYS_write, fd, data, size / 2);
        raise(SIGKILL);
    }
    return syscall(SYS_write, fd, data, size);
}

// SQLite's ways.
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    long before = left;
    if (fires(CALL_WRITE)) return -1;
    if (what == HALF && before == 1 && left == 0) {
        (void)syscall(SYS_pwrite64, fd, data, size / 2, at);
        raise(SIGKILL);
    }
    return syscall(SYS_pwrite64, fd, data, size, at);
}
ssize_t pread64(int fd, void *data, size_t size, off64_t at) {
    return fires(CALL_READ) ? -1 : syscall(SYS_pread64, fd, data, size, at);
}
int fdatasync(int fd) {
    return fires(CALL_FSYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}
int ftruncate64(int fd, off64_t size) {
    return fires(CALL_WRITE) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

ssize_t read(int fd, void *data, size_t size) {
    return fires(CALL_READ) ? -1 : syscall(SYS_read, fd, data, size);
}
int fsync(int fd) {
    trace_fd("sync", fd);
    return fires(CALL_FSYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}
int fchmod(int fd, mode_t mode) {
    return fires(CALL_CHMOD) ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}
int fchown(int fd, uid_t user, gid_t group) {
    return fires(CALL_CHOWN) ? -1 : (int)syscall(SYS_fchown, fd, user, group);
}
int rename(const char *from, const char *to) {
    trace("rename", to);
    return fires(CALL_RENAME) ? -1 : (int)syscall(SYS_rename, from, to);
}
int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
    trace("exchange", to);
    return fires(CALL_EXCHANGE) ? -1 : (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}
int flock(int fd, int how) {
    return fires(CALL_LOCK) ? -1 : (int)syscall(SYS_flock, fd, how);
}
ssize_t listxattr(const char *path, char *names_of, size_t size) {
    return fires(CALL_ATTRIBUTE) ? -1 : syscall(SYS_listxattr, path, names_of, size);
}
int fremovexattr(int fd, const char *name) {
    return fires(CALL_ATTRIBUTE) ? -1 : (int)syscall(SYS_fremovexattr, fd, name);
}
int link(const char *from, const char *to) {
    return fires(CALL_LINK) ? -1 : (int)syscall(SYS_link, from, to);
}
int unlink(const char *path) {
    return fires(CALL_UNLINK) ? -1 : (int)syscall(SYS_unlink, path);
}

#define STATS(name, first, type)                                                              \
    int name(first which, struct type *st) {                                                  \
        return fires(CALL_STAT) ? -1 : NEXT(int (*)(first, struct type *), #name)(which, st); \
    }
#define OPENS(name)                                                                           \
    int name(const char *path, int flags, ...) {                                              \
        va_list args;                                                                         \
        va_start(args, flags);                                                                \
        mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;                             \
        va_end(args);                                                                         \
        return fires(CALL_OPEN) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode); \
    }
#define TEMPORARIES(name)                                                              \
    int name(char *path, int flags) {                                                  \
        return fires(CALL_OPEN) ? -1 : NEXT(int (*)(char *, int), #name)(path, flags); \
    }
STATS(stat, const char *, stat)
STATS(stat64, const char *, stat64)
STATS(fstat, int, stat)
STATS(fstat64, int, stat64)
OPENS(open)
OPENS(open64)
TEMPORARIES(mkostemp)
TEMPORARIES(mkostemp64)
