// SPDX-License-Identifier: Apache-2.0
// The processor's matrix product, by a BLAS that is there.
#ifndef RATE_BLAS_INT_H
#define RATE_BLAS_INT_H

#include "rate/rate_int.h"

void rate_blas(struct arena *a, int threads, const struct rate_sink *sink);

#endif
