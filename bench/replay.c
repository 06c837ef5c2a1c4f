// SPDX-License-Identifier: Apache-2.0
// How fast tapes are read and replayed: events a second for each tape given (or a made-up one), and
// the median. Every replay is of another batch than the one before, as a search does it.
//   replay [--batch N] [--conf PYTORCH_CUDA_ALLOC_CONF] [--need] [TAPE …]
//   replay --shipped     the tapes of data/tapes; fails when the median is below the goal
#include "base/os.h"
#include "predict/sim/sim.h"
#include "predict/tape/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEAST_NS = 100 * 1000 * 1000, SHIPPED_MOST = 100, GOAL = 20 };

struct figures {
    double read_mb_per_s, events_per_s, live_ns, need_ms;
    int32_t events, replays;
};

// A network of 40 blocks: each keeps four activations for backward and asks for temporaries.
static struct str made_up(struct arena *a) {
    struct buf t = buf_new(a);
    buf_format(&t, "{\"tape\":1,\"model\":\"made-up\",\"batches\":[2]}\n");
    int id = 0, step, i, k, first[2][40];
    for (i = 0; i < 40; i++) {
        first[0][i] = id;
        for (k = 0; k < 6; k++) buf_format(&t, "a %d %d 0 param\n", id++, 4096 << (i / 4 + k / 3));
    }
    for (step = 0; step < 2; step++) {
        buf_format(&t, "m forward %d\n", step);
        for (i = 0; i < 40; i++) {
            first[1][i] = id;
            for (k = 0; k < 4; k++) {
                int bytes = (3000000 >> (i / 10)) + k * 1024;
                buf_format(&t, "a %d 512 %d activation conv\n", id++, bytes);
                buf_format(&t, "a %d 0 %d temporary add\nf %d\n", id + 500000, bytes / 2,
                           id + 500000);
            }
        }
        buf_format(&t, "m backward %d\n", step);
        for (i = 39; i >= 0; i--) {
            for (k = 3; k >= 0; k--) {
                int gone = first[1][i] + k;
                buf_format(&t, "a %d 0 %d temporary conv_bw\n", id, 3000000 >> (i / 10));
                buf_format(&t, "f %d\nf %d\n", gone, id++);
            }
        }
    }
    return buf_str(&t);
}

// Processor time: what else the machine does should not count.
static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static double seconds_since(int64_t begin) {
    return (double)(now_ns() - begin) * 1e-9;
}

static double time_reading(struct str name, struct str text) {
    int64_t begin = now_ns(), bytes = 0;
    for (; now_ns() - begin < LEAST_NS / 4; bytes += text.len) {
        ARENA_AUTO scratch = {0};
        struct tape t;
        if (tape_read(&scratch, name, text, &t, NULL) < 0) return 0;
    }
    return (double)bytes / 1e6 / seconds_since(begin);
}

static double time_replays(struct sim *s, int64_t batch, int32_t *ret_events) {
    int64_t begin = now_ns(), events = 0;
    struct sim_result r;
    for (int64_t i = 0; now_ns() - begin < LEAST_NS; i++) {
        sim_replay(s, batch + i % 8, 0, SIM_UNLIMITED, &r);
        events += r.events;
    }
    *ret_events = r.events;
    return (double)events / seconds_since(begin);
}

static double time_live(struct sim *s, int64_t batch, int32_t events) {
    int64_t begin = now_ns(), n = 0, sum = 0;
    for (; now_ns() - begin < LEAST_NS / 4; n++) sum += sim_live_peak(s, batch + n % 8, 0);
    return sum < 0 ? 0 : seconds_since(begin) * 1e9 / (double)n / events;
}

static int measure(struct str name, struct str text, const struct sim_options *options,
                   int64_t batch, bool need, struct figures *ret) {
    ARENA_AUTO a = {0};
    struct tape t;
    struct fail why;
    if (tape_read(&a, name, text, &t, &why) < 0) {
        fprintf(stderr, "%s\n", why.message);
        return -1;
    }
    struct sim *s = sim_prepare(&a, &t, options);
    *ret = (struct figures){.read_mb_per_s = time_reading(name, text)};
    ret->events_per_s = time_replays(s, batch, &ret->events);
    ret->live_ns = time_live(s, batch, ret->events);
    if (need) {
        struct sim_need n;
        int64_t begin = now_ns();
        sim_needed(s, batch, 0, SIM_NEED_REPLAYS, &n);
        ret->need_ms = seconds_since(begin) * 1e3;
        ret->replays = n.replays;
    }
    return 0;
}

static int by_speed(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(struct str name, const struct figures *f) {
    printf("%-60.*s %7d events %7.1f M/s  live %.2f ns  read %5.0f MB/s", STR_ARG(name), f->events,
           f->events_per_s / 1e6, f->live_ns, f->read_mb_per_s);
    if (f->replays > 0) printf("  need %.1f ms, %d replays", f->need_ms, f->replays);
    putchar('\n');
}

struct bench {
    struct arena arena;
    struct sim_options options;
    int64_t batch;
    bool need, quiet;
    double *speeds;
    ptrdiff_t count, capacity;
};

static void bench_text(struct bench *b, struct str name, struct str text) {
    struct figures f;
    if (measure(name, text, &b->options, b->batch, b->need, &f) < 0) return;
    if (!b->quiet) print(name, &f);
    *arena_push(&b->arena, &b->speeds, &b->count, &b->capacity) = f.events_per_s;
}

static int bench_file(struct bench *b, const char *path) {
    ARENA_AUTO a = {0};
    struct str text;
    struct fail why;
    if (os_read(&a, path, INT64_C(1) << 30, &text, NULL, &why) < 0) {
        fprintf(stderr, "%s\n", why.message);
        return -1;
    }
    bench_text(b, str_of(path), text);
    return 0;
}

// Every shipped tape, thinned out to at most SHIPPED_MOST.
static int bench_shipped(struct bench *b) {
    ARENA_AUTO a = {0};
    struct tape_store store;
    struct fail why;
    if (tape_store_open(&a, (struct tape_places){.recorded = "/nonexistent"}, &store, &why) < 0) {
        fprintf(stderr, "%s\n", why.message);
        return -1;
    }
    ptrdiff_t stride = store.count / SHIPPED_MOST + 1;
    for (ptrdiff_t i = 0; i < store.count; i += stride) {
        ARENA_AUTO scratch = {0};
        struct tape t;
        struct buf text = buf_new(&scratch);
        if (tape_store_load(&scratch, &store, tape_store_at(&store, i), &t, &why) < 0) {
            fprintf(stderr, "%s\n", why.message);
            return -1;
        }
        tape_write(&t, &text);
        bench_text(b, t.header.model, buf_str(&text));
    }
    return 0;
}

static int report(struct bench *b, bool goal) {
    if (b->count == 0) {
        puts("no tapes");
        return 1;
    }
    qsort(b->speeds, (size_t)b->count, sizeof *b->speeds, by_speed);
    double median = b->speeds[b->count / 2] / 1e6;
    printf("median %.1f, slowest %.1f, fastest %.1f M events/s over %td tapes (goal: median %d)\n",
           median, b->speeds[0] / 1e6, b->speeds[b->count - 1] / 1e6, b->count, GOAL);
    return goal && median < GOAL;
}

static int usage(void) {
    fputs("replay [--batch N] [--conf CONF] [--need] [--shipped] [TAPE ...]\n", stderr);
    return 2;
}

int main(int argc, char **argv) {
    struct bench b = {.options = sim_options_default(), .batch = 16};
    bool shipped = false;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--need"))
            b.need = true;
        else if (!strcmp(argv[i], "--shipped"))
            shipped = b.quiet = true;
        else if (!strcmp(argv[i], "--batch") && value)
            b.batch = strtoll(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--conf") && value) {
            struct fail why;
            if (sim_options_parse(str_of(argv[++i]), &b.options, &why) < 0) return usage();
        } else
            return usage();
    }
    if (shipped && bench_shipped(&b) < 0) return 3;
    if (!shipped && i == argc) bench_text(&b, STR("made-up"), made_up(&b.arena));
    for (; i < argc; i++) {
        if (bench_file(&b, argv[i]) < 0) return 3;
    }
    int status = report(&b, shipped);
    arena_clear(&b.arena);
    return status;
}
