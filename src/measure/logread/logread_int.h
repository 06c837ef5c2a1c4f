// SPDX-License-Identifier: Apache-2.0
// Between the files that read a log.
#pragma once

#include "measure/logread/logread.h"

// One line without its end and without escape sequences, not empty; its number is j->line.
void logread_read_line(struct logread *j, struct str line);
// What it tells of losses: of one line that read_line was given.
void logread_read_loss(struct logread *j, struct str line);
// A loss was told: 0: a finite number, 1: none, -1: neither.
void logread_add_loss(struct logread *j, struct str line, int kind);

// What stands at the beginning: 0: a finite number, 1: "nan", "inf", -1: neither.
int logread_value_kind(struct str s);
// A number at the beginning of the text; *ret_length 0: none. Not one that goes on (12:33:07,
// 1.2.3).
double logread_number_at(struct str s, ptrdiff_t *ret_length);

void logread_set_mark(struct logread_mark *m, int64_t number, struct str line);
bool logread_has_nocase(struct str s, const char *word);
