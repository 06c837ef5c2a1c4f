// SPDX-License-Identifier: Apache-2.0
// Charts as one SVG file: the pictures of svg.c below one another, each with its title above and
// its legend below, in the colours of the page and of the reader's light or dark setting.
#include "view/chart/chart_int.h"

enum { TITLE = 34, LEGEND_LINE = 22, GAP = 18, LEFT = 74, RIGHT = 16, KEY = 12, COLUMN = 8 };

// The names wrap over lines; returns the lines' height, and draws nothing without a buffer.
static int legend(const struct chart *c, int top, struct buf *b) {
    int x = LEFT, y = top + LEGEND_LINE - 6;
    for (int s = 0; s < c->series_count; s++) {
        int width = KEY + 6 + show_width(c->series[s].name) * COLUMN + 18;
        if (x > LEFT && x + width > CHART_WIDTH - RIGHT) x = LEFT, y += LEGEND_LINE;
        if (b) {
            buf_format(b,
                       "<rect class=\"c%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"2\"/>"
                       "<text x=\"%d\" y=\"%d\">",
                       s % CHART_SERIES_MAX, x, y - 10, KEY, KEY, x + KEY + 6, y);
            show_escaped(b, c->series[s].name);
            buf_add(b, STR("</text>\n"));
        }
        x += width;
    }
    return y + 6 - top;
}

static int height_of(const struct chart *c) {
    if (c->point_count == 0 || c->series_count == 0) return 0;
    return TITLE + CHART_HEIGHT + legend(c, 0, NULL) + GAP;
}

void chart_picture(const struct chart *charts, int count, struct arena *scratch, struct buf *b) {
    int height = GAP, top = 0;
    for (int i = 0; i < count; i++) height += height_of(&charts[i]);
    buf_format(b,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"%d\" "
               "height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n<style>",
               CHART_WIDTH, height, CHART_WIDTH, height);
    buf_add(b, chart_style_sheet());
    buf_format(b,
               "text{font-family:system-ui,sans-serif}</style>\n"
               "<rect width=\"%d\" height=\"%d\" style=\"fill:var(--bg)\"/>\n",
               CHART_WIDTH, height);
    for (int i = 0; i < count; i++) {
        const struct chart *c = &charts[i];
        if (height_of(c) == 0) continue;
        buf_format(b, "<g transform=\"translate(0 %d)\"><title>", top);
        show_escaped(b, chart_alternative(c, scratch));
        buf_format(b, "</title>\n<text x=\"4\" y=\"22\" style=\"font-size:16px;font-weight:600\">");
        show_escaped(b, c->title);
        buf_format(b, "</text>\n<g transform=\"translate(0 %d)\">\n", TITLE);
        chart_draw(c, scratch, b);
        buf_add(b, STR("</g>\n"));
        legend(c, TITLE + CHART_HEIGHT, b);
        buf_add(b, STR("</g>\n"));
        top += height_of(c);
    }
    buf_add(b, STR("</svg>\n"));
}
