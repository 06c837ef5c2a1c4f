// SPDX-License-Identifier: Apache-2.0
// What the measurements share: timing, the matrices' content, and the check of a product.
#ifndef RATE_RATE_INT_H
#define RATE_RATE_INT_H

#include "rate/rate.h"

#define RATE_SECOND INT64_C(1000000000)

// Seconds of one run; negative: it failed, and the owner knows why.
typedef double rate_once(void *owner);
// Runs once to warm up, then until the runs agree within 2 % or time is up; fills the figure's
// numbers. `amount` is the bytes or operations of one run. False: a run failed.
bool rate_repeat(rate_once *once, void *owner, double amount, struct rate_figure *f);

struct rate_figure rate_begin(const char *id);
void rate_give(const struct rate_sink *sink, const struct rate_figure *f);
void rate_give_unknown(const struct rate_sink *sink, const char *id, struct str why);

// Square matrices of whole numbers from -3 to 3, by columns: products are exact in every precision
// until they are rounded at the end. `which`: 0 is the left one, 1 the right one.
int rate_element(int which, int64_t index);
double rate_product(int64_t n, int64_t row, int64_t column);
// Places of the product that are looked at.
enum { RATE_CHECKS = 8 };
void rate_check_place(int64_t n, int check, int64_t *ret_row, int64_t *ret_column);
bool rate_is_right(double got, double wanted);

#endif
