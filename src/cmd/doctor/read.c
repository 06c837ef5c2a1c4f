// SPDX-License-Identifier: Apache-2.0
// What doctor reads: a text log, a steps file, a log of watch, a result of bench, a row of the
// history. The first bytes tell which; a file is read once, in little memory.
#include "base/os.h"
#include "cmd/doctor/doctor.h"
#include "insight/trend.h"
#include "probe/journal.h"
#include "probe/steps.h"
#include "stats/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum {
    CHUNK = 1 << 16,
    LINE_MOST = 1 << 20, // of JSON and CSV
    DOCUMENT_MOST = 16 << 20,
    KEPT = 2048, // the newest steps and readings
};

// The newest KEPT figures.
struct figures {
    double values[KEPT];
    ptrdiff_t seen;
};

struct reading {
    struct doctor *d;
    const char *name;
    struct journal journal;
    struct steps steps;
    struct step *kept; // the newest, of one rank; a ring
    int64_t kept_seen;
    double earlier_most;
    double *times;
    int64_t *numbers;
    ptrdiff_t time_count;
    int64_t stride, event_line, lines, broken;
    struct figures utilisation, memory;
    struct insight_findings findings;
    struct buf line, document;
    bool skips;
    int columns[6];
};

static void figures_add(struct figures *f, double value) {
    if (!isnan(value)) f->values[f->seen++ % KEPT] = value;
}

static double figures_median(const struct figures *f) {
    return stats_median(f->values, f->seen < KEPT ? f->seen : KEPT);
}

void doctor_take_ending(struct doctor *d, const struct ending *e, int64_t line) {
    struct cause_ending *c = &d->facts.ending;
    const struct ending_numbers *n = &e->numbers;
    if (e->signature->kind == ENDING_CLEAN) return;
    c->signature = e->signature->id;
    c->what = e->signature->what;
    c->hint = e->signature->hint;
    c->line = e->line;
    c->line_number = line;
    c->tried_bytes = n->tried_bytes;
    c->total_bytes = n->total_bytes;
    c->free_bytes = n->free_bytes;
    c->in_use_bytes = n->in_use_bytes;
    c->allocated_bytes = n->allocated_bytes;
    c->unallocated_bytes = n->unallocated_bytes;
    c->is_fragmented = e->cause == CAUSE_FRAGMENTATION;
    c->by_others = e->cause == CAUSE_OTHERS;
}

// --- Text ---------------------------------------------------------------------------------------

static int log_bytes(struct reading *r, struct str bytes, struct fail *why) {
    (void)why;
    journal_feed(&r->journal, bytes);
    return 0;
}

static void take_place(struct reading *r) {
    const struct journal *j = &r->journal;
    struct cause_ending *e = &r->d->facts.ending;
    e->steps = journal_steps(j);
    if (j->traceback.line > 0 || j->place_is_validation) {
        e->place = CAUSE_IN_VALIDATION;
        e->place_line = str_of(j->traceback.line > 0 ? j->traceback.text : j->place.text);
    } else if (j->place_is_last_batch) {
        e->place = CAUSE_IN_LAST_BATCH;
        e->place_line = str_of(j->place.text);
    }
}

static int log_end(struct reading *r, struct fail *why) {
    (void)why;
    struct journal *j = &r->journal;
    struct cause_facts *f = &r->d->facts;
    struct ending ending;
    int64_t line;
    journal_end(j, &ending, &line);
    doctor_take_ending(r->d, &ending, line);
    take_place(r);
    const struct journal_bar *b = journal_training(j);
    if (b) {
        f->times_ms = b->times_ms;
        f->times_at = b->lines;
        f->time_count = b->count;
        f->at_is_line = true;
    }
    f->nan_line = j->nan.line;
    f->nan_count = j->nan_count;
    f->nan_text = str_of(j->nan.text);
    f->loss_recovered = j->loss_recovered;
    if (j->io_count > 0) {
        f->phases.io_ms = stats_median(j->io_ms, j->io_count);
        f->phases.total_ms = stats_median(j->io_total_ms, j->io_count);
        f->phases.steps = j->io_count;
    }
    int64_t card = j->card_bytes > 0 ? j->card_bytes : r->d->options->gpu_memory;
    if (card > 0) f->memory_share = j->memory_gib * 1e9 / (double)card; // it prints 10^9 bytes
    r->d->read = str_format(r->d->arena, "%lld lines", (long long)j->line - (j->bytes > 0));
    return 0;
}

// --- Steps --------------------------------------------------------------------------------------

static void keep_time(struct reading *r, const struct step *s) {
    if (isnan(s->total_ms) || r->kept_seen % r->stride != 0) return;
    if (r->time_count == KEPT) {
        for (ptrdiff_t i = 0; i < KEPT / 2; i++) {
            r->times[i] = r->times[2 * i];
            r->numbers[i] = r->numbers[2 * i];
        }
        r->time_count = KEPT / 2;
        r->stride *= 2;
    }
    r->times[r->time_count] = s->total_ms;
    r->numbers[r->time_count++] = s->number;
}

static bool has_failed(const struct steps *s) {
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        if (s->ranks[i].oom_ns || s->ranks[i].state == RANK_ENDED_BADLY) return true;
    }
    return false;
}

static int steps_of_line(struct reading *r, struct str line, struct fail *why) {
    (void)why;
    struct steps *s = &r->steps;
    steps_line(s, line);
    for (ptrdiff_t i = 0; i < s->count; i++) {
        struct step *slot = &r->kept[r->kept_seen % KEPT];
        if (s->items[i].rank != s->ranks[0].rank) continue;
        keep_time(r, &s->items[i]);
        if (r->kept_seen >= KEPT && (double)slot->allocated_bytes > r->earlier_most)
            r->earlier_most = (double)slot->allocated_bytes;
        *slot = s->items[i];
        r->kept_seen++;
    }
    s->count = 0;
    if (r->event_line == 0 && has_failed(s)) r->event_line = r->lines;
    return 0;
}

static double phase_median(const struct reading *r, ptrdiff_t count, size_t offset) {
    static double values[KEPT];
    ptrdiff_t known = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        double v = *(const double *)(const void *)((const char *)&r->kept[i] + offset);
        if (!isnan(v)) values[known++] = v;
    }
    return stats_median(values, known);
}

static void judge_steps(struct reading *r, ptrdiff_t count) {
    struct insight_step *steps = arena_new(r->d->arena, struct insight_step, count + 1);
    struct insight_stretch stretch = {.steps = steps,
                                      .step_count = count,
                                      .steps_before = r->kept_seen - count,
                                      .earlier_most_bytes = r->earlier_most};
    for (ptrdiff_t i = 0; i < count; i++) {
        const struct step *s = &r->kept[(r->kept_seen - count + i) % KEPT];
        double allocated = s->allocated_bytes < 0 ? (double)NAN : (double)s->allocated_bytes;
        steps[i] = (struct insight_step){0, s->total_ms, s->io_ms, allocated, s->other_ms};
    }
    stretch.sm_clock_max_mhz = NAN;
    stretch.state = DEVICE_ANSWERS;
    insight_trend(r->d->arena, &stretch, -1, &r->findings);
}

static void take_failure(struct reading *r) {
    for (ptrdiff_t i = 0; i < r->steps.rank_count; i++) {
        const struct step_rank *rank = &r->steps.ranks[i];
        struct str text = rank->oom_ns ? rank->oom_message : rank->error;
        static const struct ending_facts nothing = {.oom_kills = -1, .system_oom_kills = -1};
        struct ending e;
        if (!rank->oom_ns && rank->state != RANK_ENDED_BADLY) continue;
        ending_classify(r->d->arena, text, &nothing, &e);
        doctor_take_ending(r->d, &e, r->event_line);
        if (!r->d->facts.ending.signature) continue;
        r->d->facts.ending.steps = r->kept_seen;
        return;
    }
}

static int steps_end(struct reading *r, struct fail *why) {
    struct cause_facts *f = &r->d->facts;
    ptrdiff_t count = r->kept_seen < KEPT ? (ptrdiff_t)r->kept_seen : KEPT;
    if (r->steps.broken_lines == r->lines)
        return fail_set(
            why, FAIL_INPUT, "%s: every line of it is broken, the first is: %.*s", r->name,
            STR_ARG(str_slice(r->steps.first_broken, 0,
                              r->steps.first_broken.len < 80 ? r->steps.first_broken.len : 80)));
    if (r->steps.broken_lines > 0)
        str_list_add(r->d->arena, &r->d->notes,
                     str_format(r->d->arena, "%lld broken lines were left out",
                                (long long)r->steps.broken_lines));
#define MEDIAN(field) phase_median(r, count, offsetof(struct step, field))
    f->phases = (struct cause_phases){
        MEDIAN(io_ms),        MEDIAN(h2d_ms),   MEDIAN(forward_ms), MEDIAN(backward_ms),
        MEDIAN(optimizer_ms), MEDIAN(other_ms), MEDIAN(total_ms),   count};
#undef MEDIAN
    f->times_ms = r->times;
    f->times_at = r->numbers;
    f->time_count = r->time_count;
    take_failure(r);
    judge_steps(r, count);
    r->d->read = str_format(r->d->arena, "%lld steps", (long long)r->kept_seen);
    return 0;
}

// --- Logs of watch ------------------------------------------------------------------------------

static enum insight_severity severity_named(const char *name) {
    for (int i = INSIGHT_OK; i <= INSIGHT_PROBLEM; i++) {
        if (name && strcmp(name, insight_severity_name((enum insight_severity)i)) == 0)
            return (enum insight_severity)i;
    }
    return INSIGHT_UNKNOWN;
}

static struct str copy_text(struct doctor *d, const json_t *object, const char *key) {
    return str_copy(d->arena, str_of(json_string_value(json_object_get(object, key))));
}

// The last word on each id that was ever a warning.
static void keep_finding(struct reading *r, const json_t *object) {
    const char *id = json_string_value(json_object_get(object, "id"));
    struct insight_finding f = {
        .severity = severity_named(json_string_value(json_object_get(object, "severity")))};
    if (!id || f.severity < INSIGHT_WARNING) return;
    for (ptrdiff_t i = 0; i < r->findings.count; i++) {
        if (strcmp(r->findings.items[i].id, id) == 0) return;
    }
    f.id = str_z(r->d->arena, str_of(id));
    f.evidence = str_format(r->d->arena, "line %lld: %s", (long long)r->lines,
                            json_string_value(json_object_get(object, "evidence")));
    f.remedy = copy_text(r->d, object, "remedy");
    struct insight_findings *all = &r->findings;
    *arena_push(r->d->arena, &all->items, &all->count, &all->capacity) = f;
}

static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static int watch_line(struct reading *r, struct str line, struct fail *why) {
    (void)why;
    json_t *document = json_loadb(line.p, (size_t)line.len, 0, NULL), *item;
    size_t i;
    if (!json_is_object(document) || !json_object_get(document, "watch")) r->broken++;
    json_array_foreach(json_object_get(document, "findings"), i, item) {
        keep_finding(r, item);
    }
    json_array_foreach(json_object_get(document, "cards"), i, item) {
        const json_t *memory = json_object_get(item, "memory");
        figures_add(&r->utilisation, number_of(json_object_get(item, "gauges"), "utilisation"));
        figures_add(&r->memory, number_of(memory, "used_bytes") / number_of(memory, "total_bytes"));
    }
    json_decref(document);
    return 0;
}

static int watch_end(struct reading *r, struct fail *why) {
    if (r->broken == r->lines)
        return fail_set(why, FAIL_INPUT, "%s: every line of it is broken", r->name);
    if (r->broken > 0)
        str_list_add(
            r->d->arena, &r->d->notes,
            str_format(r->d->arena, "%lld broken lines were left out", (long long)r->broken));
    r->d->facts.utilisation = figures_median(&r->utilisation);
    r->d->facts.memory_share = figures_median(&r->memory);
    r->d->facts.gauge_count = r->utilisation.seen;
    r->d->read = str_format(r->d->arena, "%lld readings", (long long)r->lines);
    return 0;
}

static const char *const csv_columns[] = {"sm", "fb", "total", "throttled"};
enum { CSV_SM, CSV_FB, CSV_TOTAL, CSV_THROTTLED, CSV_COLUMNS };

static void csv_throttled(struct reading *r, double percent) {
    if (!(percent >= 1)) return;
    for (ptrdiff_t i = 0; i < r->findings.count; i++) {
        if (strcmp(r->findings.items[i].id, "trend.throttled") == 0) return;
    }
    struct insight_finding f = {.id = "trend.throttled", .severity = INSIGHT_WARNING};
    f.evidence = str_format(r->d->arena,
                            "line %lld: heat or power brake held the clocks back for %.1f %% "
                            "of a minute",
                            (long long)r->lines, percent);
    struct insight_findings *all = &r->findings;
    *arena_push(r->d->arena, &all->items, &all->count, &all->capacity) = f;
}

static int csv_line(struct reading *r, struct str line, struct fail *why) {
    (void)why;
    double cells[CSV_COLUMNS] = {NAN, NAN, NAN, NAN};
    for (int column = 0; line.len > 0; column++) {
        struct str cell = str_trim(str_cut(&line, ','));
        for (int i = 0; i < CSV_COLUMNS; i++) {
            if (r->lines == 1 && str_is(cell, csv_columns[i]))
                r->columns[i] = column;
            else if (r->lines > 1 && r->columns[i] == column)
                str_to_double(cell, &cells[i]);
        }
    }
    figures_add(&r->utilisation, cells[CSV_SM] / 100);
    figures_add(&r->memory, cells[CSV_FB] / cells[CSV_TOTAL]);
    csv_throttled(r, cells[CSV_THROTTLED]);
    return 0;
}

// --- A result of bench --------------------------------------------------------------------------

static int bench_bytes(struct reading *r, struct str bytes, struct fail *why) {
    if (r->document.count + bytes.len > DOCUMENT_MOST)
        return fail_set(why, FAIL_INPUT, "%s: a result of bench is shorter than 16 MiB", r->name);
    buf_add(&r->document, bytes);
    return 0;
}

static int bench_end(struct reading *r, struct fail *why) {
    struct cause_facts *f = &r->d->facts;
    json_error_t error;
    json_t *document = json_loadb(r->document.items, (size_t)r->document.count, 0, &error);
    if (!document)
        return fail_set(why, FAIL_INPUT, "%s:%d: broken JSON: %s", r->name, error.line, error.text);
    const json_t *rows = json_object_get(document, "rows");
    const json_t *best = json_object_get(json_object_get(document, "best"), "recommended");
    const json_t *row =
        json_array_get(rows, (size_t)json_integer_value(json_object_get(best, "row")));
    if (row && best) {
        f->phases =
            (struct cause_phases){number_of(row, "io_ms"),
                                  number_of(row, "h2d_ms"),
                                  number_of(row, "forward_ms"),
                                  number_of(row, "backward_ms"),
                                  number_of(row, "optimizer_ms"),
                                  number_of(row, "other_ms"),
                                  number_of(row, "total_ms"),
                                  (ptrdiff_t)json_integer_value(json_object_get(row, "steps"))};
        f->utilisation = number_of(row, "gpu_percent") / 100;
        f->memory_share = number_of(best, "memory_share");
        f->is_fp32 |= str_is(str_of(json_string_value(json_object_get(row, "precision"))), "fp32");
        const json_t *workers = json_object_get(row, "workers");
        if (json_is_integer(workers)) f->workers = (int)json_integer_value(workers);
    }
    r->d->read = str_format(r->d->arena, "%zu rows, the recommended one", json_array_size(rows));
    json_decref(document);
    return 0;
}

// --- Which of them ------------------------------------------------------------------------------

static bool is_bench(struct str head) {
    return head.p[0] == '{' && str_find(head, STR("\"rows\"")) >= 0;
}
static bool is_watch(struct str head) {
    return head.p[0] == '{' && str_find(head, STR("\"watch\"")) >= 0;
}
static bool is_csv(struct str head) {
    return str_starts(head, STR("time,gpu,pwr"));
}
static bool is_steps(struct str head) {
    struct str first = str_line(&head);
    return first.len > 0 && first.p[0] == '{' && str_find(first, STR("\"event\"")) > 0;
}
static bool is_log(struct str head) {
    (void)head;
    return true;
}

static const struct kind {
    const char *name;
    bool (*is)(struct str head); // not empty, without blanks before
    int (*bytes)(struct reading *r, struct str bytes, struct fail *why); // else by line
    int (*line)(struct reading *r, struct str line, struct fail *why);
    int (*end)(struct reading *r, struct fail *why);
} kinds[] = {
    {"steps", is_steps, NULL, steps_of_line, steps_end},
    {"watch", is_watch, NULL, watch_line, watch_end},
    {"watch", is_csv, NULL, csv_line, watch_end},
    {"bench", is_bench, bench_bytes, NULL, bench_end},
    {"log", is_log, log_bytes, NULL, log_end},
};

static int give_line(struct reading *r, const struct kind *k, struct fail *why) {
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

static int give(struct reading *r, const struct kind *k, struct str bytes, struct fail *why) {
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

static int next_bytes(int fd, const char *name, char *room, ptrdiff_t *ret_count,
                      struct fail *why) {
    ssize_t n;
    do n = read(fd, room, CHUNK);
    while (n < 0 && errno == EINTR);
    if (n < 0) return fail_set(why, FAIL_INPUT, "%s: %s", name, strerror(errno));
    *ret_count = (ptrdiff_t)n;
    return 0;
}

static struct reading *reading_new(struct doctor *d, const char *name) {
    struct arena *a = d->arena;
    struct reading *r = arena_new(a, struct reading, 1);
    *r = (struct reading){.d = d,
                          .name = name,
                          .journal = journal_new(a),
                          .steps = steps_new(a),
                          .kept = arena_new(a, struct step, KEPT),
                          .times = arena_new(a, double, KEPT),
                          .numbers = arena_new(a, int64_t, KEPT),
                          .stride = 1,
                          .earlier_most = 0,
                          .line = buf_new(a),
                          .document = buf_new(a)};
    for (int i = 0; i < CSV_COLUMNS; i++) r->columns[i] = -1;
    return r;
}

static int read_all(struct reading *r, int fd, struct fail *why) {
    char *room = arena_new(r->d->arena, char, CHUNK);
    const struct kind *k = NULL;
    ptrdiff_t count = 0;
    int rc;
    for (;;) {
        rc = next_bytes(fd, r->name, room, &count, why);
        if (rc < 0 || count == 0) break;
        struct str bytes = {room, count}, head = str_trim(bytes);
        if (!k) {
            const char *refusal = journal_refusal(bytes);
            if (refusal) return fail_set(why, FAIL_INPUT, "%s: %s", r->name, refusal);
            if (head.len == 0) continue;
            for (k = kinds; !k->is(head);) k++;
        }
        rc = give(r, k, bytes, why);
        if (rc < 0) return rc;
    }
    if (rc < 0) return rc;
    if (!k) {
        fail_set(why, FAIL_INPUT, "%s: it is empty", r->name);
        return fail_hint(why, "both outputs into the log: COMMAND > train.log 2>&1");
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
            return fail_set(why, FAIL_INPUT, "%.*s: a folder without steps.jsonl, no log",
                            STR_ARG(d->source));
    }
    OS_FD fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_set(why, FAIL_INPUT, "%s: %s", path, strerror(errno));
    struct reading *r = reading_new(d, d->source.p);
    int rc = read_all(r, fd, why);
    d->facts.trends = r->findings.items;
    d->facts.trend_count = r->findings.count;
    return rc;
}

// --- A row of the history -----------------------------------------------------------------------

static void take_run(struct doctor *d, const struct store_run *run) {
    struct cause_facts *f = &d->facts;
    f->phases =
        (struct cause_phases){run->io_ms,        run->h2d_ms,
                              run->forward_ms,   run->backward_ms,
                              run->optimizer_ms, run->other_ms,
                              run->total_ms,     (ptrdiff_t)(run->steps > 0 ? run->steps : 0)};
    f->utilisation = run->device_share;
    f->is_fp32 |= str_is(run->precision, "fp32");
    if (run->workers >= 0) f->workers = (int)run->workers;
    if (run->capacity_bytes > 0 && run->peak_bytes > 0)
        f->memory_share = (double)run->peak_bytes / (double)run->capacity_bytes;
    for (int i = 0; i < signature_count; i++) {
        if (!str_is(run->ending, signatures[i].id) || signatures[i].kind == ENDING_CLEAN) continue;
        f->ending.signature = signatures[i].id;
        f->ending.what = signatures[i].what;
        f->ending.hint = signatures[i].hint;
        f->ending.line = run->reason;
        f->ending.steps = run->made;
    }
    if (str_is(run->status, "SPILLS")) {
        struct insight_finding *spill = arena_new(d->arena, struct insight_finding, 1);
        *spill = (struct insight_finding){
            .id = "trend.spill", .severity = INSIGHT_PROBLEM, .evidence = run->reason};
        f->trends = spill;
        f->trend_count = 1;
    }
}

int doctor_recall(struct doctor *d, int64_t id, struct fail *why) {
    struct history h;
    const struct store_filter filter = {.id = id, .limit = 1};
    struct store_run *runs = NULL;
    ptrdiff_t count = 0;
    d->source = str_format(d->arena, "run %lld", (long long)id);
    d->kind = STR("run");
    history_open(d->arena, &d->options->h, &h);
    int rc = h.store ? store_find(h.store, d->arena, &filter, &runs, &count, why) : 0;
    if (rc == 0 && count == 0) {
        fail_set(why, FAIL_INPUT, "--run %lld: the history has no such run", (long long)id);
        rc = fail_hint(why, "batchfit list runs");
    }
    if (rc == 0) {
        take_run(d, &runs[0]);
        d->read =
            str_format(d->arena, "%.*s, %.*s", STR_ARG(runs[0].kind), STR_ARG(runs[0].status));
    }
    history_close(&h);
    return rc;
}
