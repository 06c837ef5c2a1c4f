// SPDX-License-Identifier: Apache-2.0
// What the reader's screen can do, and what a piece of text means to a reader (its tone).
// Everything in this room draws rows and series into a struct buf; only progress writes to a
// descriptor.
#pragma once

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
// The longest beginning of the text that is at most `width` columns wide.
struct str show_fit(struct str text, int width);
// Its first line, with "..." where that is cut.
struct str show_first_line(struct arena *a, struct str text, int width);
// A GPU as people call it: "RTX 3060" of "NVIDIA GeForce RTX 3060". Documents have the whole name.
struct str show_gpu_name(struct str name);
// Adds text in its tone (ANSI codes only with style.colour). What is hidden is written out
// (clean.h), so that a name from a file cannot drive the terminal.
void show_text(struct buf *b, struct show_style style, enum show_tone tone, struct str text);
// Adds the text, then blanks up to `width` columns (before it when `right`).
void show_padded(struct buf *b, struct show_style style, enum show_tone tone, struct str text,
                 int width, bool right);
// Adds text with & < > " ' escaped, fit for HTML content and quoted attributes; what is hidden,
// other than line feed and tab, is written out.
void show_escaped(struct buf *b, struct str text);
