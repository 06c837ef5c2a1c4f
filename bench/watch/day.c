// SPDX-License-Identifier: Apache-2.0
// A day of watching in little time: 86,400 readings of a machine as fast as it answers, through the
// same calls as the verbs'. Prints as JSON what memory the process had after the first hundred
// readings, after a tenth and at the end, and how many blocks it held. Whoever leaks a byte a
// reading is seen.
//
// day [--machine DIR] READINGS
#include "base/os.h"
#include "measure/observe/observe.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Every block of the process, the fake driver's too. __libc_*: glibc's own names.
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void __libc_free(void *block);
static atomic_long blocks, calls;

void *malloc(size_t bytes) {
    blocks++;
    calls++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    blocks++;
    calls++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes) {
    blocks += !block;
    calls++;
    return __libc_realloc(block, bytes);
}

void free(void *block) {
    blocks -= block != NULL;
    __libc_free(block);
}

static long rss_kib(void) {
    char text[4096] = "";
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    const char *line = strstr(text, "Rss:");
    return line ? atol(line + 4) : -1;
}

static void say(const char *when, int64_t readings, const char *end) {
    printf("\"%s\": {\"readings\": %lld, \"rss_kib\": %ld, \"blocks\": %ld, \"calls\": %ld}%s\n",
           when, (long long)readings, rss_kib(), (long)blocks, (long)calls, end);
}

static int64_t watch_until(struct watch *w, int64_t readings) {
    while (observe_view(w)->readings < readings) {
        if (!observe_update(w)) usleep(200);
    }
    return observe_view(w)->readings;
}

int main(int argc, char **argv) {
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct watch *w;
    struct observe_options options = {.interval_ms = 1, .no_runs = false};
    if (argc == 4 && strcmp(argv[1], "--machine") == 0) options.machine = argv[2];
    int64_t most = argc > 1 ? atoll(argv[argc - 1]) : 86400, begin = os_now_ns();
    if (observe_open(&a, &options, &w, &why)) {
        fprintf(stderr, "day: %s\n", why.message);
        return 1;
    }
    printf("{");
    say("begin", watch_until(w, 100), ",");
    say("warm", watch_until(w, most / 10), ",");
    say("end", watch_until(w, most), ",");
    printf("\"cards\": %d, \"seconds\": %.1f}\n", observe_view(w)->devices->count,
           (double)(os_now_ns() - begin) * 1e-9);
    observe_close(w);
    return 0;
}
