// SPDX-License-Identifier: Apache-2.0
// How the GPUs of a machine are joined: what `nvidia-smi topo -m` shows. NVLink and the way over
// PCIe by the driver, the NUMA node and its cores by /sys.
#pragma once

#include "base/str.h"

// More than that in one machine are not asked; NVML_NVLINK_MAX_LINKS.
enum { DEVICE_TOPOLOGY_GPUS = 16, DEVICE_NVLINKS = 18 };

// Where an NVLink leads; from 0 on it is a place in the topology.
enum {
    DEVICE_NVLINK_NONE = -4, // the GPU has no such link, or does not tell
    DEVICE_NVLINK_DOWN = -3,
    DEVICE_NVLINK_OTHER = -2, // a CPU (POWER), or what is not told
    DEVICE_NVLINK_SWITCH = -1,
};

struct device_spot {
    int index;     // the driver's number of the GPU
    int numa_node; // -1: unknown, or the machine has but one
    char cpus[64]; // near it: "0-31,64-95"; empty: unknown
    signed char nvlinks[DEVICE_NVLINKS];
};

struct device_pair {
    int path;   // nvmlGpuTopologyLevel_t: 10 within a switch … 50 across NUMA nodes; -1: unknown
    int access; // nvmlGpuP2PStatus_t of reading the other's memory: 0 can; -1: unknown
};

struct device_topology {
    int count; // 0: not asked
    struct device_spot spots[DEVICE_TOPOLOGY_GPUS];
    struct device_pair pairs[DEVICE_TOPOLOGY_GPUS][DEVICE_TOPOLOGY_GPUS];
};

// The NVLinks of the GPU that are up, and those that are there.
int device_topology_up(const struct device_spot *spot);
int device_topology_all(const struct device_spot *spot);
// Those between the two GPUs, directly or over a switch that both are on.
int device_topology_between(const struct device_topology *t, int one, int other);
// As nvidia-smi says it: "NV18", "SYS", …; empty: unknown.
struct str device_topology_word(struct arena *a, const struct device_topology *t, int one,
                                int other);
// What such a word means; NULL: there is none of that number. NVLink is number 0.
const char *device_topology_meaning(int number, const char **ret_word);
