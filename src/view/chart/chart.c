// SPDX-License-Identifier: Apache-2.0
// Charts: as SVG for the page of html.c, whose style sheet has the colours (classes c0 to c9), and
// as blocks in a terminal.
#include "view/chart/chart.h"

#include "base/unit.h"
#include "view/chart/chart_int.h"

#include <math.h>

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
double chart_height(const struct chart *c, ptrdiff_t i) {
    if (c->kind == CHART_AREAS) return chart_sum(c, i);
    double highest = -INFINITY;
    for (int s = 0; s < c->series_count; s++) highest = fmax(highest, c->series[s].y[i]);
    return highest;
}

ptrdiff_t chart_peak(const struct chart *c, double *ret_value) {
    ptrdiff_t best = -1;
    double most = -INFINITY;
    for (ptrdiff_t i = 0; i < c->point_count; i++) {
        double height = chart_height(c, i);
        if (height > most) most = height, best = i;
    }
    if (ret_value && best >= 0) *ret_value = most;
    return best;
}

double chart_top(const struct chart *c) {
    double top = 0;
    for (ptrdiff_t i = 0; i < c->point_count; i++) top = fmax(top, chart_height(c, i));
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
            if (chart_height(c, i) > chart_height(c, best)) best = i;
        }
        if (g == 0 && best > 0) kept[n++] = 0;
        kept[n++] = best;
        if (g == groups - 1 && best < c->point_count - 1) kept[n++] = c->point_count - 1;
    }
    *ret_count = n;
    return kept;
}

static void text_row(const struct chart *c, struct show_style style, const ptrdiff_t *kept,
                     ptrdiff_t columns, int repeat, double low, double high, struct buf *b) {
    static const char *const eighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    bool has_limit = c->limit > low && c->limit <= high;
    ARENA_AUTO scratch = {0};
    struct buf run = buf_new(&scratch);
    for (ptrdiff_t i = 0; i < columns * repeat; i++) {
        double share = (chart_height(c, kept[i / repeat]) - low) / (high - low);
        int fill = share >= 1 ? 8 : share > 0 ? (int)(share * 8) : 0;
        bool is_limit = fill == 0 && has_limit;
        if (is_limit)
            buf_add(&run, style.utf8 ? STR("╌") : STR("-"));
        else if (style.utf8)
            buf_add(&run, str_of(eighths[fill]));
        else
            buf_byte(&run, fill > 5 ? '#' : fill > 0 ? '.' : ' ');
    }
    struct str text = buf_str(&run);
    show_text(b, style, has_limit || low >= c->limit ? SHOW_BAD : SHOW_PLAIN, text);
}

static void trim_end(struct buf *b) {
    while (b->count && b->items[b->count - 1] == ' ') b->count--;
}

void chart_text(const struct chart *c, struct show_style style, int rows, struct buf *b) {
    enum { AXIS = 11, DEFAULT_WIDTH = 80 };
    if (c->point_count == 0 || rows <= 0) return;
    ARENA_AUTO scratch = {0};
    int room = (style.width > 0 ? style.width : DEFAULT_WIDTH) - AXIS - 3;
    ptrdiff_t columns;
    ptrdiff_t *kept = chart_thin(&scratch, c, room > 8 ? room : 8, &columns);
    double top = chart_top(c);
    if (c->title.len) {
        show_text(b, style, SHOW_STRONG, c->title);
        buf_byte(b, '\n');
    }
    if (columns <= 0) return;
    int repeat = columns < room ? (int)(room / columns) : 1;
    if (repeat > 8) repeat = 8;
    for (int row = rows - 1; row >= 0; row--) {
        double low = top * row / rows, high = top * (row + 1) / rows;
        struct str mark = {0};
        if (row == rows - 1 || row == rows / 2) mark = chart_text_of(&scratch, c->unit, high);
        if (c->limit > low && c->limit <= high) mark = chart_text_of(&scratch, c->unit, c->limit);
        show_padded(b, style, SHOW_DIM, show_fit(mark, AXIS), AXIS, true);
        buf_add(b, style.utf8 ? STR(" ┤") : STR(" |"));
        text_row(c, style, kept, columns, repeat, low, high, b);
        trim_end(b);
        buf_byte(b, '\n');
    }
    double peak;
    ptrdiff_t at = chart_peak(c, &peak);
    struct buf line = buf_new(&scratch);
    buf_format(&line, "peak %.*s at %.*s %.6g", STR_ARG(chart_text_of(&scratch, c->unit, peak)),
               STR_ARG(c->x_name), chart_x(c, at));
    if (!isnan(c->limit)) {
        buf_format(&line, "; %.*s: %.*s", STR_ARG(c->limit_name),
                   STR_ARG(chart_text_of(&scratch, c->unit, c->limit)));
    }
    show_padded(b, style, SHOW_DIM, STR(""), AXIS + 2, false);
    show_text(b, style, SHOW_DIM, buf_str(&line));
    buf_byte(b, '\n');
}
