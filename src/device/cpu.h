// SPDX-License-Identifier: Apache-2.0
// The processor as a device to train on: its name, its cores, and the memory that a training may
// have, by /proc and the control group that we are in.
#ifndef DEVICE_CPU_H
#define DEVICE_CPU_H

#include "base/fail.h"
#include "base/str.h"

struct device_cpu {
    struct str name;         // "AMD EPYC 7763 64-Core Processor"; "CPU" where /proc does not say
    int cores;               // that we may run on
    int64_t total_bytes;     // of the machine, or the control group's limit where that is less
    int64_t available_bytes; // without swapping; within that limit; -1: unknown
};

// `root` is put before /proc and /sys: "" is this machine, a folder is a recorded one.
void device_cpu_read(struct arena *a, const char *root, struct device_cpu *ret_cpu);

#endif
