// SPDX-License-Identifier: Apache-2.0
// What the parts of the fakes for CUDA and cuBLAS share.
#ifndef STANDIN_CUDA_H
#define STANDIN_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define SHARED __attribute__((visibility("hidden")))

// C = A B, square, by columns; type is a cudaDataType: 0 fp32, 2 fp16, 14 bf16.
struct standin_product {
    const void *a, *b;
    void *c;
    int n, type;
};

// In libcuda.so.1, for libcublas.
EXPORT void batchfit_standin_multiply(const struct standin_product *p, void *stream, double tflops);
EXPORT double batchfit_standin_number(const char *key, double otherwise);
EXPORT int batchfit_standin_play(const char *function);

// Within libcuda.so.1.
SHARED const char *standin_text(const char *key); // NULL: not said; good until the next call
SHARED double standin_number(const char *key, double otherwise);
SHARED int standin_play(const char *function);
// Whether the address is an element of the product; if so it is computed now.
SHARED bool standin_read_product(const struct standin_product *p, void *to, uint64_t from,
                                 size_t size);

#endif
