// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/str.h"

// A sentence of the catalogue with specifiers; `letters` as say_letters counts, `longest` as
// say_longest finds.
struct say_pair {
    const char *english, *own;
    int letters;
    struct str longest;
};
// How many letters of a format are its own; 0: it has no specifier.
int say_letters(const char *format);
// The longest piece of a format without a specifier: what it has made has it.
struct str say_longest(const char *format);

// The translation of a text that was made with one of these formats, of which the one with the
// most letters decides. `one` translates its texts. False: none of them.
typedef struct str say_one(struct str english);
bool say_matched(struct arena *a, const struct say_pair *pairs, ptrdiff_t count, struct str english,
                 say_one *one, struct str *ret);
