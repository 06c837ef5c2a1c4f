// SPDX-License-Identifier: Apache-2.0
// What check --matrix asks and what came of it: a row a model, use and size; a column a GPU.
#pragma once

#include "verbs/check/check.h"

struct matrix_cell {
    bool is_known;
    struct str why; // not known
    struct answer answer;
};

struct matrix_use; // what the model is used for
struct matrix_row {
    struct str model;
    const struct matrix_use *use;
    int64_t size; // pixels or tokens; 0: nobody says
};

struct matrix {
    struct check *check;
    struct str_list models;
    struct matrix_row *rows;
    ptrdiff_t row_count, row_capacity;
    struct question_gpus cards;
    struct matrix_cell *cells; // row by row
    bool at_batch;             // --batch-size
};

// Models, uses, sizes and GPUs of the options. FAIL_USAGE, FAIL_INPUT: one that nobody knows.
int check_matrix_open(struct matrix *m, struct fail *why);
void check_matrix_fill(struct matrix *m);
const char *check_matrix_use_name(const struct matrix_use *use); // "train", "eval", "infer"
// More than that the model trains is asked.
bool check_matrix_has_uses(const struct matrix *m);
