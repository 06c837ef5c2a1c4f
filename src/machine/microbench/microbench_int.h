// SPDX-License-Identifier: Apache-2.0
// What the measurements share: timing, the matrices' content, and the check of a product.
#pragma once

#include "machine/microbench/microbench.h"

#define MICROBENCH_SECOND INT64_C(1000000000)

// Seconds of one run; negative: it failed, and the owner knows why.
typedef double microbench_once(void *owner);
// Runs once to warm up, then until the runs agree within 2 % or time is up; fills the figure's
// numbers. `amount` is the bytes or operations of one run. False: a run failed.
bool microbench_repeat(microbench_once *once, void *owner, double amount,
                       struct microbench_figure *f);

struct microbench_figure microbench_begin(const char *id);
void microbench_give(const struct microbench_sink *sink, const struct microbench_figure *f);
void microbench_give_unknown(const struct microbench_sink *sink, const char *id, struct str why);

// Square matrices of whole numbers from -3 to 3, by columns: products are exact in every precision
// until they are rounded at the end. `which`: 0 is the left one, 1 the right one.
int microbench_element(int which, int64_t index);
double microbench_product(int64_t n, int64_t row, int64_t column);
// Places of the product that are looked at.
enum { MICROBENCH_CHECKS = 8 };
void microbench_check_place(int64_t n, int check, int64_t *ret_row, int64_t *ret_column);
bool microbench_is_right(double got, double wanted);

// The driver's CUDA and cuBLAS, loaded when asked for; declared here after the headers of CUDA 12
// and 13, in which these are the same.

typedef uint64_t cuda_address;
struct cuda_context; // the driver's own
struct cuda_stream;
struct cuda_event;

enum { CUDA_OK = 0, CUDA_OUT_OF_MEMORY = 2 };
enum { CUDA_CAPABILITY_MAJOR = 75, CUDA_CAPABILITY_MINOR = 76 }; // CUdevice_attribute
enum { CUDA_STREAM_NON_BLOCKING = 1 };

struct cuda_api {
    int (*init)(unsigned);
    int (*driver_version)(int *);
    int (*count)(int *);
    int (*device)(int *, int);
    int (*attribute)(int *, int, int);
    int (*retain)(struct cuda_context **, int);
    int (*set_current)(struct cuda_context *);
    int (*memory)(size_t *, size_t *);
    int (*alloc)(cuda_address *, size_t);
    int (*free)(cuda_address);
    int (*host_alloc)(void **, size_t, unsigned);
    int (*to_device)(cuda_address, const void *, size_t, struct cuda_stream *);
    int (*to_host)(void *, cuda_address, size_t, struct cuda_stream *);
    int (*on_device)(cuda_address, cuda_address, size_t, struct cuda_stream *);
    int (*set_bytes)(cuda_address, unsigned char, size_t);
    int (*stream_new)(struct cuda_stream **, unsigned);
    int (*stream_wait)(struct cuda_stream *);
    int (*stream_wait_for)(struct cuda_stream *, struct cuda_event *, unsigned);
    int (*event_new)(struct cuda_event **, unsigned);
    int (*event_record)(struct cuda_event *, struct cuda_stream *);
    int (*event_wait)(struct cuda_event *);
    int (*event_ms)(float *, struct cuda_event *, struct cuda_event *);
    int (*error_text)(int, const char **);
    const char *(*standin)(void);
};

// cublasGemmEx as from version 11 on: the computation is a cublasComputeType_t.
struct cublas;
typedef int cublas_gemm(struct cublas *, int, int, int, int, int, const void *, const void *, int,
                        int, const void *, int, int, const void *, void *, int, int, int, int);
struct cublas_api {
    int (*create)(struct cublas **);
    int (*set_stream)(struct cublas *, struct cuda_stream *);
    cublas_gemm *gemm;
    int (*version)(struct cublas *, int *);
    const char *(*standin)(void);
};

// One GPU that is being measured.
struct cuda {
    struct arena *arena;
    const struct microbench_sink *sink;
    struct cuda_api api;
    struct cublas_api blas_api;
    struct cublas *blas;
    struct str blas_path;
    int driver_version;     // 12080 for 12.8
    int compute_capability; // 86 for 8.6
    struct cuda_stream *streams[2];
    struct cuda_event *begin, *end, *other;
    size_t free_bytes;
    void *pinned[2];
    cuda_address buffers[2];
    size_t copy_bytes;   // of the copies to and from the GPU
    size_t device_bytes; // of those within it
    struct str failed;   // the first call that did, in words
    struct str standin;
};

// cuda.c. False: `failed` says why.
bool microbench_cuda_load(struct cuda *c);
bool microbench_cuda_did(struct cuda *c, int code, const char *what);
// cublas.c. False: `ret_why`.
bool microbench_cublas_load(struct cuda *c, struct str folders, struct str *ret_why);
// gemm.c: the four precisions.
void microbench_cuda_products(struct cuda *c, struct str folders);
void microbench_cuda_give(struct cuda *c, struct microbench_figure *f);

// The CPU's matrix product, by a BLAS that is there.

void microbench_blas(struct arena *a, int threads, const struct microbench_sink *sink);
