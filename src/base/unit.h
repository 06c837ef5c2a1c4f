// SPDX-License-Identifier: Apache-2.0
// Quantities as people write and read them. Bytes are signed 64-bit everywhere in this program.
#pragma once

#include "base/str.h"

#define UNIT_KIB ((int64_t)1 << 10)
#define UNIT_MIB ((int64_t)1 << 20)
#define UNIT_GIB ((int64_t)1 << 30)

// "22GiB", "22 GB", "512MiB", "1.5g", "4096": KiB MiB GiB TiB are powers of two, KB MB GB TB powers
// of ten; a single letter k m g t means the power of two, as nvidia-smi and PyTorch use it. A bare
// number is bytes. False when it is not one, is negative or too large.
bool unit_parse_bytes(struct str text, int64_t *ret_bytes);
// "0.15" or "15%": a share between 0 and 1, 1 excluded.
bool unit_parse_share(struct str text, double *ret_share);
// "20m", "1h30m", "90s", "2d"; bare: minutes, as older scripts have it. Seconds. False when it is
// not a time above 0.
bool unit_parse_time(struct str text, double *ret_s);
// "8xh100": 8 of the name "h100"; "h100": 0, only a name. False: a number below 1, or no name.
bool unit_parse_counted(struct str text, int64_t *ret_count, struct str *ret_name);
// "11.4 GiB", "512 MiB", "0": three significant digits.
struct str unit_bytes(struct arena *a, int64_t bytes);
// "87.9 M", "1.23 B": counts of parameters.
struct str unit_count(struct arena *a, int64_t count);
// "27.93", "1842", "23564": four significant digits, or all before the point; for rates.
// Empty: NaN.
struct str unit_number(struct arena *a, double value);
// NaN where either is not known (0 for the whole, below 0 for the part).
double unit_share(int64_t part, int64_t whole);
int64_t unit_round_up(int64_t value, int64_t step);
// A peak so far, -1 while nothing is known, and a value that may be a higher one.
void unit_keep_most(int64_t *most, int64_t value);
