// SPDX-License-Identifier: Apache-2.0
// A fake for libcublas.so.12 beside that for libcuda.so.1: a product takes the time that it
// takes at the rate that is played (fp32, tf32, fp16, bf16 in TFLOP/s of BATCHFIT_STANDIN_CUDA).
#include "cuda.h"

static void *stream;

EXPORT const char *batchfit_standin(void);
EXPORT const char *batchfit_standin(void) {
    return "fake for cuBLAS, its rates are played";
}

EXPORT int cublasCreate_v2(void **handle) {
    static int one;
    int code = batchfit_standin_play("cublasCreate_v2");
    *handle = &one;
    return code;
}

EXPORT int cublasSetStream_v2(void *handle, void *of) {
    (void)handle;
    stream = of;
    return 0;
}

EXPORT int cublasGetVersion_v2(void *handle, int *version) {
    (void)handle;
    *version = 120402;
    return 0;
}

EXPORT int cublasGemmEx(void *handle, int transpose_a, int transpose_b, int m, int n, int k,
                        const void *alpha, const void *a, int type_a, int lda, const void *b,
                        int type_b, int ldb, const void *beta, void *c, int type_c, int ldc,
                        int computation, int algorithm) {
    struct standin_product p = {.a = a, .b = b, .c = c, .n = n, .type = type_c};
    int code = batchfit_standin_play("cublasGemmEx");
    (void)handle, (void)alpha, (void)beta, (void)algorithm;
    if (code) return code;
    // Only what is measured is played: anything else is an error of ours.
    if (m != n || k != n || lda != n || ldb != n || ldc != n || type_a != type_c ||
        type_b != type_c || transpose_a || transpose_b) {
        return 7;
    }
    const char *key = computation == 77 ? "tf32"
                      : type_c == 0     ? "fp32"
                      : type_c == 2     ? "fp16"
                                        : "bf16";
    batchfit_standin_multiply(&p, stream, batchfit_standin_number(key, 10));
    return 0;
}
