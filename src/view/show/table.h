// SPDX-License-Identifier: Apache-2.0
// A table: filled once, drawn as text, Markdown or HTML.
#pragma once

#include "view/show/style.h"

enum show_align { SHOW_LEFT, SHOW_RIGHT };

struct show_column {
    struct str name;
    struct str shown; // the name as text has it
    enum show_align align;
    bool may_wrap; // gives way first when the table is too wide
};
struct show_cell {
    struct str text;
    enum show_tone tone;
};
struct show_table {
    struct arena *arena;
    struct str title; // empty: none
    struct show_column *columns;
    ptrdiff_t column_count, column_capacity;
    struct show_cell *cells; // row by row
    ptrdiff_t cell_count, cell_capacity;
    const char *const *gives_way; // columns that a narrow screen does without, in this order
};

struct show_table show_table_new(struct arena *a, struct str title);
// All columns come before the first cell.
void show_table_column(struct show_table *t, const char *name, enum show_align align);
// Several of them; ends with one without a name.
struct show_heading {
    const char *name;
    enum show_align align;
};
void show_table_columns(struct show_table *t, const struct show_heading *headings);
// One for prose (left, wraps over several lines when there is no room).
void show_table_wrapping(struct show_table *t, const char *name);
// The columns that are left out where there is no room, the first first; ends with NULL. What is
// left out is named below the table.
void show_table_gives_way(struct show_table *t, const char *const *columns);
// The next cell, left to right; a row is full when it has a cell for each column. An empty text and
// the unknown are shown as "–" ("-" in ASCII) by show_table_unknown, not by an empty cell.
void show_table_cell(struct show_table *t, enum show_tone tone, struct str text);
__attribute__((format(printf, 3, 4))) void show_table_format(struct show_table *t,
                                                             enum show_tone tone,
                                                             const char *format, ...);
void show_table_unknown(struct show_table *t);
// The text, or the unknown where it is empty.
void show_table_known(struct show_table *t, enum show_tone tone, struct str text);
// "11.4 GiB", or the unknown for 0 and below.
void show_table_bytes(struct show_table *t, enum show_tone tone, int64_t bytes);

// Aligned by display width. When style.width is too small, wrapping columns wrap first, then those
// of show_table_gives_way are left out, then the rows are stacked: a block each, a line a column.
// No cell is ever cut.
void show_table_text(const struct show_table *t, struct show_style style, struct buf *b);
void show_table_markdown(const struct show_table *t, struct buf *b);
void show_table_csv(const struct show_table *t, struct buf *b); // without the title
void show_table_html(const struct show_table *t,
                     struct buf *b); // a <table> for view/html/html.h's page
