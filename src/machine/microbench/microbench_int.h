// SPDX-License-Identifier: Apache-2.0
// What the measurements share: timing, the matrices' content, and the check of a product.
#pragma once

#include "machine/microbench/microbench.h"

#define MICROBENCH_SECOND INT64_C(1000000000)

// Seconds of one run; negative: it failed, and the owner knows why.
typedef double microbench_once(void *owner);
// Runs once to warm up, then until the runs agree within 2 % or time is up; fills the figure's
// numbers. `amount` is the bytes or operations of one run. False: a run failed.
bool microbench_repeat(microbench_once *once, void *owner, double amount,
                       struct microbench_figure *f);

struct microbench_figure microbench_begin(const char *id);
void microbench_give(const struct microbench_sink *sink, const struct microbench_figure *f);
void microbench_give_unknown(const struct microbench_sink *sink, const char *id, struct str why);

// Square matrices of whole numbers from -3 to 3, by columns: products are exact in every precision
// until they are rounded at the end. `which`: 0 is the left one, 1 the right one.
int microbench_element(int which, int64_t index);
double microbench_product(int64_t n, int64_t row, int64_t column);
// Places of the product that are looked at.
enum { MICROBENCH_CHECKS = 8 };
void microbench_check_place(int64_t n, int check, int64_t *ret_row, int64_t *ret_column);
bool microbench_is_right(double got, double wanted);
