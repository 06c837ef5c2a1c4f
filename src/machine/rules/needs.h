// SPDX-License-Identifier: Apache-2.0
// What needs what: CUDA a driver, PyTorch a CUDA and GPUs of certain compute capabilities. Facts
// of data/cuda.tsv and data/torch.tsv, whose heads name the sources.
#pragma once

#include "base/fail.h"
#include "base/str.h"

// Versions of PyTorch and CUDA are 100 * major + minor, as in predict/gpu/gpu.h. Driver versions
// are numbers that compare as the versions do; 0 is unknown.
struct rules_cuda {
    int cuda, cc_min, cc_max;
    int64_t driver, runs_from;
    struct str driver_text, runs_from_text;
};
struct rules_build {
    int torch, cuda, cc_min, cc_max;
};
struct rules_needs {
    struct rules_cuda *cudas;
    ptrdiff_t cuda_count, cuda_capacity;
    struct rules_build *builds;
    ptrdiff_t build_count, build_capacity;
};

int rules_needs_load(struct arena *a, struct rules_needs *ret_needs, struct fail *why);

// "535.183.01" -> 535183001; 0 when it is not a version.
int64_t rules_driver_number(struct str version);
// "12.8" -> 1208, "2.13.0+cu130" -> 213; 0 when there is no version at the beginning.
int rules_version(struct str text);

// The row of a toolkit; NULL: not in the table.
const struct rules_cuda *rules_cuda_find(const struct rules_needs *n, int cuda);
// The newest toolkit that a driver of that number runs without restriction; NULL: none.
const struct rules_cuda *rules_cuda_of_driver(const struct rules_needs *n, int64_t driver);
// Whether a driver starts programs of that toolkit at all; 1, 0, or -1 when the toolkit is unknown.
int rules_cuda_runs(const struct rules_needs *n, int cuda, int64_t driver);
// The newest wheels of PyTorch that run on a GPU with that driver (either 0: whatever it is); of
// one release the newest CUDA. NULL: none.
const struct rules_build *rules_build_for(const struct rules_needs *n, int64_t driver,
                                          int compute_capability);
