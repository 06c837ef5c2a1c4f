// SPDX-License-Identifier: Apache-2.0
// Writing text for Prometheus: a sheet (sheet.c) and the files that fill it.
#pragma once

#include "verbs/serve/serve.h"

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
