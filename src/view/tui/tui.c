// SPDX-License-Identifier: Apache-2.0
// The canvas: a grid of characters, each with its ink. Text that comes from elsewhere can do no
// more than be read; our own typography has a plain spelling where there is no UTF-8.
#include "view/tui/tui.h"

#include "base/out.h"
#include "base/say.h"
#include "view/show/show.h"

#include <stdarg.h>

enum { LINE_MAX_BYTES = 1024 };

void tui_canvas_begin(struct tui_canvas *canvas, int rows, int columns, bool utf8) {
    if (rows != canvas->rows || columns != canvas->columns || !canvas->glyphs) {
        arena_clear(&canvas->memory);
        canvas->glyphs = arena_new(&canvas->memory, struct tui_glyph, (ptrdiff_t)rows * columns);
        canvas->rows = rows;
        canvas->columns = columns;
    }
    canvas->utf8 = utf8;
    tui_area_fill(tui_area_of(canvas), ' ', SHOW_PLAIN);
}

void tui_canvas_free(struct tui_canvas *canvas) {
    arena_clear(&canvas->memory);
    canvas->glyphs = NULL;
    canvas->rows = canvas->columns = 0;
}

static const char *const ink_codes[TUI_INKS] = {
    [SHOW_PLAIN] = "",    [SHOW_STRONG] = "1",    [SHOW_DIM] = "2",   [SHOW_GOOD] = "32",
    [SHOW_WARN] = "33",   [SHOW_BAD] = "31",      [TUI_INK_A] = "36", [TUI_INK_B] = "34",
    [TUI_INK_C] = "35",   [TUI_INK_D] = "32",     [TUI_INK_E] = "33", [TUI_INK_F] = "2",
    [TUI_INK_BAND] = "7", [TUI_INK_CURSOR] = "7",
};

static int row_end(const struct tui_canvas *canvas, int row) {
    const struct tui_glyph *g = canvas->glyphs + (ptrdiff_t)row * canvas->columns;
    int end = canvas->columns;
    while (end > 0 && g[end - 1].c == ' ') end--;
    return end;
}

static void add_row(const struct tui_canvas *canvas, int row, bool colour, struct buf *b) {
    const struct tui_glyph *g = canvas->glyphs + (ptrdiff_t)row * canvas->columns;
    uint32_t ink = SHOW_PLAIN;
    int end = row_end(canvas, row);
    for (int i = 0; i < end; i++) {
        if (colour && g[i].ink != ink) {
            ink = g[i].ink;
            buf_format(b, "\033[0%s%sm", ink_codes[ink][0] ? ";" : "", ink_codes[ink]);
        }
        if (g[i].c) buf_utf8(b, g[i].c);
    }
    if (ink != SHOW_PLAIN) buf_format(b, "\033[0m");
    buf_byte(b, '\n');
}

void tui_canvas_text(const struct tui_canvas *canvas, bool colour, struct buf *b) {
    int rows = canvas->rows;
    while (rows > 0 && row_end(canvas, rows - 1) == 0) rows--;
    for (int i = 0; i < rows; i++) add_row(canvas, i, colour, b);
}

struct tui_area tui_area_of(struct tui_canvas *canvas) {
    return (struct tui_area){canvas, 0, 0, canvas->rows, canvas->columns};
}

static int between(int value, int least, int most) {
    if (value > most) value = most;
    return value < least ? least : value;
}

struct tui_area tui_area_top(struct tui_area *area, int rows) {
    struct tui_area top = *area;
    top.rows = between(rows, 0, area->rows);
    area->row += top.rows;
    area->rows -= top.rows;
    return top;
}

struct tui_area tui_area_left(struct tui_area *area, int columns) {
    struct tui_area left = *area;
    left.columns = between(columns, 0, area->columns);
    area->column += left.columns;
    area->columns -= left.columns;
    return left;
}

struct tui_area tui_area_middle(struct tui_area area, int rows, int columns) {
    rows = between(rows, 0, area.rows);
    columns = between(columns, 0, area.columns);
    area.row += (area.rows - rows) / 2;
    area.column += (area.columns - columns) / 2;
    area.rows = rows;
    area.columns = columns;
    return area;
}

static struct tui_glyph *glyph_at(struct tui_area area, int row, int column) {
    struct tui_canvas *canvas = area.canvas;
    return canvas->glyphs + (ptrdiff_t)(area.row + row) * canvas->columns + area.column + column;
}

void tui_area_fill(struct tui_area area, uint32_t c, int ink) {
    for (int row = 0; row < area.rows; row++) {
        struct tui_glyph *g = glyph_at(area, row, 0);
        for (int i = 0; i < area.columns; i++) g[i] = (struct tui_glyph){c, (uint32_t)ink};
    }
}

void tui_area_row_ink(struct tui_area area, int row, int ink) {
    if (row < 0 || row >= area.rows) return;
    struct tui_glyph *g = glyph_at(area, row, 0);
    for (int i = 0; i < area.columns; i++) g[i].ink = (uint32_t)ink;
}

static uint32_t plain_of(uint32_t c) {
    static const struct {
        uint32_t c;
        char plain;
    } spellings[] = {{0x00b0, ' '}, {0x00b7, '|'},  {0x2013, '-'}, {0x2014, '-'}, {0x2026, '.'},
                     {0x00d7, 'x'}, {0x2019, '\''}, {0x2192, '>'}, {0x25b8, '>'}, {0x2500, '-'},
                     {0x25b2, '!'}, {0x2212, '-'},  {0x2191, '^'}, {0x2193, 'v'}, {0x2588, '#'},
                     {0x2593, '='}, {0x2592, '+'},  {0x2591, ':'}, {0x2248, '~'}, {0x2022, '*'},
                     {0x2502, '|'}, {0x2503, '|'},  {0x250c, '+'}, {0x2510, '+'}, {0x2514, '+'},
                     {0x2518, '+'}};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        if (spellings[i].c == c) return (uint32_t)spellings[i].plain;
    }
    return '?';
}

// What stands for it on this canvas; 0: nothing (combining marks have no cell of their own).
static uint32_t shown_as(const struct tui_canvas *canvas, uint32_t c) {
    if (show_width_of(c) == 0) return 0;
    return canvas->utf8 || c < 0x80 ? c : plain_of(c);
}

int tui_put(struct tui_area area, int row, int column, int ink, struct str text) {
    text = say_str(text);
    bool is_inside = row >= 0 && row < area.rows && column >= 0;
    char form[CLEAN_FORM_MOST];
    while (text.len > 0) {
        for (struct str shown = clean_take(&text, form); shown.len > 0;) {
            uint32_t c = shown_as(area.canvas, clean_next(&shown));
            if (c == 0) continue;
            int width = show_width_of(c);
            if (!is_inside || column + width > area.columns) return column;
            struct tui_glyph *g = glyph_at(area, row, column);
            g[0] = (struct tui_glyph){c, (uint32_t)ink};
            if (width == 2) g[1] = (struct tui_glyph){0, (uint32_t)ink};
            column += width;
        }
    }
    return column;
}

int tui_put_format(struct tui_area area, int row, int column, int ink, const char *format, ...) {
    char text[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    clean_print(text, sizeof text, format, arguments);
    va_end(arguments);
    return tui_put(area, row, column, ink, str_of(text));
}

void tui_put_field(struct tui_area area, int row, int column, int width, enum show_align align,
                   int ink, struct str text) {
    text = say_str(text);
    if (width <= 0) return;
    int wanted = show_width(text);
    bool is_cut = wanted > width;
    if (is_cut) text = show_fit(text, width - 1);
    if (align == SHOW_RIGHT && !is_cut) column += width - wanted;
    int end = tui_put(area, row, column, ink, text);
    if (is_cut) tui_put(area, row, end, ink, STR("…"));
}

// The longest beginning that fits and ends at a blank, or else the longest that fits.
static struct str first_line(struct str text, int width) {
    struct str line = show_fit(text, width);
    if (line.len == text.len) return line;
    ptrdiff_t end = line.len;
    while (end > 0 && text.p[end] != ' ') end--;
    return str_slice(text, 0, end > 0 ? end : line.len);
}

int tui_put_wrapped(struct tui_area area, int row, int column, int ink, struct str text) {
    text = say_str(text);
    int used = 0, width = area.columns - column;
    while (text.len > 0 && width > 0 && row + used < area.rows) {
        bool is_last = row + used == area.rows - 1;
        struct str line = is_last ? text : first_line(text, width);
        tui_put_field(area, row + used, column, width, SHOW_LEFT, ink, line);
        text = str_trim(str_slice(text, line.len, text.len));
        used++;
    }
    return used;
}
