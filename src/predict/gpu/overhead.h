// SPDX-License-Identifier: Apache-2.0
// Inside the gpu room: reading data/overheads.tsv.
#pragma once

#include "base/data.h"
#include "predict/gpu/gpu.h"

struct gpu_overhead_row {
    struct str what, vendor, gpu, from, note, date;
    int cc_min, cc_max, cuda_min, cuda_max; // 0: no bound
    enum gpu_loading loading;
    double mib, mib_per_sm, minus_mib, plus_mib;
};

// Adds the rows of a table to the catalogue.
int gpu_read_overheads(struct arena *a, struct gpu_catalogue *c, struct tsv *t, struct fail *why);

// One cell as a number: empty leaves *ret alone; what is no number from 0 to 1e9 is FAIL_INPUT with
// file and line.
int gpu_cell_number(const struct tsv *t, const char *column, double *ret, struct fail *why);
