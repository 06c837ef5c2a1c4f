// SPDX-License-Identifier: Apache-2.0
// AMD GPUs, for the back end that asks the machine at hand (live.c). `root` is put before /proc
// and /sys.
#pragma once

#include "machine/device/device_int.h"

void device_amd_open(struct arena *a, const char *root, struct device_session **ret_session);
void device_amd_sample(struct device_session *session, int place, int asked,
                       struct device_card *card);
