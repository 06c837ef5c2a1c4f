// SPDX-License-Identifier: Apache-2.0
// What the files of the verb `serve` share. One thread does everything: it looks at the machine,
// answers, and renders what is asked for at most once a reading; the same bytes go to everybody.
#pragma once

#include "cli/cli.h"
#include "measure/observe/observe.h"
#include "records/store/store.h"
#include "view/http/http.h"

struct serve_options {
    struct cli_options common;
    const char *address, *token_file, *machine, *gpu_ids, *steps, *alerts, *exec;
    const char *tls_cert, *tls_key, *trusted_proxy, *recommend, *fleet, *store;
    double port, interval_s, speed, cost_per_hour;
    bool demo, dcgm_names, pcie, profile;
};

// An answer that is rendered when somebody asks for it, and is good until the next reading.
struct serve_cached {
    struct http_page *page;
    int64_t reading; // that it is of
    int64_t made_ns;
    int64_t of; // what else it depends on
};
enum serve_cache {
    SERVE_SNAPSHOT,
    SERVE_HISTORY,
    SERVE_MACHINE,
    SERVE_METRICS,
    SERVE_OPEN_METRICS,
    SERVE_CACHES
};

struct serve_fleet; // fleet.c
struct serve {
    struct arena scratch; // of one answer
    const struct serve_options *options;
    struct observe_options watching;
    struct watch *watch;
    const struct observe_view *view;
    struct http *http;
    struct serve_fleet *fleet; // NULL: not asked
    struct serve_cached caches[SERVE_CACHES];
    bool has_token;  // whoever is answered has shown it
    int64_t reading; // counts the changes of the view
    int64_t counted; // the view's readings, of which failures were counted
    struct serve_own {
        int64_t metrics_rendered, failed_readings;
        double metrics_seconds; // that the newest took
    } own;
};

// The token of the file or of the environment; without one, other machines are not let in.
int serve_read_token(struct arena *a, const struct serve_options *o, struct str *ret_token,
                     struct fail *why);
// Certificate and key, if there are any.
int serve_read_tls(struct arena *a, const struct serve_options *o, struct http_options *ret_http,
                   struct fail *why);
const struct http_route *serve_routes(struct arena *a, const struct serve_options *o);
// The data of an event of the stream.
struct str serve_snapshot(void *context);
// The text for Prometheus, in the arena; `is_open` in OpenMetrics' form.
struct str serve_metrics(struct arena *a, struct serve *s, bool is_open);
// recommend.c: what a plugin of Kubeflow's trainer would patch into the TrainJob that was sent.
struct http_page *serve_recommend(void *context, const struct http_request *r);
// FAIL_USAGE: --recommend names no GPUs.
int serve_recommend_check(const struct serve_options *o, struct fail *why);
enum { SERVE_TRAINJOB_MOST = 1 << 18 }; // bytes
void serve_forget(struct serve *s);     // drops what is cached

// Writing text for Prometheus: a sheet (sheet.c) and the files that fill it.

enum serve_metric_kind { SERVE_METRIC_GAUGE, SERVE_METRIC_COUNTER };

// The text as it grows. Series of one name stand together below its description.
struct serve_metric_sheet {
    struct buf out;
    bool is_open; // OpenMetrics: counters are described without their _total
    const char *name;
};

// A number of a struct, found by its place: most metrics are such a row.
struct serve_metric_row {
    const char *name;
    enum serve_metric_kind kind;
    const char *label; // more of it, 'reason="heat"'; NULL: none
    size_t offset;
    bool is_whole;
    double factor;
    const char *help;
};
#define SERVE_METRIC_ROWS_END \
    { .name = NULL }

// One sample; nothing where the value is not known. `labels` may be empty: 'gpu="0"'.
void serve_metric_add(struct serve_metric_sheet *sheet, const char *name,
                      enum serve_metric_kind kind, const char *help, struct str labels,
                      double value);
// The row's own label after `labels`.
void serve_metric_add_row(struct serve_metric_sheet *sheet, const struct serve_metric_row *row,
                          struct str labels, const void *of);
// A label of any text: 'name="value"', what must be escaped is.
void serve_metric_label(struct buf *labels, const char *name, struct str value);

// gpu and uuid of a GPU by its place in the list; none for another number.
void serve_metric_label_card(struct arena *a, struct buf *labels, const struct observe_view *view,
                             int card);

void serve_metrics_of_host(struct arena *a, struct serve_metric_sheet *sheet, struct serve *s);
void serve_metrics_of_runs(struct arena *a, struct serve_metric_sheet *sheet,
                           const struct observe_view *view);
void serve_metrics_of_serve(struct arena *a, struct serve_metric_sheet *sheet, struct serve *s);
void serve_metrics_of_dcgm(struct arena *a, struct serve_metric_sheet *sheet,
                           const struct observe_view *view);

// What the history of many machines says: /api/v1/fleet, and its metrics.

// `window` is the option's value, "7d"; NULL: not asked, *ret is NULL. FAIL_USAGE: no time.
int serve_fleet_open(struct arena *a, const char *window, const char *store,
                     struct serve_fleet **ret, struct fail *why);
void serve_fleet_close(struct serve_fleet *f); // NULL is nothing
struct http_page *serve_fleet_answer(void *context, const struct http_request *r);
void serve_metrics_of_fleet(struct arena *a, struct serve_metric_sheet *sheet, struct serve *s);
