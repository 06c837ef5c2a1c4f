// SPDX-License-Identifier: Apache-2.0
// The fake driver's texts, processes and events.
#include "nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pci {
    char legacy[16];
    uint32_t domain, bus, device, id, subsystem;
    char bus_id[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(const json_t *device, struct pci *pci);
EXPORT int nvmlDeviceGetPciInfo_v3(const json_t *device, struct pci *pci) {
    int code = standin_play(device, "nvmlDeviceGetPciInfo_v3");
    memset(pci, 0, sizeof *pci);
    return code ? code
                : standin_text(json_object_get(device, "facts"), "pci_bus_id", pci->bus_id,
                               sizeof pci->bus_id);
}

EXPORT int nvmlDeviceGetVbiosVersion(const json_t *device, char *text, unsigned size);
EXPORT int nvmlDeviceGetVbiosVersion(const json_t *device, char *text, unsigned size) {
    int code = standin_play(device, "nvmlDeviceGetVbiosVersion");
    return code ? code : standin_text(json_object_get(device, "facts"), "vbios", text, size);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version);
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    const char *text = json_string_value(json_object_get(standin_machine(), "cuda_version"));
    int major = 0, minor = 0;
    if (!text || sscanf(text, "%d.%d", &major, &minor) != 2) return NOT_SUPPORTED;
    *version = 1000 * major + 10 * minor;
    return OK;
}

// The list of now: the last sample's that mentions one, else the GPU's own.
static const json_t *processes_of(const json_t *device) {
    const json_t *list = standin_newest(device, "processes", NULL);
    return json_is_array(list) ? list : NULL;
}

static bool is_of_kind(const json_t *process, const char *kind) {
    const char *kinds = json_string_value(json_object_get(process, "type"));
    return strstr(kinds ? kinds : "compute", kind) != NULL;
}

// An entry as the driver's version has it: pid, bytes, and what comes after them.
static void put(const json_t *process, char *entry, size_t bytes) {
    uint32_t pid = (uint32_t)json_integer_value(json_object_get(process, "pid"));
    const json_t *used = json_object_get(process, "used_bytes");
    uint64_t n = json_is_integer(used) ? (uint64_t)json_integer_value(used) : UINT64_MAX;
    memset(entry, 0xff, bytes);
    memcpy(entry, &pid, sizeof pid);
    memcpy(entry + 8, &n, sizeof n);
}

static int list(const json_t *device, const char *function, const char *kind, size_t bytes,
                unsigned *count, char *entries) {
    int code = standin_play(device, function);
    const json_t *process, *all = processes_of(device);
    unsigned found = 0, room = *count;
    size_t i;
    if (code || !all) return code ? code : NOT_SUPPORTED;
    json_array_foreach(all, i, process) {
        if (!is_of_kind(process, kind)) continue;
        if (found < room) put(process, entries + found * bytes, bytes);
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}

#define LIST(function, kind, bytes)                                             \
    EXPORT int function(const json_t *device, unsigned *count, char *entries);  \
    EXPORT int function(const json_t *device, unsigned *count, char *entries) { \
        return list(device, #function, kind, bytes, count, entries);            \
    }
LIST(nvmlDeviceGetComputeRunningProcesses, "compute", 16)
LIST(nvmlDeviceGetGraphicsRunningProcesses, "graphics", 16)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, "mps", 16)

#ifndef STANDIN_OLD
// 24 bytes, except where the machine plays a driver of 530 to 535.86.
static size_t entry_bytes(void) {
    int64_t bytes = json_integer_value(json_object_get(standin_machine(), "process_bytes"));
    return bytes >= 24 && bytes <= 32 ? (size_t)bytes : 24;
}
LIST(nvmlDeviceGetComputeRunningProcesses_v3, "compute", entry_bytes())
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", entry_bytes())
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps", entry_bytes())
#endif

#ifndef STANDIN_OLD
struct use {
    uint32_t pid;
    uint64_t at_us;
    uint32_t sm, memory, encoder, decoder;
};
EXPORT int nvmlDeviceGetProcessUtilization(const json_t *device, struct use *uses, unsigned *count,
                                           unsigned long long since_us);
EXPORT int nvmlDeviceGetProcessUtilization(const json_t *device, struct use *uses, unsigned *count,
                                           unsigned long long since_us) {
    int code = standin_play(device, "nvmlDeviceGetProcessUtilization");
    const json_t *process, *all = processes_of(device);
    unsigned found = 0;
    bool is_told = false;
    size_t i;
    json_array_foreach(all, i, process) {
        const json_t *sm = json_object_get(process, "sm_util");
        is_told |= sm != NULL;
        if (!json_integer_value(sm) || found == *count) continue; // an idle one has no sample
        uses[found++] = (struct use){
            .pid = (uint32_t)json_integer_value(json_object_get(process, "pid")),
            .at_us = since_us + 1,
            .sm = (uint32_t)json_integer_value(sm),
        };
    }
    *count = found;
    return code ? code : !is_told ? NOT_SUPPORTED : found ? OK : NOT_FOUND;
}
#endif

static const json_t *find_process(const json_t *device, unsigned pid) {
    const json_t *process, *instance;
    size_t i;
    json_array_foreach(json_object_get(device, "processes"), i, process) {
        if (json_integer_value(json_object_get(process, "pid")) == pid) return process;
    }
    json_array_foreach(json_object_get(device, "mig"), i, instance) {
        process = find_process(instance, pid);
        if (process) return process;
    }
    return NULL;
}

EXPORT int nvmlSystemGetProcessName(unsigned pid, char *text, unsigned size);
EXPORT int nvmlSystemGetProcessName(unsigned pid, char *text, unsigned size) {
    const json_t *device;
    size_t i;
    json_array_foreach(json_object_get(standin_machine(), "devices"), i, device) {
        const json_t *process = find_process(device, pid);
        const char *name = json_string_value(json_object_get(process, "name"));
        if (!name) continue;
        snprintf(text, size, "/usr/bin/%s --option", name); // as the driver tells it
        return OK;
    }
    return NOT_FOUND;
}

// One GPU's errors; told once each.
struct event_set {
    const json_t *device;
    int64_t told;
};
struct event {
    const json_t *device;
    uint64_t type, data;
    uint32_t instances[2];
};
enum { EVENT_XID = 8 };

EXPORT int nvmlEventSetCreate(struct event_set **set);
EXPORT int nvmlEventSetCreate(struct event_set **set) {
    *set = calloc(1, sizeof **set);
    return OK;
}

EXPORT int nvmlEventSetFree(struct event_set *set);
EXPORT int nvmlEventSetFree(struct event_set *set) {
    free(set);
    return OK;
}

EXPORT int nvmlDeviceRegisterEvents(const json_t *device, uint64_t types, struct event_set *set);
EXPORT int nvmlDeviceRegisterEvents(const json_t *device, uint64_t types, struct event_set *set) {
    set->device = device;
    return types == EVENT_XID ? standin_play(device, "nvmlDeviceRegisterEvents") : NOT_SUPPORTED;
}

EXPORT int nvmlEventSetWait_v2(struct event_set *set, struct event *event, unsigned timeout_ms);
EXPORT int nvmlEventSetWait_v2(struct event_set *set, struct event *event, unsigned timeout_ms) {
    int64_t xid = 0;
    (void)timeout_ms;
    standin_number(set->device, "gauges", "xid", &xid);
    if (xid == set->told) return TIMEOUT;
    set->told = xid;
    *event = (struct event){.device = set->device, .type = EVENT_XID, .data = (uint64_t)xid};
    return OK;
}
