// SPDX-License-Identifier: Apache-2.0
// Walks values of a knob with a test given from outside; knows no GPU and no model.
#pragma once

#include "base/fail.h"

#include <stdbool.h>
#include <stdint.h>

// 1: the value works, 0: it does not, negative: the walk ends with this error. The test is not
// expected to be monotone: a larger value may work where a smaller one does not.
typedef int search_test(void *context, int64_t value, struct fail *why);

// A cheap necessary condition, monotone: when it fails for a value it fails for all larger ones.
typedef bool search_bound(void *context, int64_t value);

// The first value of a falling list that works: 1 and *ret_value, 0 when none does, or an error.
// The bound (may be NULL) is bisected to skip the hopeless head of the list; every value after that
// is tested in turn.
int search_largest(const int64_t *falling, int count, search_bound *bound, search_test *test,
                   void *context, int64_t *ret_value, struct fail *why);
