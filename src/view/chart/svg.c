// SPDX-License-Identifier: Apache-2.0
// A chart as one SVG picture without script: areas or lines, axes, limits, the peak, stretches of
// the x axis, and strips over the picture that say all values of their place when pointed at.
#include "view/chart/chart_int.h"

#include <math.h>

// The picture's own units; the page scales it to its width.
enum {
    WIDTH = CHART_WIDTH,
    HEIGHT = CHART_HEIGHT,
    LEFT = 74,
    RIGHT = 16,
    TOP = 30,
    BOTTOM = 46,
    POINTS = 480,
    STRIPS = 96,
};

struct drawing {
    const struct chart *c;
    struct arena *a;
    struct buf *b;
    ptrdiff_t *kept, kept_count;
    double x_from, x_to, top;
};

static double at_x(const struct drawing *d, double x) {
    double span = d->x_to - d->x_from;
    double share = span > 0 ? (x - d->x_from) / span : 0.5;
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct drawing *d, double y) {
    return HEIGHT - BOTTOM - y / d->top * (HEIGHT - TOP - BOTTOM);
}

static void add_label(struct drawing *d, double x, double y, const char *class, const char *anchor,
                      struct str text) {
    buf_format(d->b, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, class,
               anchor);
    show_escaped(d->b, text);
    buf_add(d->b, STR("</text>\n"));
}

static struct str value_text(struct drawing *d, double value) {
    return chart_text_of(d->a, d->c->unit, value);
}

struct str chart_alternative(const struct chart *c, struct arena *scratch) {
    struct drawing drawing = {.c = c, .a = scratch}, *d = &drawing;
    double peak;
    ptrdiff_t at = chart_peak(c, &peak);
    struct buf b = buf_new(d->a);
    buf_format(&b, "%s of %d series over %.*s", c->kind == CHART_AREAS ? "Stacked areas" : "Lines",
               c->series_count, STR_ARG(c->x_name.len ? c->x_name : STR("the points")));
    if (c->kind == CHART_AREAS) {
        buf_format(&b, ". The sum peaks at %.6g: %.*s, of which", chart_x(c, at),
                   STR_ARG(value_text(d, peak)));
        for (int s = 0; s < c->series_count; s++) {
            buf_format(&b, "%s %.*s %.*s", s ? "," : "", STR_ARG(c->series[s].name),
                       STR_ARG(value_text(d, c->series[s].y[at])));
        }
    }
    if (!isnan(c->limit)) {
        buf_format(&b, ". %.*s: %.*s", STR_ARG(c->limit_name.len ? c->limit_name : STR("Limit")),
                   STR_ARG(value_text(d, c->limit)));
    }
    buf_byte(&b, '.');
    return buf_str(&b);
}

static void draw_spans(struct drawing *d) {
    for (int i = 0; i < d->c->span_count; i++) {
        const struct chart_span *span = &d->c->spans[i];
        double from = at_x(d, fmax(span->from, d->x_from)), to = at_x(d, fmin(span->to, d->x_to));
        if (!(to > from)) continue;
        if (i % 2) {
            buf_format(d->b,
                       "<rect class=\"span\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n",
                       from, TOP, to - from, HEIGHT - TOP - BOTTOM);
        }
        // About seven units a column of text of this size.
        if (show_width(span->name) * 7 > to - from) continue;
        add_label(d, (from + to) / 2, TOP - 9, "dim", "middle", span->name);
    }
}

static void draw_y_axis(struct drawing *d) {
    double step = chart_step(d->c->unit, d->top, 6);
    for (double y = 0; y <= d->top * 1.0001; y += step) {
        buf_format(d->b, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, at_y(d, y),
                   WIDTH - RIGHT);
        add_label(d, LEFT - 8, at_y(d, y) + 4, "dim", "end",
                  chart_tick_of(d->a, d->c->unit, y, step));
    }
    if (d->c->unit == CHART_NUMBERS) add_label(d, 4, TOP - 9, "dim", "start", d->c->y_name);
}

// What the points are called, as many as there is room for: about seven units a column of text.
static void draw_x_texts(struct drawing *d) {
    double free_from = 0;
    for (ptrdiff_t k = 0; k < d->kept_count; k++) {
        struct str text = d->c->x_texts[d->kept[k]];
        double x = at_x(d, chart_x(d->c, d->kept[k])), half = show_width(text) * 3.5;
        if (x - half < free_from) continue;
        add_label(d, x, HEIGHT - BOTTOM + 18, "dim", "middle", text);
        free_from = x + half + 7;
    }
}

static void draw_x_axis(struct drawing *d) {
    double step = chart_step(CHART_NUMBERS, fmax(d->x_to - d->x_from, 1e-9), 8);
    if (d->c->x_texts) draw_x_texts(d);
    for (double x = ceil(d->x_from / step) * step; !d->c->x_texts && x <= d->x_to + step * 1e-6;
         x += step) {
        add_label(d, at_x(d, x), HEIGHT - BOTTOM + 18, "dim", "middle",
                  chart_text_of(d->a, CHART_NUMBERS, x));
    }
    add_label(d, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8, "dim", "middle", d->c->x_name);
}

// From the sum of the series below to the sum with this one, and back.
static void draw_area(struct drawing *d, int series, double *below) {
    const struct chart *c = d->c;
    buf_format(d->b, "<path class=\"area c%d\" d=\"M", series % CHART_SERIES_MAX);
    for (ptrdiff_t k = 0; k < d->kept_count; k++) {
        double y = c->series[series].y[d->kept[k]], x = at_x(d, chart_x(c, d->kept[k]));
        double above = below[k] + (isnan(y) ? 0 : y);
        buf_format(d->b, "%s%.1f %.1f", k ? "L" : "", x, at_y(d, above));
    }
    for (ptrdiff_t k = d->kept_count - 1; k >= 0; k--) {
        double y = c->series[series].y[d->kept[k]];
        buf_format(d->b, "L%.1f %.1f", at_x(d, chart_x(c, d->kept[k])), at_y(d, below[k]));
        below[k] += isnan(y) ? 0 : y;
    }
    buf_add(d->b, STR("Z\"/>\n"));
}

static void draw_line(struct drawing *d, int series) {
    const struct chart *c = d->c;
    bool is_gap = true;
    buf_format(d->b, "<path class=\"line c%d\" d=\"", series % CHART_SERIES_MAX);
    for (ptrdiff_t k = 0; k < d->kept_count; k++) {
        double y = c->series[series].y[d->kept[k]];
        if (!isnan(y)) {
            buf_format(d->b, "%s%.1f %.1f", is_gap ? "M" : "L", at_x(d, chart_x(c, d->kept[k])),
                       at_y(d, y));
        }
        is_gap = isnan(y);
    }
    buf_add(d->b, STR("\"/>\n"));
    // Few points are marked, so that a single one is seen as well.
    for (ptrdiff_t k = 0; k < d->kept_count && d->kept_count <= 40; k++) {
        double y = c->series[series].y[d->kept[k]];
        if (isnan(y)) continue;
        buf_format(d->b, "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n",
                   series % CHART_SERIES_MAX, at_x(d, chart_x(c, d->kept[k])), at_y(d, y));
    }
}

static void draw_mark(struct drawing *d, double value, struct str name, const char *class) {
    if (isnan(value) || value > d->top) return;
    buf_format(d->b, "<path class=\"mark %s\" d=\"M%d %.1fH%d\"/>\n", class, LEFT, at_y(d, value),
               WIDTH - RIGHT);
    struct str text = str_format(d->a, "%.*s %.*s", STR_ARG(name), STR_ARG(value_text(d, value)));
    add_label(d, LEFT + 6, at_y(d, value) - 5, class, "start", text);
}

static void draw_peak(struct drawing *d) {
    double peak;
    ptrdiff_t at = chart_peak(d->c, &peak);
    if (d->c->kind != CHART_AREAS || at < 0) return;
    double x = at_x(d, chart_x(d->c, at)), y = at_y(d, peak);
    bool is_right = x > WIDTH * 0.7;
    buf_format(d->b, "<circle class=\"peak\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>\n", x, y);
    add_label(d, is_right ? x - 10 : x + 10, fmax(y - 8, TOP + 12), "strong",
              is_right ? "end" : "start",
              str_format(d->a, "peak %.*s", STR_ARG(value_text(d, peak))));
}

// Invisible strips whose titles say the values of the highest point in them.
static void draw_strips(struct drawing *d) {
    const struct chart *c = d->c;
    ptrdiff_t count;
    ptrdiff_t *points = chart_thin(d->a, c, STRIPS, &count);
    for (ptrdiff_t k = 0; k < count; k++) {
        double here = at_x(d, chart_x(c, points[k]));
        double from = k ? (here + at_x(d, chart_x(c, points[k - 1]))) / 2 : LEFT;
        double to = k + 1 < count ? (here + at_x(d, chart_x(c, points[k + 1]))) / 2 : WIDTH - RIGHT;
        if (!(to > from)) continue;
        buf_format(d->b,
                   "<rect class=\"strip\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"><title>",
                   from, TOP, to - from, HEIGHT - TOP - BOTTOM);
        show_escaped(d->b, c->x_name);
        buf_byte(d->b, ' ');
        if (c->x_texts)
            show_escaped(d->b, c->x_texts[points[k]]);
        else
            buf_format(d->b, "%.6g", chart_x(c, points[k]));
        if (c->kind == CHART_AREAS) {
            buf_add(d->b, STR(": "));
            show_escaped(d->b, value_text(d, chart_sum(c, points[k])));
        }
        for (int s = c->series_count - 1; s >= 0; s--) {
            buf_byte(d->b, '\n');
            show_escaped(d->b, c->series[s].name);
            buf_byte(d->b, ' ');
            show_escaped(d->b, value_text(d, c->series[s].y[points[k]]));
        }
        buf_add(d->b, STR("</title></rect>\n"));
    }
}

static void draw_legend(const struct chart *c, struct buf *b) {
    int count = c->series_count;
    buf_add(b, STR("<ul class=\"legend\">\n"));
    for (int i = 0; i < count; i++) {
        // Areas from the highest to the lowest, as they lie in the picture.
        int s = c->kind == CHART_AREAS ? count - 1 - i : i;
        buf_format(b,
                   "<li><svg class=\"key\" viewBox=\"0 0 10 10\" aria-hidden=\"true\">"
                   "<rect class=\"c%d\" width=\"10\" height=\"10\" rx=\"2\"/></svg>",
                   s % CHART_SERIES_MAX);
        show_escaped(b, c->series[s].name);
        buf_add(b, STR("</li>\n"));
    }
    buf_add(b, STR("</ul>\n"));
}

void chart_draw(const struct chart *c, struct arena *scratch, struct buf *b) {
    struct drawing d = {
        .c = c,
        .a = scratch,
        .b = b,
        .x_from = chart_x(c, 0),
        .x_to = chart_x(c, c->point_count - 1),
        .top = chart_top(c) * 1.06,
    };
    d.kept = chart_thin(scratch, c, POINTS, &d.kept_count);
    draw_spans(&d);
    draw_y_axis(&d);
    double *below = arena_new(scratch, double, d.kept_count);
    for (int s = 0; s < c->series_count; s++) {
        if (c->kind == CHART_AREAS)
            draw_area(&d, s, below);
        else
            draw_line(&d, s);
    }
    draw_x_axis(&d);
    draw_mark(&d, c->budget, c->budget_name, "warn");
    draw_mark(&d, c->limit, c->limit_name, "bad");
    draw_peak(&d);
    draw_strips(&d);
}

void chart_svg(const struct chart *c, struct arena *scratch, struct buf *b) {
    if (c->point_count == 0 || c->series_count == 0) return;
    buf_add(b, STR("<figure class=\"chart\">\n"));
    if (c->title.len) {
        buf_add(b, STR("<figcaption>"));
        show_escaped(b, c->title);
        buf_add(b, STR("</figcaption>\n"));
    }
    buf_format(b, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    show_escaped(b, chart_alternative(c, scratch));
    buf_add(b, STR("\">\n"));
    chart_draw(c, scratch, b);
    buf_add(b, STR("</svg>\n"));
    draw_legend(c, b);
    buf_add(b, STR("</figure>\n"));
}
