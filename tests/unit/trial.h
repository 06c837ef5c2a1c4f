// SPDX-License-Identifier: Apache-2.0
// Trials of shell scripts. Each test gets an empty folder for scratch folders, and its processes
// carry a mark in their environment; afterwards the folder must be empty and no marked process be
// left.
#ifndef TESTS_PROBE_TRIAL_H
#define TESTS_PROBE_TRIAL_H

#include "unit.h"

#include "base/os.h"
#include "measure/trial/trial.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// What scripts may call: start [RANK [WORLD]], step NUMBER [RANK], say LINE. $$ is the pid that
// reports, so a rank of its own is a shell of its own: sh -c "$P …".
#define PRELUDE                                                                                   \
    "P=say() { eval 'printf \"%s\\n\" \"$1\" >&'\"$BATCHFIT_FD\"; };"                             \
    "start() { say \"{\\\"v\\\":1,\\\"event\\\":\\\"start\\\",\\\"pid\\\":$$,\\\"rank\\\":"       \
    "${1:-0},\\\"world\\\":${2:-1},\\\"framework\\\":\\\"${FRAMEWORK:-unit}\\\"}\"; };"           \
    "step() { say \"{\\\"v\\\":1,\\\"event\\\":\\\"step\\\",\\\"pid\\\":$$,\\\"rank\\\":${2:-0}," \
    "\\\"step\\\":$1,\\\"samples\\\":4,\\\"total_ms\\\":1.5}\"; };"

static char unit_folder[64], unit_mark[96];

static inline int make_folder(void **state) {
    (void)state;
    strcpy(unit_folder, "/tmp/batchfit-unit-XXXXXX");
    if (!mkdtemp(unit_folder)) return -1;
    snprintf(unit_mark, sizeof unit_mark, "BATCHFIT_UNIT_MARK=%s", unit_folder);
    return 0;
}

static inline int drop_folder(void **state) {
    (void)state;
    return rmdir(unit_folder); // fails when anything is left
}

static inline const char *at(struct arena *a, const char *name) {
    return str_format(a, "%s/%s", unit_folder, name).p;
}

static inline struct trial_request script(struct arena *a, const char *text) {
    char **argv = arena_new(a, char *, 4), **environment = arena_new(a, char *, 4);
    argv[0] = (char *)"/bin/sh";
    argv[1] = (char *)"-c";
    argv[2] = (char *)str_format(a, "eval \"$P\"; %s", text).p;
    environment[0] = (char *)PRELUDE;
    environment[1] = unit_mark;
    return (struct trial_request){.argv = argv,
                                  .environment = environment,
                                  .scratch_parent = unit_folder,
                                  .start_limit_s = 60,
                                  .stall_limit_s = 60,
                                  .time_limit_s = 90};
}

// Processes that carry the mark of this test.
static inline int count_marked(struct arena *a) {
    DIR *proc = opendir("/proc");
    int count = 0;
    for (const struct dirent *d; (d = readdir(proc));) {
        struct str text;
        if (d->d_name[0] < '0' || d->d_name[0] > '9' || atoi(d->d_name) == getpid()) continue;
        const char *path = str_format(a, "/proc/%s/environ", d->d_name).p;
        if (os_read(a, path, 1 << 20, &text, NULL, NULL) < 0) continue;
        count += str_find(text, str_of(unit_mark)) >= 0;
    }
    closedir(proc);
    return count;
}

static inline int count_entries(const char *folder) {
    DIR *entries = opendir(folder);
    int count = -2; // "." and ".."
    while (readdir(entries)) count++;
    closedir(entries);
    return count;
}

static inline void assert_nothing_left(struct arena *a) {
    assert_int_equal(count_marked(a), 0);
    assert_int_equal(count_entries(unit_folder), 0);
}

static inline struct trial try(struct arena *a, const struct trial_request *request) {
    struct fail why = {0};
    struct trial t;
    int code = trial_run(a, request, &t, &why);
    if (code < 0) fail_msg("%d: %s", code, why.message);
    assert_int_equal(t.left_behind.len, 0);
    assert_nothing_left(a);
    return t;
}

static inline const char *end_text(enum failure_class end) {
    const char *stopped = failure_stop_text(end);
    return stopped ? stopped : "ended by itself";
}

static inline void assert_end(struct arena *a, const struct trial *t, enum failure_class end) {
    if (t->end == end) return;
    fail_msg("%s (%d), not: %s (%d); output: %s", end_text(t->end), t->end, end_text(end), end,
             str_z(a, t->output));
}

// Then it is of the class that its output and status say.
static inline void assert_own_end(struct arena *a, const struct trial *t) {
    assert_end(a, t, t->ending.signature->kind);
    assert_null(failure_stop_text(t->end));
}

#endif
