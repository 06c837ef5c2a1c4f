// SPDX-License-Identifier: Apache-2.0
// What serve answers at which path (doc/formats/serve.md).
#include "verbs/serve/serve.h"

#include "base/data.h"
#include "base/json.h"
#include "base/os.h"
#include "measure/observe/observe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum { HISTORY_USUAL_S = 600, HISTORY_MOST_S = 86400, HISTORY_POINTS = 1200 };
static const char document_type[] = "application/json";
static const char text_type[] = "text/plain; charset=utf-8";

void serve_forget(struct serve *s) {
    for (int i = 0; i < SERVE_CACHES; i++) {
        http_page_drop(s->http, s->caches[i].page);
        s->caches[i] = (struct serve_cached){0};
    }
}

static struct http_page *text_page(struct serve *s, int status, struct str text) {
    return http_page_new(s->http, status, text_type, text);
}

// One line: the stream's events are lines.
static struct str compact(struct arena *a, json_t *document) {
    return json_take(a, document, JSON_COMPACT | JSON_REAL_PRECISION(10));
}

static struct http_page *json_page(struct serve *s, int status, json_t *document) {
    struct arena_mark mark = arena_mark(&s->scratch);
    struct str text = compact(&s->scratch, document);
    struct http_page *page =
        text.len > 0 ? http_page_new(s->http, status, document_type, text) : NULL;
    arena_rewind(&s->scratch, mark);
    return page;
}

static void hide_people(json_t *processes) {
    json_t *process;
    size_t i;
    json_array_foreach(processes, i, process) {
        json_object_set_new(process, "command", json_null());
        json_object_set_new(process, "user", json_null());
    }
}

struct str serve_snapshot(void *context) {
    struct serve *s = context;
    json_t *document = observe_document(s->view), *run, *card;
    size_t i;
    // What somebody runs, and who, is told to those who have the token only.
    json_array_foreach(json_object_get(document, "runs"), i, run) {
        if (!s->has_token) json_object_set_new(run, "command", json_null());
    }
    json_array_foreach(json_object_get(document, "cards"), i, card) {
        if (!s->has_token) hide_people(json_object_get(card, "processes"));
    }
    return compact(&s->scratch, document);
}

// The cached page, or NULL when the machine was read since, or something else is wanted.
static struct http_page *cached(const struct serve *s, enum serve_cache which, int64_t of) {
    const struct serve_cached *c = &s->caches[which];
    // Not for ever either, should no GPU be read any more.
    int64_t most_ns = (int64_t)s->watching.interval_ms * 2000000;
    bool is_good =
        c->page && c->reading == s->reading && c->of == of && os_now_ns() - c->made_ns < most_ns;
    return is_good ? http_page_keep(c->page) : NULL;
}

static struct http_page *keep(struct serve *s, enum serve_cache which, int64_t of,
                              struct http_page *page) {
    struct serve_cached *c = &s->caches[which];
    if (!page) return NULL;
    http_page_drop(s->http, c->page);
    *c = (struct serve_cached){http_page_keep(page), s->reading, os_now_ns(), of};
    return page;
}

static struct http_page *answer_snapshot(void *context, const struct http_request *r) {
    struct serve *s = context;
    (void)r;
    struct http_page *page = cached(s, SERVE_SNAPSHOT, 0);
    if (page) return page;
    struct arena_mark mark = arena_mark(&s->scratch);
    page = http_page_new(s->http, 200, document_type, serve_snapshot(s));
    arena_rewind(&s->scratch, mark);
    return keep(s, SERVE_SNAPSHOT, 0, page);
}

static struct http_page *answer_history(void *context, const struct http_request *r) {
    struct serve *s = context;
    struct str asked = http_query(r, "seconds");
    int64_t seconds = HISTORY_USUAL_S;
    if (asked.len > 0 &&
        (!str_to_i64(asked, &seconds) || seconds < 1 || seconds > HISTORY_MOST_S)) {
        return json_page(s, 400,
                         json_pack("{s:s}", "error", "seconds: a whole number from 1 to 86400"));
    }
    struct http_page *page = cached(s, SERVE_HISTORY, seconds);
    if (page) return page;
    page = json_page(s, 200, observe_document_history(s->view, (double)seconds, HISTORY_POINTS));
    return keep(s, SERVE_HISTORY, seconds, page);
}

// --- The machine

static void pick(json_t *to, const json_t *from, const char *const *keys) {
    for (int i = 0; keys[i]; i++) {
        json_t *value = json_object_get(from, keys[i]);
        json_object_set(to, keys[i], value ? value : json_null());
    }
}

// What does not change, out of the snapshot: the same names there and here.
static json_t *machine_json(struct serve *s) {
    static const char *const of_card[] = {"index",      "name",  "uuid", "is_mig",
                                          "is_unified", "facts", NULL};
    static const char *const of_driver[] = {"version",  "cuda",   "why_none",
                                            "left_out", "is_wsl", NULL};
    struct utsname system = {0};
    bool is_recorded = s->options->machine != NULL;
    uname(&system);
    json_t *snapshot = observe_document(s->view);
    json_t *driver = json_object(), *cards = json_array(), *card;
    size_t i;
    pick(driver, json_object_get(snapshot, "driver"), of_driver);
    json_array_foreach(json_object_get(snapshot, "cards"), i, card) {
        json_t *one = json_object();
        pick(one, card, of_card);
        json_array_append_new(cards, one);
    }
    struct device_cpu cpu = {.available_bytes = -1};
    if (!is_recorded) device_cpu_read(&s->scratch, "", &cpu);
    json_t *machine = json_pack(
        "{s:i, s:s, s:o, s:b, s:b, s:O, s:o, s:o, s:o, s:o, s:I, s:i}", "machine", 1, "version",
        BATCHFIT_VERSION, "host", is_recorded ? json_null() : json_string(system.nodename),
        "is_recorded", is_recorded, "has_fleet", s->fleet != NULL, "standin",
        json_object_get(snapshot, "standin"), "system",
        is_recorded ? json_null()
                    : json_pack("{s:s, s:s, s:s}", "name", system.sysname, "release",
                                system.release, "architecture", system.machine),
        "cpu",
        is_recorded ? json_null()
                    : json_pack("{s:o, s:i, s:o}", "name", json_text(cpu.name), "cores", cpu.cores,
                                "total_bytes", json_size(cpu.total_bytes)),
        "driver", driver, "cards", cards, "started_ms",
        (json_int_t)(s->view->at_ms - (s->view->at_ns - s->view->started_ns) / 1000000),
        "interval_ms", s->view->interval_ms);
    json_decref(snapshot);
    return machine;
}

static struct http_page *answer_machine(void *context, const struct http_request *r) {
    struct serve *s = context;
    (void)r;
    struct http_page *page = cached(s, SERVE_MACHINE, 0);
    if (page) return page;
    struct arena_mark mark = arena_mark(&s->scratch);
    page = json_page(s, 200, machine_json(s));
    arena_rewind(&s->scratch, mark);
    return keep(s, SERVE_MACHINE, 0, page);
}

// --- Prometheus

static const char metrics_type[] = "text/plain; version=0.0.4; charset=utf-8";
static const char open_metrics_type[] =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

static struct http_page *answer_metrics(void *context, const struct http_request *r) {
    struct serve *s = context;
    // dcgm-exporter's names of counters are none in OpenMetrics.
    bool is_open = !s->options->dcgm_names &&
                   http_prefers(r->accept, "application/openmetrics-text", "text/plain");
    enum serve_cache which = is_open ? SERVE_OPEN_METRICS : SERVE_METRICS;
    struct http_page *page = cached(s, which, 0);
    if (page) return page;
    struct arena_mark mark = arena_mark(&s->scratch);
    page = http_page_new(s->http, 200, is_open ? open_metrics_type : metrics_type,
                         serve_metrics(&s->scratch, s, is_open));
    arena_rewind(&s->scratch, mark);
    return keep(s, which, 0, page);
}

// --- Health

static struct http_page *answer_healthy(void *context, const struct http_request *r) {
    (void)r;
    return text_page(context, 200, STR("healthy\n"));
}

static struct http_page *answer_ready(void *context, const struct http_request *r) {
    struct serve *s = context;
    (void)r;
    if (s->view->readings > 0) return text_page(s, 200, STR("ready\n"));
    return text_page(s, 503, STR("not ready: the machine has not been read yet\n"));
}

// --- The page's files

// By the end of a file's name; what has none of these is not served.
static const struct file_type {
    const char *suffix, *type;
} file_types[] = {
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".ico", "image/x-icon"},
};

static const char *type_of(const char *name) {
    for (size_t i = 0; i < sizeof file_types / sizeof *file_types; i++) {
        if (str_ends(str_of(name), str_of(file_types[i].suffix))) return file_types[i].type;
    }
    return NULL;
}

static struct http_page *answer_file(void *context, const struct http_request *r) {
    const struct data_file *file = r->route->of;
    struct serve *s = context;
    return http_page_static(s->http, type_of(file->name), data_text(file));
}

static struct http_page *answer_no_page(void *context, const struct http_request *r) {
    (void)r;
    return text_page(context, 200, STR("this program was built without its page; see /metrics\n"));
}

static const struct http_route routes[] = {
    {"/metrics", answer_metrics, NULL},
    {"/api/v1/machine", answer_machine, NULL},
    {"/api/v1/snapshot", answer_snapshot, NULL},
    {"/api/v1/history", answer_history, NULL},
    {"/api/v1/stream", NULL, NULL, .is_stream = true},
    {"/-/healthy", answer_healthy, NULL, .is_open = true},
    {"/-/ready", answer_ready, NULL, .is_open = true},
};
enum { ROUTES = sizeof routes / sizeof *routes };
// Those of an option.
static const struct http_route of_recommend = {"/api/v1/recommend", serve_recommend, NULL,
                                               .body_most = SERVE_TRAINJOB_MOST};
static const struct http_route of_fleet = {"/api/v1/fleet", serve_fleet_answer, NULL};

// The table above, a path for each embedded file of web/ but what stands in explain's pages, and /
// for the page itself.
const struct http_route *serve_routes(struct arena *a, const struct serve_options *o) {
    struct http_route *all = arena_new(a, struct http_route, ROUTES + data_file_count + 4);
    int count = ROUTES;
    bool has_page = false;
    memcpy(all, routes, sizeof routes);
    if (o->recommend) all[count++] = of_recommend;
    if (o->fleet) all[count++] = of_fleet;
    for (int i = 0; i < data_file_count; i++) {
        const struct data_file *file = &data_files[i];
        const struct str name = str_of(file->name);
        bool is_served = str_starts(name, STR("web/")) && !str_starts(name, STR("web/page/"));
        bool is_fleets = str_starts(name, STR("web/fleet."));
        if (!is_served || !type_of(file->name) || (is_fleets && !o->fleet)) continue;
        bool is_page = strcmp(file->name, "web/index.html") == 0;
        const char *path = is_page ? "/" : file->name + strlen("web");
        all[count++] = (struct http_route){.path = path, .answer = answer_file, .of = file};
        has_page |= is_page;
    }
    if (!has_page) all[count] = (struct http_route){.path = "/", .answer = answer_no_page};
    return all;
}
