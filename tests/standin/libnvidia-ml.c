// SPDX-License-Identifier: Apache-2.0
// A stand-in for the driver's libnvidia-ml.so.1, for tests and demos: plays the machine in the
// folder named by BATCHFIT_STANDIN_MACHINE (doc/formats/machine.md). What the machine does not know
// answers NOT_SUPPORTED; "calls" gives any function another code, or lets it hang. With STANDIN_OLD
// it lacks what drivers before 510 lack, and also the functions that we can do without.
#include <jansson.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// nvmlReturn_t, NVML 13.3.
enum {
    OK = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    LIBRARY_NOT_FOUND = 12,
    VERSION_MISMATCH = 25,
};

#define EXPORT __attribute__((visibility("default")))

// As in the driver's own, every nvmlInit_v2 that succeeded asks for a nvmlShutdown, from any
// thread.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;
static json_t *machine;

// What is noted for this call of this card (or of the machine, without a card).
static int play(const json_t *object, const char *function) {
    const json_t *call = json_object_get(json_object_get(object, "calls"), function);
    int64_t ms = json_integer_value(json_object_get(call, "hang_ms"));
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    while (ms > 0 && nanosleep(&pause, &pause)) {
    }
    return (int)json_integer_value(json_object_get(call, "code"));
}

static int put_text(const json_t *object, const char *key, char *text, unsigned size) {
    const char *value = json_string_value(json_object_get(object, key));
    if (!value) return NOT_SUPPORTED;
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(text, value);
    return OK;
}

EXPORT const char *batchfit_standin(void);
EXPORT const char *batchfit_standin(void) {
    static char text[600];
    const char *folder = getenv("BATCHFIT_STANDIN_MACHINE");
    const char *name = folder ? strrchr(folder, '/') : NULL;
    snprintf(text, sizeof text, "stand-in driver, plays the machine \"%.500s\"",
             name     ? name + 1
             : folder ? folder
                      : "");
    return text;
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void) {
    const char *folder = getenv("BATCHFIT_STANDIN_MACHINE");
    char path[4096];
    snprintf(path, sizeof path, "%s/devices.json", folder ? folder : "");
    json_t *loaded = json_load_file(path, 0, NULL);
    int code = loaded ? play(loaded, "nvmlInit_v2") : LIBRARY_NOT_FOUND;
    pthread_mutex_lock(&lock);
    if (!code && users++ == 0) {
        machine = loaded;
        loaded = NULL;
    }
    pthread_mutex_unlock(&lock);
    json_decref(loaded);
    return code;
}

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void) {
    pthread_mutex_lock(&lock);
    int code = users > 0 ? OK : UNINITIALIZED;
    if (users > 0 && --users == 0) {
        json_decref(machine);
        machine = NULL;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count) {
    if (!machine) return UNINITIALIZED;
    *count = (unsigned)json_array_size(json_object_get(machine, "devices"));
    return play(machine, "nvmlDeviceGetCount_v2");
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, json_t **device);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, json_t **device) {
    if (!machine) return UNINITIALIZED;
    *device = json_array_get(json_object_get(machine, "devices"), index);
    return *device ? play(*device, "nvmlDeviceGetHandleByIndex_v2") : INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetName(const json_t *device, char *text, unsigned size);
EXPORT int nvmlDeviceGetName(const json_t *device, char *text, unsigned size) {
    int code = play(device, "nvmlDeviceGetName");
    return code ? code : put_text(device, "name", text, size);
}

static int bytes_of(const json_t *device, const char *key, uint64_t *ret_bytes) {
    const json_t *bytes = json_object_get(json_object_get(device, "memory"), key);
    *ret_bytes = (uint64_t)json_integer_value(bytes);
    return json_is_integer(bytes) ? OK : NOT_SUPPORTED;
}

struct memory_v1 {
    uint64_t total, free, used;
};

EXPORT int nvmlDeviceGetMemoryInfo(const json_t *device, struct memory_v1 *memory);
EXPORT int nvmlDeviceGetMemoryInfo(const json_t *device, struct memory_v1 *memory) {
    int code = play(device, "nvmlDeviceGetMemoryInfo");
    uint64_t reserved;
    if (!code) code = bytes_of(device, "total_bytes", &memory->total);
    if (!code) code = bytes_of(device, "free_bytes", &memory->free);
    if (!code) code = bytes_of(device, "used_bytes", &memory->used);
    bytes_of(device, "reserved_bytes", &reserved);
    memory->used += reserved;
    return code;
}

#ifndef STANDIN_OLD
struct memory_v2 {
    uint32_t version;
    uint64_t total, reserved, free, used;
};

EXPORT int nvmlDeviceGetMemoryInfo_v2(const json_t *device, struct memory_v2 *memory);
EXPORT int nvmlDeviceGetMemoryInfo_v2(const json_t *device, struct memory_v2 *memory) {
    if (memory->version != 0x02000028) return VERSION_MISMATCH;
    int code = play(device, "nvmlDeviceGetMemoryInfo_v2");
    if (!code) code = bytes_of(device, "total_bytes", &memory->total);
    if (!code) code = bytes_of(device, "reserved_bytes", &memory->reserved);
    if (!code) code = bytes_of(device, "free_bytes", &memory->free);
    if (!code) code = bytes_of(device, "used_bytes", &memory->used);
    return code;
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned size);
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    if (!machine) return UNINITIALIZED;
    return put_text(machine, "driver_version", text, size);
}

EXPORT int nvmlDeviceGetUUID(const json_t *device, char *text, unsigned size);
EXPORT int nvmlDeviceGetUUID(const json_t *device, char *text, unsigned size) {
    return put_text(device, "uuid", text, size);
}

EXPORT int nvmlDeviceGetMigMode(const json_t *device, unsigned *now, unsigned *pending);
EXPORT int nvmlDeviceGetMigMode(const json_t *device, unsigned *now, unsigned *pending) {
    *now = *pending = json_object_get(device, "mig") ? 1 : 0;
    return *now ? OK : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(const json_t *device, unsigned *count);
EXPORT int nvmlDeviceGetMaxMigDeviceCount(const json_t *device, unsigned *count) {
    *count = json_object_get(device, "mig") ? 7 : 0;
    return OK;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(const json_t *device, unsigned index, json_t **ret);
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(const json_t *device, unsigned index, json_t **ret) {
    *ret = json_array_get(json_object_get(device, "mig"), index);
    return *ret ? OK : NOT_FOUND;
}
#endif
