// SPDX-License-Identifier: Apache-2.0
// Expressions of a template: sums of const × dimensions, where a factor may also be a sum of
// products divided by a product and rounded up. Shared by the files of this room.
#pragma once

#include "predict/tape/template.h"

enum {
    TAPE_LOOP_DEPTH = 3, // variables i, j, k: the number of the iteration, from 0
    TAPE_SYMBOLS = TAPE_DIM_COUNT + TAPE_LOOP_DEPTH,
};

struct tape_product {
    int64_t c;
    uint8_t powers[TAPE_SYMBOLS];
};
// ⌈sum / divisor⌉
struct tape_ceil {
    int32_t part, count;         // of the sum, in the pool
    struct tape_product divisor; // has neither the batch nor an iteration
};
struct tape_term {
    struct tape_product product;
    int32_t ceil, ceil_count; // in the pool: factors besides the product's
};
struct tape_expr {
    int32_t term, count; // in the pool
};
// All expressions of a template.
struct tape_pool {
    struct tape_term *terms;
    ptrdiff_t term_count, term_capacity;
    struct tape_ceil *ceils;
    ptrdiff_t ceil_count, ceil_capacity;
    struct tape_product *parts;
    ptrdiff_t part_count, part_capacity;
};

// Reads a text such as "2BSD+4BKG[S/128]-3". Only symbols of `allowed` (bits) may occur. NULL, or
// what is wrong.
const char *tape_expr_read(struct arena *a, struct tape_pool *pool, struct str text,
                           uint32_t allowed, struct tape_expr *ret);
// C + K·batch; K is 0 unless values[TAPE_DIM_BATCH] is 0. NULL, or what is wrong: sums beyond 2^62,
// a batch that is squared or rounded.
const char *tape_expr_value(const struct tape_pool *pool, struct tape_expr e,
                            const int64_t values[TAPE_SYMBOLS], int64_t *ret_c, int64_t *ret_k);
