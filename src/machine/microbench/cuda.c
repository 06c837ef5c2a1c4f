// SPDX-License-Identifier: Apache-2.0
// The driver's libcuda.so.1: one table of symbols, by the versioned names that programs are linked
// with, and what a failed call says.
#include "machine/microbench/microbench_int.h"

#include "base/library.h"

#include <stddef.h>

// WSL's folder is not always in the loader's path.
static const char *const libraries[] = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", NULL};

#define AT(member) offsetof(struct cuda_api, member)
static const struct library_symbol symbols[] = {
    {"cuInit", AT(init), true},
    {"cuDriverGetVersion", AT(driver_version), true},
    {"cuDeviceGetCount", AT(count), true},
    {"cuDeviceGet", AT(device), true},
    {"cuDeviceGetAttribute", AT(attribute), true},
    {"cuDevicePrimaryCtxRetain", AT(retain), true},
    {"cuCtxSetCurrent", AT(set_current), true},
    {"cuMemGetInfo_v2", AT(memory), true},
    {"cuMemAlloc_v2", AT(alloc), true},
    {"cuMemFree_v2", AT(free), true},
    {"cuMemHostAlloc", AT(host_alloc), true},
    {"cuMemcpyHtoDAsync_v2", AT(to_device), true},
    {"cuMemcpyDtoHAsync_v2", AT(to_host), true},
    {"cuMemcpyDtoDAsync_v2", AT(on_device), true},
    {"cuMemsetD8_v2", AT(set_bytes), true},
    {"cuStreamCreate", AT(stream_new), true},
    {"cuStreamSynchronize", AT(stream_wait), true},
    {"cuStreamWaitEvent", AT(stream_wait_for), true},
    {"cuEventCreate", AT(event_new), true},
    {"cuEventRecord", AT(event_record), true},
    {"cuEventSynchronize", AT(event_wait), true},
    {"cuEventElapsedTime", AT(event_ms), true},
    {"cuGetErrorString", AT(error_text), false},
    {"batchfit_standin", AT(standin), false},
    {.name = NULL},
};

bool microbench_cuda_load(struct cuda *c) {
    void *library = library_open(libraries);
    if (!library) {
        c->failed = STR("no CUDA driver library (libcuda.so.1) was found");
        return false;
    }
    const char *missing = library_find(library, symbols, &c->api);
    if (missing) {
        c->failed = str_format(c->arena, "libcuda.so.1 has no %s: it is too old", missing);
        return false;
    }
    if (c->api.standin) c->standin = str_copy(c->arena, str_of(c->api.standin()));
    return true;
}

bool microbench_cuda_did(struct cuda *c, int code, const char *what) {
    const char *text = NULL;
    if (code == CUDA_OK) return true;
    if (c->failed.len > 0) return false;
    if (c->api.error_text) c->api.error_text(code, &text);
    c->failed = str_format(c->arena, "%s failed with CUDA error %d%s%s", what, code,
                           text ? ", " : "", text ? text : "");
    return false;
}

void microbench_cuda_give(struct cuda *c, struct microbench_figure *f) {
    f->standin = c->standin;
    microbench_give(c->sink, f);
}
