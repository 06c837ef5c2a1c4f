// SPDX-License-Identifier: Apache-2.0
// One GPU over time: a thread asks the driver some times a second; reading never blocks, also when
// the driver hangs. Used while a trial runs. Its thread is a monitor's (monitor.c).
#pragma once

#include "machine/device/device.h"

// NaN and -1 where the driver does not say.
struct device_sample {
    int64_t at_ns;      // when it was read (os_now_ns); 0: nothing was read yet
    int64_t used_bytes; // of the whole GPU, all processes; as struct device
    int64_t total_bytes, free_bytes;
    double utilisation; // share of the time in which a kernel ran, 0 … 1
    double memory_utilisation;
    double power_watts;
    double temperature_celsius;
    double sm_clock_mhz;
    double energy_joules; // counter since the driver was loaded; a decrease is a reload
};

struct device_sampler; // private

// Starts asking about the device at the place `card` of device_list's items, every `interval_ms`.
// `machine` as for device_list; a recording plays its values over time, from now on. Returns after
// the first sample, or after 3 s without one. FAIL_MACHINE: no driver, no such GPU, or a driver
// that hangs.
int device_sampler_open(struct arena *a, const char *machine, int card, int interval_ms,
                        struct device_sampler **ret_sampler, struct fail *why);
// The newest sample, and what was the most since the last reset.
struct device_sample device_sampler_read(const struct device_sampler *s);
struct device_peaks {
    int64_t used_bytes;      // -1: nothing was read
    double utilisation_mean; // over the samples since the reset
    double power_mean_watts;
    int samples;
};
struct device_peaks device_sampler_peaks(const struct device_sampler *s);
void device_sampler_reset(struct device_sampler *s);
// Stops the thread; one that hangs in the driver is left behind and the process may still end.
void device_sampler_close(struct device_sampler *s);
