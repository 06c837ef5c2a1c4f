// SPDX-License-Identifier: Apache-2.0
#include "measure/observe/observe_int.h"

#include "base/os.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ANCESTORS_MOST = 64 };
// A process may be given to another parent, and a number to another process.
#define LOOK_AGAIN_NS INT64_C(10000000000)

void observe_owner_set(struct owner *o, const struct owner_root *roots, int count) {
    bool is_same =
        count == o->root_count && memcmp(roots, o->roots, (size_t)count * sizeof *roots) == 0;
    if (is_same) return;
    memcpy(o->roots, roots, (size_t)count * sizeof *roots);
    o->root_count = count;
    o->count = 0;
}

static int root_of(const struct owner *o, int64_t pid) {
    for (int i = 0; i < o->root_count; i++) {
        if (o->roots[i].pid == pid) return o->roots[i].run;
    }
    return -1;
}

static bool stat_of(int64_t pid, struct os_stat *ret_stat) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    return os_stat_read(path, ret_stat);
}

static int64_t parent_of(int64_t pid) {
    struct os_stat s;
    return stat_of(pid, &s) ? s.parent : 0;
}

double observe_owner_cpu_seconds(int64_t pid) {
    struct os_stat s;
    return pid > 1 && stat_of(pid, &s) ? s.cpu_seconds : (double)NAN;
}

static int look(const struct owner *o, int64_t pid) {
    for (int i = 0; i < ANCESTORS_MOST && pid > 1; i++) {
        int run = root_of(o, pid);
        if (run >= 0 || !o->asks_proc) return run;
        pid = parent_of(pid);
    }
    return -1;
}

int observe_owner_of(struct owner *o, int64_t pid, int64_t now_ns) {
    if (o->root_count == 0) return -1;
    struct owned *at = NULL;
    for (int i = 0; i < o->count && !at; i++) {
        if (o->items[i].pid == pid) at = &o->items[i];
    }
    if (at && now_ns - at->looked_ns < LOOK_AGAIN_NS) return at->run;
    if (!at && o->count == OWNER_MOST) o->count = 0; // many came and went
    if (!at) at = &o->items[o->count++];
    *at = (struct owned){pid, now_ns, look(o, pid)};
    return at->run;
}
