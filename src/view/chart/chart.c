// SPDX-License-Identifier: Apache-2.0
// What a chart drawn as SVG (svg.c) needs to know of its values: heights, marks, which points are
// kept.
#include "view/chart/chart.h"

#include "base/data.h"
#include "base/unit.h"
#include "view/chart/chart_int.h"

#include <math.h>

// Without its first line, the licence's.
struct str chart_style_sheet(void) {
    struct str text = data_text(data_embedded("web/page/pages.css"));
    str_line(&text);
    return text;
}

static double value_at(const struct chart *c, int series, ptrdiff_t i) {
    double y = c->series[series].y[i];
    return isnan(y) && c->kind == CHART_AREAS ? 0 : y;
}

double chart_x(const struct chart *c, ptrdiff_t i) {
    return c->x ? c->x[i] : (double)i;
}

double chart_sum(const struct chart *c, ptrdiff_t i) {
    double sum = 0;
    for (int s = 0; s < c->series_count; s++) {
        double y = value_at(c, s, i);
        if (!isnan(y)) sum += y;
    }
    return sum;
}

// The height that must stay visible at a point: the sum of areas, the highest of lines.
static double height_at(const struct chart *c, ptrdiff_t i) {
    if (c->kind == CHART_AREAS) return chart_sum(c, i);
    double highest = -INFINITY;
    for (int s = 0; s < c->series_count; s++) highest = fmax(highest, c->series[s].y[i]);
    return highest;
}

ptrdiff_t chart_peak(const struct chart *c, double *ret_value) {
    ptrdiff_t best = -1;
    double most = -INFINITY;
    for (ptrdiff_t i = 0; i < c->point_count; i++) {
        double height = height_at(c, i);
        if (height > most) most = height, best = i;
    }
    if (ret_value && best >= 0) *ret_value = most;
    return best;
}

double chart_top(const struct chart *c) {
    double top = 0;
    for (ptrdiff_t i = 0; i < c->point_count; i++) top = fmax(top, height_at(c, i));
    // A limit far above would squash the data; then it is only named.
    if (c->limit < 4 * top || top == 0) top = fmax(top, c->limit);
    if (c->budget < 4 * top) top = fmax(top, c->budget);
    return top > 0 ? top : 1;
}

struct str chart_text_of(struct arena *a, enum chart_unit unit, double value) {
    if (isnan(value)) return STR("–");
    if (unit == CHART_BYTES) return unit_bytes(a, (int64_t)llround(value));
    double size = fabs(value);
    if (size >= 1e9) return str_format(a, "%.3g G", value / 1e9);
    if (size >= 1e6) return str_format(a, "%.3g M", value / 1e6);
    if (size >= 1e4) return str_format(a, "%.3g k", value / 1e3);
    return str_format(a, "%.4g", value);
}

struct str chart_tick_of(struct arena *a, enum chart_unit unit, double value, double step) {
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    if (unit != CHART_BYTES) return chart_text_of(a, unit, value);
    int n = 0;
    for (; n < 5 && step >= 1024; n++) step /= 1024, value /= 1024;
    return str_format(a, "%.4g %s", value, names[n]);
}

double chart_step(enum chart_unit unit, double span, int at_most) {
    // Bytes step in 1, 2, 5 of the unit that they are written in.
    double base = 1;
    while (unit == CHART_BYTES && span / base >= 1024) base *= 1024;
    double raw = span / base / at_most;
    double ten = pow(10, floor(log10(raw)));
    double nice = raw <= ten ? ten : raw <= 2 * ten ? 2 * ten : raw <= 5 * ten ? 5 * ten : 10 * ten;
    return nice * base;
}

ptrdiff_t *chart_thin(struct arena *a, const struct chart *c, ptrdiff_t at_most,
                      ptrdiff_t *ret_count) {
    ptrdiff_t groups = c->point_count < at_most ? c->point_count : at_most, n = 0;
    ptrdiff_t *kept = arena_new(a, ptrdiff_t, groups + 2);
    for (ptrdiff_t g = 0; g < groups; g++) {
        ptrdiff_t from = g * c->point_count / groups, to = (g + 1) * c->point_count / groups;
        ptrdiff_t best = from;
        for (ptrdiff_t i = from; i < to; i++) {
            if (height_at(c, i) > height_at(c, best)) best = i;
        }
        if (g == 0 && best > 0) kept[n++] = 0;
        kept[n++] = best;
        if (g == groups - 1 && best < c->point_count - 1) kept[n++] = c->point_count - 1;
    }
    *ret_count = n;
    return kept;
}
