// SPDX-License-Identifier: Apache-2.0
// Single precision matrix product on the CPU, through the BLAS that the loader finds: the
// Fortran name, which every one of them has. The result is checked, so that a library that computes
// nothing is not called fast.
#include "machine/microbench/microbench_int.h"

#include "base/os.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const libraries[] = {"libopenblas.so.0", "libblas.so.3", "libmkl_rt.so.2"};

// Reference BLAS 3.x: 32-bit integers; lengths of the two texts are behind the last.
typedef void sgemm(const char *, const char *, const int *, const int *, const int *, const float *,
                   const float *, const int *, const float *, const int *, const float *, float *,
                   const int *, size_t, size_t);

enum { N_LEAST = 256, N_MOST = 4096 };
static const double seconds_most = 0.2; // of one product: sizes grow until then

struct product {
    sgemm *run;
    float *a, *b, *c;
    int n;
};

static double multiply(void *owner) {
    const struct product *p = owner;
    const float one = 1, zero = 0;
    int64_t begin_ns = os_now_ns();
    p->run("N", "N", &p->n, &p->n, &p->n, &one, p->a, &p->n, p->b, &p->n, &zero, p->c, &p->n, 1, 1);
    return (double)(os_now_ns() - begin_ns) / 1e9;
}

static void fill(struct product *p) {
    for (int64_t i = 0; i < (int64_t)p->n * p->n; i++) {
        p->a[i] = (float)microbench_element(0, i);
        p->b[i] = (float)microbench_element(1, i);
        p->c[i] = -1e30f;
    }
}

// The largest size of which a product takes no longer than that, by the one before.
static void grow(struct product *p) {
    for (p->n = N_LEAST;; p->n *= 2) {
        fill(p);
        multiply(p); // the first starts the library's threads
        if (p->n == N_MOST || 8 * multiply(p) > seconds_most) break;
    }
}

static void check(struct arena *a, const struct product *p, struct microbench_figure *f) {
    for (int i = 0; i < MICROBENCH_CHECKS; i++) {
        int64_t row, column;
        microbench_check_place(p->n, i, &row, &column);
        double got = (double)p->c[row + column * p->n],
               wanted = microbench_product(p->n, row, column);
        if (microbench_is_right(got, wanted)) continue;
        f->state = MICROBENCH_WRONG;
        f->why = str_format(a, "element (%lld, %lld) of the product is %g and should be %g",
                            (long long)row, (long long)column, got, wanted);
        return;
    }
}

static struct str name_of(struct arena *a, void *function, const char *library) {
    Dl_info info;
    const char *path = dladdr(function, &info) && info.dli_fname ? info.dli_fname : library;
    return str_format(a, "%s", path);
}

void microbench_blas(struct arena *a, int threads, const struct microbench_sink *sink) {
    struct microbench_figure f = microbench_begin("rate.cpu_sgemm");
    struct product p = {0};
    size_t i = 0;
    char text[16];
    snprintf(text, sizeof text, "%d", threads);
    setenv("OPENBLAS_NUM_THREADS", text, 1); // it reads them when it is loaded
    setenv("OMP_NUM_THREADS", text, 1);
    for (; i < sizeof libraries / sizeof *libraries && !p.run; i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
        if (library) *(void **)&p.run = dlsym(library, "sgemm_");
    }
    if (!p.run) {
        microbench_give_unknown(sink, "rate.cpu_sgemm",
                                STR("no BLAS is installed (Debian, Ubuntu: apt install "
                                    "libopenblas0-pthread)"));
        return;
    }
    p.a = arena_new(a, float, (ptrdiff_t)N_MOST *N_MOST);
    p.b = arena_new(a, float, (ptrdiff_t)N_MOST *N_MOST);
    p.c = arena_new(a, float, (ptrdiff_t)N_MOST *N_MOST);
    grow(&p);
    microbench_repeat(multiply, &p, 2.0 * p.n * p.n * p.n, &f);
    check(a, &p, &f);
    f.how = str_format(a, "%d x %d, %d thread%s, %.*s", p.n, p.n, threads, threads == 1 ? "" : "s",
                       STR_ARG(name_of(a, *(void **)&p.run, libraries[i - 1])));
    microbench_give(sink, &f);
}
