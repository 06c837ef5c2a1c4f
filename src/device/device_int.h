// SPDX-License-Identifier: Apache-2.0
// The back ends, and what they say alike.
#ifndef DEVICE_DEVICE_INT_H
#define DEVICE_DEVICE_INT_H

#include "device/device.h"

// How long the driver may take. nvidia-smi on a healthy machine takes well under a second; cards
// that were asleep need one to two.
enum { DEVICE_DEADLINE_MS = 3000 };

// NVML's return codes that we act on (nvmlReturn_t, NVML 13.3).
enum {
    NVML_OK = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_TIMEOUT = 10,
    NVML_NO_LIBRARY = 12,
    NVML_NO_FUNCTION = 13,
    NVML_LOST = 15,
};
// What such a code means to a person, and what can be done.
struct str device_code_text(struct arena *a, int code);
// Adds "card 1: reason" to left_out.
void device_leave_out(struct arena *a, struct device_list *list, int index, struct str reason);

int device_recording_list(struct arena *a, const char *machine, struct device_list *list,
                          struct fail *why);
int device_nvml_list(struct arena *a, const char *machine, struct device_list *list,
                     struct fail *why);
// The same with another patience, for tests.
void device_nvml_list_within(struct arena *a, int deadline_ms, struct device_list *list);

#endif
