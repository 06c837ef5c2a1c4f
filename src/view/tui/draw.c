// SPDX-License-Identifier: Apache-2.0
// Meters and plots on a canvas. Every part and every height has a character of its own, so that
// nothing is lost without colours.
#include "view/tui/tui.h"

#include <math.h>

enum { PARTS_TOLD_APART = 6 };

static const char *const signs_utf8[PARTS_TOLD_APART] = {"█", "▓", "▒", "▞", "▚", "░"};
static const char *const signs_ascii[PARTS_TOLD_APART] = {"#", "=", "+", "%", "*", ":"};

const char *tui_meter_sign(const struct tui_canvas *canvas, int part) {
    return (canvas->utf8 ? signs_utf8 : signs_ascii)[part % PARTS_TOLD_APART];
}

static void put_times(struct tui_area area, int row, int from, int to, int ink, const char *sign) {
    for (int i = from; i < to; i++) tui_put(area, row, i, ink, str_of(sign));
}

static double known(double value) {
    return value > 0 ? value : 0;
} // NaN is none

void tui_meter(struct tui_area area, int row, int column, int width, const struct tui_part *parts,
               int count, double capacity) {
    if (width <= 0) return;
    double sum = 0;
    int at = 0;
    for (int i = 0; i < count && capacity > 0; i++) {
        double value = known(parts[i].value);
        sum += value;
        // What is there is seen: a part that is not nothing takes a column where one is left.
        int end = (int)lround(fmin(sum / capacity, 1) * width);
        if (value > 0 && end == at && at < width && value / capacity > 0.005) end++;
        put_times(area, row, column + at, column + end, parts[i].ink,
                  tui_meter_sign(area.canvas, i));
        if (end > at) at = end;
    }
    put_times(area, row, column + at, column + width, SHOW_DIM, area.canvas->utf8 ? "·" : ".");
}

static enum tui_plot_kind kind_on(const struct tui_canvas *canvas, enum tui_plot_kind kind) {
    return canvas->utf8 ? kind : TUI_PLOT_ASCII;
}

// How finely a character shows a value.
static const struct {
    int dots, levels;
} finenesses[TUI_PLOT_KINDS] = {
    [TUI_PLOT_BRAILLE] = {2, 4}, [TUI_PLOT_BLOCKS] = {1, 8}, [TUI_PLOT_ASCII] = {1, 3}};

int tui_plot_dots(const struct tui_canvas *canvas, enum tui_plot_kind kind) {
    return finenesses[kind_on(canvas, kind)].dots;
}

// The filled levels of a value; -1: unknown. A value that is not 0 has at least one.
static int levels_of(double value, double most, int all) {
    if (isnan(value) || !(most > 0)) return -1;
    int levels = (int)lround(fmin(fmax(value / most, 0), 1) * all);
    return levels == 0 ? 1 : levels;
}

static int in_row(int levels, int below, int most) {
    int here = levels - below;
    return here < 0 ? 0 : here > most ? most : here;
}

// Unicode's braille patterns number the dots 1 2 3 7 down the left side and 4 5 6 8 down the right.
static uint32_t braille_of(const int *heights) {
    static const unsigned char left[] = {0, 0x40, 0x44, 0x46, 0x47};
    static const unsigned char right[] = {0, 0x80, 0xa0, 0xb0, 0xb8};
    return 0x2800u + left[heights[0]] + right[heights[1]];
}

static uint32_t character_of(enum tui_plot_kind kind, const int *heights) {
    static const char ascii[] = {' ', '.', ':', '#'};
    if (kind == TUI_PLOT_BRAILLE) return braille_of(heights);
    if (kind == TUI_PLOT_BLOCKS) return 0x2580u + (uint32_t)heights[0]; // lower eighths
    return (uint32_t)ascii[heights[0]];
}

void tui_plot(struct tui_area area, enum tui_plot_kind kind, int ink, const double *values,
              double most) {
    kind = kind_on(area.canvas, kind);
    int dots = finenesses[kind].dots, levels = finenesses[kind].levels;
    int all = levels * area.rows;
    for (int column = 0; column < area.columns; column++) {
        int reached[2] = {-1, -1};
        for (int d = 0; d < dots; d++) {
            reached[d] = levels_of(values[column * dots + d], most, all);
        }
        for (int row = 0; row < area.rows; row++) {
            int below = (area.rows - 1 - row) * levels;
            int heights[2] = {in_row(reached[0], below, levels), in_row(reached[1], below, levels)};
            if (heights[0] + heights[1] == 0) continue;
            struct tui_area cell = {area.canvas, area.row + row, area.column + column, 1, 1};
            tui_area_fill(cell, character_of(kind, heights), ink);
        }
    }
}
