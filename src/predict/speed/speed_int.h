// SPDX-License-Identifier: Apache-2.0
// What the two time models share.
#pragma once

#include "base/data.h"
#include "predict/speed/speed.h"

// Whether a GPU's key is in a list with commas.
bool speed_names_card(struct str list, struct str key);
// Share of the boost clock that the power limit leaves, 0 to 1.
double speed_clock_share(const struct gpu *g);
// A cell that must be a number between the two. FAIL_INPUT names file, line and column.
int speed_read_number(const struct tsv *t, const char *column, double low, double high, double *ret,
                      struct fail *why);
// Name, GPUs, bounds and ranges of a row, but for its constants, its mode and what is doubtful.
int speed_read_row(const struct tsv *t, struct speed_row *row, struct fail *why);
