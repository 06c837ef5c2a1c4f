// SPDX-License-Identifier: Apache-2.0
// Prometheus' text format, and OpenMetrics'. What is not known is not written.
#include "verbs/serve/serve.h"

#include "base/out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// NaN where it is not known (-1 of whole numbers).
static double value_of(const void *of, const struct serve_metric_row *row) {
    const char *place = (const char *)of + row->offset;
    if (!row->is_whole) return *(const double *)(const void *)place * row->factor;
    int64_t n = *(const int64_t *)(const void *)place;
    return n < 0 ? (double)NAN : (double)n * row->factor;
}

static void describe(struct serve_metric_sheet *sheet, const char *name,
                     enum serve_metric_kind kind, const char *help) {
    struct str family = str_of(name);
    if (sheet->name && strcmp(sheet->name, name) == 0) return;
    sheet->name = name;
    if (sheet->is_open && kind == SERVE_METRIC_COUNTER && str_ends(family, STR("_total"))) {
        family.len -= (ptrdiff_t)sizeof "_total" - 1;
    }
    buf_format(&sheet->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", STR_ARG(family), help,
               STR_ARG(family), kind == SERVE_METRIC_COUNTER ? "counter" : "gauge");
}

void serve_metric_add(struct serve_metric_sheet *sheet, const char *name,
                      enum serve_metric_kind kind, const char *help, struct str labels,
                      double value) {
    if (!isfinite(value)) return;
    bool is_whole = value == floor(value) && fabs(value) < 1e15;
    describe(sheet, name, kind, help);
    buf_format(&sheet->out, labels.len > 0 ? "%s{%.*s} " : "%s%.*s ", name, STR_ARG(labels));
    buf_format(&sheet->out, is_whole ? "%.0f\n" : "%.12g\n", value);
}

void serve_metric_add_row(struct serve_metric_sheet *sheet, const struct serve_metric_row *row,
                          struct str labels, const void *of) {
    double value = value_of(of, row);
    if (!isfinite(value)) return;
    char both[2048];
    if (row->label) {
        int size = snprintf(both, sizeof both, "%.*s%s%s", STR_ARG(labels),
                            labels.len > 0 ? "," : "", row->label);
        labels = (struct str){both, size};
        if (size < 0 || size >= (int)sizeof both) return;
    }
    serve_metric_add(sheet, row->name, row->kind, row->help, labels, value);
}

void serve_metric_label(struct buf *labels, const char *name, struct str value) {
    buf_format(labels, "%s%s=\"", labels->count > 0 ? "," : "", name);
    // Whatever is hidden is written out, with the backslash of its form escaped like any other.
    char form[CLEAN_FORM_MOST];
    while (value.len > 0) {
        struct str shown = clean_take(&value, form);
        if (shown.p[0] == '\\' || shown.p[0] == '"') buf_byte(labels, '\\');
        buf_add(labels, shown);
    }
    buf_byte(labels, '"');
}

void serve_metric_label_card(struct arena *a, struct buf *labels, const struct observe_view *view,
                             int card) {
    if (card < 0 || card >= view->devices->count) return;
    const struct device_card *c = &view->devices->cards[card];
    serve_metric_label(labels, "gpu", str_format(a, "%d", c->index));
    if (c->facts.uuid[0]) serve_metric_label(labels, "uuid", str_of(c->facts.uuid));
}
