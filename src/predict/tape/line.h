// SPDX-License-Identifier: Apache-2.0
// One line of a tape or template, cut into its fields; what is wrong with it is said with its
// number. Shared by the files of this room.
#pragma once

#include "base/fail.h"
#include "base/str.h"

enum { TAPE_FIELDS_MAX = 9, TAPE_STREAM_MAX = 63 };

struct tape_line {
    struct str name; // of the file
    struct fail *why;
    int32_t line;
    struct str fields[TAPE_FIELDS_MAX]; // [0] is the keyword; the last one may hold a whole rest
    int count;
};

// FAIL_INPUT, "NAME:LINE: " and the text.
__attribute__((format(printf, 2, 3))) int tape_line_bad(const struct tape_line *l,
                                                        const char *format, ...);
// "expected …, not 'field'"
int tape_line_bad_field(const struct tape_line *l, int i, const char *expected);
// "m PHASE STEP"
int tape_line_mark(const struct tape_line *l, struct arena *a, uint8_t *ret_phase,
                   int32_t *ret_step);
// As much of a text as a message can take.
struct str tape_brief(struct str s);

void tape_line_split(struct tape_line *l, const char *p, const char *end);
int tape_line_count(const struct tape_line *l, int least, int most, const char *form);
int tape_line_number(const struct tape_line *l, int i, const char *expected, int64_t *ret);
// Which of the words a field is; `what` they are: "a tag".
int tape_line_word(const struct tape_line *l, struct arena *a, int i, const char *what,
                   const char *const *words, int count, uint8_t *ret);
// Is a text key=value, and so on?
int tape_line_details(const struct tape_line *l, struct str text);
// The stream of "a" (0) or "a@STREAM".
int tape_line_stream(const struct tape_line *l, int32_t *ret);

// A whole number below 2^62 in magnitude: two of them can be added.
bool tape_parse_number(struct str s, int64_t *ret);
// Printable UTF-8 (RFC 3629), so that every text can go into JSON.
bool tape_is_text(struct str s);
