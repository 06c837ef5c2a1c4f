// SPDX-License-Identifier: Apache-2.0
// A fake for the driver's libnvidia-ml.so.1, for tests and demos: plays the machine in the
// folder named by BATCHFIT_STANDIN_MACHINE (doc/formats/machine.md), its "samples" from the moment
// of nvmlInit_v2. What the machine does not know answers NOT_SUPPORTED; "calls" gives any function
// another code, or lets it hang. The file named by BATCHFIT_STANDIN_USED holds a number of bytes
// that a fake trainer "uses" of the first GPU now, on top of what the machine says; it is read
// again at each question. With STANDIN_OLD the library lacks what drivers before 510 lack, and also
// the functions that we can do without.
#include "nvml.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// As in the driver's own, every nvmlInit_v2 that succeeded asks for a nvmlShutdown, from any
// thread.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;
static json_t *machine;
static struct timespec begin; // of the first init

static int64_t elapsed_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - begin.tv_sec) * (int64_t)1000 + (now.tv_nsec - begin.tv_nsec) / 1000000;
}

const json_t *standin_machine(void) {
    return machine;
}

const json_t *standin_newest(const json_t *device, const char *group, const char *key) {
    const json_t *now = json_object_get(device, group);
    const json_t *samples = json_object_get(device, "samples");
    int64_t repeat_ms = json_integer_value(json_object_get(device, "repeat_ms"));
    int64_t now_ms = repeat_ms > 0 ? elapsed_ms() % repeat_ms : elapsed_ms();
    for (size_t i = json_array_size(samples); i-- > 0;) {
        const json_t *sample = json_array_get(samples, i);
        const json_t *value = json_object_get(sample, group);
        if (key) value = json_object_get(value, key);
        if (value && json_integer_value(json_object_get(sample, "at_ms")) <= now_ms) return value;
    }
    return key ? json_object_get(now, key) : now;
}

const json_t *standin_value(const json_t *device, const char *group, const char *key) {
    const json_t *value = standin_newest(device, group, key);
    return json_is_integer(value) ? value : NULL;
}

int standin_number(const json_t *device, const char *group, const char *key, int64_t *ret) {
    const json_t *value = standin_value(device, group, key);
    double rate = json_number_value(json_object_get(json_object_get(device, "per_second"), key));
    int64_t now_ms = elapsed_ms(),
            repeat_ms = json_integer_value(json_object_get(device, "repeat_ms"));
    int64_t round = repeat_ms > 0 ? now_ms / repeat_ms : 0;
    int64_t more = json_integer_value(json_object_get(json_object_get(device, "per_round"), key));
    *ret = json_integer_value(value) + (int64_t)(rate * (double)now_ms / 1000) + more * round;
    return value ? OK : NOT_SUPPORTED;
}

const json_t *standin_card(const json_t *instance) {
    const json_t *card, *other;
    size_t i, j;
    json_array_foreach(json_object_get(machine, "devices"), i, card) {
        json_array_foreach(json_object_get(card, "mig"), j, other) {
            if (other == instance) return card;
        }
    }
    return NULL;
}

static int answer(const json_t *call) {
    int64_t ms = json_integer_value(json_object_get(call, "hang_ms"));
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    while (ms > 0 && nanosleep(&pause, &pause)) {
    }
    return (int)json_integer_value(json_object_get(call, "code"));
}

// "*" stands for all functions of a GPU and its instances.
int standin_play(const json_t *object, const char *function) {
    const json_t *calls = standin_newest(object, "calls", NULL);
    const json_t *call = json_object_get(calls, function);
    const json_t *card = call || object == machine ? NULL : standin_card(object);
    if (!call) call = json_object_get(calls, "*");
    if (!call && card) call = json_object_get(standin_newest(card, "calls", NULL), "*");
    return answer(call);
}

int standin_text(const json_t *object, const char *key, char *text, unsigned size) {
    const char *value = json_string_value(json_object_get(object, key));
    if (!value) return NOT_SUPPORTED;
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(text, value);
    return OK;
}

EXPORT const char *batchfit_standin(void);
EXPORT const char *batchfit_standin(void) {
    static _Thread_local char text[600];
    const char *folder = getenv("BATCHFIT_STANDIN_MACHINE");
    const char *name = folder ? strrchr(folder, '/') : NULL;
    snprintf(text, sizeof text, "fake driver, plays the machine \"%.500s\"",
             name     ? name + 1
             : folder ? folder
                      : "");
    return text;
}

// The folder whose proc and sys are those of the played machine.
EXPORT const char *batchfit_standin_root(void);
EXPORT const char *batchfit_standin_root(void) {
    const char *folder = getenv("BATCHFIT_STANDIN_MACHINE");
    return folder ? folder : "";
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void) {
    const char *folder = getenv("BATCHFIT_STANDIN_MACHINE");
    char path[4096];
    snprintf(path, sizeof path, "%s/devices.json", folder ? folder : "");
    json_t *loaded = json_load_file(path, 0, NULL);
    // Of a machine that has not begun.
    const json_t *call = json_object_get(json_object_get(loaded, "calls"), "nvmlInit_v2");
    int code = loaded ? answer(call) : LIBRARY_NOT_FOUND;
    pthread_mutex_lock(&lock);
    if (!code && users++ == 0) {
        machine = loaded;
        loaded = NULL;
        clock_gettime(CLOCK_MONOTONIC, &begin);
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
    return standin_play(machine, "nvmlDeviceGetCount_v2");
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, json_t **device);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, json_t **device) {
    if (!machine) return UNINITIALIZED;
    *device = json_array_get(json_object_get(machine, "devices"), index);
    return *device ? standin_play(*device, "nvmlDeviceGetHandleByIndex_v2") : INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetName(const json_t *device, char *text, unsigned size);
EXPORT int nvmlDeviceGetName(const json_t *device, char *text, unsigned size) {
    int code = standin_play(device, "nvmlDeviceGetName");
    return code ? code : standin_text(device, "name", text, size);
}

static int64_t bytes_of_trainer(const json_t *device) {
    const char *path = getenv("BATCHFIT_STANDIN_USED");
    long long bytes = 0;
    if (!path || device != json_array_get(json_object_get(machine, "devices"), 0)) return 0;
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%lld", &bytes) != 1) bytes = 0;
    if (f) fclose(f);
    return bytes > 0 ? bytes : 0;
}

struct bytes {
    uint64_t total, reserved, free, used;
};

// The trainer's bytes are taken from what is free, and no more than that.
static int read_bytes(const json_t *device, bool wants_reserved, struct bytes *ret) {
    const json_t *total = standin_value(device, "memory", "total_bytes");
    const json_t *unused = standin_value(device, "memory", "free_bytes");
    const json_t *used = standin_value(device, "memory", "used_bytes");
    const json_t *reserved = standin_value(device, "memory", "reserved_bytes");
    if (!total || !unused || !used || (wants_reserved && !reserved)) return NOT_SUPPORTED;
    int64_t trainer = bytes_of_trainer(device), room = json_integer_value(unused);
    if (trainer > room) trainer = room;
    ret->total = (uint64_t)json_integer_value(total);
    ret->reserved = (uint64_t)json_integer_value(reserved);
    ret->used = (uint64_t)(json_integer_value(used) + trainer);
    ret->free = (uint64_t)(room - trainer);
    return OK;
}

struct memory_v1 {
    uint64_t total, free, used;
};

EXPORT int nvmlDeviceGetMemoryInfo(const json_t *device, struct memory_v1 *memory);
EXPORT int nvmlDeviceGetMemoryInfo(const json_t *device, struct memory_v1 *memory) {
    struct bytes bytes = {0};
    int code = standin_play(device, "nvmlDeviceGetMemoryInfo");
    if (!code) code = read_bytes(device, false, &bytes);
    *memory = (struct memory_v1){bytes.total, bytes.free, bytes.used + bytes.reserved};
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
    struct bytes bytes = {0};
    int code = standin_play(device, "nvmlDeviceGetMemoryInfo_v2");
    if (!code) code = read_bytes(device, true, &bytes);
    *memory =
        (struct memory_v2){memory->version, bytes.total, bytes.reserved, bytes.free, bytes.used};
    return code;
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned size);
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    if (!machine) return UNINITIALIZED;
    return standin_text(machine, "driver_version", text, size);
}

EXPORT int nvmlDeviceGetUUID(const json_t *device, char *text, unsigned size);
EXPORT int nvmlDeviceGetUUID(const json_t *device, char *text, unsigned size) {
    return standin_text(device, "uuid", text, size);
}

EXPORT int nvmlDeviceGetMigMode(const json_t *device, unsigned *now, unsigned *pending);
EXPORT int nvmlDeviceGetMigMode(const json_t *device, unsigned *now, unsigned *pending) {
    int64_t mode = 0;
    int code =
        json_object_get(device, "mig") ? OK : standin_number(device, "facts", "mig_mode", &mode);
    *now = *pending = json_object_get(device, "mig") ? 1 : (unsigned)mode;
    return code;
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
