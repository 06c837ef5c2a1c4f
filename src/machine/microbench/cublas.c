// SPDX-License-Identifier: Apache-2.0
// cuBLAS, of the system or of the user's PyTorch (its wheels for CUDA 11 have it in torch/lib,
// later ones in nvidia/cublas/lib, those for CUDA 13 in nvidia/cu13/lib). One of the driver's own
// major version is preferred; a newer one would not start.
#include "machine/microbench/microbench_int.h"

#include <dlfcn.h>
#include <stdio.h>

static const struct version {
    int major;
    const char *light, *name; // the light one is loaded first: the other needs it
} versions[] = {
    {13, "libcublasLt.so.13", "libcublas.so.13"},
    {12, "libcublasLt.so.12", "libcublas.so.12"},
    {11, "libcublasLt.so.11", "libcublas.so.11"},
};

static void *open_in(const char *folder, const struct version *v) {
    char path[4096];
    const char *slash = *folder ? "/" : "";
    snprintf(path, sizeof path, "%s%s%s", folder, slash, v->light);
    dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    snprintf(path, sizeof path, "%s%s%s", folder, slash, v->name);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_version(struct cuda *c, const struct version *v, struct str folders) {
    void *library = open_in("", v);
    while (!library && folders.p) {
        struct str folder = str_cut(&folders, ':');
        if (folder.len > 0) library = open_in(str_z(c->arena, folder), v);
    }
    return library;
}

static bool find_symbols(struct cublas_api *api, void *library) {
    *(void **)&api->create = dlsym(library, "cublasCreate_v2");
    *(void **)&api->set_stream = dlsym(library, "cublasSetStream_v2");
    *(void **)&api->gemm = dlsym(library, "cublasGemmEx");
    *(void **)&api->version = dlsym(library, "cublasGetVersion_v2");
    *(void **)&api->standin = dlsym(library, "batchfit_standin");
    return api->create && api->set_stream && api->gemm;
}

static void name_it(struct cuda *c) {
    Dl_info info;
    int version = 0;
    bool has_path = dladdr(*(void **)&c->blas_api.gemm, &info) && info.dli_fname;
    if (c->blas_api.version) c->blas_api.version(c->blas, &version);
    c->blas_path = str_format(c->arena, "%s%s", has_path ? info.dli_fname : "cuBLAS",
                              c->blas_api.standin ? " (fake)" : "");
    if (version > 0) {
        // 12.8.4 is 120804 from 12 on, 11.10.3 is 111003.
        c->blas_path = str_format(c->arena, "%.*s, version %d.%d", STR_ARG(c->blas_path),
                                  version / 10000, version / 100 % 100);
    }
}

bool microbench_cublas_load(struct cuda *c, struct str folders, struct str *ret_why) {
    void *library = NULL;
    int major = c->driver_version / 1000, code;
    for (size_t i = 0; i < sizeof versions / sizeof *versions && !library; i++) {
        if (versions[i].major <= major) library = open_version(c, &versions[i], folders);
    }
    if (!library) {
        *ret_why = str_format(c->arena,
                              "no cuBLAS for CUDA %d or older was found by the loader or in the "
                              "Python's PyTorch (--python names another)",
                              major);
        return false;
    }
    if (!find_symbols(&c->blas_api, library)) {
        *ret_why = STR("the cuBLAS that was found lacks cublasGemmEx");
        return false;
    }
    code = c->blas_api.create(&c->blas);
    if (code == 0) code = c->blas_api.set_stream(c->blas, c->streams[0]);
    if (code != 0) {
        *ret_why = str_format(c->arena, "cuBLAS does not start: status %d", code);
        return false;
    }
    name_it(c);
    return true;
}
