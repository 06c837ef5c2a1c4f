// SPDX-License-Identifier: Apache-2.0
// What /proc says of a process on a GPU: whose it is, since when, its command, its memory of the
// CPU (proc(5) of Linux man-pages 6). A recording and the fake driver have a /proc of their own.
#include "machine/device/device_int.h"

#include "base/os.h"
#include "base/out.h"
#include "base/shell.h"

#include <fcntl.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct device_kind_name device_process_kinds[DEVICE_PROCESS_KINDS] = {
    {DEVICE_COMPUTE, "compute"}, {DEVICE_GRAPHICS, "graphics"}, {DEVICE_MPS, "mps"}};

enum { PATH = 300, FILE_MOST = 4096, WORDS = 64, RECORD = 2048 };

struct device_process device_process_unknown(int64_t pid) {
    return (struct device_process){.pid = pid,
                                   .used_bytes = -1,
                                   .utilisation = (double)NAN,
                                   .host_bytes = -1,
                                   .age_s = (double)NAN,
                                   .start_ticks = -1};
}

struct device_process *device_process_place(struct device_card *card, int64_t pid,
                                            int64_t used_bytes) {
    struct device_process *least = card->processes;
    for (int i = 0; i < card->process_count; i++) {
        struct device_process *p = &card->processes[i];
        if (p->pid == pid) return p;
        if (p->used_bytes < least->used_bytes) least = p;
    }
    bool is_full = card->process_count == DEVICE_PROCESSES;
    if (is_full) card->processes_unlisted++;
    if (is_full && used_bytes <= least->used_bytes) return NULL;
    struct device_process *p = is_full ? least : &card->processes[card->process_count++];
    *p = device_process_unknown(pid);
    return p;
}

static int by_memory(const void *a, const void *b) {
    const struct device_process *x = a, *y = b;
    if (x->used_bytes != y->used_bytes) return x->used_bytes < y->used_bytes ? 1 : -1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

void device_processes_sort(struct device_card *card) {
    qsort(card->processes, (size_t)card->process_count, sizeof *card->processes, by_memory);
}

// Ends with a NUL that is not counted; 0: it is not there, or empty.
static size_t read_file(const char *root, int64_t pid, const char *name, char text[FILE_MOST]) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/proc/%lld/%s", root, (long long)pid, name);
    OS_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, FILE_MOST - 1);
    text[length > 0 ? length : 0] = 0;
    return length > 0 ? (size_t)length : 0;
}

static double uptime_of(const char *root) {
    char path[PATH], text[64];
    snprintf(path, sizeof path, "%s/proc/uptime", root);
    OS_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (length <= 0) return (double)NAN;
    text[length] = 0;
    return strtod(text, NULL);
}

static void look_at_time(const char *root, struct device_process *p) {
    char path[PATH];
    struct os_stat s;
    snprintf(path, sizeof path, "%s/proc/%lld/stat", root, (long long)p->pid);
    if (!os_stat_read(path, &s)) return;
    double age = uptime_of(root) - (double)s.start_ticks / (double)sysconf(_SC_CLK_TCK);
    p->start_ticks = s.start_ticks;
    p->host_bytes = s.resident_bytes;
    p->age_s = age < 0 ? 0 : age;
}

// A name where the system has one, else the number. That of another machine is not ours to name.
static void look_at_user(const char *root, struct device_process *p) {
    char text[FILE_MOST], record[RECORD];
    struct passwd entry, *found = NULL;
    if (!read_file(root, p->pid, "status", text)) return;
    const char *at = strstr(text, "\nUid:");
    if (!at) return;
    long uid = strtol(at + 5, NULL, 10);
    bool is_here = root[0] == 0;
    if (is_here) (void)getpwuid_r((uid_t)uid, &entry, record, sizeof record, &found);
    if (found)
        clean_keep(p->user, sizeof p->user, str_of(found->pw_name));
    else
        snprintf(p->user, sizeof p->user, uid == 0 ? "root" : "%ld", uid);
}

static void look_at_command(const char *root, struct device_process *p) {
    char text[FILE_MOST], *words[WORDS + 1];
    size_t length = read_file(root, p->pid, "cmdline", text);
    int count = 0;
    for (char *at = text; at < text + length && count < WORDS; at += strlen(at) + 1)
        words[count++] = at;
    words[count] = NULL;
    if (count == 0) return;
    ARENA_AUTO a = {0};
    clean_keep(p->command, sizeof p->command, shell_command(&a, words));
}

void device_process_look(const char *root, struct device_process *p) {
    look_at_time(root, p);
    if (p->start_ticks < 0) return; // gone, or not to be seen from here
    look_at_user(root, p);
    look_at_command(root, p);
}
