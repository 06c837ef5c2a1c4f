// SPDX-License-Identifier: Apache-2.0
// The fake driver's performance monitor: two looks at a GPU that says "sm_active_permille",
// 100 ms apart or more, make an answer, as in the driver.
#include "nvml.h"

#include <stdlib.h>
#include <time.h>

struct look {
    const json_t *device;
    struct timespec at;
};

struct support {
    uint32_t version, is_supported;
};

static bool has_monitor(const json_t *device) {
    const json_t *instance;
    size_t i;
    json_array_foreach(json_object_get(device, "mig"), i, instance) {
        if (has_monitor(instance)) return true;
    }
    return standin_value(device, "gauges", "sm_active_permille") != NULL;
}

EXPORT int nvmlGpmQueryDeviceSupport(const json_t *device, struct support *support);
EXPORT int nvmlGpmQueryDeviceSupport(const json_t *device, struct support *support) {
    if (support->version != 1) return VERSION_MISMATCH;
    support->is_supported = has_monitor(device);
    return standin_play(device, "nvmlGpmQueryDeviceSupport");
}

EXPORT int nvmlGpmSampleAlloc(struct look **look);
EXPORT int nvmlGpmSampleAlloc(struct look **look) {
    *look = calloc(1, sizeof **look);
    return OK;
}

EXPORT int nvmlGpmSampleFree(struct look *look);
EXPORT int nvmlGpmSampleFree(struct look *look) {
    free(look);
    return OK;
}

EXPORT int nvmlGpmSampleGet(const json_t *device, struct look *look);
EXPORT int nvmlGpmSampleGet(const json_t *device, struct look *look) {
    int code = standin_play(device, "nvmlGpmSampleGet");
    if (json_object_get(device, "mig")) return NOT_SUPPORTED; // of the whole GPU
    look->device = device;
    clock_gettime(CLOCK_MONOTONIC, &look->at);
    return code;
}

EXPORT int nvmlDeviceGetGpuInstanceId(const json_t *instance, unsigned *id);
EXPORT int nvmlDeviceGetGpuInstanceId(const json_t *instance, unsigned *id) {
    const json_t *card = standin_card(instance), *other;
    size_t i;
    json_array_foreach(json_object_get(card, "mig"), i, other) {
        if (other == instance) *id = (unsigned)i + 1; // 0 would be the whole GPU
    }
    return card ? OK : NOT_SUPPORTED;
}

EXPORT int nvmlGpmMigSampleGet(const json_t *card, unsigned id, struct look *look);
EXPORT int nvmlGpmMigSampleGet(const json_t *card, unsigned id, struct look *look) {
    const json_t *instance = json_array_get(json_object_get(card, "mig"), id - 1);
    if (!instance) return INVALID_ARGUMENT;
    return nvmlGpmSampleGet(instance, look);
}

struct metric {
    uint32_t id;
    int32_t code;
    double value;
    const char *names[3];
};
struct metrics {
    uint32_t version, count;
    struct look *before, *after;
    struct metric metrics[];
};

static const struct {
    uint32_t id;
    const char *key;
    double factor;
} known[] = {
    {2, "sm_active_permille", 0.1},         {3, "sm_occupancy_permille", 0.1},
    {5, "tensor_active_permille", 0.1},     {10, "dram_active_permille", 0.1},
    {20, "pcie_tx_kb_s", 1000.0 / 1048576}, {21, "pcie_rx_kb_s", 1000.0 / 1048576},
};

static void answer(const json_t *device, struct metric *m) {
    const json_t *value = NULL;
    double factor = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].id != m->id) continue;
        value = standin_value(device, "gauges", known[i].key);
        factor = known[i].factor;
    }
    m->code = value ? OK : NOT_SUPPORTED;
    m->value = value ? (double)json_integer_value(value) * factor : -1; // not to be read
}

EXPORT int nvmlGpmMetricsGet(struct metrics *m);
EXPORT int nvmlGpmMetricsGet(struct metrics *m) {
    const struct look *before = m->before, *after = m->after;
    if (m->version != 1) return VERSION_MISMATCH;
    double pause_ms = (double)(after->at.tv_sec - before->at.tv_sec) * 1e3 +
                      (double)(after->at.tv_nsec - before->at.tv_nsec) / 1e6;
    if (!before->device || before->device != after->device || pause_ms < 100) {
        return INVALID_ARGUMENT;
    }
    for (uint32_t i = 0; i < m->count; i++) answer(after->device, &m->metrics[i]);
    return OK;
}
