// SPDX-License-Identifier: Apache-2.0
// What doctor reads: a text log, a steps file, a log of watch or nvidia-smi, a result of bench. The
// first bytes tell which; a file is read once, in little memory.
#include "base/os.h"
#include "verbs/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    CHUNK = 1 << 16,     // even, for UTF-16
    LINE_MOST = 1 << 20, // of JSON and CSV
};

enum { STEPS, WATCH, WATCH_CSV, SMI, BENCH, LOG };
static const struct kind {
    const char *name;
    int (*bytes)(struct doctor_reading *r, struct str bytes, struct fail *why); // else by line
    int (*line)(struct doctor_reading *r, struct str line, struct fail *why);
    int (*end)(struct doctor_reading *r, struct fail *why);
} kinds[] = {
    [STEPS] = {"steps", NULL, doctor_reading_steps_line, doctor_reading_steps_end},
    [WATCH] = {"watch", NULL, doctor_reading_watch_line, doctor_reading_watch_end},
    [WATCH_CSV] = {"watch", NULL, doctor_reading_csv_line, doctor_reading_watch_end},
    [SMI] = {"watch", NULL, doctor_reading_smi_line, doctor_reading_smi_end},
    [BENCH] = {"bench", doctor_reading_bench_bytes, NULL, doctor_reading_bench_end},
    [LOG] = {"log", doctor_reading_log_bytes, NULL, doctor_reading_log_end},
};

// Of a file that begins so: not empty, without blanks before.
static const struct kind *kind_of(struct str head) {
    struct str rest = head, first = str_line(&rest);
    if (str_starts(head, STR("time,gpu,pwr"))) return &kinds[WATCH_CSV];
    if (doctor_is_smi(first)) return &kinds[SMI];
    if (head.p[0] != '{') return &kinds[LOG];
    // Loggers write objects with an "event", too (structlog); "v" is the protocol's.
    if (str_find(first, STR("\"event\"")) > 0 && str_find(first, STR("\"v\"")) > 0)
        return &kinds[STEPS];
    if (str_find(head, STR("\"watch\"")) >= 0) return &kinds[WATCH];
    return &kinds[str_find(head, STR("\"rows\"")) >= 0 ? BENCH : LOG];
}

static int give_line(struct doctor_reading *r, const struct kind *k, struct fail *why) {
    struct str line = str_trim(buf_str(&r->line));
    int rc = 0;
    r->lines++;
    if (r->skips)
        r->broken++;
    else if (line.len > 0)
        rc = k->line(r, line, why);
    r->line.count = 0;
    r->skips = false;
    return rc;
}

static int give(struct doctor_reading *r, const struct kind *k, struct str bytes,
                struct fail *why) {
    if (k->bytes) return k->bytes(r, bytes, why);
    while (bytes.len > 0) {
        ptrdiff_t end = str_find(bytes, STR("\n"));
        struct str part = str_slice(bytes, 0, end < 0 ? bytes.len : end);
        if (r->line.count + part.len > LINE_MOST) r->skips = true, r->line.count = 0;
        if (!r->skips) buf_add(&r->line, part);
        if (end < 0) return 0;
        int rc = give_line(r, k, why);
        if (rc < 0) return rc;
        bytes = str_slice(bytes, end + 1, bytes.len);
    }
    return 0;
}

// A pipe gives a little at a time: what a file is is decided by a whole chunk.
static int next_bytes(int fd, const char *name, char *room, ptrdiff_t *ret_count,
                      struct fail *why) {
    ssize_t n = 1;
    for (*ret_count = 0; *ret_count < CHUNK && n != 0; *ret_count += n) {
        do n = read(fd, room + *ret_count, (size_t)(CHUNK - *ret_count));
        while (n < 0 && errno == EINTR);
        if (n < 0) return fail_set(why, FAIL_INPUT, "%s: %s", name, strerror(errno));
    }
    return 0;
}

static struct doctor_reading *reading_new(struct doctor *d, const char *name) {
    struct arena *a = d->arena;
    struct doctor_reading *r = arena_new(a, struct doctor_reading, 1);
    *r = (struct doctor_reading){.d = d,
                                 .name = name,
                                 .log = logread_new(a),
                                 .steps = steps_new(a),
                                 .kept = arena_new(a, struct step, DOCTOR_READING_KEPT),
                                 .times = arena_new(a, double, DOCTOR_READING_KEPT),
                                 .numbers = arena_new(a, int64_t, DOCTOR_READING_KEPT),
                                 .stride = 1,
                                 .earlier_most = 0,
                                 .line = buf_new(a),
                                 .utf16.text = buf_new(a),
                                 .document = buf_new(a)};
    for (int i = 0; i < DOCTOR_READING_CSV_COLUMNS; i++) r->columns[i] = -1;
    return r;
}

static struct str text_of(struct doctor_reading *r, struct str bytes, bool is_first) {
    struct doctor_utf16 *u = &r->utf16;
    if (is_first) u->is_big = str_starts(bytes, STR("\xfe\xff"));
    if (is_first) u->is_so = u->is_big || str_starts(bytes, STR("\xff\xfe"));
    return u->is_so ? doctor_utf16(u, bytes) : bytes;
}

static int read_all(struct doctor_reading *r, int fd, struct fail *why) {
    char *room = arena_new(r->d->arena, char, CHUNK);
    const struct kind *k = NULL;
    ptrdiff_t count = 0;
    int rc;
    for (bool is_first = true;; is_first = false) {
        rc = next_bytes(fd, r->name, room, &count, why);
        if (rc < 0 || count == 0) break;
        struct str bytes = text_of(r, (struct str){room, count}, is_first), head = str_trim(bytes);
        if (!k) {
            const char *refusal = logread_refusal(bytes);
            if (refusal) return fail_set(why, FAIL_INPUT, "%s: %s", r->name, refusal);
            if (head.len == 0) continue;
            k = kind_of(head);
        }
        rc = give(r, k, bytes, why);
        if (rc < 0) return rc;
    }
    if (rc < 0) return rc;
    if (!k) {
        fail_set(why, FAIL_INPUT, "%s: empty", r->name);
        return fail_hint(why, "write both outputs to the log: COMMAND > train.log 2>&1");
    }
    if (!k->bytes && r->line.count > 0) rc = give_line(r, k, why);
    r->d->kind = str_of(k->name);
    return rc < 0 ? rc : k->end(r, why);
}

int doctor_read(struct doctor *d, const char *path, struct fail *why) {
    bool is_stdin = strcmp(path, "-") == 0;
    struct stat st;
    d->source = is_stdin ? STR("standard input") : str_of(path);
    if (!is_stdin && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        path = str_format(d->arena, "%s/steps.jsonl", path).p;
        if (!os_exists(path))
            return fail_set(why, FAIL_INPUT, "%.*s: a folder without steps.jsonl, not a log",
                            STR_ARG(d->source));
    }
    OS_FD fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_set(why, FAIL_INPUT, "%s: %s", path, strerror(errno));
    struct doctor_reading *r = reading_new(d, d->source.p);
    int rc = read_all(r, fd, why);
    d->facts.trends = r->findings.items;
    d->facts.trend_count = r->findings.count;
    return rc;
}
