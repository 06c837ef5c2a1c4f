// SPDX-License-Identifier: Apache-2.0
// Figures as the screen writes them. They live in the scratch memory of one look.
#include "verbs/watch/watch.h"

#include "base/unit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define SECOND_NS INT64_C(1000000000)

struct str watch_text_percent(struct watch_draw *d, double share) {
    if (isnan(share)) return STR("–");
    if (share > 0 && share < 0.00095) return STR("<0.1 %");
    bool is_small = share > 0 && share < 0.00995;
    return str_format(d->scratch, is_small ? "%.1f %%" : "%.0f %%", share * 100);
}

struct str watch_text_bytes(struct watch_draw *d, int64_t bytes) {
    return bytes < 0 ? STR("–") : unit_bytes(d->scratch, bytes);
}

struct str watch_text_number(struct watch_draw *d, double value, const char *unit) {
    if (isnan(value)) return STR("–");
    double size = fabs(value);
    int decimals = size < 10 && size > 0 ? 2 : size < 100 && size > 0 ? 1 : 0;
    return str_format(d->scratch, "%.*f%s", decimals, value, unit);
}

struct str watch_text_temperature(struct watch_draw *d, double celsius) {
    if (isnan(celsius)) return STR("–");
    bool is_f = d->look->settings.fahrenheit;
    return str_format(d->scratch, "%.0f °%c", is_f ? celsius * 9 / 5 + 32 : celsius,
                      is_f ? 'F' : 'C');
}

struct str watch_text_span(struct watch_draw *d, int64_t ns) {
    long long s = ns > 0 ? ns / SECOND_NS : 0;
    if (s < 3600) return str_format(d->scratch, "%lld:%02lld", s / 60, s % 60);
    return str_format(d->scratch, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

enum { LEFT_OUT_COLUMNS = 8 };

// " +2 more" at the end of the last row; the text that stands there goes with those.
static void tell_left_out(struct watch_draw *d, struct watch_flow *flow) {
    struct tui_area area = flow->area;
    if (area.rows < 1) return;
    int end = area.columns - LEFT_OUT_COLUMNS;
    if (flow->left_out == 0 && flow->last_end > end && flow->last_begin > flow->indent) {
        int begin = flow->last_begin;
        tui_area_fill((struct tui_area){area.canvas, area.row + area.rows - 1, area.column + begin,
                                        1, area.columns - begin},
                      ' ', SHOW_PLAIN);
        flow->left_out++;
    }
    struct str said = str_format(d->scratch, "+%d more", ++flow->left_out);
    tui_put_field(area, area.rows - 1, end, LEFT_OUT_COLUMNS, SHOW_RIGHT, SHOW_DIM, said);
}

void watch_flow_add(struct watch_draw *d, struct watch_flow *flow, int ink, const char *format,
                    ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct str s = {text, n < 0 ? 0 : n < (int)sizeof text ? n : (int)sizeof text - 1};
    int width = show_width(s);
    if (!flow->is_begun) flow->column = flow->indent;
    if (flow->is_begun && flow->column + 3 + width > flow->area.columns) {
        flow->row++;
        flow->column = flow->indent;
        flow->is_begun = false;
    }
    if (flow->row >= flow->area.rows) {
        tell_left_out(d, flow);
        return;
    }
    flow->last_begin = flow->column;
    if (flow->is_begun) {
        flow->column = tui_put(flow->area, flow->row, flow->column, SHOW_DIM, STR(" · "));
    }
    tui_put_field(flow->area, flow->row, flow->column, flow->area.columns - flow->column, SHOW_LEFT,
                  ink, s);
    flow->last_end = flow->column += width;
    flow->is_begun = true;
}
