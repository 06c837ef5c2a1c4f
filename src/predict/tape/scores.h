// SPDX-License-Identifier: Apache-2.0
// The tape of a model on a GPU that has no fused kernel for its attention: PyTorch computes the
// scores of all heads then, and keeps their softmax for the backward pass.
#pragma once

#include "predict/tape/tape.h"

struct tape_scores {
    int64_t tokens;    // that each query sees; 0: the kernels are fused
    int64_t head_size; // elements
};

// In the place of each fused kernel for values of two bytes what the plain one takes
// (aten/src/ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math): queries,
// keys and values in fp32, their products, a softmax with a mask of what is all masked
// (_safe_softmax), of which that softmax is kept. False: the tape has no such kernel, and *ret is
// none.
bool tape_scores(struct arena *a, const struct tape *t, const struct tape_scores *how,
                 struct tape *ret);
bool tape_is_fused(const struct tape *t); // has such a kernel
// Bytes of them for each that is scored: in fp32; and as many as are there at a time where none is
// kept.
enum { TAPE_SCORE_BYTES = 4, TAPE_SCORE_MOST = 4 + 4 + 1 + 4 };
