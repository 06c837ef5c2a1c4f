// SPDX-License-Identifier: Apache-2.0
// A screen: a canvas of characters that is drawn anew for each look, and the terminal that shows
// it and tells which key was pressed. The canvas needs no terminal; the terminal sends only what
// differs from what it shows already. Draws text, meters and plots; knows no cards.
#ifndef SHOW_SCREEN_H
#define SHOW_SCREEN_H

#include "base/fail.h"
#include "show/table.h"

// What a character is drawn in: a tone (style.h, the same numbers), or a colour that only tells
// parts apart. Without colours, parts are told apart by their characters.
enum show_ink {
    SHOW_INK_A = SHOW_TONES, // cyan, blue, magenta, green, yellow, grey
    SHOW_INK_B,
    SHOW_INK_C,
    SHOW_INK_D,
    SHOW_INK_E,
    SHOW_INK_F,
    SHOW_INK_BAND,   // the line of keys, titles of windows: reversed
    SHOW_INK_CURSOR, // the line that is chosen: reversed and strong
    SHOW_INKS,
};

struct show_glyph {
    uint32_t c; // 0: the right half of the one before
    uint32_t ink;
};
struct show_canvas {
    struct arena memory;
    struct show_glyph *glyphs; // row by row
    int rows, columns;
    bool utf8; // false: everything is drawn in ASCII
};
// Blank, of this size. Takes memory only when the size has changed.
void show_canvas_begin(struct show_canvas *canvas, int rows, int columns, bool utf8);
void show_canvas_free(struct show_canvas *canvas);
// The rows down to the last that is not blank, without blanks at their ends.
void show_canvas_text(const struct show_canvas *canvas, bool colour, struct buf *b);

// A part of a canvas; nothing is drawn outside of it.
struct show_area {
    struct show_canvas *canvas;
    int row, column, rows, columns;
};
struct show_area show_area_of(struct show_canvas *canvas);
struct show_area show_area_top(struct show_area *area, int rows); // cuts them off the area
struct show_area show_area_left(struct show_area *area, int columns);
struct show_area show_area_middle(struct show_area area, int rows, int columns); // for a window
void show_area_fill(struct show_area area, uint32_t c, int ink);
// A row of another ink, whatever stands there.
void show_area_row_ink(struct show_area area, int row, int ink);

// Draw from a column on, clipped; return the column behind. Control characters come out as '?'.
int show_put(struct show_area area, int row, int column, int ink, struct str text);
__attribute__((format(printf, 5, 6))) int show_put_format(struct show_area area, int row,
                                                          int column, int ink, const char *format,
                                                          ...);
// In a field of this width, cut with "…" when longer.
void show_put_field(struct show_area area, int row, int column, int width, enum show_align align,
                    int ink, struct str text);
// Over several rows, broken at blanks; the last one is cut with "…". Returns the rows it took.
int show_put_wrapped(struct show_area area, int row, int column, int ink, struct str text);

struct show_part {
    double value; // not negative; NaN: none
    int ink;      // of enum show_ink or show_tone
};
// Parts of a capacity beside one another, over `width` columns. NaN as the capacity: nothing is
// known, an empty meter.
void show_meter(struct show_area area, int row, int column, int width,
                const struct show_part *parts, int count, double capacity);
// The character of the part at this place, for legends.
const char *show_meter_sign(const struct show_canvas *canvas, int part);

enum show_plot_kind { SHOW_PLOT_BRAILLE, SHOW_PLOT_BLOCKS, SHOW_PLOT_ASCII, SHOW_PLOT_KINDS };
// Values that one column can show. A canvas without UTF-8 plots in ASCII whatever the kind.
int show_plot_dots(const struct show_canvas *canvas, enum show_plot_kind kind);
// Fills the area: the newest value at the right end, from 0 to `most`; NaN leaves a gap.
// `values` holds area.columns * dots of them, oldest first.
void show_plot(struct show_area area, enum show_plot_kind kind, int ink, const double *values,
               double most);

// Keys beyond characters.
enum show_key {
    SHOW_KEY_NONE = 0,
    SHOW_KEY_ENTER = '\n',
    SHOW_KEY_ESCAPE = 27,
    SHOW_KEY_BACKSPACE = 127,
    SHOW_KEY_UP = 0x110000, // beyond Unicode
    SHOW_KEY_DOWN,
    SHOW_KEY_LEFT,
    SHOW_KEY_RIGHT,
    SHOW_KEY_PAGE_UP,
    SHOW_KEY_PAGE_DOWN,
    SHOW_KEY_HOME,
    SHOW_KEY_END,
    SHOW_KEY_F0, // F1 is F0 + 1
    SHOW_KEY_OTHER = SHOW_KEY_F0 + 64,
};
// Why a wait ended.
enum show_event {
    SHOW_EVENT_TIME,
    SHOW_EVENT_KEY,
    SHOW_EVENT_SCREEN, // of another size, or to be drawn anew
    SHOW_EVENT_FD,     // the other descriptor can be read
    SHOW_EVENT_END,    // SIGINT, SIGTERM, SIGHUP, or the terminal is gone
};

struct show_terminal; // private; one at a time

// SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT and SIGWINCH are blocked from here on, for the wait
// below, also in threads that are started later. Nothing is changed on the terminal.
void show_terminal_block_signals(void);
// Takes over the terminal at stdin and stdout. FAIL_MACHINE: it is none, or cannot place the
// cursor. The only place where the program's locale is set (for characters only).
int show_terminal_open(struct arena *a, bool ascii, struct show_terminal **ret_terminal,
                       struct fail *why);
bool show_terminal_is_utf8(const struct show_terminal *t);
void show_terminal_size(const struct show_terminal *t, int *ret_rows, int *ret_columns);
void show_terminal_present(struct show_terminal *t, const struct show_canvas *canvas);
// Until something happens, at most timeout_ms (-1: however long). `fd`: another to wait for; -1.
enum show_event show_terminal_wait(struct show_terminal *t, int fd, int timeout_ms);
// The next key that waits: a character, or of enum show_key; SHOW_KEY_NONE when there is none.
uint32_t show_terminal_key(struct show_terminal *t);
// Gives the terminal back as it was; also done when the program crashes or exits.
void show_terminal_close(struct show_terminal *t);

#endif
