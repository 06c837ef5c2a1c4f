// SPDX-License-Identifier: Apache-2.0
// A fuzz target is one file with this one function. With -Dfuzzers=true (clang) libFuzzer calls it;
// otherwise main.c does, once for each file of its corpus, as a test.
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
