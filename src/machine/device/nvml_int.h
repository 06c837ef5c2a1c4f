// SPDX-License-Identifier: Apache-2.0
// The driver's library, as the two who talk to it share it: the list (nvml_list.c) and the
// sampler's session (nvml_sample.c). Every call may block for minutes when a GPU hangs, so all of
// them are made from threads that can be left behind.
#pragma once

#include "machine/device/device.h"
#include "machine/device/device_int.h"

struct nvml_handle; // nvmlDevice_t

struct nvml_memory_v1 {
    uint64_t total, free, used; // used includes what the driver reserves
};
struct nvml_memory_v2 {
    uint32_t version;
    uint64_t total, reserved, free, used;
};

struct nvml_pci {
    char legacy[16];
    uint32_t domain, bus, device, id, subsystem;
    char bus_id[32];
};

struct nvml_api {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, struct nvml_handle **device);
    int (*name)(struct nvml_handle *device, char *text, unsigned size);
    int (*version)(char *text, unsigned size);
    int (*uuid)(struct nvml_handle *device, char *text, unsigned size);
    int (*memory_v2)(struct nvml_handle *device, struct nvml_memory_v2 *memory);
    int (*memory_v1)(struct nvml_handle *device, struct nvml_memory_v1 *memory);
    int (*mig_mode)(struct nvml_handle *device, unsigned *now, unsigned *pending);
    int (*mig_max)(struct nvml_handle *device, unsigned *count);
    int (*mig_by_index)(struct nvml_handle *device, unsigned index, struct nvml_handle **instance);
    // Only our fake driver has them: its label; the folder in whose proc and sys it lives.
    const char *(*standin)(void);
    const char *(*standin_root)(void);
};

struct nvml {
    void *library; // NULL: there is none
    struct nvml_api api;
    bool is_started;
};

// What the driver knows a device by: itself, and the GPU of an instance (else NULL).
struct nvml_place {
    struct nvml_handle *handle, *parent;
};

// The devices that were listed and, at the same place, what the driver knows them by.
struct nvml_devices {
    struct device_list list;
    struct nvml_place *places;
    ptrdiff_t place_count, place_capacity;
};

// Codes of NVML. Close after each of them, also after a failure.
int device_nvml_load(struct nvml *n);
int device_nvml_start(struct nvml *n);
int device_nvml_find(struct arena *a, const struct nvml *n, struct nvml_devices *devices);
void device_nvml_close(struct nvml *n);
// Total, used, reserved and free; -1 where the driver does not say.
int device_nvml_memory(const struct nvml *n, struct nvml_handle *handle, struct device *d);
// The performance monitor; NULL where this driver lacks a function.
struct nvml_profile_api {
    int (*support)(struct nvml_handle *device, void *support);
    int (*make)(struct nvml_handle **sample);
    int (*drop)(struct nvml_handle *sample);
    int (*look)(struct nvml_handle *device, struct nvml_handle *sample);
    int (*look_at_instance)(struct nvml_handle *device, unsigned id, struct nvml_handle *sample);
    int (*compare)(void *metrics);
    int (*instance_id)(struct nvml_handle *instance, unsigned *id);
};
// One GPU's, or instance's: zeroed before the first question, ended after the last.
enum { NVML_PROFILE_VALUES = 6 };
struct nvml_profile {
    bool is_begun, is_there;
    struct nvml_handle *looks[2];
    int newest;
    unsigned instance;
    int64_t at_ns; // of the newest look; 0: there is none
    double values[NVML_PROFILE_VALUES];
};
void device_nvml_find_profile(const struct nvml *n, struct nvml_profile_api *ret_api);
void device_nvml_profile(const struct nvml_profile_api *api, struct nvml_place place,
                         struct nvml_profile *p, struct device_card *card);
void device_nvml_profile_end(const struct nvml_profile_api *api, struct nvml_profile *p);

// The GPUs at these places of the list (nvml_topology.c).
void device_nvml_join(const struct nvml *n, const struct nvml_devices *devices,
                      const struct device_card *cards, const int *places,
                      struct device_topology *t);

// The gauges that the driver has, by its own table (nvml_sample.c), and its processes.
enum { NVML_QUESTIONS = 48 };
typedef void (*nvml_call)(void); // a symbol's address, before its row says what it takes
nvml_call device_nvml_symbol(const struct nvml *n, const char *symbol); // NULL: it lacks it
struct nvml_calls {
    nvml_call gauges[NVML_QUESTIONS]; // NULL: this driver lacks it
    nvml_call field_values, pci_info, vbios, process_name;
    nvml_call processes[3]; // compute, graphics, MPS
    int process_bytes[3];   // of one entry of their answers
    nvml_call process_utilisation;
    struct nvml_profile_api profile;
    bool has_process_names; // the pids are of our own process namespace
};
void device_nvml_find_calls(const struct nvml *n, struct str driver_version,
                            struct nvml_calls *ret_calls);
void device_nvml_find_processes(const struct nvml *n, struct str driver_version,
                                struct nvml_calls *calls);
// Fills in what is asked for (enum device_ask) and known.
void device_nvml_gauges(const struct nvml_calls *calls, struct nvml_place place, int asked,
                        struct device_card *card);
void device_nvml_processes(const struct nvml_calls *calls, struct nvml_place place,
                           const char *root, struct device_card *card);
// The driver, user and kernel part, is not there at all.
bool device_nvml_is_absent(const struct nvml *n, int code);
// Why there is no device, for a code of device_nvml_load, _start or _find.
struct str device_nvml_why(struct arena *a, const struct nvml *n, int code);
