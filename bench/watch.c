// SPDX-License-Identifier: Apache-2.0
// What watching costs: processor time and memory of a watch that nobody draws.
//
//   bench/watch SECONDS INTERVAL_MS [MACHINE]     without a machine: this one's driver
#include "watch/watch.h"
#include "base/os.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static double used_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static long resident_kib(const char *key) {
    char line[128];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (str_starts(str_of(line), str_of(key))) kib = strtol(line + str_of(key).len, NULL, 10);
    }
    if (f) fclose(f);
    return kib;
}

static void watch_until(struct watch *w, int64_t end_ns, int interval_ms) {
    const struct timespec nap = {interval_ms / 1000, interval_ms % 1000 * 1000000L};
    while (os_now_ns() < end_ns) {
        watch_update(w);
        nanosleep(&nap, NULL);
    }
}

int main(int count, char **words) {
    if (count < 3) return 2;
    ARENA_AUTO a = {0};
    double seconds = strtod(words[1], NULL);
    const struct watch_options options = {.interval_ms = (int)strtol(words[2], NULL, 10),
                                          .machine = count > 3 ? words[3] : NULL};
    struct watch *w;
    struct fail why;
    if (watch_open(&a, &options, &w, &why)) {
        fprintf(stderr, "%s\n", why.message);
        return 4;
    }
    int64_t begin_ns = os_now_ns(), third_ns = (int64_t)(seconds / 3 * 1e9);
    watch_until(w, begin_ns + third_ns, options.interval_ms);
    double used = used_seconds(), since = (double)os_now_ns();
    size_t heap = mallinfo2().uordblks;
    watch_until(w, begin_ns + 3 * third_ns, options.interval_ms);
    used = used_seconds() - used;
    since = ((double)os_now_ns() - since) / 1e9;
    printf("%d cards every %d ms, %lld readings: %.4f %% of a core, %.1f us a reading\n",
           watch_view(w)->devices->count, options.interval_ms, (long long)watch_view(w)->readings,
           100 * used / since, used * options.interval_ms / since * 1e3);
    printf(
        "resident %ld KiB (most %ld), heap %zu KiB, grown by %+td bytes in the last two thirds\n",
        resident_kib("VmRSS:"), resident_kib("VmHWM:"), heap >> 10,
        (ptrdiff_t)(mallinfo2().uordblks - heap));
    watch_close(w);
    return 0;
}
