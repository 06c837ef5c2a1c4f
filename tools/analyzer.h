// SPDX-License-Identifier: Apache-2.0
// Read by clang-tidy before every source but fail.c (tools/analyze): it sees one file at a time, and
// must be told that the functions of the error value return something negative.
#include "base/fail.h"
#define fail_set(why, code, ...) (fail_set(why, code, __VA_ARGS__), (code))
#define fail_hint(...) (fail_hint(__VA_ARGS__), -1)
#define fail_wrap(...) (fail_wrap(__VA_ARGS__), -1)
