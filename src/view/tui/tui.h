// SPDX-License-Identifier: Apache-2.0
// A screen: a canvas of characters that is drawn again for each look, and the terminal that shows
// it and tells which key was pressed. The canvas needs no terminal; the terminal sends only what
// differs from what it shows already. Draws text, meters and plots; knows no GPUs.
#pragma once

#include "base/fail.h"
#include "view/show/show.h"

// What a character is drawn in: a tone (show.h, the same numbers), or a colour that only tells
// parts apart. Without colours, parts are told apart by their characters.
enum tui_ink {
    TUI_INK_A = SHOW_TONES, // cyan, blue, magenta, green, yellow, grey
    TUI_INK_B,
    TUI_INK_C,
    TUI_INK_D,
    TUI_INK_E,
    TUI_INK_F,
    TUI_INK_BAND,   // the line of keys, titles of windows: reversed
    TUI_INK_CURSOR, // the line that is chosen: reversed and strong
    TUI_INKS,
};

struct tui_glyph {
    uint32_t c; // 0: the right half of the one before
    uint32_t ink;
};
struct tui_canvas {
    struct arena memory;
    struct tui_glyph *glyphs; // row by row
    int rows, columns;
    bool utf8; // false: everything is drawn in ASCII
};
// Blank, of this size. Takes memory only when the size has changed.
void tui_canvas_begin(struct tui_canvas *canvas, int rows, int columns, bool utf8);
void tui_canvas_free(struct tui_canvas *canvas);
// The rows down to the last that is not blank, without blanks at their ends.
void tui_canvas_text(const struct tui_canvas *canvas, bool colour, struct buf *b);

// A part of a canvas; nothing is drawn outside of it.
struct tui_area {
    struct tui_canvas *canvas;
    int row, column, rows, columns;
};
struct tui_area tui_area_of(struct tui_canvas *canvas);
struct tui_area tui_area_top(struct tui_area *area, int rows); // cuts them off the area
struct tui_area tui_area_left(struct tui_area *area, int columns);
struct tui_area tui_area_middle(struct tui_area area, int rows, int columns); // for a window
void tui_area_fill(struct tui_area area, uint32_t c, int ink);
// A row of another ink, whatever stands there.
void tui_area_row_ink(struct tui_area area, int row, int ink);

// Draw from a column on, clipped; return the column behind. What is hidden is written out
// (out.h).
int tui_put(struct tui_area area, int row, int column, int ink, struct str text);
__attribute__((format(printf, 5, 6))) int tui_put_format(struct tui_area area, int row, int column,
                                                         int ink, const char *format, ...);
// In a field of this width, cut with "…" when longer.
void tui_put_field(struct tui_area area, int row, int column, int width, enum show_align align,
                   int ink, struct str text);
// Over several rows, broken at blanks; the last one is cut with "…". Returns the rows it took.
int tui_put_wrapped(struct tui_area area, int row, int column, int ink, struct str text);

struct tui_part {
    double value; // not negative; NaN: none
    int ink;      // of enum tui_ink or show_tone
};
// Parts of a capacity beside one another, over `width` columns. NaN as the capacity: nothing is
// known, an empty meter.
void tui_meter(struct tui_area area, int row, int column, int width, const struct tui_part *parts,
               int count, double capacity);
// The character of the part at this place, for legends.
const char *tui_meter_sign(const struct tui_canvas *canvas, int part);

enum tui_plot_kind { TUI_PLOT_BRAILLE, TUI_PLOT_BLOCKS, TUI_PLOT_ASCII, TUI_PLOT_KINDS };
// Values that one column can show. A canvas without UTF-8 plots in ASCII whatever the kind.
int tui_plot_dots(const struct tui_canvas *canvas, enum tui_plot_kind kind);
// Fills the area: the newest value at the right end, from 0 to `most`; NaN leaves a gap.
// `values` holds area.columns * dots of them, oldest first.
void tui_plot(struct tui_area area, enum tui_plot_kind kind, int ink, const double *values,
              double most);

// Keys beyond characters.
enum tui_key {
    TUI_KEY_NONE = 0,
    TUI_KEY_ENTER = '\n',
    TUI_KEY_ESCAPE = 27,
    TUI_KEY_BACKSPACE = 127,
    TUI_KEY_UP = 0x110000, // beyond Unicode
    TUI_KEY_DOWN,
    TUI_KEY_LEFT,
    TUI_KEY_RIGHT,
    TUI_KEY_PAGE_UP,
    TUI_KEY_PAGE_DOWN,
    TUI_KEY_HOME,
    TUI_KEY_END,
    TUI_KEY_CLICK, // tui_terminal_pointer says where
    TUI_KEY_WHEEL_UP,
    TUI_KEY_WHEEL_DOWN,
    TUI_KEY_F0, // F1 is F0 + 1
    TUI_KEY_OTHER = TUI_KEY_F0 + 64,
};
// Why a wait ended.
enum tui_event {
    TUI_EVENT_TIME,
    TUI_EVENT_KEY,
    TUI_EVENT_SCREEN, // of another size, or to be drawn again
    TUI_EVENT_FD,     // the other descriptor can be read
    TUI_EVENT_END,    // SIGINT, SIGTERM, SIGHUP, or the terminal is gone
};

struct show_terminal; // private; one at a time

// SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT and SIGWINCH are blocked from here on, for the wait
// below, also in threads that are started later. Nothing is changed on the terminal.
void tui_terminal_block_signals(void);
// Takes over the terminal at stdin and stdout. FAIL_MACHINE: not a terminal, or it cannot place the
// cursor. The only place where the program's locale is set (for characters only).
int tui_terminal_open(struct arena *a, bool ascii, struct show_terminal **ret_terminal,
                      struct fail *why);
bool tui_terminal_is_utf8(const struct show_terminal *t);
void tui_terminal_size(const struct show_terminal *t, int *ret_rows, int *ret_columns);
void tui_terminal_present(struct show_terminal *t, const struct tui_canvas *canvas);
// Until something happens, at most timeout_ms (-1: however long). `fd`: another to wait for; -1.
enum tui_event tui_terminal_wait(struct show_terminal *t, int fd, int timeout_ms);
// The next key pressed: a character, or of enum tui_key; TUI_KEY_NONE when there is none.
uint32_t tui_terminal_key(struct show_terminal *t);
// Clicks and the wheel are keys from here on, or the terminal's own again.
void tui_terminal_use_mouse(struct show_terminal *t, bool is_used);
// Where the click of the last key was. False: not told.
bool tui_terminal_pointer(const struct show_terminal *t, int *ret_row, int *ret_column);
// Into the clipboard of who sits there, also through ssh and tmux where these allow it: OSC 52.
void tui_terminal_copy(struct show_terminal *t, struct str text);
// Gives the terminal back as it was; also done when the program crashes or exits.
void tui_terminal_close(struct show_terminal *t);
