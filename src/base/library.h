// SPDX-License-Identifier: Apache-2.0
// Libraries that are loaded when they are asked for: who has none needs none.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// A function of the library, and where its address goes in a struct of pointers.
struct library_symbol {
    const char *name;
    size_t offset;
    bool is_required;
};

// The first of the names, of which NULL is the end, that the loader finds; NULL: none.
void *library_open(const char *const *names);
// NULL: the library has no such symbol.
void *library_address(void *library, const char *symbol);
// Ends with a symbol without a name. What is missing and not required is NULL. Returns the first
// required one that is missing; NULL: all are there.
const char *library_find(void *library, const struct library_symbol *symbols, void *ret_calls);
