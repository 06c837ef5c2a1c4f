// SPDX-License-Identifier: Apache-2.0
// One GPU over time: a thread asks the driver some times a second; reading never blocks, also when
// the driver hangs. Used while a trial runs. Its thread is a monitor's (monitor.c).
#pragma once

#include "machine/device/gauges.h"

// Starts asking about the device at the place `card` of device_list's items, every
// `how->interval_ms`. `machine` as for device_list; a recording plays its values over time, from
// now on. Returns after the first sample, or after 3 s without one. FAIL_MACHINE: no driver, no
// such GPU, or a driver that hangs.
int device_sampler_open(struct arena *a, const char *machine, int card,
                        const struct device_watching *how, struct device_monitor **ret_sampler,
                        struct fail *why);
// The newest sample, and what was the most since the last reset.
struct device_gauges device_sampler_read(const struct device_monitor *s);
struct device_peaks {
    int64_t used_bytes;      // -1: nothing was read
    double utilisation_mean; // over the samples since the reset
    double power_mean_watts;
    int samples;
};
struct device_peaks device_sampler_peaks(const struct device_monitor *s);
void device_sampler_reset(struct device_monitor *s);
