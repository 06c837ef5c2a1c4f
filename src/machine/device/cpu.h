// SPDX-License-Identifier: Apache-2.0
// The CPU as a device to train on: its name, its cores, and the memory that a training may
// have, by /proc and the control group that we are in; and what it does over time. Nothing here
// blocks for longer than a read of /proc.
#pragma once

#include "base/fail.h"
#include "base/str.h"

// `root` is put before /proc and /sys: "" is this machine, a folder is a recorded one.

// What /proc/meminfo says of the whole machine. -1: unknown.
struct device_meminfo {
    int64_t total_bytes, available_bytes, swap_total_bytes, swap_free_bytes;
};
struct device_meminfo device_meminfo_read(struct arena *a, const char *root);

struct device_cpu {
    struct str name;         // "AMD EPYC 7763 64-Core Processor"; "CPU" where /proc does not say
    int cores;               // that we may run on
    int64_t total_bytes;     // of the machine, or the control group's limit where that is less
    int64_t available_bytes; // without swapping; within that limit; -1: unknown
    double quota_cores;      // the control group's limit, in CPUs; NaN: none, or unknown
    struct device_meminfo machine; // whatever the control group allows
};

void device_cpu_read(struct arena *a, const char *root, struct device_cpu *ret_cpu);

// NaN and -1: unknown. Shares and rates are of the time since the look before; unknown in the
// first.
struct device_cpu_gauges {
    int64_t at_ns;                        // os_now_ns
    int cores;                            // that we may run on
    double utilisation;                   // of all of the machine's cores, 0 … 1
    double io_wait;                       // share of the time in which they waited for a disk
    double load;                          // tasks that run or want to, mean of a minute
    int64_t total_bytes, available_bytes; // as struct device_cpu
    int64_t swap_total_bytes, swap_used_bytes;
    double group_cpus;      // the control group's limit, in CPUs; NaN: none
    double group_used_cpus; // what it uses
    double group_throttled; // share of the time in which that limit slowed it down
    double energy_joules;   // counter of the packages and the memory, from our first look on
    double power_watts;
    double temperature_celsius; // the hottest of the packages
    double memory_stalled;      // share of the last 10 s in which some task waited for memory (PSI)
};

struct device_cpu_watch; // private
// `root` as above. Reading twice within a millisecond tells no rates.
struct device_cpu_watch *device_cpu_open(struct arena *a, const char *root);
void device_cpu_look(struct device_cpu_watch *w, struct device_cpu_gauges *ret_gauges);
