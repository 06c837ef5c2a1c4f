// SPDX-License-Identifier: Apache-2.0
// What is to be said about a measured rate beside the range that it should lie in.
#pragma once

#include "machine/microbench/microbench.h"
#include "machine/rules/rules.h"

struct rules_microbench {
    int card; // index into the GPUs; -1: the CPU
    struct microbench_figure figure;
    struct microbench_range range;
    // Share of the GPU, or of the cores, that others kept busy just before; NaN: unknown.
    double busy;
};

// Adds one finding. Far below the range is a warning, a wrong result a problem; what others who
// compute on the GPU may have slowed down is not judged.
void rules_judge_microbench(struct arena *a, const struct rules_facts *facts,
                            const struct rules_microbench *rate, struct findings *findings);
