// SPDX-License-Identifier: Apache-2.0
// --fleet: what the history of many machines says of the last days: which models on which GPUs and
// how well these were used, the GPUs that idle, the trainings that asked for twice what they used.
// A thread of its own asks the store once a minute, as a server may take seconds to answer; whoever
// asks here gets what it said last.
#include "verbs/serve/serve.h"

#include "base/json.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ASK_SECONDS = 60, WINDOWS_SEEN = 4, ROWS_MOST = 200, CARD_LETTERS = 8 };
static const double idle_below = 0.1; // of the time: 17 hours of a week

// What the store said at one moment.
struct said {
    struct arena arena;
    int64_t since_ms, until_ms;
    struct store_run *rows[STORE_GROUPS];
    ptrdiff_t count[STORE_GROUPS];
    struct str name, error; // of the store; empty: it answered
};
struct serve_fleet {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stops;
    char *place;
    int64_t window_ms;
    struct said *said; // NULL: nothing yet
};

// --- The store -----------------------------------------------------------------------------------

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct said *ask(const struct serve_fleet *f) {
    struct said *s = calloc(1, sizeof *s);
    struct store *store = NULL;
    struct fail why = {0};
    if (!s) return NULL;
    s->until_ms = now_ms();
    s->since_ms = s->until_ms - f->window_ms;
    int rc = store_open(&s->arena, str_of(f->place), &store, &why);
    for (int i = 0; rc == 0 && i < STORE_GROUPS; i++) {
        // A GPU that idles has no runs in the window: it was seen before.
        int64_t back = i == STORE_BY_CARD ? (WINDOWS_SEEN - 1) * f->window_ms : 0;
        rc = store_grouped(store, &s->arena, (enum store_group)i, s->since_ms - back, s->since_ms,
                           ROWS_MOST, &s->rows[i], &s->count[i], &why);
    }
    s->name = store ? str_copy(&s->arena, store_name(store)) : (struct str){0};
    if (rc < 0) s->error = str_copy(&s->arena, str_of(why.message));
    store_close(store);
    return s;
}

static void forget(struct said *s) {
    if (s) arena_clear(&s->arena);
    free(s);
}

static void *ask_for_ever(void *argument) {
    struct serve_fleet *f = argument;
    pthread_mutex_lock(&f->lock);
    while (!f->stops) {
        struct timespec until;
        pthread_mutex_unlock(&f->lock);
        struct said *new = ask(f), *old;
        pthread_mutex_lock(&f->lock);
        old = f->said;
        f->said = new;
        forget(old);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += ASK_SECONDS;
        if (!f->stops) pthread_cond_timedwait(&f->wake, &f->lock, &until);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static int read_window(const char *text, int64_t *ret_ms, struct fail *why) {
    static const struct {
        char letter;
        int64_t ms;
    } units[] = {{'h', 3600000}, {'d', 86400000}, {'w', 604800000}};
    struct str number = str_of(text);
    int64_t n = 0;
    for (size_t i = 0; number.len > 1 && i < sizeof units / sizeof *units; i++) {
        if (number.p[number.len - 1] != units[i].letter) continue;
        if (!str_to_i64(str_slice(number, 0, number.len - 1), &n) || n < 1 || n > 1000) break;
        *ret_ms = n * units[i].ms;
        return 0;
    }
    fail_set(why, FAIL_USAGE, "--fleet %s: not a time", text);
    return fail_hint(why, "give hours, days or weeks: 12h, 7d, 4w");
}

int serve_fleet_open(struct arena *a, const char *window, const char *store,
                     struct serve_fleet **ret, struct fail *why) {
    int64_t window_ms = 0;
    struct str place = store_place(a, store);
    *ret = NULL;
    if (!window) return 0;
    int rc = read_window(window, &window_ms, why);
    if (rc == 0 && place.len == 0)
        rc = fail_set(why, FAIL_MACHINE, "no history: HOME is not set (--store says where)");
    if (rc < 0) return rc;
    struct serve_fleet *f = calloc(1, sizeof *f);
    if (!f) return fail_set(why, FAIL_MACHINE, "no memory");
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->wake, NULL);
    f->window_ms = window_ms;
    f->place = strndup(place.p, (size_t)place.len);
    if (pthread_create(&f->thread, NULL, ask_for_ever, f) != 0)
        return fail_set(why, FAIL_MACHINE, "cannot start a thread");
    *ret = f;
    return 0;
}

// A server that does not answer now does not hold up the end.
void serve_fleet_close(struct serve_fleet *f) {
    struct timespec until;
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    f->stops = true;
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    if (pthread_timedjoin_np(f->thread, NULL, &until) != 0) return;
    forget(f->said);
    free(f->place);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->wake);
    free(f);
}

// --- The document --------------------------------------------------------------------------------

static double share_of(int64_t part, int64_t whole) {
    return part > 0 && whole > 0 ? (double)part / (double)whole : (double)NAN;
}

static double used_share(const struct said *s, const struct store_run *r) {
    double share = r->seconds * 1000 / (double)(s->until_ms - s->since_ms);
    return isnan(share) || share < 0 ? 0 : fmin(share, 1);
}

// Enough of the hash to tell a machine's GPUs apart.
static struct str card_of(const struct store_run *r) {
    return str_slice(r->gpu_hash, 0,
                     r->gpu_hash.len < CARD_LETTERS ? r->gpu_hash.len : CARD_LETTERS);
}

static int64_t asked_of(const struct store_run *r) {
    return r->limit_bytes > 0 ? r->limit_bytes : r->capacity_bytes;
}

static json_t *model_json(const struct said *s, const struct store_run *r) {
    (void)s;
    return json_pack("{s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "model",
                     json_text(r->plan.model), "gpu", json_text(r->gpu), "runs", (json_int_t)r->id,
                     "hours", json_number(r->seconds / 3600), "gpu_percent",
                     json_number(100 * r->device_share), "peak_bytes", json_size(r->peak_bytes),
                     "capacity_bytes", json_size(r->capacity_bytes), "memory_percent",
                     json_number(100 * share_of(r->peak_bytes, r->capacity_bytes)), "last_ms",
                     json_size(r->at_ms));
}

static json_t *card_json(const struct said *s, const struct store_run *r) {
    double used = used_share(s, r);
    return json_pack("{s:o, s:o, s:I, s:f, s:f, s:b, s:o}", "gpu", json_text(r->gpu), "card",
                     json_text(card_of(r)), "runs", (json_int_t)r->id, "hours",
                     isnan(r->seconds) ? 0 : r->seconds / 3600, "used_percent", 100 * used, "idles",
                     used < idle_below, "last_ms", json_size(r->at_ms));
}

static json_t *spare_json(const struct said *s, const struct store_run *r) {
    (void)s;
    return json_pack("{s:o, s:o, s:I, s:o, s:o, s:o}", "model", json_text(r->plan.model), "gpu",
                     json_text(r->gpu), "runs", (json_int_t)r->id, "peak_bytes",
                     json_size(r->peak_bytes), "asked_bytes", json_size(asked_of(r)), "times",
                     json_number(share_of(asked_of(r), r->peak_bytes)));
}

static const struct {
    const char *key;
    json_t *(*row)(const struct said *s, const struct store_run *r);
} lists[STORE_GROUPS] = {
    [STORE_BY_MODEL] = {"models", model_json},
    [STORE_BY_CARD] = {"cards", card_json},
    [STORE_BY_SPARE] = {"oversized", spare_json},
};

static json_t *said_json(const struct said *s) {
    json_t *document =
        json_pack("{s:i, s:o, s:o, s:I, s:I, s:f}", "fleet", 1, "store", json_text(s->name),
                  "error", json_text(s->error), "since_ms", (json_int_t)s->since_ms, "until_ms",
                  (json_int_t)s->until_ms, "idle_below_percent", 100 * idle_below);
    for (int i = 0; document && i < STORE_GROUPS; i++) {
        json_t *list = json_array();
        for (ptrdiff_t k = 0; k < s->count[i]; k++)
            json_array_append_new(list, lists[i].row(s, &s->rows[i][k]));
        json_object_set_new(document, lists[i].key, list);
    }
    return document;
}

struct http_page *serve_fleet_answer(void *context, const struct http_request *r) {
    struct serve *s = context;
    struct arena_mark mark = arena_mark(&s->scratch);
    (void)r;
    pthread_mutex_lock(&s->fleet->lock);
    json_t *document = s->fleet->said ? said_json(s->fleet->said) : NULL;
    pthread_mutex_unlock(&s->fleet->lock);
    int status = document ? 200 : 503;
    if (!document) document = json_pack("{s:s}", "error", "the history has not been read yet");
    struct str text = json_take(&s->scratch, document, JSON_COMPACT | JSON_REAL_PRECISION(10));
    struct http_page *page =
        text.len > 0 ? http_page_new(s->http, status, "application/json", text) : NULL;
    arena_rewind(&s->scratch, mark);
    return page;
}

// --- Prometheus ----------------------------------------------------------------------------------

static const struct {
    const char *name;
    enum store_group of;
    enum { RUNS, SECONDS, BUSY, MEMORY, USED, VALUES } value;
    const char *help;
} metrics[] = {
    {"batchfit_fleet_runs", STORE_BY_MODEL, RUNS,
     "Runs of the history in the fleet's window, by model and GPU."},
    {"batchfit_fleet_run_seconds", STORE_BY_MODEL, SECONDS, "Their time within the window."},
    {"batchfit_fleet_run_utilization_ratio", STORE_BY_MODEL, BUSY,
     "How busy the GPU was in them, where they say it."},
    {"batchfit_fleet_run_memory_ratio", STORE_BY_MODEL, MEMORY,
     "The largest peak of them, of the GPU's memory."},
    {"batchfit_fleet_gpu_used_ratio", STORE_BY_CARD, USED,
     "Share of the window in which the GPU had a run that the history knows."},
    {"batchfit_fleet_oversized_runs", STORE_BY_SPARE, RUNS,
     "Trainings that were given twice the memory that they used, or more."},
};

static struct str labels_of(struct arena *a, enum store_group of, const struct store_run *r) {
    struct buf labels = buf_new(a);
    serve_metric_label(&labels, "gpu_name", r->gpu);
    if (of == STORE_BY_CARD)
        serve_metric_label(&labels, "card", card_of(r));
    else
        serve_metric_label(&labels, "model", r->plan.model);
    return buf_str(&labels);
}

void serve_metrics_of_fleet(struct arena *a, struct serve_metric_sheet *sheet, struct serve *s) {
    if (!s->fleet) return;
    pthread_mutex_lock(&s->fleet->lock);
    const struct said *said = s->fleet->said;
    if (said) {
        serve_metric_add(sheet, "batchfit_fleet_up", SERVE_METRIC_GAUGE,
                         "1: the history answered the last time it was asked.", (struct str){0},
                         said->error.len == 0);
        for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
            for (ptrdiff_t k = 0; k < said->count[metrics[i].of]; k++) {
                const struct store_run *r = &said->rows[metrics[i].of][k];
                const double values[VALUES] = {[RUNS] = (double)r->id,
                                               [SECONDS] = r->seconds,
                                               [BUSY] = r->device_share,
                                               [MEMORY] =
                                                   share_of(r->peak_bytes, r->capacity_bytes),
                                               [USED] = used_share(said, r)};
                serve_metric_add(sheet, metrics[i].name, SERVE_METRIC_GAUGE, metrics[i].help,
                                 labels_of(a, metrics[i].of, r), values[metrics[i].value]);
            }
        }
    }
    pthread_mutex_unlock(&s->fleet->lock);
}
