// SPDX-License-Identifier: Apache-2.0
// Whose programs are on a GPU. The list has three calls and three layouts; drivers 530 to 535.86
// answer nvmlDeviceGet…RunningProcesses_v3 with entries that are 8 bytes longer than all others
// (nvmlProcessInfo_v3_t of CUDA 12.1 to 12.2), so the version decides, and without one the
// functions that came and went with that layout.
#include "machine/device/nvml_int.h"

#include "base/os.h"
#include "base/out.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The beginning of every layout: 16 bytes before _v2, then 24 with the instances, or 32.
struct entry {
    uint32_t pid;
    uint64_t used_bytes; // 2^64-1: not told
};
static_assert(sizeof(struct entry) == 16, "nvmlProcessInfo_v1_t");
enum { ENTRY_V1 = 16, ENTRY_V2 = 24, ENTRY_530 = 32, ENTRIES = 256, ENTRIES_MOST = 1 << 17 };

static const struct {
    const char *base;
    int kind;
} lists[] = {
    {"nvmlDeviceGetComputeRunningProcesses", DEVICE_COMPUTE},
    {"nvmlDeviceGetGraphicsRunningProcesses", DEVICE_GRAPHICS},
    {"nvmlDeviceGetMPSComputeRunningProcesses", DEVICE_MPS},
};
enum { LISTS = sizeof lists / sizeof *lists };
static_assert(LISTS == sizeof((struct nvml_calls *)0)->processes / sizeof(nvml_call),
              "as declared");

static bool has_long_entries(const struct nvml *n, struct str version) {
    int64_t major, minor;
    if (str_to_i64(str_cut(&version, '.'), &major) && str_to_i64(str_cut(&version, '.'), &minor)) {
        return major >= 530 && (major < 535 || (major == 535 && minor <= 86));
    }
    return device_nvml_symbol(n, "nvmlDeviceGetConfComputeMemSizeInfo") &&
           !device_nvml_symbol(n, "nvmlDeviceGetRunningProcessDetailList");
}

// The driver numbers processes as the host does. Elsewhere than in the first process namespace
// (whose inode is fixed: PROC_PID_INIT_INO of Linux) a name would be another process's.
static bool is_first_namespace(void) {
    char link[64] = "";
    ssize_t length = readlink("/proc/self/ns/pid", link, sizeof link - 1);
    return length > 0 && strcmp(link, "pid:[4026531836]") == 0;
}

void device_nvml_find_processes(const struct nvml *n, struct str driver_version,
                                struct nvml_calls *calls) {
    static const struct {
        const char *suffix;
        int bytes;
    } versions[] = {{"_v3", ENTRY_V2}, {"_v2", ENTRY_V2}, {"", ENTRY_V1}};
    char symbol[80];
    for (int i = 0; i < LISTS; i++) {
        for (int v = 0; !calls->processes[i] && v < 3; v++) {
            snprintf(symbol, sizeof symbol, "%s%s", lists[i].base, versions[v].suffix);
            calls->processes[i] = device_nvml_symbol(n, symbol);
            bool is_long = v == 0 && has_long_entries(n, driver_version);
            calls->process_bytes[i] = is_long ? ENTRY_530 : versions[v].bytes;
        }
    }
    calls->process_name = device_nvml_symbol(n, "nvmlSystemGetProcessName");
    calls->process_utilisation = device_nvml_symbol(n, "nvmlDeviceGetProcessUtilization");
    calls->has_process_names = n->api.standin || is_first_namespace();
}

// As many entries as there are: with too little room the driver says how many, and by the next call
// there may be more. The caller frees them; NULL: it does not tell.
static char *entries_of(nvml_call f, struct nvml_handle *handle, unsigned *ret_count) {
    unsigned room = ENTRIES, count = ENTRIES;
    for (int again = 0; f && again < 4; again++, room = count + ENTRIES) {
        char *entries = room <= ENTRIES_MOST ? calloc(room, ENTRY_530) : NULL;
        count = room;
        int code = entries ? ((int (*)(struct nvml_handle *, unsigned *, void *))f)(handle, &count,
                                                                                    entries)
                           : NVML_INSUFFICIENT_SIZE;
        *ret_count = count < room ? count : room;
        if (code == NVML_OK) return entries;
        free(entries);
        if (code != NVML_INSUFFICIENT_SIZE) break;
    }
    return NULL;
}

static void add_list(const struct nvml_calls *calls, int list, struct nvml_handle *handle,
                     struct device_card *card) {
    unsigned count;
    char *entries = entries_of(calls->processes[list], handle, &count);
    if (!entries) return;
    card->has_processes = true;
    for (unsigned i = 0; i < count; i++) {
        struct entry e;
        memcpy(&e, entries + (size_t)i * (size_t)calls->process_bytes[list], sizeof e);
        int64_t bytes = e.used_bytes > (uint64_t)1 << 60 ? -1 : (int64_t)e.used_bytes;
        struct device_process *p = device_process_place(card, e.pid, bytes);
        if (!p) continue;
        p->kinds |= lists[list].kind;
        if (bytes > p->used_bytes) p->used_bytes = bytes;
    }
    free(entries);
}

// "/usr/bin/python3 train.py" is python3; the rest of a command line is nobody's business.
static void name_process(const struct nvml_calls *calls, struct device_process *p) {
    char text[512] = "";
    if (!calls->process_name || !calls->has_process_names) return;
    int code = ((int (*)(unsigned, char *, unsigned))calls->process_name)((unsigned)p->pid, text,
                                                                          sizeof text);
    if (code) return;
    text[strcspn(text, " ")] = 0;
    clean_keep(p->name, sizeof p->name, str_last(str_of(text), '/'));
}

static const char *known_name(const struct device_process *before, int count, int64_t pid) {
    for (int i = 0; i < count; i++) {
        if (before[i].pid == pid) return before[i].name;
    }
    return "";
}

// nvmlProcessUtilizationSample_t, of which the driver keeps some seconds.
struct use {
    uint32_t pid;
    uint64_t at_us; // since 1970
    uint32_t sm, memory, encoder, decoder;
};
static_assert(sizeof(struct use) == 32, "nvmlProcessUtilizationSample_t");
enum { USES = 256, BACK_US = 2000000 };

// A process without a sample in the last seconds did nothing, which NVML calls "not found".
static void add_utilisation(const struct nvml_calls *calls, struct nvml_handle *handle,
                            struct device_card *card) {
    struct use uses[USES] = {0};
    unsigned count = USES;
    uint64_t since_us = (uint64_t)(os_wall_ns() / 1000) - BACK_US;
    nvml_call f = calls->process_utilisation;
    if (!f || card->process_count == 0) return;
    int code = ((int (*)(struct nvml_handle *, struct use *, unsigned *, unsigned long long))f)(
        handle, uses, &count, since_us);
    if (code != NVML_OK && code != NVML_NOT_FOUND) return;
    if (code == NVML_NOT_FOUND) count = 0;
    for (int i = 0; i < card->process_count; i++) {
        double sum = 0;
        int n = 0;
        for (unsigned j = 0; j < count && j < USES; j++) {
            if (uses[j].pid != card->processes[i].pid || uses[j].sm > 100) continue;
            sum += uses[j].sm;
            n++;
        }
        card->processes[i].utilisation = n ? sum / n / 100 : 0;
    }
}

void device_nvml_processes(const struct nvml_calls *calls, struct nvml_place place,
                           const char *root, struct device_card *card) {
    struct device_process before[DEVICE_PROCESSES];
    int count = card->process_count;
    memcpy(before, card->processes, sizeof before);
    card->process_count = card->processes_unlisted = 0;
    card->has_processes = false;
    for (int i = 0; i < LISTS; i++) add_list(calls, i, place.handle, card);
    for (int i = 0; i < card->process_count; i++) {
        struct device_process *p = &card->processes[i];
        snprintf(p->name, sizeof p->name, "%s", known_name(before, count, p->pid));
        if (!p->name[0]) name_process(calls, p);
        if (calls->has_process_names) device_process_look(root, p);
    }
    add_utilisation(calls, place.handle, card);
    device_processes_sort(card);
}
