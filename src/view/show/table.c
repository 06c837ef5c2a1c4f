// SPDX-License-Identifier: Apache-2.0
// Tables. Layout is by display width, so Korean and Chinese line up; a table that is too wide first
// wraps its columns of prose, then leaves columns out, then folds its names, then stacks its rows.
#include "view/show/show.h"

#include "base/out.h"
#include "base/say.h"
#include "base/unit.h"

#include <stdarg.h>
#include <string.h>

enum {
    GAP = 2,
    LEAST_BESIDE = 20,
    LEAST_WRAP = 20,
    LEAST_FOLD = 12,
    INDENT = 2, // of a name's next lines
    MOST_LEAST = 40,
    HIDDEN = -1
};

struct show_table show_table_new(struct arena *a, struct str title) {
    return (struct show_table){.arena = a, .title = title};
}

static void add_column(struct show_table *t, struct show_column column) {
    *arena_push(t->arena, &t->columns, &t->column_count, &t->column_capacity) = column;
}

void show_table_column(struct show_table *t, const char *name, enum show_align align) {
    add_column(t, (struct show_column){.name = str_of(name), .align = align});
}

void show_table_columns(struct show_table *t, const struct show_heading *headings) {
    for (; headings->name; headings++) show_table_column(t, headings->name, headings->align);
}

void show_table_wrapping(struct show_table *t, const char *name) {
    add_column(t, (struct show_column){.name = str_of(name), .may_wrap = true});
}

void show_table_gives_way(struct show_table *t, const char *const *columns) {
    t->gives_way = columns;
}

static void add_cell(struct show_table *t, enum show_tone tone, struct str text) {
    *arena_push(t->arena, &t->cells, &t->cell_count, &t->cell_capacity) =
        (struct show_cell){.text = text, .tone = tone};
}

void show_table_cell(struct show_table *t, enum show_tone tone, struct str text) {
    add_cell(t, tone, clean_text(t->arena, text));
}

void show_table_format(struct show_table *t, enum show_tone tone, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_cell(t, tone, clean_format_list(t->arena, format, args));
    va_end(args);
}

void show_table_unknown(struct show_table *t) {
    show_table_cell(t, SHOW_DIM, STR("–"));
}

void show_table_known(struct show_table *t, enum show_tone tone, struct str text) {
    if (text.len > 0)
        show_table_cell(t, tone, text);
    else
        show_table_unknown(t);
}

void show_table_bytes(struct show_table *t, enum show_tone tone, int64_t bytes) {
    show_table_known(t, tone, bytes > 0 ? unit_bytes(t->arena, bytes) : (struct str){0});
}

static const struct show_cell *cell_at(const struct show_table *t, ptrdiff_t row,
                                       ptrdiff_t column) {
    static const struct show_cell none;
    ptrdiff_t i = row * t->column_count + column;
    return i < t->cell_count ? &t->cells[i] : &none;
}

static ptrdiff_t row_count(const struct show_table *t) {
    return t->column_count ? (t->cell_count + t->column_count - 1) / t->column_count : 0;
}

// Widest line of a text of several.
static int text_width(struct str text) {
    int widest = 0;
    while (text.len > 0) {
        int width = show_width(str_line(&text));
        if (width > widest) widest = width;
    }
    return widest;
}

static int total_width(const struct show_table *t, const int *widths) {
    int total = -GAP;
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        if (widths[i] != HIDDEN) total += widths[i] + GAP;
    }
    return total;
}

// Prose is no narrower than its longest word, within reason: what may be copied is not to be
// broken.
static int least_width(const struct show_table *t, ptrdiff_t column) {
    int least = LEAST_WRAP;
    if (t->columns[column].folds) return LEAST_FOLD;
    for (ptrdiff_t row = 0; row < row_count(t); row++) {
        for (struct str rest = cell_at(t, row, column)->text; rest.len > 0;) {
            int width = show_width(str_cut(&rest, ' '));
            if (width > least && width <= MOST_LEAST) least = width;
        }
    }
    return least;
}

static bool gives_room(const struct show_column *column) {
    return column->may_wrap || column->folds;
}

// Columns of prose, and names that fold, give way, the widest first.
static void shrink(const struct show_table *t, int *widths, int surplus) {
    int *leasts = arena_new(t->arena, int, t->column_count + 1);
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        if (surplus > 0 && gives_room(&t->columns[i])) leasts[i] = least_width(t, i);
    }
    for (; surplus > 0; surplus--) {
        ptrdiff_t widest = -1;
        for (ptrdiff_t i = 0; i < t->column_count; i++) {
            if (!gives_room(&t->columns[i]) || widths[i] <= leasts[i]) continue;
            if (widest < 0 || widths[i] > widths[widest]) widest = i;
        }
        if (widest < 0) return;
        widths[widest]--;
    }
}

static int *natural_widths(const struct show_table *t) {
    int *widths = arena_new(t->arena, int, t->column_count + 1);
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        widths[i] = show_width(t->columns[i].shown);
        for (ptrdiff_t row = 0; row < row_count(t); row++) {
            int width = text_width(cell_at(t, row, i)->text);
            if (width > widths[i]) widths[i] = width;
        }
    }
    return widths;
}

static void hide(const struct show_table *t, int *widths, const char *name) {
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        if (str_is(t->columns[i].name, name)) widths[i] = HIDDEN;
    }
}

// The long ones: a date or a state in two lines would be no table.
static void fold_names(struct show_table *t, const int *widths) {
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        const struct show_column *c = &t->columns[i];
        t->columns[i].folds = c->align == SHOW_LEFT && !c->may_wrap && widths[i] >= LEAST_WRAP;
    }
}

// False: there is no room even so.
static bool column_widths(struct show_table *t, struct show_style style, int *widths) {
    static const char *const none[] = {NULL};
    const char *const *names = t->gives_way ? t->gives_way : none;
    if (style.width <= 0) return true;
    shrink(t, widths, total_width(t, widths) - style.width);
    for (; *names && total_width(t, widths) > style.width; names++) hide(t, widths, *names);
    if (total_width(t, widths) <= style.width) return true;
    fold_names(t, widths);
    shrink(t, widths, total_width(t, widths) - style.width);
    return total_width(t, widths) <= style.width;
}

// A line may be broken behind it: prose behind a blank, a name behind a mark, too.
static bool is_break(char c, bool folds) {
    return c == ' ' || (folds && c && strchr("/-_,.", c));
}

// Takes the next line of at most `width` columns off the text, broken where it may be.
static struct str wrapped_line(struct str *text, int width, bool folds) {
    struct str rest = *text, line = str_line(&rest);
    if (show_width(line) <= width) {
        *text = rest;
        return line;
    }
    struct str fits = show_fit(line, width);
    ptrdiff_t cut = fits.len;
    if (cut == 0) cut = line.len; // a wide character in one column: let it stick out
    bool is_blank_next = cut < line.len && line.p[cut] == ' ';
    for (ptrdiff_t i = cut; !is_blank_next && i > 0; i--) {
        if (!is_break(line.p[i - 1], folds)) continue;
        cut = i;
        break;
    }
    *text = str_slice(*text, cut, text->len);
    while (text->len > 0 && text->p[0] == ' ') *text = str_slice(*text, 1, text->len);
    return str_trim(str_slice(line, 0, cut));
}

// One row, of as many lines as its highest cell. `texts` are used up.
static void draw_row(const struct show_table *t, struct show_style style, const int *widths,
                     struct str *texts, const enum show_tone *tones, struct buf *b) {
    for (bool is_first = true, is_more = true; is_more; is_first = false) {
        struct buf line = buf_new(t->arena);
        ptrdiff_t last = -1;
        bool is_begun = false;
        is_more = false;
        for (ptrdiff_t i = 0; i < t->column_count; i++) {
            const struct show_column *column = &t->columns[i];
            struct str part = {0};
            if (widths[i] == HIDDEN) continue;
            for (int g = 0; is_begun && g < GAP; g++) buf_byte(&line, ' ');
            is_begun = true;
            if (gives_room(column) && texts[i].len > 0) {
                int indent = column->folds && !is_first ? INDENT : 0;
                part = wrapped_line(&texts[i], widths[i] - indent, column->folds);
                part = str_format(t->arena, "%*s%.*s", indent, "", STR_ARG(part));
                is_more = is_more || texts[i].len > 0;
            } else if (!gives_room(column) && is_first) {
                part = texts[i];
            }
            show_padded(&line, style, tones[i], part, widths[i], column->align == SHOW_RIGHT);
            if (part.len) last = line.count;
            if (part.len && column->align == SHOW_LEFT) {
                last -= widths[i] > show_width(part) ? widths[i] - show_width(part) : 0;
            }
        }
        buf_add_raw(b, str_slice(buf_str(&line), 0, last < 0 ? 0 : last));
        buf_byte(b, '\n');
    }
}

// A rule below the names of the columns.
static void draw_rule(const struct show_table *t, struct show_style style, const int *widths,
                      struct buf *b) {
    bool is_first = true;
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        if (widths[i] == HIDDEN) continue;
        if (!is_first) buf_add(b, STR("  "));
        for (int w = 0; w < widths[i]; w++) buf_add(b, style.utf8 ? STR("─") : STR("-"));
        is_first = false;
    }
    buf_byte(b, '\n');
}

static void draw_left_out(const struct show_table *t, struct show_style style, const int *widths,
                          struct buf *b) {
    struct buf names = buf_new(t->arena);
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        if (widths[i] != HIDDEN) continue;
        buf_format(&names, "%s%.*s", names.count > 0 ? ", " : _("left out at this width: "),
                   STR_ARG(t->columns[i].shown));
    }
    if (names.count > 0) show_prose(b, style, SHOW_DIM, buf_str(&names), 0, 2);
}

// Beside the names, or below its own where it would be broken into too little there.
static void draw_stacked_cell(struct str name, int names, const struct show_cell *cell,
                              struct show_style style, struct buf *b) {
    int column = names + 2 * GAP;
    bool is_narrow = style.width > 0 && style.width < column + LEAST_BESIDE;
    if (is_narrow && style.width < column + show_width(cell->text)) {
        show_prose(b, style, SHOW_DIM, name, 2, 2);
        column = 2 * GAP;
        buf_add(b, STR("    "));
    } else {
        show_padded(b, style, SHOW_DIM, name, names + GAP, false);
    }
    show_prose(b, style, cell->tone, cell->text, column, column);
}

// A block a row: what its first column says, then a line a column.
static void draw_stacked(const struct show_table *t, struct show_style style, struct buf *b) {
    int names = 0;
    for (ptrdiff_t i = 1; i < t->column_count; i++) {
        int width = show_width(t->columns[i].shown);
        names = width > names ? width : names;
    }
    for (ptrdiff_t row = 0; row < row_count(t); row++) {
        const struct show_cell *head = cell_at(t, row, 0);
        if (t->columns[0].align == SHOW_RIGHT) {
            show_text(b, style, SHOW_DIM, t->columns[0].shown);
            buf_byte(b, ' ');
        }
        show_prose(b, style, head->tone ? head->tone : SHOW_STRONG, head->text, 0, 2);
        for (ptrdiff_t i = 1; i < t->column_count; i++) {
            const struct show_cell *cell = cell_at(t, row, i);
            if (cell->text.len == 0) continue;
            buf_add(b, STR("  "));
            draw_stacked_cell(t->columns[i].shown, names, cell, style, b);
        }
    }
}

// The same in the reader's language, where a name or a cell has a translation as a whole.
static struct show_table spoken(const struct show_table *t) {
    struct show_table own = *t;
    own.title = say_str(t->title);
    own.columns = arena_new(t->arena, struct show_column, t->column_count);
    own.cells = arena_new(t->arena, struct show_cell, t->cell_count);
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        own.columns[i] = t->columns[i];
        own.columns[i].shown = say_str(t->columns[i].name);
    }
    for (ptrdiff_t i = 0; i < t->cell_count; i++) {
        own.cells[i] = t->cells[i];
        own.cells[i].text = say_str(t->cells[i].text);
    }
    return own;
}

void show_table_text(const struct show_table *english, struct show_style style, struct buf *b) {
    if (!english->column_count) return;
    struct show_table own = spoken(english), *t = &own;
    int *widths = natural_widths(t);
    struct str *texts = arena_new(t->arena, struct str, t->column_count);
    enum show_tone *tones = arena_new(t->arena, enum show_tone, t->column_count);
    if (t->title.len) show_prose(b, style, SHOW_STRONG, t->title, 0, 2);
    if (!column_widths(t, style, widths)) {
        draw_stacked(t, style, b);
        return;
    }
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        texts[i] = t->columns[i].shown;
        tones[i] = SHOW_STRONG;
    }
    draw_row(t, style, widths, texts, tones, b);
    draw_rule(t, style, widths, b);
    for (ptrdiff_t row = 0; row < row_count(t); row++) {
        for (ptrdiff_t i = 0; i < t->column_count; i++) {
            texts[i] = cell_at(t, row, i)->text;
            tones[i] = cell_at(t, row, i)->tone;
        }
        draw_row(t, style, widths, texts, tones, b);
    }
    draw_left_out(t, style, widths, b);
}

// Text inside a Markdown table: nothing that ends the cell, nothing that becomes HTML.
static void add_markdown(struct buf *b, struct str text) {
    for (ptrdiff_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        if (c == '|' || c == '\\' || c == '`') buf_byte(b, '\\');
        if (c == '<')
            buf_add(b, STR("&lt;"));
        else if (c == '\n')
            buf_add(b, STR("<br>"));
        else if ((unsigned char)c >= 0x20)
            buf_byte(b, c);
    }
}

void show_table_markdown(const struct show_table *t, struct buf *b) {
    if (!t->column_count) return;
    if (t->title.len) {
        buf_add(b, STR("**"));
        add_markdown(b, t->title);
        buf_add(b, STR("**\n\n"));
    }
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        buf_add(b, STR("| "));
        add_markdown(b, t->columns[i].name);
        buf_byte(b, ' ');
    }
    buf_add(b, STR("|\n"));
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        buf_add(b, t->columns[i].align == SHOW_RIGHT ? STR("|---:") : STR("|---"));
    }
    buf_add(b, STR("|\n"));
    for (ptrdiff_t row = 0; row < row_count(t); row++) {
        for (ptrdiff_t i = 0; i < t->column_count; i++) {
            buf_add(b, STR("| "));
            add_markdown(b, cell_at(t, row, i)->text);
            buf_byte(b, ' ');
        }
        buf_add(b, STR("|\n"));
    }
}

static void add_csv(struct buf *b, struct str text, bool has_next) {
    clean_csv(b, text);
    buf_byte(b, has_next ? ',' : '\n');
}

void show_table_csv(const struct show_table *t, struct buf *b) {
    ptrdiff_t last = t->column_count - 1;
    for (ptrdiff_t i = 0; i <= last; i++) add_csv(b, t->columns[i].name, i < last);
    for (ptrdiff_t row = 0; row < row_count(t); row++) {
        for (ptrdiff_t i = 0; i <= last; i++) {
            add_csv(b, cell_at(t, row, i)->text, i < last);
        }
    }
}

static void open_cell(struct buf *b, const struct show_cell *cell,
                      const struct show_column *column) {
    static const char *const tones[SHOW_TONES] = {"", "strong", "dim", "good", "warn", "bad"};
    const char *tone = tones[cell->tone];
    const char *kind = column->align == SHOW_RIGHT ? "n" : column->may_wrap ? "w" : "";
    if (!*tone && !*kind)
        buf_add(b, STR("<td>"));
    else
        buf_format(b, "<td class=\"%s%s%s\">", kind, *kind && *tone ? " " : "", tone);
}

void show_table_html(const struct show_table *t, struct buf *b) {
    if (!t->column_count) return;
    buf_add(b, STR("<div class=\"scroll\" tabindex=\"0\"><table>\n"));
    if (t->title.len) {
        buf_add(b, STR("<caption>"));
        show_escaped(b, t->title);
        buf_add(b, STR("</caption>\n"));
    }
    buf_add(b, STR("<thead><tr>"));
    for (ptrdiff_t i = 0; i < t->column_count; i++) {
        bool is_right = t->columns[i].align == SHOW_RIGHT;
        buf_add(b, is_right ? STR("<th scope=\"col\" class=\"n\">") : STR("<th scope=\"col\">"));
        show_escaped(b, t->columns[i].name);
        buf_add(b, STR("</th>"));
    }
    buf_add(b, STR("</tr></thead>\n<tbody>\n"));
    for (ptrdiff_t row = 0; row < row_count(t); row++) {
        buf_add(b, STR("<tr>"));
        for (ptrdiff_t i = 0; i < t->column_count; i++) {
            const struct show_cell *cell = cell_at(t, row, i);
            open_cell(b, cell, &t->columns[i]);
            show_escaped(b, cell->text);
            buf_add(b, STR("</td>"));
        }
        buf_add(b, STR("</tr>\n"));
    }
    buf_add(b, STR("</tbody></table></div>\n"));
}
