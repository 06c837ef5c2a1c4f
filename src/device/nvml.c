// SPDX-License-Identifier: Apache-2.0
// NVIDIA cards through libnvidia-ml.so.1, which comes with the driver and is loaded when asked for.
// Structs and codes are declared here, after the header of NVML 13.3.29; what an older driver lacks
// switches off one field. A driver with a hanging card can block for minutes, so all of the talk is
// done by a thread of its own that is left behind when it is late.
#include "device/device_int.h"

#include "base/os.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct handle; // nvmlDevice_t

struct memory_v1 {
    uint64_t total, free, used; // used includes what the driver reserves
};
struct memory_v2 {
    uint32_t version;
    uint64_t total, reserved, free, used;
};
static_assert(sizeof(struct memory_v1) == 24, "nvmlMemory_t");
static_assert(sizeof(struct memory_v2) == 40, "nvmlMemory_v2_t");
// NVML wants size | version << 24; the bare 2 of its comments is refused.
static const uint32_t memory_v2_version = (uint32_t)sizeof(struct memory_v2) | 2u << 24;

enum { NAME_SIZE = 96, UUID_SIZE = 96, VERSION_SIZE = 80 }; // NVML's *_BUFFER_SIZE

struct api {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, struct handle **device);
    int (*name)(struct handle *device, char *text, unsigned size);
    int (*version)(char *text, unsigned size);
    int (*uuid)(struct handle *device, char *text, unsigned size);
    int (*memory_v2)(struct handle *device, struct memory_v2 *memory);
    int (*memory_v1)(struct handle *device, struct memory_v1 *memory);
    int (*mig_mode)(struct handle *device, unsigned *now, unsigned *pending);
    int (*mig_max)(struct handle *device, unsigned *count);
    int (*mig_by_index)(struct handle *device, unsigned index, struct handle **instance);
    const char *(*standin)(void); // only our stand-in driver has it
};

static const struct symbol {
    const char *name;
    size_t offset;
    bool is_required;
} symbols[] = {
    {"nvmlInit_v2", offsetof(struct api, init), true},
    {"nvmlShutdown", offsetof(struct api, shutdown), true},
    {"nvmlDeviceGetCount_v2", offsetof(struct api, count), true},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct api, by_index), true},
    {"nvmlDeviceGetName", offsetof(struct api, name), true},
    {"nvmlSystemGetDriverVersion", offsetof(struct api, version), false},
    {"nvmlDeviceGetUUID", offsetof(struct api, uuid), false},
    {"nvmlDeviceGetMemoryInfo_v2", offsetof(struct api, memory_v2), false},
    {"nvmlDeviceGetMemoryInfo", offsetof(struct api, memory_v1), false},
    {"nvmlDeviceGetMigMode", offsetof(struct api, mig_mode), false},
    {"nvmlDeviceGetMaxMigDeviceCount", offsetof(struct api, mig_max), false},
    {"nvmlDeviceGetMigDeviceHandleByIndex", offsetof(struct api, mig_by_index), false},
    {"batchfit_standin", offsetof(struct api, standin), false},
};

// The plain name is found by the loader; WSL's folder is not always in its path.
static const char *const libraries[] = {"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"};

static void close_library(void *const *library) {
    if (*library) dlclose(*library);
}
#define LIBRARY_AUTO __attribute__((cleanup(close_library))) void

static void *open_library(void) {
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    return NULL;
}

static int load(void *library, struct api *api) {
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address && symbols[i].is_required) return NVML_NO_FUNCTION;
        memcpy((char *)api + symbols[i].offset, &address, sizeof address);
    }
    return NVML_OK;
}

static int64_t bytes_of(uint64_t n) {
    return n > INT64_MAX ? -1 : (int64_t)n;
}

static int read_memory(const struct api *api, struct handle *handle, struct device *d) {
    struct memory_v2 v2 = {.version = memory_v2_version};
    struct memory_v1 v1 = {0};
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

static int add_device(struct arena *a, const struct api *api, struct handle *handle, int index,
                      bool is_mig, struct device_list *list) {
    struct device d = {.index = index, .is_mig = is_mig};
    char name[NAME_SIZE + 1] = "", uuid[UUID_SIZE + 1] = "";
    int code = api->name(handle, name, NAME_SIZE);
    if (code) return code;
    if (api->uuid && api->uuid(handle, uuid, UUID_SIZE)) uuid[0] = 0;
    if (read_memory(api, handle, &d) == NVML_LOST) return NVML_LOST;
    d.name = str_copy(a, str_of(name));
    d.uuid = str_copy(a, str_of(uuid));
    *arena_push(a, &list->items, &list->count, &list->capacity) = d;
    return NVML_OK;
}

static bool is_divided(const struct api *api, struct handle *handle) {
    unsigned now = 0, pending = 0;
    return api->mig_mode && api->mig_max && api->mig_by_index &&
           api->mig_mode(handle, &now, &pending) == NVML_OK && now == 1;
}

static void add_instances(struct arena *a, const struct api *api, struct handle *card, int index,
                          struct device_list *list) {
    unsigned max = 0, found = 0;
    if (api->mig_max(card, &max)) max = 0;
    for (unsigned i = 0; i < max; i++) {
        struct handle *instance = NULL;
        if (api->mig_by_index(card, i, &instance)) continue; // a free slot
        found++;
        int code = add_device(a, api, instance, index, true, list);
        if (code) device_leave_out(a, list, index, device_code_text(a, code));
    }
    if (!found) device_leave_out(a, list, index, STR("MIG is on, but it has no instance"));
}

static void add_card(struct arena *a, const struct api *api, unsigned index,
                     struct device_list *list) {
    struct handle *handle = NULL;
    int code = api->by_index(index, &handle);
    if (!code && is_divided(api, handle)) {
        add_instances(a, api, handle, (int)index, list);
        return;
    }
    if (!code) code = add_device(a, api, handle, (int)index, false, list);
    if (code) device_leave_out(a, list, (int)index, device_code_text(a, code));
}

// What the asking thread and the caller share. Whoever is later frees it. The list is the
// thread's until is_done; only its label may be read before, under the lock.
struct job {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_done, is_abandoned;
    struct arena arena;
    struct device_list list;
};

static void label(struct job *job, const char *text) {
    pthread_mutex_lock(&job->lock);
    job->list.standin = str_copy(&job->arena, str_of(text));
    pthread_mutex_unlock(&job->lock);
}

static int ask(struct job *job, const struct api *api) {
    if (api->standin) label(job, api->standin());
    int code = api->init();
    if (code) return code;
    char version[VERSION_SIZE + 1] = "";
    if (api->version && api->version(version, VERSION_SIZE)) version[0] = 0;
    job->list.driver_version = str_copy(&job->arena, str_of(version));
    unsigned count = 0;
    code = api->count(&count);
    for (unsigned i = 0; !code && i < count; i++) add_card(&job->arena, api, i, &job->list);
    // Without this a laptop's card would stay awake as long as we run.
    api->shutdown();
    return code;
}

static void list_now(struct job *job) {
    LIBRARY_AUTO *library = open_library();
    struct api api = {0};
    int code = library ? load(library, &api) : NVML_NO_LIBRARY;
    if (!code) code = ask(job, &api);
    if (code) job->list.why_none = device_code_text(&job->arena, code);
    // The usual mistake in containers; /proc shows the host's kernel.
    if (!library && os_exists("/proc/driver/nvidia/version")) {
        job->list.why_none = STR("this machine has an NVIDIA driver, but its library "
                                 "(libnvidia-ml.so.1) is not to be found: start the container "
                                 "with --gpus all, or install the driver's user part");
    }
}

static struct job *job_new(void) {
    struct job *job = calloc(1, sizeof *job);
    pthread_condattr_t monotonic;
    if (!job) return NULL;
    pthread_mutex_init(&job->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&job->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return job;
}

static void job_drop(struct job *job) {
    pthread_cond_destroy(&job->ended);
    pthread_mutex_destroy(&job->lock);
    arena_clear(&job->arena);
    free(job);
}

static void *job_run(void *argument) {
    struct job *job = argument;
    list_now(job);
    pthread_mutex_lock(&job->lock);
    bool is_abandoned = job->is_abandoned;
    job->is_done = true;
    pthread_cond_signal(&job->ended);
    pthread_mutex_unlock(&job->lock);
    if (is_abandoned) job_drop(job);
    return NULL;
}

// False: the system gives no thread. Signals stay with the caller's threads.
static bool job_start(struct job *job) {
    pthread_attr_t detached;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, &detached, job_run, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return !failed;
}

static void copy_list(struct arena *a, const struct device_list *from, struct device_list *list) {
    list->driver_version = str_copy(a, from->driver_version);
    list->why_none = str_copy(a, from->why_none);
    list->left_out = str_copy(a, from->left_out);
    for (ptrdiff_t i = 0; i < from->count; i++) {
        struct device d = from->items[i];
        d.name = str_copy(a, d.name);
        d.uuid = str_copy(a, d.uuid);
        *arena_push(a, &list->items, &list->count, &list->capacity) = d;
    }
}

// False: the thread was late and owns the job from now on.
static bool job_wait(struct job *job, int deadline_ms, struct arena *a, struct device_list *list) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t ns = end.tv_nsec + deadline_ms * (int64_t)1000000;
    end.tv_sec += (time_t)(ns / 1000000000);
    end.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&job->lock);
    int late = 0;
    while (!job->is_done && !late) late = pthread_cond_timedwait(&job->ended, &job->lock, &end);
    bool is_done = job->is_done;
    job->is_abandoned = !is_done;
    list->standin = str_copy(a, job->list.standin);
    if (is_done) copy_list(a, &job->list, list);
    pthread_mutex_unlock(&job->lock);
    return is_done;
}

void device_nvml_list_within(struct arena *a, int deadline_ms, struct device_list *list) {
    struct job *job = job_new();
    if (!job || !job_start(job)) {
        if (job) job_drop(job);
        list->why_none = STR("the system gives no thread to ask the NVIDIA driver with");
    } else if (job_wait(job, deadline_ms, a, list)) {
        job_drop(job);
    } else {
        list->why_none = device_code_text(a, NVML_TIMEOUT);
    }
}

int device_nvml_list(struct arena *a, const char *machine, struct device_list *list,
                     struct fail *why) {
    (void)machine;
    (void)why;
    device_nvml_list_within(a, DEVICE_DEADLINE_MS, list);
    return 0;
}
