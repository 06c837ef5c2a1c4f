// SPDX-License-Identifier: Apache-2.0
// The CPU's matrix product, by a BLAS that is there.
#pragma once

#include "machine/microbench/microbench_int.h"

void microbench_blas(struct arena *a, int threads, const struct microbench_sink *sink);
