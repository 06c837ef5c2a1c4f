// SPDX-License-Identifier: Apache-2.0
// Inside of the datum room: the place in a TOML file, and its scalars (toml_scalar.c).
#pragma once

#include "records/datum/datum_int.h"

struct toml {
    struct data data;
    struct datum_source *source;
    struct fail *why;
    struct str text;
    ptrdiff_t at, line_begin;
    int line, depth;
    struct datum **pending; // tables that dotted keys have opened: closed by the next header
    ptrdiff_t pending_count, pending_capacity;
};

__attribute__((format(printf, 3, 4))) int datum_toml_fail(struct toml *t, ptrdiff_t at,
                                                          const char *format, ...);
char datum_toml_peek(const struct toml *t);
bool datum_toml_has(const struct toml *t, struct str what);
void datum_toml_blanks(struct toml *t);
bool datum_toml_line_end(struct toml *t);
// At a quote; in a key a text has one line.
int datum_toml_string(struct toml *t, bool may_be_long, struct str *ret);
// A number, a boolean or a date.
int datum_toml_word(struct toml *t, struct datum *v);
