// SPDX-License-Identifier: Apache-2.0
// Text. A `struct str` is a view: a pointer and a length, not owned and not terminated; text that
// is being built is a `struct buf` in an arena. Terminated strings exist only at the edge to the
// system.
#pragma once

#include "base/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

struct str {
    const char *p;
    ptrdiff_t len;
};
#define STR(literal) ((struct str){(literal), (ptrdiff_t)sizeof(literal) - 1})
// For printf: "%.*s", STR_ARG(s)
#define STR_ARG(s) (int)(s).len, (s).p

struct str str_of(const char *terminated);  // NULL gives an empty view
char *str_z(struct arena *a, struct str s); // a terminated copy
// One in which a byte stands for another.
char *str_z_swapped(struct arena *a, struct str s, char from, char to);
struct str str_copy(struct arena *a, struct str s);
__attribute__((format(printf, 2, 3))) struct str str_format(struct arena *a, const char *format,
                                                            ...);
__attribute__((format(printf, 2, 0))) struct str str_format_list(struct arena *a,
                                                                 const char *format, va_list args);

// Texts in a row: notes, names. Add with str_list_add, or str_list_format.
struct str_list {
    struct str *items;
    ptrdiff_t count, capacity;
};
void str_list_add(struct arena *a, struct str_list *list, struct str text);
void str_list_add_new(struct arena *a, struct str_list *list, struct str text); // where it lacks it
__attribute__((format(printf, 3, 4))) void str_list_format(struct arena *a, struct str_list *list,
                                                           const char *format, ...);
bool str_list_has(const struct str_list *list, struct str text);
struct str str_list_text(struct arena *a, const struct str_list *list); // "these, those"

// The words of a command or an environment, with a NULL behind the last as exec wants them.
struct str_words {
    struct arena *arena;
    char **items;
    ptrdiff_t count, capacity;
};
void str_word_add(struct str_words *w, struct str word);
struct str_words str_words_of(struct arena *a, struct str joined, char separator);

bool str_equal(struct str a, struct str b);
bool str_equal_nocase(struct str a, struct str b); // ASCII letters
bool str_is(struct str s, const char *terminated);
bool str_is_one_of(struct str s, const char *const *words); // NULL-ended, and below
bool str_is_one_of_nocase(struct str s, const char *const *words);
bool str_starts_one_of(struct str s, const char *const *prefixes);
bool str_has_one_of(struct str s, const char *const *needles);
bool str_has_word(struct str words, struct str word);  // blanks between the words
bool str_has_name(struct str names, struct str name);  // commas between the names
int str_count_names(struct str names);                 // the same; of a NULL view none
bool str_is_made_of(struct str s, const char *others); // ASCII letters, digits and these; not empty
bool str_is_alnum(char c);                             // ASCII, whatever the locale
char str_lower(char c);
int str_hex(char c); // 16: it is no digit of a hexadecimal number
bool str_is_digit(char c);
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
ptrdiff_t str_find(struct str s, struct str needle); // -1: absent
struct str str_slice(struct str s, ptrdiff_t begin, ptrdiff_t end);
struct str str_trim(struct str s); // blanks, tabs and line ends at both sides
// Cuts at the first separator: returns the part before it and leaves the rest in *s. Without one
// the whole text is returned and *s becomes {NULL, 0}.
struct str str_cut(struct str *s, char separator);
struct str str_last(struct str s, char separator);        // behind the last one; without one all
struct str str_before_last(struct str s, char separator); // without one empty
struct str str_line(struct str *text);                    // next line without its LF or CRLF

// The whole view must be the number. False leaves *ret alone.
bool str_to_i64(struct str s, int64_t *ret);
// Digits of base 2, 8, 10 or 16, with underscores anywhere. False, too, when they are too large.
bool str_to_digits(struct str s, int base, int64_t *ret);
bool str_to_double(struct str s, double *ret);

uint64_t str_hash(struct str s); // FNV-1a

struct buf {
    struct arena *arena;
    char *items;
    ptrdiff_t count, capacity;
    bool is_shown;
};
struct buf buf_new(struct arena *a);
// For what people see: formats pass as they are, texts that come in are cleaned (out.h): those of
// a format as one line, others with their line ends.
struct buf buf_shown(struct arena *a);
void buf_expect(struct buf *b, ptrdiff_t bytes); // room for so much before it comes
void buf_add(struct buf *b, struct str s);
void buf_add_raw(struct buf *b, struct str s); // what is clean, or drawn by us
void buf_byte(struct buf *b, char c);
void buf_utf8(struct buf *b, uint32_t c);
__attribute__((format(printf, 2, 3))) void buf_format(struct buf *b, const char *format, ...);
// The text, behind `between` where there is something before it: a list, item by item.
void buf_join(struct buf *b, const char *between, struct str s);
struct str buf_str(const struct buf *b); // a view of what is there now
char *buf_z(struct buf *b);              // the same, terminated
