// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs through libnvidia-ml.so.1, which comes with the driver and is loaded when asked for.
// Structs and codes are declared here, after the header of NVML 13.3.29; what an older driver lacks
// switches off one field. Here are the library and the walk over its GPUs; nvml_list.c lists them
// within a deadline, nvml_sample.c reads the gauges of one.
#include "machine/device/nvml_int.h"

#include "base/library.h"
#include "base/os.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

static_assert(sizeof(struct nvml_memory_v1) == 24, "nvmlMemory_t");
static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");
// NVML wants size | version << 24; the bare 2 of its comments is refused.
static const uint32_t memory_v2_version = (uint32_t)sizeof(struct nvml_memory_v2) | 2u << 24;

enum { NAME_SIZE = 96, UUID_SIZE = 96, VERSION_SIZE = 80 }; // NVML's *_BUFFER_SIZE

static const struct library_symbol symbols[] = {
    {"nvmlInit_v2", offsetof(struct nvml_api, init), true},
    {"nvmlShutdown", offsetof(struct nvml_api, shutdown), true},
    {"nvmlDeviceGetCount_v2", offsetof(struct nvml_api, count), true},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct nvml_api, by_index), true},
    {"nvmlDeviceGetName", offsetof(struct nvml_api, name), true},
    {"nvmlSystemGetDriverVersion", offsetof(struct nvml_api, version), false},
    {"nvmlDeviceGetUUID", offsetof(struct nvml_api, uuid), false},
    {"nvmlDeviceGetMemoryInfo_v2", offsetof(struct nvml_api, memory_v2), false},
    {"nvmlDeviceGetMemoryInfo", offsetof(struct nvml_api, memory_v1), false},
    {"nvmlDeviceGetMigMode", offsetof(struct nvml_api, mig_mode), false},
    {"nvmlDeviceGetMaxMigDeviceCount", offsetof(struct nvml_api, mig_max), false},
    {"nvmlDeviceGetMigDeviceHandleByIndex", offsetof(struct nvml_api, mig_by_index), false},
    {"batchfit_standin", offsetof(struct nvml_api, standin), false},
    {"batchfit_standin_root", offsetof(struct nvml_api, standin_root), false},
    {.name = NULL},
};

// The plain name is found by the loader; WSL's folder is not always in its path.
static const char *const libraries[] = {"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1",
                                        NULL};

static int64_t bytes_of(uint64_t n) {
    return n > INT64_MAX ? -1 : (int64_t)n;
}

int device_nvml_memory(const struct nvml *n, struct nvml_handle *handle, struct device *d) {
    const struct nvml_api *api = &n->api;
    struct nvml_memory_v2 v2 = {.version = memory_v2_version};
    struct nvml_memory_v1 v1 = {0};
    d->total_bytes = d->used_bytes = d->reserved_bytes = d->free_bytes = -1;
    int code = api->memory_v2 ? api->memory_v2(handle, &v2) : NVML_NO_FUNCTION;
    if (code == NVML_OK) {
        d->total_bytes = bytes_of(v2.total);
        d->used_bytes = bytes_of(v2.used);
        d->reserved_bytes = bytes_of(v2.reserved);
        d->free_bytes = bytes_of(v2.free);
        return code;
    }
    code = api->memory_v1 ? api->memory_v1(handle, &v1) : NVML_NO_FUNCTION;
    if (code == NVML_OK) {
        d->total_bytes = bytes_of(v1.total);
        d->used_bytes = bytes_of(v1.used);
        d->free_bytes = bytes_of(v1.free);
    }
    return code;
}

static int add_device(struct arena *a, const struct nvml *n, struct nvml_place place, int index,
                      struct nvml_devices *devices) {
    struct device d = {.index = index, .is_mig = place.parent != NULL};
    struct nvml_handle *handle = place.handle;
    char name[NAME_SIZE + 1] = "", uuid[UUID_SIZE + 1] = "";
    int code = n->api.name(handle, name, NAME_SIZE);
    if (code) return code;
    if (n->api.uuid && n->api.uuid(handle, uuid, UUID_SIZE)) uuid[0] = 0;
    if (device_nvml_memory(n, handle, &d) == NVML_LOST) return NVML_LOST;
    d.name = str_copy(a, str_of(name));
    d.uuid = str_copy(a, str_of(uuid));
    struct device_list *list = &devices->list;
    *arena_push(a, &list->items, &list->count, &list->capacity) = d;
    *arena_push(a, &devices->places, &devices->place_count, &devices->place_capacity) = place;
    return NVML_OK;
}

static bool is_divided(const struct nvml *n, struct nvml_handle *handle) {
    unsigned now = 0, pending = 0;
    return n->api.mig_mode && n->api.mig_max && n->api.mig_by_index &&
           n->api.mig_mode(handle, &now, &pending) == NVML_OK && now == 1;
}

static void add_instances(struct arena *a, const struct nvml *n, struct nvml_handle *card,
                          int index, struct nvml_devices *devices) {
    unsigned max = 0, found = 0;
    if (n->api.mig_max(card, &max)) max = 0;
    for (unsigned i = 0; i < max; i++) {
        struct nvml_handle *instance = NULL;
        if (n->api.mig_by_index(card, i, &instance)) continue; // a free slot
        found++;
        int code = add_device(a, n, (struct nvml_place){instance, card}, index, devices);
        if (code) device_leave_out(a, &devices->list, index, device_code_text(a, code));
    }
    if (!found)
        device_leave_out(a, &devices->list, index, STR("MIG is on, but there are no instances"));
}

static void add_card(struct arena *a, const struct nvml *n, unsigned index,
                     struct nvml_devices *devices) {
    struct nvml_handle *handle = NULL;
    int code = n->api.by_index(index, &handle);
    if (!code && is_divided(n, handle)) {
        add_instances(a, n, handle, (int)index, devices);
        return;
    }
    if (!code) code = add_device(a, n, (struct nvml_place){handle, NULL}, (int)index, devices);
    if (code) device_leave_out(a, &devices->list, (int)index, device_code_text(a, code));
}

int device_nvml_load(struct nvml *n) {
    n->library = library_open(libraries);
    if (!n->library) return NVML_NO_LIBRARY;
    return library_find(n->library, symbols, &n->api) ? NVML_NO_FUNCTION : NVML_OK;
}

int device_nvml_start(struct nvml *n) {
    int code = n->api.init();
    n->is_started = code == NVML_OK;
    return code;
}

int device_nvml_find(struct arena *a, const struct nvml *n, struct nvml_devices *devices) {
    char version[VERSION_SIZE + 1] = "";
    if (n->api.version && n->api.version(version, VERSION_SIZE)) version[0] = 0;
    devices->list.driver_version = str_copy(a, str_of(version));
    unsigned count = 0;
    int code = n->api.count(&count);
    for (unsigned i = 0; !code && i < count; i++) add_card(a, n, i, devices);
    return code;
}

void device_nvml_close(struct nvml *n) {
    // Without this a laptop's GPU would stay awake as long as we run.
    if (n->is_started) n->api.shutdown();
    if (n->library) dlclose(n->library);
    *n = (struct nvml){0};
}

// In a container /proc shows the host's kernel.
static bool has_kernel_part(void) {
    return os_exists("/proc/driver/nvidia/version");
}

bool device_nvml_is_absent(const struct nvml *n, int code) {
    return code == NVML_NO_LIBRARY && (n->library || !has_kernel_part());
}

struct str device_nvml_why(struct arena *a, const struct nvml *n, int code) {
    if (!n->library && has_kernel_part()) { // the usual mistake in containers
        return STR(
            "this machine has an NVIDIA driver, but its library (libnvidia-ml.so.1) was not found: "
            "start the container with --gpus all, or install the driver's user-space part");
    }
    return device_code_text(a, code);
}

nvml_call device_nvml_symbol(const struct nvml *n, const char *symbol) {
    nvml_call call;
    void *address = library_address(n->library, symbol);
    memcpy(&call, &address, sizeof call);
    return call;
}
