// SPDX-License-Identifier: Apache-2.0
// The memory limit of a trial on the CPU: a cgroup v2 of its own where one may be made (the
// kernel's Documentation/admin-guide/cgroup-v2.rst), else the guardian, which looks at what the
// tree holds. Behind the latter stand RLIMIT_DATA (setrlimit(2): what each process reserves,
// whether it uses it or not, hence a generous one) and the kernel, which is offered the trial
// first.
#include "measure/trial/trial_int.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROC_BYTES = 1 << 20 };

// Joins two texts; false: too long. (snprintf is not async-signal-safe.)
static bool join(char *path, size_t size, const char *folder, const char *file) {
    size_t a = strlen(folder), b = strlen(file);
    if (a + b + 2 > size) return false;
    stpcpy(stpcpy(stpcpy(path, folder), "/"), file);
    return true;
}

static int write_file(const char *folder, const char *file, const char *text) {
    char path[PATH_MAX];
    if (!join(path, sizeof path, folder, file)) return -ENAMETOOLONG;
    OS_FD fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

// The folder hands the memory controller on to groups in it, or may be told to, and we may make
// one.
static bool is_usable(struct arena *a, const char *folder) {
    struct str enabled;
    const char *control = str_format(a, "%s/cgroup.subtree_control", folder).p;
    if (access(folder, W_OK) < 0) return false;
    if (os_read(a, control, PROC_BYTES, &enabled, NULL, NULL) < 0) return false;
    if (str_has_word(str_trim(enabled), STR("memory"))) return true;
    // Refused while the group has processes of its own, unless it is the root of all.
    return write_file(folder, "cgroup.subtree_control", "+memory") == 0 &&
           os_read(a, control, PROC_BYTES, &enabled, NULL, NULL) == 0 &&
           str_has_word(str_trim(enabled), STR("memory"));
}

// Our group, "0::/user.slice/…"; empty: the kernel has no cgroup v2.
static struct str own_group(struct arena *a, const char *root) {
    struct str text;
    if (os_read(a, str_format(a, "%s/proc/self/cgroup", root).p, PROC_BYTES, &text, NULL, NULL) <
        0) {
        return (struct str){0};
    }
    while (text.len > 0) {
        struct str line = str_line(&text);
        if (str_starts(line, STR("0::/"))) return str_slice(line, 3, line.len);
    }
    return (struct str){0};
}

// proc_pid_mountinfo(5): id parent device root MOUNTPOINT options [fields] - TYPE source options.
static struct str mount_point(struct arena *a, const char *root) {
    struct str text;
    const char *path = str_format(a, "%s/proc/self/mountinfo", root).p;
    if (os_read(a, path, PROC_BYTES, &text, NULL, NULL) < 0) return (struct str){0};
    while (text.len > 0) {
        struct str line = str_line(&text), point = {0};
        if (str_find(line, STR(" - cgroup2 ")) < 0) continue;
        for (int field = 0; field < 5; field++) point = str_cut(&line, ' ');
        return point;
    }
    return (struct str){0};
}

struct str trial_limit_find(struct arena *a, const char *root) {
    struct str group = own_group(a, root), point = mount_point(a, root);
    if (!group.len || !point.len) return (struct str){0};
    // Below our own group; else beside it, where a service manager delegated the folder above.
    for (int level = 0; level < 2; level++) {
        while (group.len > 0 && group.p[group.len - 1] == '/') group.len--;
        struct str folder = str_format(a, "%s%.*s%.*s", root, STR_ARG(point), STR_ARG(group));
        if (is_usable(a, folder.p)) return folder;
        if (group.len == 0) break;
        while (group.len > 0 && group.p[group.len - 1] != '/') group.len--;
    }
    return (struct str){0};
}

static void decimal(char text[24], int64_t value) {
    size_t at = 23;
    text[at] = 0;
    do text[--at] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    memmove(text, text + at, 24 - at);
}

int trial_limit_make(const char *folder, int64_t bytes) {
    char text[24];
    decimal(text, bytes);
    if (mkdir(folder, 0755) < 0) return -errno;
    int code = write_file(folder, "memory.max", text);
    // Without swap accounting there is no such file; then there is rarely any swap either.
    (void)write_file(folder, "memory.swap.max", "0");
    (void)write_file(folder, "memory.oom.group", "1");
    if (code < 0) rmdir(folder);
    return code;
}

int trial_limit_join(const char *folder) {
    return write_file(folder, "cgroup.procs", "0");
}

void trial_limit_kill(const char *folder) {
    (void)write_file(folder, "cgroup.kill", "1");
} // Linux 5.14

void trial_limit_drop(const char *folder) {
    // A group is busy for a moment after its last process was reaped.
    for (int i = 0; i < 100 && rmdir(folder) < 0 && errno == EBUSY; i++) usleep(10000);
}

int trial_limit_set_data(int64_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) < 0) return -errno;
    rlim_t wanted = (rlim_t)bytes;
    if (limit.rlim_max == RLIM_INFINITY || wanted < limit.rlim_max) limit.rlim_max = wanted;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_DATA, &limit) < 0 ? -errno : 0;
}

// Thread stacks, arenas and buffers that are reserved and never touched come to some GiB beside
// what is used; a single request far beyond the limit is refused at once all the same.
int64_t trial_limit_backstop(int64_t bytes) {
    return 2 * bytes + (INT64_C(4) << 30);
}

void trial_limit_offer(void) {
    (void)write_file("/proc/self", "oom_score_adj", "1000"); // proc_pid_oom_score_adj(5)
}

int64_t trial_limit_counter(const char *folder, const char *file, const char *key) {
    ARENA_AUTO a = {0};
    char path[PATH_MAX];
    struct str text;
    int64_t value;
    if (!join(path, sizeof path, folder, file)) return -1;
    if (os_read(&a, path, PROC_BYTES, &text, NULL, NULL) < 0) return -1;
    while (text.len > 0) {
        struct str line = str_line(&text);
        if (key && !str_is(str_cut(&line, ' '), key)) continue;
        return str_to_i64(str_trim(line), &value) ? value : -1;
    }
    return -1;
}

int64_t trial_limit_system_oom_kills(const char *root) {
    ARENA_AUTO a = {0};
    return trial_limit_counter(str_format(&a, "%s/proc", root).p, "vmstat", "oom_kill");
}
