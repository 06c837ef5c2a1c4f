// SPDX-License-Identifier: Apache-2.0
// A member of a struct as a row of a table: what it is called outside, its type and its place. By
// such tables the history, the files of teams and documents are written and read.
#pragma once

#include "base/str.h"

enum field_type { // and what is unknown
    FIELD_TEXT,   // struct str; empty
    FIELD_WHOLE,  // int64_t; -1
    FIELD_REAL,   // double; NaN
    FIELD_COUNT,  // int64_t; 0
    FIELD_INT,    // int; -1
    FIELD_SWITCH, // bool; never
    FIELD_WORD,   // an enum that numbers `words` from 1 on; 0
};
struct field {
    const char *name;
    enum field_type type;
    size_t offset;
    const char *const *words; // NULL-ended
};
// A member of `record` under its own name.
// clang-format off
#define FIELD(record, member)                                \
    {                                                        \
        .name = #member, .offset = offsetof(record, member), \
        .type = _Generic(((record *)1)->member, /* unevaluated */ \
            struct str: FIELD_TEXT,                          \
            int64_t: FIELD_WHOLE,                            \
            int: FIELD_INT,                                  \
            bool: FIELD_SWITCH,                              \
            double: FIELD_REAL)                              \
    }
// clang-format on

// As it is outside: a text, a whole number or a real one.
enum field_type field_outside(const struct field *f);

struct str field_text(const void *record, const struct field *f); // empty: unknown
int64_t field_whole(const void *record, const struct field *f);   // -1: unknown
double field_real(const void *record, const struct field *f);     // NaN: unknown
double field_number(const void *record, const struct field *f);   // whole or real; NaN: unknown
void field_set_text(void *record, const struct field *f, struct str text);
void field_set_whole(void *record, const struct field *f, int64_t whole);
void field_set_real(void *record, const struct field *f, double real);
void field_forget(void *record, const struct field *f); // makes it unknown
