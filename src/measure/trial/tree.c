// SPDX-License-Identifier: Apache-2.0
// The processes below one process, read from /proc (proc(5)): who they are, how much memory they
// hold, and how to signal all of them. Allocates nothing: the guardian calls it between fork and
// exec.
//
// Every process of the machine is listed, since /proc/PID/task/TID/children exists only where the
// kernel was built with CONFIG_PROC_CHILDREN. A scan is not atomic: a process whose parent ends
// meanwhile may be missed. Whoever must be sure asks waitpid: a subreaper without children has no
// descendants.
#include "measure/trial/trial_int.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// Reserved, not used: a page of it becomes real when so many processes exist.
enum { TREE_MOST = 1 << 20 };

int trial_tree_open(struct tree *t) {
    *t = (struct tree){.proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (t->proc_fd < 0) return -errno;
    void *items = mmap(NULL, TREE_MOST * sizeof *t->items, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (items == MAP_FAILED) {
        int error = errno;
        close(t->proc_fd);
        t->proc_fd = -1;
        return -error;
    }
    t->items = items;
    return 0;
}

void trial_tree_close(struct tree *t) {
    if (t->items) munmap(t->items, TREE_MOST * sizeof *t->items);
    if (t->proc_fd >= 0) close(t->proc_fd);
    *t = (struct tree){.proc_fd = -1};
}

// PID/FILE, below /proc.
static void file_path(pid_t pid, const char *file, char *path, size_t size) {
    char digits[12];
    size_t n = 0, at = 0;
    do digits[n++] = (char)('0' + pid % 10);
    while ((pid /= 10) > 0);
    while (n > 0) path[at++] = digits[--n];
    path[at++] = '/';
    while (*file && at + 1 < size) path[at++] = *file++;
    path[at] = 0;
}

// Into text with a NUL behind it; its length, or negative.
static ssize_t read_file(const struct tree *t, pid_t pid, const char *file, char *text,
                         size_t size) {
    char path[40];
    file_path(pid, file, path, sizeof path);
    int fd = openat(t->proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    if (length >= 0) text[length] = 0;
    return length;
}

static int64_t number_at(const char **p) {
    while (**p == ' ' || **p == '\t') ++*p;
    bool is_negative = **p == '-';
    if (is_negative) ++*p;
    int64_t value = 0;
    while (**p >= '0' && **p <= '9') value = value * 10 + (*(*p)++ - '0');
    return is_negative ? -value : value;
}

// proc(5): pid (name) state ppid pgrp …; the name may hold blanks and brackets. Field 10 is minflt,
// 14 to 17 are utime, stime, cutime and cstime, 22 is starttime.
static bool read_stat(const struct tree *t, pid_t pid, struct tree_process *p) {
    char text[1024];
    if (read_file(t, pid, "stat", text, sizeof text) <= 0) return false;
    const char *at = strrchr(text, ')');
    if (!at || at[1] != ' ' || !at[2]) return false;
    *p = (struct tree_process){
        .pid = pid, .is_zombie = at[2] == 'Z' || at[2] == 'X', .is_runnable = at[2] == 'R'};
    at += 3;
    p->parent = (pid_t)number_at(&at);
    p->group = (pid_t)number_at(&at);
    p->session = (pid_t)number_at(&at);
    for (int field = 7; field < 10; field++) number_at(&at);
    p->faults = number_at(&at);
    for (int field = 11; field < 14; field++) number_at(&at);
    p->user_ticks = number_at(&at);
    p->kernel_ticks = number_at(&at);
    p->reaped_ticks = number_at(&at);
    p->reaped_ticks += number_at(&at);
    for (int field = 18; field < 22; field++) number_at(&at);
    p->start_ticks = number_at(&at);
    return true;
}

static int list_all(struct tree *t) {
    _Alignas(struct folder_entry) char names[1 << 15];
    t->count = 0;
    if (lseek(t->proc_fd, 0, SEEK_SET) < 0) return -errno;
    for (;;) {
        long bytes = syscall(SYS_getdents64, t->proc_fd, names, sizeof names);
        if (bytes < 0) return -errno;
        if (bytes == 0) return 0;
        for (long at = 0; at < bytes;) {
            const struct folder_entry *e = (const struct folder_entry *)(names + at);
            at += e->length;
            const char *name = e->name;
            if (*name < '1' || *name > '9' || t->count == TREE_MOST) continue;
            pid_t pid = (pid_t)number_at(&name);
            if (read_stat(t, pid, &t->items[t->count])) t->count++;
        }
    }
}

static struct tree_process *find(const struct tree *t, pid_t pid) {
    int low = 0, high = t->count; // /proc lists by rising pid
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (t->items[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->count && t->items[low].pid == pid ? &t->items[low] : NULL;
}

int trial_tree_scan(struct tree *t, pid_t root) {
    int code = list_all(t);
    if (code < 0) return code;
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (int i = 0; i < t->count; i++) {
            struct tree_process *p = &t->items[i];
            if (p->is_below) continue;
            const struct tree_process *parent = p->parent == root ? NULL : find(t, p->parent);
            p->is_below = p->parent == root || (parent && parent->is_below);
            is_changed = is_changed || p->is_below;
        }
    }
    int kept = 0;
    for (int i = 0; i < t->count; i++) {
        if (t->items[i].is_below) t->items[kept++] = t->items[i];
    }
    t->count = kept;
    return 0;
}

bool trial_tree_has(const struct tree *t, pid_t pid) {
    const struct tree_process *p = find(t, pid);
    return p && !p->is_zombie;
}

bool trial_tree_leads_to(const struct tree *t, pid_t pid, const int32_t *pids, int count) {
    for (int i = 0; i < count; i++) {
        const struct tree_process *at = find(t, pids[i]);
        while (at && at->pid != pid) at = find(t, at->parent);
        if (at) return true;
    }
    return false;
}

bool trial_tree_is_shell(const struct tree *t, pid_t pid) {
    static const char *const shells[] = {"/sh", "/bash", "/dash", "/zsh", "/ksh", "/busybox"};
    char path[40], program[256];
    file_path(pid, "exe", path, sizeof path);
    ssize_t n = readlinkat(t->proc_fd, path, program, sizeof program - 1);
    if (n <= 0) return false;
    program[n] = 0;
    const char *name = strrchr(program, '/');
    for (size_t i = 0; name && i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(name, shells[i]) == 0) return true;
    }
    return false;
}

bool trial_tree_catches(const struct tree *t, pid_t pid, int signal) {
    char text[4096];
    uint64_t bits;
    bool is_known =
        read_file(t, pid, "status", text, sizeof text) > 0 && os_signals_caught(text, &bits);
    return is_known && (bits >> (signal - 1) & 1);
}

int trial_tree_living(const struct tree *t) {
    int count = 0;
    for (int i = 0; i < t->count; i++) count += !t->items[i].is_zombie;
    return count;
}

int64_t trial_tree_ticks(const struct tree *t) {
    int64_t ticks = 0;
    for (int i = 0; i < t->count; i++) {
        const struct tree_process *p = &t->items[i];
        ticks += p->user_ticks + p->kernel_ticks + p->reaped_ticks;
    }
    return ticks;
}

bool trial_tree_has_left(const struct tree *t, pid_t group) {
    for (int i = 0; i < t->count; i++) {
        if (t->items[i].group != group && !t->items[i].is_zombie) return true;
    }
    return false;
}

bool trial_tree_is_spared(const struct tree_process *p, struct tree_spared spared) {
    return p->start_ticks < spared.before_ticks ||
           (spared.session > 0 && p->session == spared.session);
}

// A group first: the kernel signals all of it at once, no fork comes in between. A group never
// spans sessions, and all sessions below the guardian, its own included, were made by it or below
// it, so nobody else's process can be in one.
void trial_tree_signal(const struct tree *t, int signal, struct tree_spared spared) {
    bool is_certain = signal == SIGKILL || signal == SIGSTOP;
    pid_t own_group = getpgrp(), last_group = own_group;
    for (int i = 0; i < t->count; i++) {
        const struct tree_process *p = &t->items[i];
        if (p->is_zombie || trial_tree_is_spared(p, spared)) continue;
        if (is_certain && p->group != own_group && p->group != last_group && p->group > 1) {
            kill(-p->group, signal);
            last_group = p->group;
        }
        kill(p->pid, signal);
    }
}

int64_t trial_tree_start_of(const struct tree *t, pid_t pid) {
    struct tree_process p;
    return read_stat(t, pid, &p) ? p.start_ticks : -1;
}

// "VmRSS:     1234 kB" -> bytes; -1: no such line (a zombie, a kernel thread).
static int64_t status_bytes(const char *text, const char *key) {
    const char *line = strstr(text, key);
    if (!line) return -1;
    line += strlen(key);
    return number_at(&line) * 1024;
}

bool trial_tree_held(const struct tree *t, const struct tree_process *p, struct tree_held *ret) {
    char text[4096];
    if (p->is_zombie || read_file(t, p->pid, "status", text, sizeof text) <= 0) return false;
    *ret = (struct tree_held){.rss_bytes = status_bytes(text, "\nVmRSS:"),
                              .hwm_bytes = status_bytes(text, "\nVmHWM:"),
                              .data_bytes = status_bytes(text, "\nVmData:")};
    return ret->rss_bytes >= 0;
}

int64_t trial_tree_pss(const struct tree *t) {
    int64_t sum = -1;
    for (int i = 0; i < t->count; i++) {
        char text[2048];
        struct tree_held held;
        if (t->items[i].is_zombie) continue;
        bool is_read = read_file(t, t->items[i].pid, "smaps_rollup", text, sizeof text) > 0;
        int64_t bytes = is_read ? status_bytes(text, "\nPss:") : -1;
        if (bytes < 0) bytes = trial_tree_held(t, &t->items[i], &held) ? held.rss_bytes : -1;
        if (bytes >= 0) sum = sum < 0 ? bytes : sum + bytes;
    }
    return sum;
}
