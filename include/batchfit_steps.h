/* SPDX-License-Identifier: Apache-2.0
 *
 * batchfit_steps.h: a training program in C or C++ tells batchfit what it does, in the steps
 * protocol, version 1 (doc/formats/steps.md). One header, no library: C99 or later, C++11 or later,
 * POSIX.
 *
 *     #include "batchfit_steps.h"
 *
 *     struct batchfit_steps s;
 *     batchfit_open(&s);                      // silent unless batchfit started the program
 *     s.framework = "mine";
 *     s.device = "cuda:0";
 *     batchfit_start(&s);
 *     for (...) {
 *         batchfit_phase(&s, BATCHFIT_IO);        batch = load();
 *         batchfit_phase(&s, BATCHFIT_FORWARD);   loss = model(batch);
 *         batchfit_phase(&s, BATCHFIT_BACKWARD);  gradients(loss);
 *         batchfit_micro_batch(&s, batch.samples);
 *         batchfit_phase(&s, BATCHFIT_OPTIMIZER); update();
 *         s.peak_reserved = ...;              // what is not set is not known
 *         batchfit_step(&s);
 *         if (...) { batchfit_phase(&s, BATCHFIT_VALIDATION); validate(); }
 *     }
 *     batchfit_end(&s, 1, NULL);
 *
 * A phase lasts until the next one begins, so that the phases of a step add up to its time. Nothing
 * here ever stops the training: a line that cannot be written now is dropped and counted. Each
 * process opens its own; threads that share one need a lock of their own.
 */
#ifndef BATCHFIT_STEPS_H
#define BATCHFIT_STEPS_H

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

enum batchfit_phase_id {
    BATCHFIT_IO,        /* waiting for the next batch */
    BATCHFIT_H2D,       /* copying it to the device */
    BATCHFIT_FORWARD,   /* model and loss */
    BATCHFIT_BACKWARD,  /* gradients */
    BATCHFIT_OPTIMIZER, /* from the last backward to the end of the update */
    BATCHFIT_OTHER,     /* everything else; also what comes before the first phase of a step */
    BATCHFIT_STEP_PHASES,
    /* Between steps, in no step's time; its own event when the next phase begins. */
    BATCHFIT_VALIDATION = BATCHFIT_STEP_PHASES,
    BATCHFIT_CHECKPOINT,
    BATCHFIT_PHASES
};

enum {
    BATCHFIT_LINE_BYTES = 4096, /* PIPE_BUF: lines of several processes do not mix */
    BATCHFIT_TEXT_BYTES = 2000, /* of a message */
    BATCHFIT_NAME_BYTES = 400,
    BATCHFIT_MICRO_BATCHES = 128 /* of more, only the sum is told */
};

struct batchfit_steps {
    /* Set by batchfit_open; yours to change before batchfit_start. Texts may be NULL. */
    int rank, world; /* world 0: not known */
    const char *framework, *framework_version, *device, *device_name, *program;
    long long (*clock_ns)(void); /* any monotonic clock */
    /* Before batchfit_step; -1 is not known. Bytes of the allocator, peaks since the start. */
    long long allocated, reserved, peak_allocated, peak_reserved, alloc_retries;
    /* Before batchfit_step: samples that the weights have seen with it, those before a resumed
       checkpoint included; -1 is not told. */
    long long made_samples;
    /* The header's own. */
    int fd; /* -1: nobody listens */
    int owns_fd, phase;
    unsigned entered; /* phases that the program has used, by bit */
    long long step, samples, dropped, phase_began_ns, phase_ns[BATCHFIT_PHASES];
    long long micro_batches[BATCHFIT_MICRO_BATCHES];
    int micro_count;
};

static inline long long batchfit_clock_ns(void) {
#ifdef CLOCK_MONOTONIC
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
#else /* strict C99 without POSIX names */
    struct timeval t;
    gettimeofday(&t, NULL);
    return (long long)t.tv_sec * 1000000000 + (long long)t.tv_usec * 1000;
#endif
}

static inline long long batchfit_wall_ns(void) {
    struct timeval t;
    gettimeofday(&t, NULL);
    return (long long)t.tv_sec * 1000000000 + (long long)t.tv_usec * 1000;
}

/* An inherited pipe, if it is still the one that batchfit made. */
static inline int batchfit_open_fd(const char *value, int *ret_owned) {
    const char *id = getenv("BATCHFIT_FD_ID");
    char now[64], *end;
    struct stat st;
    long fd = strtol(value, &end, 10);
    *ret_owned = 0;
    if (end == value || *end || fd < 0 || fd > 1 << 20 || fstat((int)fd, &st) != 0) return -1;
    snprintf(now, sizeof now, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    return id && strcmp(id, now) != 0 ? -1 : (int)fd;
}

static inline int batchfit_open_file(const char *folder, int *ret_owned) {
    char path[4096];
    struct utsname us; /* machines that share the folder may have the same PID */
    int fd, len;
    if (uname(&us) != 0) return -1;
    len = snprintf(path, sizeof path, "%s/%s-%ld.jsonl", folder, us.nodename, (long)getpid());
    if (!*folder || len < 0 || len >= (int)sizeof path) return -1;
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
    *ret_owned = fd >= 0;
    return fd;
}

static inline int batchfit_number_of(const char *const *names, int otherwise) {
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value) return atoi(value);
    }
    return otherwise;
}

/* Looks for somebody who listens. Returns 1, or 0: then all other functions do nothing. */
static inline int batchfit_open(struct batchfit_steps *s) {
    static const struct {
        const char *variable;
        int (*open)(const char *value, int *ret_owned);
    } transports[] = {
        {"BATCHFIT_FD", batchfit_open_fd},
        {"BATCHFIT_STEPS_DIR", batchfit_open_file},
    };
    static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID",
                                        NULL};
    static const char *const worlds[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                         "SLURM_NTASKS", NULL};
    size_t i;
    memset(s, 0, sizeof *s);
    s->fd = -1;
    s->rank = batchfit_number_of(ranks, 0);
    s->world = batchfit_number_of(worlds, 0);
    s->allocated = s->reserved = s->peak_allocated = s->peak_reserved = s->alloc_retries = -1;
    s->made_samples = -1;
    s->phase = BATCHFIT_OTHER;
    s->clock_ns = batchfit_clock_ns;
    for (i = 0; s->fd < 0 && i < sizeof transports / sizeof *transports; i++) {
        const char *value = getenv(transports[i].variable);
        if (value) s->fd = transports[i].open(value, &s->owns_fd);
    }
    return s->fd >= 0;
}

/* A line that is being built; what does not fit is left out whole. */
struct batchfit_line {
    char text[BATCHFIT_LINE_BYTES];
    int len;
};

static inline void batchfit_add(struct batchfit_line *l, const char *text, int len) {
    if (len < 0 || l->len + len > (int)sizeof l->text - 2) return; /* room for "}\n" */
    memcpy(l->text + l->len, text, (size_t)len);
    l->len += len;
}

/* Bytes of a UTF-8 character; 0: it is none. */
static inline int batchfit_utf8(const unsigned char *p) {
    int i, len = 1 + (p[0] >= 0xc2) + (p[0] >= 0xe0) + (p[0] >= 0xf0);
    if ((p[0] >= 0x80 && p[0] < 0xc2) || p[0] >= 0xf5) return 0;
    for (i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
    return len;
}

static inline void batchfit_text(struct batchfit_line *l, const char *key, const char *text,
                                 int budget) {
    const unsigned char *p = (const unsigned char *)text;
    char piece[64];
    int len;
    if (!text) return;
    batchfit_add(l, piece, snprintf(piece, sizeof piece, ",\"%s\":\"", key));
    for (; *p; p += len ? len : 1) {
        int size = len = batchfit_utf8(p);
        memcpy(piece, len ? (const char *)p : "?", len ? (size_t)len : 1);
        if (!len) size = 1;
        if (*p == '"' || *p == '\\') size = snprintf(piece, sizeof piece, "\\%c", *p);
        if (*p < 0x20) size = snprintf(piece, sizeof piece, "\\u%04x", *p);
        if (size > budget) break;
        batchfit_add(l, piece, size);
        budget -= size;
    }
    batchfit_add(l, "\"", 1);
}

static inline void batchfit_count(struct batchfit_line *l, const char *key, long long value) {
    char piece[64];
    if (value < 0) return;
    batchfit_add(l, piece, snprintf(piece, sizeof piece, ",\"%s\":%lld", key, value));
}

/* A decimal point in every locale. A millionth of a ms is 1 ns, of a second 1,000. */
static inline void batchfit_time(struct batchfit_line *l, const char *key, long long ns,
                                 int millionth_ns) {
    char piece[64];
    long long millionths = ns < 0 ? 0 : ns / millionth_ns;
    batchfit_add(l, piece,
                 snprintf(piece, sizeof piece, ",\"%s\":%lld.%06lld", key, millionths / 1000000,
                          millionths % 1000000));
}

static inline void batchfit_begin(const struct batchfit_steps *s, struct batchfit_line *l,
                                  const char *event) {
    l->len = snprintf(l->text, sizeof l->text, "{\"v\":1,\"event\":\"%s\",\"rank\":%d,\"pid\":%ld",
                      event, s->rank, (long)getpid());
}

/* Asked first, a pipe neither blocks when it is full nor kills when nobody reads it any more. */
static inline void batchfit_write(struct batchfit_steps *s, struct batchfit_line *l) {
    struct pollfd ready;
    if (s->dropped > 0) batchfit_count(l, "dropped", s->dropped);
    l->text[l->len++] = '}';
    l->text[l->len++] = '\n';
    ready.fd = s->fd;
    ready.events = POLLOUT;
    ready.revents = 0;
    if (poll(&ready, 1, 0) != 1 || ready.revents != POLLOUT ||
        write(s->fd, l->text, (size_t)l->len) != l->len) {
        s->dropped++;
    }
}

/* Ends the phase that goes on. A stretch between steps becomes an event. */
static inline void batchfit_close_phase(struct batchfit_steps *s) {
    struct batchfit_line l;
    long long now = s->clock_ns();
    s->phase_ns[s->phase] += now - s->phase_began_ns;
    s->phase_began_ns = now;
    if (s->phase < BATCHFIT_STEP_PHASES) return;
    batchfit_begin(s, &l, "phase");
    batchfit_text(&l, "phase", s->phase == BATCHFIT_VALIDATION ? "validation" : "checkpoint",
                  BATCHFIT_NAME_BYTES);
    batchfit_time(&l, "ms", s->phase_ns[s->phase], 1);
    batchfit_time(&l, "at", batchfit_wall_ns(), 1000);
    batchfit_write(s, &l);
    s->phase_ns[s->phase] = 0;
}

/* Once, when the device is known. The time of the first step begins here. */
static inline void batchfit_start(struct batchfit_steps *s) {
    struct batchfit_line l;
    if (s->fd < 0) return;
    batchfit_begin(s, &l, "start");
    batchfit_text(&l, "framework", s->framework, BATCHFIT_NAME_BYTES);
    batchfit_text(&l, "framework_version", s->framework_version, BATCHFIT_NAME_BYTES);
    batchfit_text(&l, "device", s->device, BATCHFIT_NAME_BYTES);
    batchfit_text(&l, "device_name", s->device_name, BATCHFIT_NAME_BYTES);
    batchfit_text(&l, "program", s->program, BATCHFIT_NAME_BYTES);
    if (s->world > 0) batchfit_count(&l, "world", s->world);
    batchfit_write(s, &l);
    s->phase_began_ns = s->clock_ns();
}

/* From now on the program does this, until the next call or the end of the step. */
static inline void batchfit_phase(struct batchfit_steps *s, enum batchfit_phase_id phase) {
    if (s->fd < 0) return;
    batchfit_close_phase(s);
    s->phase = (int)phase;
    s->entered |= 1u << s->phase;
}

/* Samples of one forward and backward; several times a step when gradients are accumulated. */
static inline void batchfit_micro_batch(struct batchfit_steps *s, long long samples) {
    if (s->fd < 0) return;
    if (s->micro_count < BATCHFIT_MICRO_BATCHES) s->micro_batches[s->micro_count] = samples;
    s->micro_count++;
    s->samples += samples;
}

static inline void batchfit_micro_list(const struct batchfit_steps *s, struct batchfit_line *l) {
    char piece[64];
    int i;
    if (s->micro_count == 0 || s->micro_count > BATCHFIT_MICRO_BATCHES) return;
    for (i = 0; i < s->micro_count; i++) {
        batchfit_add(l, piece,
                     snprintf(piece, sizeof piece, "%s%lld", i == 0 ? ",\"micro_batches\":[" : ",",
                              s->micro_batches[i]));
    }
    batchfit_add(l, "]", 1);
}

/* After each update of the weights. */
static inline void batchfit_step(struct batchfit_steps *s) {
    static const char *const names[] = {"io_ms",       "h2d_ms",       "forward_ms",
                                        "backward_ms", "optimizer_ms", "other_ms"};
    struct batchfit_line l;
    long long total = 0;
    int i;
    if (s->fd < 0) return;
    batchfit_close_phase(s);
    batchfit_begin(s, &l, "step");
    batchfit_count(&l, "step", ++s->step);
    if (s->samples > 0) batchfit_count(&l, "samples", s->samples);
    for (i = 0; i < BATCHFIT_STEP_PHASES; i++) {
        if (s->entered >> i & 1 || i == BATCHFIT_OTHER)
            batchfit_time(&l, names[i], s->phase_ns[i], 1);
        total += s->phase_ns[i];
        s->phase_ns[i] = 0;
    }
    batchfit_time(&l, "total_ms", total, 1);
    batchfit_count(&l, "allocated", s->allocated);
    batchfit_count(&l, "reserved", s->reserved);
    batchfit_count(&l, "peak_allocated", s->peak_allocated);
    batchfit_count(&l, "peak_reserved", s->peak_reserved);
    batchfit_count(&l, "alloc_retries", s->alloc_retries);
    batchfit_count(&l, "made_samples", s->made_samples);
    batchfit_time(&l, "t", s->phase_began_ns, 1000);
    batchfit_micro_list(s, &l);
    batchfit_write(s, &l);
    s->samples = 0;
    s->micro_count = 0;
    s->phase = BATCHFIT_OTHER;
}

/* Memory ran out in this phase, at so many samples; -1: not known. The program may go on. */
static inline void batchfit_oom(struct batchfit_steps *s, const char *message, long long samples) {
    static const char *const names[] = {"io",        "h2d",   "forward", "backward",
                                        "optimizer", "other", "other",   "other"};
    struct batchfit_line l;
    if (s->fd < 0) return;
    batchfit_begin(s, &l, "oom");
    batchfit_text(&l, "phase", names[s->phase], BATCHFIT_NAME_BYTES);
    batchfit_text(&l, "message", message, BATCHFIT_TEXT_BYTES);
    batchfit_count(&l, "samples", samples);
    batchfit_write(s, &l);
}

/* The program ends by itself: well (error NULL), or with "TYPE: MESSAGE". */
static inline void batchfit_end(struct batchfit_steps *s, int ok, const char *error) {
    struct batchfit_line l;
    if (s->fd < 0) return;
    if (s->phase >= BATCHFIT_STEP_PHASES) batchfit_close_phase(s);
    batchfit_begin(s, &l, "end");
    batchfit_add(&l, ok ? ",\"ok\":true" : ",\"ok\":false", ok ? 10 : 11);
    batchfit_text(&l, "error", error, BATCHFIT_TEXT_BYTES);
    batchfit_write(s, &l);
    if (s->owns_fd) close(s->fd);
    s->fd = -1;
}

#ifdef __cplusplus
}
#endif

#endif
