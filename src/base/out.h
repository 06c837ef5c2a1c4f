// SPDX-License-Identifier: Apache-2.0
// The way out: what this program itself says on stdout and stderr. Nothing else in src/ writes
// there (tools/style): so nothing that came from outside gets out as it is.
#pragma once

#include "base/str.h"

#include <stdio.h>

// Like fprintf, with the texts that are put in cleaned (clean.h).
__attribute__((format(printf, 2, 3))) void out_say(FILE *to, const char *format, ...);
__attribute__((format(printf, 2, 0))) void out_say_list(FILE *to, const char *format, va_list args);
// A buffer of buf_shown: an answer.
void out_buf(FILE *to, const struct buf *b);
// A text of several lines, of which each may hold what is foreign.
void out_lines(FILE *to, struct str text);
// Bytes that are data for a program: a document, a tape.
void out_data(FILE *to, struct str bytes);
