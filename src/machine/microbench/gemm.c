// SPDX-License-Identifier: Apache-2.0
// Matrix products on the GPU, in the precisions that trainings use; a few elements of each result
// are compared with what they must be.
#include "machine/microbench/microbench_int.h"

#include <math.h>
#include <string.h>

enum { N_LEAST = 256, N_MOST = 8192, CUBLAS_DEFAULT_ALGORITHM = -1 };
static const double seconds_most = 0.06; // of one product: sizes grow until then

static double of_float(const void *bits) {
    float value;
    memcpy(&value, bits, sizeof value);
    return (double)value;
}

static double of_half(const void *bits) {
    uint16_t h;
    memcpy(&h, bits, sizeof h);
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double value = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(fraction + 1024, exponent - 25);
    return h >> 15 ? -value : value;
}

static double of_bfloat(const void *bits) {
    uint16_t half;
    memcpy(&half, bits, sizeof half);
    uint32_t whole = (uint32_t)half << 16;
    return of_float(&whole);
}

// type: cudaDataType, computation: cublasComputeType_t (both of library_types.h and cublas_api.h of
// CUDA 11 to 13). numbers: 0 to 3 in this type; the sign is the highest bit.
static const struct precision {
    const char *id;
    int type, computation, capability_min;
    size_t size;
    uint32_t numbers[4];
    double (*number)(const void *bits);
} precisions[] = {
    {"rate.fp32", 0, 68, 0, 4, {0, 0x3f800000, 0x40000000, 0x40400000}, of_float},
    {"rate.tf32", 0, 77, 80, 4, {0, 0x3f800000, 0x40000000, 0x40400000}, of_float},
    {"rate.fp16", 2, 68, 53, 2, {0, 0x3c00, 0x4000, 0x4200}, of_half},
    {"rate.bf16", 14, 68, 80, 2, {0, 0x3f80, 0x4000, 0x4040}, of_bfloat},
};

struct product {
    struct cuda *cuda;
    const struct precision *precision;
    cuda_address matrices[3];
    int n, n_most;
    int status; // of cuBLAS
};

static double multiply(void *owner) {
    struct product *p = owner;
    struct cuda *c = p->cuda;
    const struct precision *t = p->precision;
    const float one = 1, zero = 0;
    float ms = 0;
    // Device addresses travel as pointers.
    void *m[3] = {(void *)(uintptr_t)p->matrices[0], (void *)(uintptr_t)p->matrices[1],
                  (void *)(uintptr_t)p->matrices[2]};
    if (!microbench_cuda_did(c, c->api.event_record(c->begin, c->streams[0]), "starting a product"))
        return -1;
    p->status = c->blas_api.gemm(c->blas, 0, 0, p->n, p->n, p->n, &one, m[0], t->type, p->n, m[1],
                                 t->type, p->n, &zero, m[2], t->type, p->n, t->computation,
                                 CUBLAS_DEFAULT_ALGORITHM);
    if (p->status != 0) return -1;
    if (!microbench_cuda_did(c, c->api.event_record(c->end, c->streams[0]), "ending a product") ||
        !microbench_cuda_did(c, c->api.event_wait(c->end), "a matrix product") ||
        !microbench_cuda_did(c, c->api.event_ms(&ms, c->begin, c->end), "timing a product")) {
        return -1;
    }
    return (double)ms / 1e3;
}

static void put(const struct precision *t, char *at, int value) {
    uint32_t bits = t->numbers[value < 0 ? -value : value];
    if (value < 0) bits |= t->size == 4 ? 0x80000000u : 0x8000u;
    uint16_t half = (uint16_t)bits;
    memcpy(at, t->size == 4 ? (void *)&bits : (void *)&half, t->size);
}

static bool fill(struct product *p) {
    struct cuda *c = p->cuda;
    const struct precision *t = p->precision;
    size_t total = (size_t)p->n * (size_t)p->n, most = c->copy_bytes / t->size;
    for (int which = 0; which < 2; which++) {
        for (size_t done = 0, count; done < total; done += count) {
            count = total - done < most ? total - done : most;
            for (size_t i = 0; i < count; i++) {
                put(t, (char *)c->pinned[0] + i * t->size,
                    microbench_element(which, (int64_t)(done + i)));
            }
            int code = c->api.to_device(p->matrices[which] + done * t->size, c->pinned[0],
                                        count * t->size, c->streams[0]);
            if (code == CUDA_OK) code = c->api.stream_wait(c->streams[0]);
            if (!microbench_cuda_did(c, code, "filling a matrix")) return false;
        }
    }
    // All ones is no number in any of the types.
    return microbench_cuda_did(c, c->api.set_bytes(p->matrices[2], 0xff, total * t->size),
                               "filling a matrix");
}

// The largest size that fits and whose product takes no longer than that, by the size before.
static bool grow(struct product *p) {
    for (p->n = N_LEAST;; p->n *= 2) {
        if (multiply(p) < 0) return false; // the first loads the kernel
        double seconds = multiply(p);
        if (seconds < 0) return false;
        if (2 * p->n > p->n_most || 8 * seconds > seconds_most) return true;
    }
}

static bool check(struct product *p, struct microbench_figure *f) {
    struct cuda *c = p->cuda;
    size_t size = p->precision->size;
    for (int i = 0; i < MICROBENCH_CHECKS; i++) {
        int64_t row, column;
        microbench_check_place(p->n, i, &row, &column);
        uint64_t at = (uint64_t)(row + column * p->n) * size;
        int code = c->api.to_host(c->pinned[0], p->matrices[2] + at, size, c->streams[0]);
        if (code == CUDA_OK) code = c->api.stream_wait(c->streams[0]);
        if (!microbench_cuda_did(c, code, "reading a product")) return false;
        double got = p->precision->number(c->pinned[0]),
               wanted = microbench_product(p->n, row, column);
        if (microbench_is_right(got, wanted)) continue;
        f->state = MICROBENCH_WRONG;
        f->why = str_format(c->arena, "element (%lld, %lld) of the product is %g and should be %g",
                            (long long)row, (long long)column, got, wanted);
        return true;
    }
    return true;
}

static void measure(struct product *p, struct microbench_figure *f) {
    struct cuda *c = p->cuda;
    double n = 0;
    c->failed = (struct str){0};
    p->status = 0;
    bool did = grow(p) && fill(p);
    n = p->n;
    did = did && microbench_repeat(multiply, p, 2 * n * n * n, f) && check(p, f);
    if (!did) {
        f->state = MICROBENCH_UNKNOWN;
        f->why = p->status == 0 ? c->failed
                                : str_format(c->arena, "cuBLAS returned status %d%s", p->status,
                                             p->status == 15 ? ", not supported" : "");
    }
    f->how = str_format(c->arena, "%d x %d, %.*s", p->n, p->n, STR_ARG(c->blas_path));
}

static bool make_room(struct product *p) {
    struct cuda *c = p->cuda;
    size_t size = 0;
    for (p->n_most = N_LEAST; p->n_most < N_MOST; p->n_most *= 2) {
        size = (size_t)p->n_most * 2 * (size_t)p->n_most * 2 * sizeof(float);
        if (3 * size > c->free_bytes / 2) break;
    }
    size = (size_t)p->n_most * (size_t)p->n_most * sizeof(float);
    for (int i = 0; i < 3; i++) {
        if (!microbench_cuda_did(c, c->api.alloc(&p->matrices[i], size), "allocating a matrix"))
            return false;
    }
    return true;
}

void microbench_cuda_products(struct cuda *c, struct str folders) {
    struct product p = {.cuda = c};
    struct str why = {0};
    bool is_ready = microbench_cublas_load(c, folders, &why);
    if (is_ready && !make_room(&p)) {
        is_ready = false;
        why = c->failed;
    }
    if (is_ready && c->blas_api.standin && c->standin.len == 0) {
        c->standin = str_copy(c->arena, str_of(c->blas_api.standin()));
    }
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        struct microbench_figure f = microbench_begin(precisions[i].id);
        p.precision = &precisions[i];
        f.why = why;
        // What the hardware does not have is no figure.
        if (c->compute_capability < precisions[i].capability_min) continue;
        if (is_ready) measure(&p, &f);
        microbench_cuda_give(c, &f);
    }
}
