// SPDX-License-Identifier: Apache-2.0
// How fast the history is with many runs in it: the tables of doc/history.md. Makes a history of
// 100,000 made-up runs in a temporary folder, or adds them to an empty PostgreSQL database, and
// times whole processes of `list runs` and the lookups of fit.
//
// build/bench/store [BATCHFIT] [RUNS] [postgresql://...]
#include "base/os.h"
#include "records/store/store_int.h"
#include "stats/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { RUNS = 100000, REPEATS = 21, MODELS = 200, CARDS = 12, ADDS = 100 };
static double list_ms = 50, lookup_ms = 50; // goals

static char folder[] = "/tmp/batchfit-bench-store-XXXXXX";
static const char *place = folder;

static void stop(const struct fail *why) {
    fprintf(stderr, "bench/store: %s\n", why->message);
    exit(1);
}

static struct store_run made_up(struct arena *a, struct stats_random *r, int64_t i) {
    struct store_run run = store_run_unknown();
    run.at_ms = 1700000000000 + i * 60000;
    run.kind = i % 5 == 0 ? STR("fit") : i % 7 == 0 ? STR("bench") : STR("trial");
    run.version = STR("0.1.0");
    run.is_standin = 0;
    run.plan.model = str_format(a, "timm:made_up_model_%d", (int)(stats_next(r) % MODELS));
    run.gpu = str_format(a, "NVIDIA GeForce RTX %d", (int)(3000 + 10 * (stats_next(r) % CARDS)));
    run.question = str_format(a, "%016llx", (unsigned long long)(stats_next(r) % 20000));
    run.command_hash = run.question;
    run.torch = STR("2.6.0+cu124");
    run.plan.batch = 1 << (i % 8);
    run.plan.accumulation = 1;
    run.status = STR("OK");
    run.reserved_bytes = run.predicted_reserved_bytes = 1000000000 + i;
    run.peak_bytes = run.predicted_bytes = 1500000000 + i;
    run.samples_per_s = 100 + stats_uniform(r);
    run.each_s =
        STR("0.0101234 0.0101234 0.0101234 0.0101234 0.0101234 0.0101234 0.0101234 0.0101234");
    run.reason = i % 4 ? (struct str){0} : STR("CUDA out of memory. Tried to allocate 29.44 GiB.");
    return run;
}

// Many in one transaction: 100,000 that are each on the disk before the next would take minutes.
static void fill(struct store *s, int64_t runs) {
    struct stats_random r = {20261122};
    struct fail why = {0};
    ARENA_AUTO a = {0};
    for (int64_t i = 0; i < runs; i += STORE_AT_ONCE) {
        struct arena_mark mark = arena_mark(&a);
        struct store_run *some = arena_new(&a, struct store_run, STORE_AT_ONCE);
        int64_t count = runs - i < STORE_AT_ONCE ? runs - i : STORE_AT_ONCE;
        for (int64_t k = 0; k < count; k++) {
            some[k] = made_up(&a, &r, i + k);
            some[k].uid = store_new_uid(&a);
        }
        if (s->engine->add(s, some, count, NULL, NULL, &why) < 0) stop(&why);
        arena_rewind(&a, mark);
    }
}

// What was waited for, and the processor's part of it: ours and our children's, not a server's.
struct times {
    double ms[ADDS], cpu_ms[ADDS];
    int64_t began_ns;
    double cpu_began_ms;
    int count;
};

static double cpu_ms(void) {
    static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    double ms = 0;
    for (int i = 0; i < 2; i++) {
        struct rusage u;
        getrusage(whose[i], &u);
        ms += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
              (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
    }
    return ms;
}

static void begin(struct times *t) {
    t->cpu_began_ms = cpu_ms();
    t->began_ns = os_now_ns();
}

static void end(struct times *t) {
    t->ms[t->count] = (double)(os_now_ns() - t->began_ns) / 1e6;
    t->cpu_ms[t->count++] = cpu_ms() - t->cpu_began_ms;
}

static bool row(const char *what, const struct times *t, double goal) {
    double median = stats_median(t->ms, t->count);
    printf("| %s | %.2f ms | %.2f ms | %.2f ms | %.2f ms | ", what, median,
           stats_quantile(t->ms, t->count, 0.9), stats_quantile(t->ms, t->count, 0),
           stats_median(t->cpu_ms, t->count));
    if (goal > 0)
        printf("%.0f ms | %s |\n", goal, median <= goal ? "yes" : "NO");
    else
        printf("– | – |\n");
    fflush(stdout);
    return !(goal > 0) || median <= goal;
}

// The whole process, from its start to its end, as a user waits for it.
static bool time_process(const char *what, const char *program, const char *options) {
    char command[512];
    struct times t = {.count = 0};
    snprintf(command, sizeof command, "%s list runs --store %s %s >/dev/null", program, place,
             options);
    for (int i = 0; i < REPEATS; i++) {
        begin(&t);
        if (system(command) != 0) { // NOLINT(cert-env33-c): a benchmark's own command
            fprintf(stderr, "bench/store: %s failed\n", command);
            exit(1);
        }
        end(&t);
    }
    return row(what, &t, list_ms);
}

// As fit does: open, look up, close.
static bool time_lookup(const char *what, const struct store_filter *filter) {
    struct times t = {.count = 0};
    for (int i = 0; i < REPEATS; i++) {
        ARENA_AUTO a = {0};
        struct store *s;
        struct store_run *runs;
        struct fail why = {0};
        ptrdiff_t count;
        begin(&t);
        if (store_open(&a, str_of(place), &s, &why) < 0) stop(&why);
        if (store_find(s, &a, filter, &runs, &count, &why) < 0) stop(&why);
        store_close(s);
        end(&t);
    }
    return row(what, &t, lookup_ms);
}

// The lookup alone.
static bool time_open(const char *what, const struct store_filter *filter) {
    ARENA_AUTO a = {0};
    struct times t = {.count = 0};
    struct store *s;
    struct fail why = {0};
    if (store_open(&a, str_of(place), &s, &why) < 0) stop(&why);
    for (int i = 0; i < REPEATS; i++) {
        struct store_run *runs;
        ptrdiff_t count;
        begin(&t);
        if (store_find(s, &a, filter, &runs, &count, &why) < 0) stop(&why);
        end(&t);
    }
    store_close(s);
    return row(what, &t, lookup_ms);
}

static void time_adding(void) {
    ARENA_AUTO a = {0};
    struct stats_random r = {7};
    struct store *s;
    struct fail why = {0};
    struct times t = {.count = 0};
    if (store_open(&a, str_of(place), &s, &why) < 0) stop(&why);
    for (int i = 0; i < ADDS; i++) {
        struct store_run run = made_up(&a, &r, i);
        begin(&t);
        if (store_add(s, &run, NULL, &why) < 0) stop(&why);
        end(&t);
    }
    store_close(s);
    row("one run stored, on the disk", &t, 0);
}

int main(int argc, char **argv) {
    const char *program = argc > 1 ? argv[1] : "build/batchfit";
    int64_t runs = RUNS;
    ARENA_AUTO a = {0};
    struct store *s;
    struct fail why = {0};
    struct stat st;
    if (argc > 2 && !str_to_i64(str_of(argv[2]), &runs)) return 2;
    if (!mkdtemp(folder)) return 1;
    if (argc > 3) place = argv[3];
    if (runs > RUNS) list_ms = 100, lookup_ms = 20;
    if (store_open(&a, str_of(place), &s, &why) < 0) stop(&why);
    struct store_number there;
    if (store_count(s, &there, &why) < 0) stop(&why);
    if (there.runs == 0) fill(s, runs); // a second time on the same server
    struct str path = s->path;
    store_close(s);
    bool is_file = stat(path.p, &st) == 0;
    printf("%lld runs, %.*s\n\n| what | median | 90 %% | least | processor | goal | met |\n"
           "|---|---|---|---|---|---|---|\n",
           (long long)runs, is_file ? 6 : (int)path.len, is_file ? "SQLite" : path.p);
    bool good = time_process("`list runs`", program, "");
    good &= time_process("`list runs --json`", program, "--json");
    good &= time_process("`list runs --model`, part of a name", program, "--model model_17");
    good &= time_process("`list runs --model`, no such", program, "--model nothing");
    good &= time_process("`list runs --gpu --kind --since`", program,
                         "--gpu 3050 --kind bench --since 2023-12-01");
    const struct store_filter asked = {.kind = STR("trial"), .question = STR("0000000000000007")};
    const struct store_filter residuals = {
        .gpu = STR("NVIDIA GeForce RTX 3050"), .only_predicted = true, .limit = 500};
    good &= time_lookup("fit: open, was this asked before?, close", &asked);
    good &= time_lookup("fit: open, residuals of this GPU, close", &residuals);
    good &= time_open("fit: was this asked before?", &asked);
    good &= time_open("fit: residuals of this GPU", &residuals);
    time_adding();
    char *remove[] = {(char *)"rm", (char *)"-rf", folder, NULL};
    int status;
    os_run(remove, &status, NULL);
    return good ? 0 : 1;
}
