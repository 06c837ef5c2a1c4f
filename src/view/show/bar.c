// SPDX-License-Identifier: Apache-2.0
// Stacked bars in a terminal. Every part that is not nothing gets a cell at least, and the cells of
// all parts are those of the sum, so that what looks full is full.
#include "view/show/show.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { COLOURS = 6, LEAST_BAR = 10, LEAST_WIDTH = 40, DEFAULT_WIDTH = 80 };

// Blue, cyan, magenta, yellow, green, grey: the terminal's own shades. Red is kept for too much.
static const char *const fill_codes[COLOURS] = {"34", "36", "35", "33", "32", "90"};
static const char mark_code[] = "33", over_code[] = "31", free_code[] = "2";

static double sum_of(const struct show_bar *bar) {
    double sum = 0;
    for (int i = 0; i < bar->segment_count; i++) sum += fmax(0, bar->segments[i].value);
    return sum;
}

// Gives each cell its part, or -1 for free memory.
static void lay_out(const struct show_bar *bar, double scale, int *parts, int cells) {
    double end = 0;
    int at = 0;
    for (int i = 0; i < bar->segment_count; i++) {
        if (!(bar->segments[i].value > 0)) continue;
        end += bar->segments[i].value;
        int to = (int)lround(end * scale);
        if (to <= at) to = at + 1;
        while (at < to && at < cells) parts[at++] = i;
    }
    while (at < cells) parts[at++] = -1;
}

struct pen {
    struct buf *b;
    bool colour;
    const char *code; // the colour switched on; NULL: none
};

// Writes in a colour; the code is sent only where it changes.
static void put(struct pen *pen, const char *code, const char *text) {
    if (pen->colour && pen->code != code) {
        if (pen->code) buf_format(pen->b, "\033[0m");
        if (code) buf_format(pen->b, "\033[%sm", code);
        pen->code = code;
    }
    buf_add(pen->b, str_of(text));
}

// A letter of each part's name, the first that no part before it has.
static void find_letters(const struct show_bar *bar, char (*letters)[2]) {
    char taken[64] = "";
    for (int i = 0; i < bar->segment_count; i++) {
        struct str name = bar->segments[i].name;
        char letter = 'A'; // a name in other letters takes the first that is free
        while (strchr(taken, letter) && letter < 'Z') letter++;
        for (ptrdiff_t at = name.len - 1; at >= 0; at--) {
            char upper = (char)toupper((unsigned char)name.p[at]);
            if (upper >= 'A' && upper <= 'Z' && !strchr(taken, upper)) letter = upper;
        }
        letters[i][0] = letter;
        letters[i][1] = 0;
        if (strlen(taken) + 1 < sizeof taken) taken[strlen(taken)] = letter;
    }
}

static const char *fill_of(struct show_style style, const char *letter) {
    return !style.colour ? letter : style.utf8 ? "█" : "#";
}

static void draw_cells(const struct show_bar *bar, struct show_style style, double scale, int cells,
                       char (*letters)[2], struct buf *b) {
    ARENA_AUTO scratch = {0};
    int *parts = arena_new(&scratch, int, cells);
    lay_out(bar, scale, parts, cells);
    int mark = isnan(bar->mark) ? -1 : (int)lround(bar->mark * scale);
    int limit = (int)lround(bar->capacity * scale);
    struct pen pen = {.b = b, .colour = style.colour};
    for (int i = 0; i < cells; i++) {
        int part = parts[i];
        if (i == mark && i < limit)
            put(&pen, mark_code, style.utf8 ? "┃" : "|");
        else if (i == limit)
            put(&pen, over_code, style.utf8 ? "┃" : "]");
        else if (part >= 0 && i > limit)
            put(&pen, over_code, fill_of(style, letters[part]));
        else if (part >= 0)
            put(&pen, fill_codes[part % COLOURS], fill_of(style, letters[part]));
        else if (i > limit)
            put(&pen, NULL, " ");
        else
            put(&pen, free_code, style.utf8 ? "·" : ".");
    }
    put(&pen, NULL, "");
}

// One entry of the legend, on the next line when this one is full.
static int legend_entry(struct buf *b, int column, int indent, int width, int entry_width) {
    if (column > indent && column + entry_width > width) {
        while (b->items[b->count - 1] == ' ') b->count--;
        buf_byte(b, '\n');
        column = 0;
    }
    for (; column < indent; column++) buf_byte(b, ' ');
    return column;
}

static void draw_sign(struct show_style style, int i, char (*letters)[2], struct buf *b) {
    struct pen pen = {.b = b, .colour = style.colour};
    put(&pen, fill_codes[i % COLOURS], fill_of(style, letters[i]));
    put(&pen, NULL, " ");
}

static void draw_mark(struct show_style style, struct buf *b) {
    show_text(b, style, SHOW_WARN, style.utf8 ? STR("┃") : STR("|"));
    buf_byte(b, ' ');
}

// A line or more an entry, where they are wider than the terminal.
static void draw_narrow_legend(const struct show_bar *bar, struct show_style style,
                               char (*letters)[2], struct buf *b) {
    for (int i = 0; i < bar->segment_count; i++) {
        const struct show_segment *s = &bar->segments[i];
        if (!(s->value > 0)) continue;
        buf_add(b, STR("  "));
        draw_sign(style, i, letters, b);
        show_prose(b, style, SHOW_PLAIN,
                   str_format(b->arena, "%.*s %.*s", STR_ARG(s->name), STR_ARG(s->text)), 4, 4);
    }
    if (isnan(bar->mark) || bar->mark_text.len == 0) return;
    buf_add(b, STR("  "));
    draw_mark(style, b);
    show_prose(b, style, SHOW_DIM, bar->mark_text, 4, 4);
}

static void draw_legend(const struct show_bar *bar, struct show_style style, int indent, int width,
                        char (*letters)[2], struct buf *b) {
    int column = 0;
    for (int i = 0; i < bar->segment_count; i++) {
        const struct show_segment *s = &bar->segments[i];
        if (!(s->value > 0)) continue;
        int entry = 2 + show_width(s->name) + 1 + show_width(s->text) + 2;
        column = legend_entry(b, column, indent, width, entry);
        draw_sign(style, i, letters, b);
        show_text(b, style, SHOW_PLAIN, s->name);
        buf_byte(b, ' ');
        show_text(b, style, SHOW_DIM, s->text);
        buf_add(b, STR("  "));
        column += entry;
    }
    if (!isnan(bar->mark) && bar->mark_text.len) {
        legend_entry(b, column, indent, width, 2 + show_width(bar->mark_text));
        draw_mark(style, b);
        show_text(b, style, SHOW_DIM, bar->mark_text);
    }
    while (b->count && b->items[b->count - 1] == ' ') b->count--;
    buf_byte(b, '\n');
}

void show_bar(const struct show_bar *bar, struct show_style style, struct buf *b) {
    ARENA_AUTO scratch = {0};
    double longest = fmax(bar->capacity, sum_of(bar));
    if (!(longest > 0)) return;
    int width = style.width > 0 ? style.width : DEFAULT_WIDTH;
    int name = show_width(bar->name), text = show_width(bar->text);
    int indent = name ? name + 2 : 0;
    int cells = width - indent - 2 - (text ? text + 2 : 0);
    char(*letters)[2] = arena_alloc(&scratch, 2, 1, bar->segment_count + 1);
    find_letters(bar, letters);
    if (name) {
        show_text(b, style, SHOW_STRONG, bar->name);
        buf_add(b, STR("  "));
    }
    if (width >= LEAST_WIDTH || cells >= LEAST_BAR) {
        if (cells < LEAST_BAR) cells = LEAST_BAR;
        buf_add(b, style.utf8 ? STR("▕") : STR("["));
        draw_cells(bar, style, cells / longest, cells, letters, b);
        bool is_end = bar->capacity >= longest;
        buf_add(b, !is_end ? STR(" ") : style.utf8 ? STR("▏") : STR("]"));
        if (text) buf_add(b, STR("  "));
    }
    show_text(b, style, bar->tone, bar->text);
    while (b->count && b->items[b->count - 1] == ' ') b->count--;
    buf_byte(b, '\n');
    if (width < LEAST_WIDTH)
        draw_narrow_legend(bar, style, letters, b);
    else
        draw_legend(bar, style, indent, width, letters, b);
}
