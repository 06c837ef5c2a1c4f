// SPDX-License-Identifier: Apache-2.0
// What every unit test includes: cmocka needs these headers in this order, and an arena for a test.
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fail.h"
#include "base/str.h"

#define assert_str(s, literal)                                        \
    do {                                                              \
        struct str unit_s = (s);                                      \
        assert_int_equal(unit_s.len, (ptrdiff_t)sizeof(literal) - 1); \
        assert_memory_equal(unit_s.p, literal, sizeof(literal) - 1);  \
    } while (0)

#endif
