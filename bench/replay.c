// SPDX-License-Identifier: Apache-2.0
// How fast tapes are read and replayed: events a second for each tape given (or a made-up one), and
// the median. Every replay is of a batch of its own, as a search does it.
//   bench/replay [--batch N] [--conf PYTORCH_CUDA_ALLOC_CONF] [--need] [TAPE …]
#include "base/os.h"
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEAST_NS = 200 * 1000 * 1000 };

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
        sim_needed_least(s, batch, 0, SIM_NEED_REPLAYS, &n);
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

int main(int argc, char **argv) {
    ARENA_AUTO a = {0};
    struct sim_options options = sim_options_default();
    struct fail why;
    int64_t batch = 16;
    bool need = false;
    int count = 0, i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--need"))
            need = true;
        else if (!strcmp(argv[i], "--batch") && i + 1 < argc)
            batch = strtoll(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--conf") && i + 1 < argc &&
                 sim_options_parse(str_of(argv[++i]), &options, &why) == 0) {
        } else
            return 2;
    }
    double *speeds = arena_new(&a, double, argc + 1);
    struct figures f;
    if (i == argc && measure(STR("made-up"), made_up(&a), &options, batch, need, &f) == 0) {
        print(STR("made-up"), &f);
        speeds[count++] = f.events_per_s;
    }
    for (; i < argc; i++) {
        struct str text, name = str_of(argv[i]);
        if (os_read(&a, argv[i], INT64_C(1) << 30, &text, NULL, &why) < 0) {
            fprintf(stderr, "%s\n", why.message);
            continue;
        }
        if (measure(name, text, &options, batch, need, &f) < 0) continue;
        print(name, &f);
        speeds[count++] = f.events_per_s;
    }
    qsort(speeds, (size_t)count, sizeof *speeds, by_speed);
    if (count > 0) printf("median %.1f M events/s over %d tapes\n", speeds[count / 2] / 1e6, count);
    return count > 0 ? 0 : 3;
}
