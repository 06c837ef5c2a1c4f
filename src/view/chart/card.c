// SPDX-License-Identifier: Apache-2.0
// An answer on a card, as a picture for a chat. Its lines are wrapped by columns, so that it looks
// the same wherever it is opened; a line of them is a little narrower than the card.
#include "view/chart/chart.h"
#include "view/show/show.h"

enum {
    WIDTH = 720,
    EDGE = 28,
    INNER = WIDTH - 2 * EDGE,
    COLUMNS = 80,
    LINE = 22,
    KEY = 11,
};

// A picture that is measured first: without a buffer nothing is drawn.
struct pen {
    struct buf *out;
    struct arena *arena;
    int y;
};

static void put_text(const struct pen *p, int x, int y, const char *class, struct str text) {
    if (!p->out) return;
    buf_format(p->out, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
    show_escaped(p->out, text);
    buf_add(p->out, STR("</text>\n"));
}

static void put_box(const struct pen *p, const char *class, double x, double y, double width,
                    double height) {
    if (!p->out) return;
    buf_format(p->out,
               "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", class,
               x, y, width, height);
}

static void put_lines(struct pen *p, const char *class, struct str text, int columns) {
    const struct show_style style = {.width = columns};
    struct buf wrapped = buf_new(p->arena);
    show_prose(&wrapped, style, SHOW_PLAIN, text, 0, 0);
    struct str rest = buf_str(&wrapped);
    while (rest.len > 0) {
        p->y += LINE;
        put_text(p, EDGE, p->y, class, str_cut(&rest, '\n'));
    }
}

static void put_word(struct pen *p, const struct chart_card *c) {
    static const char *const classes[SHOW_TONES] = {"word",      "word",      "word",
                                                    "word good", "word warn", "word bad"};
    p->y += 38;
    put_text(p, EDGE, p->y, classes[c->tone], c->word);
}

static void put_bar(struct pen *p, const struct chart_card *c) {
    enum { HEIGHT = 26 };
    double whole = c->capacity, sum = 0, x = EDGE;
    for (int i = 0; i < c->segment_count; i++) sum += c->segments[i].value;
    if (sum > whole) whole = sum;
    p->y += 22;
    put_box(p, "ground", EDGE, p->y, INNER, HEIGHT);
    for (int i = 0; i < c->segment_count; i++) {
        double width = INNER * c->segments[i].value / whole;
        put_box(p, (char[]){'c', (char)('0' + i % CHART_SERIES_MAX), 0}, x, p->y, width, HEIGHT);
        x += width;
    }
    put_box(p, "edge", EDGE + INNER * c->capacity / whole - 2, p->y - 5, 2, HEIGHT + 10);
    p->y += HEIGHT;
}

static void put_legend(struct pen *p, const struct chart_card *c) {
    enum { LETTER = 7, GAP = 16 };
    int x = EDGE;
    p->y += LINE;
    for (int i = 0; i < c->segment_count; i++) {
        struct str text = str_format(p->arena, "%.*s %.*s", STR_ARG(c->segments[i].name),
                                     STR_ARG(c->segments[i].text));
        int width = KEY + 6 + show_width(text) * LETTER + GAP;
        if (x > EDGE && x + width > EDGE + INNER) x = EDGE, p->y += LINE - 3;
        put_box(p, (char[]){'c', (char)('0' + i % CHART_SERIES_MAX), 0}, x, p->y - KEY + 1, KEY,
                KEY);
        put_text(p, x + KEY + 6, p->y, "dim small", text);
        x += width;
    }
}

static void put_figures(struct pen *p, const struct chart_card *c) {
    p->y += 14;
    for (int i = 0; i < c->figure_count; i++) {
        int x = EDGE + INNER * i / c->figure_count;
        put_text(p, x, p->y + 14, "dim small", c->figures[i].name);
        put_text(p, x, p->y + 38, "figure", c->figures[i].value);
    }
    p->y += 42;
}

static void put_all(struct pen *p, const struct chart_card *c) {
    p->y = 8;
    put_word(p, c);
    put_lines(p, "text", c->text, COLUMNS);
    for (int i = 0; i < c->line_count; i++) {
        if (c->lines[i].len > 0) put_lines(p, "dim", c->lines[i], COLUMNS);
    }
    put_bar(p, c);
    put_legend(p, c);
    put_figures(p, c);
    p->y += 6;
    put_lines(p, "code", c->command, COLUMNS);
    p->y += 2;
    put_lines(p, "dim small", c->footer, COLUMNS);
    p->y += 18;
}

void chart_card(const struct chart_card *c, struct arena *scratch, struct buf *b) {
    struct pen measured = {.arena = scratch}, drawn = {.out = b, .arena = scratch};
    put_all(&measured, c);
    buf_format(b,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart card\" width=\"%d\" "
               "height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
               WIDTH, measured.y, WIDTH, measured.y);
    show_escaped(b, c->word);
    buf_add(b, STR(" "));
    show_escaped(b, c->text);
    buf_add(b, STR("</title>\n<style>"));
    buf_add(b, chart_style_sheet());
    buf_add(b, STR("</style>\n"));
    put_box(&drawn, "page", 0.5, 0.5, WIDTH - 1, measured.y - 1);
    put_all(&drawn, c);
    buf_add(b, STR("</svg>\n"));
}
