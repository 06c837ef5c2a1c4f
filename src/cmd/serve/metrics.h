// SPDX-License-Identifier: Apache-2.0
// Writing text for Prometheus: a sheet (sheet.c) and the files that fill it.
#ifndef CMD_SERVE_METRICS_H
#define CMD_SERVE_METRICS_H

#include "cmd/serve/serve.h"

enum metric_kind { METRIC_GAUGE, METRIC_COUNTER };

// The text as it grows. Series of one name stand together below its description.
struct metric_sheet {
    struct buf out;
    bool is_open; // OpenMetrics: counters are described without their _total
    const char *name;
};

// A number of a struct, found by its place: most metrics are such a row.
struct metric_row {
    const char *name;
    enum metric_kind kind;
    const char *label; // more of it, 'reason="heat"'; NULL: none
    size_t offset;
    bool is_whole;
    double factor;
    const char *help;
};
// NaN where it is not known (-1 of whole numbers).
double metric_value(const void *of, const struct metric_row *row);
#define METRIC_ROWS_END \
    { .name = NULL }

// One sample; nothing where the value is not known. `labels` may be empty: 'gpu="0"'.
void metric_add(struct metric_sheet *sheet, const char *name, enum metric_kind kind,
                const char *help, struct str labels, double value);
// The row's own label after `labels`.
void metric_add_row(struct metric_sheet *sheet, const struct metric_row *row, struct str labels,
                    const void *of);
// A label of any text: 'name="value"', what must be escaped is.
void metric_label(struct buf *labels, const char *name, struct str value);

// gpu and uuid of a card by its place in the list; none for another number.
void metric_label_card(struct arena *a, struct buf *labels, const struct watch_view *view,
                       int card);

void metrics_of_host(struct arena *a, struct metric_sheet *sheet, struct serve *s);
void metrics_of_runs(struct arena *a, struct metric_sheet *sheet, const struct watch_view *view);
void metrics_of_serve(struct arena *a, struct metric_sheet *sheet, struct serve *s);
void metrics_of_dcgm(struct arena *a, struct metric_sheet *sheet, const struct watch_view *view);

#endif
