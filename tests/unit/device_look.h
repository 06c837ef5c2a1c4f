// SPDX-License-Identifier: Apache-2.0
// One look at a machine by the fake driver in LD_LIBRARY_PATH or by its recording.
#ifndef TESTS_DEVICE_LOOK_H
#define TESTS_DEVICE_LOOK_H

#include "device_machines.h"

#include "machine/device/device_int.h"

#include <dlfcn.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000, MS = 1000000 }; // for what must happen soon, on a machine that is busy

// The monitor's thread ends a little later than its close; the next test wants another machine, so
// it waits for the driver's library to be gone.
static inline void wait_for_driver_to_go(void) {
    int64_t begin = os_now_ns();
    void *library;
    while ((library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD))) {
        dlclose(library);
        assert_true(os_now_ns() - begin < PATIENCE_MS * (int64_t)MS);
        usleep(1000);
    }
}

static inline struct device_snapshot look(struct arena *a, const char *machine) {
    const struct device_watching how = {.wants_topology = true};
    struct device_snapshot snapshot;
    struct device_monitor *m;
    struct fail why = {0};
    if (device_monitor_open(a, machine, &how, &m, &why)) fail_msg("%s", why.message);
    device_monitor_read(a, m, &snapshot);
    device_monitor_close(m);
    wait_for_driver_to_go();
    return snapshot;
}

#endif
