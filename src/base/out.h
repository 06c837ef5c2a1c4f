// SPDX-License-Identifier: Apache-2.0
// The way out: what this program itself says on stdout and stderr. Nothing else in src/ writes
// there (tools/style): so nothing that came from outside gets out as it is.
#pragma once

#include "base/str.h"

#include <stdio.h>

// Text that comes from outside (configs, recordings, names, logs, command lines), made fit to be
// shown: what a terminal would obey, what turns the order of reading, what nobody sees and what is
// no UTF-8 is written out: \x1b, \n, \u202e, \xff. Whatever this program shows goes through here:
// through a message (fail.h), a line (out.h) or a buffer of buf_shown (str.h).

#define CLEAN_BROKEN UINT32_C(0xfffd) // what a byte that is no UTF-8 counts as
enum { CLEAN_FORM_MOST = 16 };

// Takes the first character off a text that is not empty. CLEAN_BROKEN and one byte: no UTF-8.
uint32_t clean_next(struct str *text);
// C0, C1, DEL; line and paragraph ends; what turns the direction of writing; what has no width.
bool clean_is_hidden(uint32_t c);
// How many characters of printable ASCII a text begins with: shown as they are, a column each.
ptrdiff_t clean_plain(struct str text);
// Takes the next character and returns how it is shown: itself, or what is written in `form`.
struct str clean_take(struct str *text, char form[CLEAN_FORM_MOST]);

// Adds a text with its line ends and tabs as they are.
void clean_add_lines(struct buf *b, struct str text);
struct str clean_text(struct arena *a, struct str text);
// The same with '?' for what is hidden, blanks for tabs and '\n' kept, at most `max` bytes: for
// texts that are kept.
struct str clean_short(struct arena *a, struct str text, ptrdiff_t max);
// A cell of CSV: quoted where RFC 4180 asks for it, and with a ' in front where a spreadsheet would
// take the text for a formula.
void clean_csv(struct buf *b, struct str text);
// The longest beginning of at most `max` bytes that ends no character in the middle.
struct str clean_cut(struct str text, ptrdiff_t max);
// The same into an array, with a NUL behind it.
void clean_keep(char *out, ptrdiff_t size, struct str text);

// vsnprintf that cleans what %s and %c put in; the format itself is ours and passes. Cuts between
// characters. Returns the length that all of it needs.
__attribute__((format(printf, 3, 0))) ptrdiff_t clean_print(char *out, ptrdiff_t size,
                                                            const char *format, va_list args);
__attribute__((format(printf, 2, 0))) struct str clean_format_list(struct arena *a,
                                                                   const char *format,
                                                                   va_list args);

// Like fprintf, with the texts that are put in cleaned.
__attribute__((format(printf, 2, 3))) void out_say(FILE *to, const char *format, ...);
__attribute__((format(printf, 2, 0))) void out_say_list(FILE *to, const char *format, va_list args);
// An answer: a buffer of buf_shown, or one of which each line may hold what is foreign.
void out_buf(FILE *to, const struct buf *b);
// Bytes that are data for a program: a document, a tape.
void out_data(FILE *to, struct str bytes);
// Flushes; whether all that was said there so far has arrived (a full disk, a closed stdout).
bool out_is_written(FILE *to);

// Secrets in command lines. Wherever a command line is written down or shown, these stand as "***"
// (SECURITY.md has the rule); what is run, and what tells one command from another, is the command
// itself.

// A copy of the words (NULL-ended), as they may be shown.
char **secret_masked(struct arena *a, char *const *words);
