// SPDX-License-Identifier: Apache-2.0
#include "watch/watch_int.h"

#include "base/os.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANCESTORS_MOST = 64 };
// A process may be given to another parent, and a number to another process.
#define LOOK_AGAIN_NS INT64_C(10000000000)

void owner_set(struct owner *o, const struct owner_root *roots, int count) {
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

// proc(5): pid (name) state ppid …; the name may hold blanks and brackets. The text from the state
// on; NULL: there is none.
static const char *read_stat(int64_t pid, char text[512]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    OS_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, 511);
    if (length <= 0) return NULL;
    text[length] = 0;
    const char *at = strrchr(text, ')');
    return at && at[1] && at[2] ? at + 2 : NULL;
}

static int64_t parent_of(int64_t pid) {
    char text[512];
    const char *at = read_stat(pid, text);
    return at ? strtoll(at + 1, NULL, 10) : 0;
}

// Fields 14 and 15: utime and stime.
double owner_cpu_seconds(int64_t pid) {
    char text[512];
    const char *at = pid > 1 ? read_stat(pid, text) : NULL;
    for (int field = 3; at && field < 14; field++) {
        at = strchr(at, ' ');
        if (at) at++;
    }
    if (!at) return (double)NAN;
    char *end;
    double user = strtod(at, &end), system = strtod(end, NULL);
    return (user + system) / (double)sysconf(_SC_CLK_TCK);
}

static int look(const struct owner *o, int64_t pid) {
    for (int i = 0; i < ANCESTORS_MOST && pid > 1; i++) {
        int run = root_of(o, pid);
        if (run >= 0 || !o->asks_proc) return run;
        pid = parent_of(pid);
    }
    return -1;
}

int owner_of(struct owner *o, int64_t pid, int64_t now_ns) {
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
