// SPDX-License-Identifier: Apache-2.0
// What the reader's screen can do, and what a piece of text means to a reader (its tone).
// Everything in this room draws rows and series into a struct buf; only progress writes to a
// descriptor.
#pragma once

#include "base/fail.h"
#include "base/str.h"

enum show_tone { SHOW_PLAIN, SHOW_STRONG, SHOW_DIM, SHOW_GOOD, SHOW_WARN, SHOW_BAD, SHOW_TONES };

// A zeroed style is the plainest: ASCII, no colour, as wide as it gets.
struct show_style {
    int width;   // columns to stay within; 0: no limit
    bool utf8;   // lines and blocks beyond ASCII
    bool colour; // ANSI colours
};

// The style for a descriptor: colour only on a terminal, without NO_COLOR and with a TERM other
// than "dumb"; UTF-8 by LC_ALL, LC_CTYPE or LANG; width of the terminal, else none.
struct show_style show_style_of(int fd);

// Columns that a terminal uses for the text: East Asian wide characters and emoji two, combining
// marks none, a broken UTF-8 byte one.
int show_width(struct str text);
int show_width_of(uint32_t code_point); // 0, 1 or 2
// The longest beginning of the text that is at most `width` columns wide.
struct str show_fit(struct str text, int width);
// Its first line, with "..." where that is cut.
struct str show_first_line(struct arena *a, struct str text, int width);
// A GPU as people call it: "RTX 3060" of "NVIDIA GeForce RTX 3060". Documents have the whole name.
struct str show_gpu_name(struct str name);
// Adds text in its tone (ANSI codes only with style.colour). What is hidden is written out
// (out.h), so that a name from a file cannot drive the terminal.
void show_text(struct buf *b, struct show_style style, enum show_tone tone, struct str text);
// Adds the text, then blanks up to `width` columns (before it when `right`).
void show_padded(struct buf *b, struct show_style style, enum show_tone tone, struct str text,
                 int width, bool right);
// Adds text with & < > " ' escaped, fit for HTML content and quoted attributes; what is hidden,
// other than line feed and tab, is written out.
void show_escaped(struct buf *b, struct str text);

// Sentences, wrapped at words: within the terminal, and never more than a hundred columns, which is
// as much as an eye follows. Where the width is unknown (a pipe) a sentence stays one line.

// Adds the text and a line end. `column` is where the line stands already (what was drawn before
// it), `indent` where the next lines begin. A word wider than the line is left whole.
void show_prose(struct buf *b, struct show_style style, enum show_tone tone, struct str text,
                int column, int indent);
// A text of several lines, each for itself.
void show_prose_lines(struct buf *b, struct show_style style, struct str text);
// The columns that prose stays within; INT_MAX: no limit.
int show_prose_width(struct show_style style);

// A table: filled once, drawn as text, Markdown or HTML.

enum show_align { SHOW_LEFT, SHOW_RIGHT };

struct show_column {
    struct str name;
    struct str shown; // the name as text has it
    enum show_align align;
    bool may_wrap; // gives way first when the table is too wide
    bool folds;    // of a name: broken behind a mark, when nothing else makes room
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
// of show_table_gives_way are left out, then names fold, then the rows are stacked: a block each, a
// line a column. No cell is ever cut.
void show_table_text(const struct show_table *t, struct show_style style, struct buf *b);
void show_table_markdown(const struct show_table *t, struct buf *b);
void show_table_csv(const struct show_table *t, struct buf *b); // without the title
void show_table_html(const struct show_table *t,
                     struct buf *b); // a <table> for view/html/html.h's page

// A bar of stacked parts against a capacity, in a terminal:
//
//   RTX 3090  [AAAAAAAAAAAAGGGGGGC·········|······]  18.2 of 23.7 GiB
//             A activations 9.1 GiB  G gradients 4.0 GiB  C CUDA 1.5 GiB  | 20 % kept free
//
// With colours the parts are solid; without, each is filled with a letter of its name.

struct show_segment {
    struct str name; // "activations"
    double value;    // any unit, the same for all; not negative
    struct str text; // the value for people: "9.1 GiB"
};
struct show_bar {
    struct str name; // at the left; may be empty
    const struct show_segment *segments;
    int segment_count;
    double capacity;      // the right end of the bar (parts beyond it are drawn past the mark)
    double mark;          // a mark within the bar; NaN: none
    struct str mark_text; // what it says, in the legend
    struct str text;      // at the right: "18.2 of 23.7 GiB"
    enum show_tone tone;  // of that text: the verdict
};
// Two lines: the bar, and its legend (wrapped within the width). style.width 0 draws 80 columns; on
// a screen too narrow for a picture there is the legend alone.
void show_bar(const struct show_bar *bar, struct show_style style, struct buf *b);

// One line that says how far a long job is: written to a terminal only, redrawn at most ten times a
// second, and wiped at the end.

struct show_progress {
    int fd;
    bool is_live; // false: the descriptor is no terminal, nothing is ever written
    struct show_style style;
    struct str name;
    int64_t total; // 0: unknown
    int64_t done, started_ns, drawn_ns;
};

struct show_progress show_progress_open(int fd, struct str name, int64_t total);
// `item` is what is being worked on; may be empty.
void show_progress_set(struct show_progress *p, int64_t done, struct str item);
// "12 s", "4 min", "1.5 h"
struct str show_duration(struct arena *a, double seconds);
// Takes the line away, where something else is to be said; the next one draws it again.
void show_progress_wipe(const struct show_progress *p);
void show_progress_close(struct show_progress *p);
// The line itself, without control codes: "recording 12/48  25 %  3.1/s  12 s left  resnet50".
void show_progress_line(const struct show_progress *p, int64_t now_ns, struct str item, int width,
                        struct buf *b);

// An answer as files, in the kinds that a verb can write: --output, --report.

struct show_report_kind {
    const char *suffix; // ".csv"
    struct str (*text)(void *context);
    // What the file holds in place of the text, and whether that can be made here; NULL: the text.
    int (*finish)(struct arena *a, struct str text, struct str *ret, struct fail *why);
    int (*check)(struct arena *a, struct fail *why);
};

// `paths` are those of the option, a line each; NULL: none. `kinds` ends with one without a suffix.
// To be asked before anything is measured: nobody wants to hear of it an hour later.
int show_report_check(struct arena *a, const struct show_report_kind *kinds, const char *option,
                      const char *paths, struct fail *why);
// Makes the folders that are missing.
int show_report_write(struct arena *a, const struct show_report_kind *kinds, const char *paths,
                      void *context, struct fail *why);
