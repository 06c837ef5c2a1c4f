// SPDX-License-Identifier: Apache-2.0
// What the GPU's performance monitor (GPM) tells beyond "some kernel ran": how many
// multiprocessors were at work and how full, how busy tensor cores and memory were. Hopper and
// newer; no daemon and no root. Two looks at least 100 ms apart (nvml.h) make one answer, so the
// first look tells nothing. Ids and structs are those of NVML 13.3.29.
#include "machine/device/nvml_int.h"

#include "base/library.h"
#include "base/os.h"

#include <assert.h>
#include <math.h>

enum { LEAST_PAUSE_NS = 100000000, METRICS_MOST = 333, VERSION = 1 };

struct support {
    uint32_t version, is_supported;
};
struct metric {
    uint32_t id;
    int32_t code;
    double value;
    const char *names[3];
};
static_assert(sizeof(struct metric) == 40, "nvmlGpmMetric_t");
// The driver looks at the first `count` metrics only; the room for all of them is there in case one
// does not.
struct metrics {
    uint32_t version, count;
    struct nvml_handle *before, *after;
    struct metric metrics[METRICS_MOST];
};
static_assert(sizeof(struct metrics) == 13344, "nvmlGpmMetricsGet_t");

// Per cent, and MiB/s of the link, into the units of device_fields.
static const struct {
    uint32_t id;
    size_t field;
    double factor;
} metrics[] = {
    {2, offsetof(struct device_card, now.sm_active), 10},
    {3, offsetof(struct device_card, now.sm_occupancy), 10},
    {5, offsetof(struct device_card, now.tensor_active), 10},
    {10, offsetof(struct device_card, now.dram_active), 10},
    {20, offsetof(struct device_card, now.pcie_tx_bytes_s), 1048.576},
    {21, offsetof(struct device_card, now.pcie_rx_bytes_s), 1048.576},
};
enum { METRICS = sizeof metrics / sizeof *metrics };
static_assert((int)METRICS <= (int)NVML_PROFILE_VALUES, "as many as struct nvml_profile holds");

static const struct library_symbol symbols[] = {
    {"nvmlGpmQueryDeviceSupport", offsetof(struct nvml_profile_api, support)},
    {"nvmlGpmSampleAlloc", offsetof(struct nvml_profile_api, make)},
    {"nvmlGpmSampleFree", offsetof(struct nvml_profile_api, drop)},
    {"nvmlGpmSampleGet", offsetof(struct nvml_profile_api, look)},
    {"nvmlGpmMigSampleGet", offsetof(struct nvml_profile_api, look_at_instance)},
    {"nvmlGpmMetricsGet", offsetof(struct nvml_profile_api, compare)},
    {"nvmlDeviceGetGpuInstanceId", offsetof(struct nvml_profile_api, instance_id)},
    {.name = NULL},
};

void device_nvml_find_profile(const struct nvml *n, struct nvml_profile_api *ret_api) {
    library_find(n->library, symbols, ret_api);
}

static bool is_supported(const struct nvml_profile_api *api, struct nvml_place place) {
    struct support support = {.version = VERSION};
    bool is_there = api->support && api->make && api->drop && api->look && api->compare &&
                    (!place.parent || (api->look_at_instance && api->instance_id));
    struct nvml_handle *card = place.parent ? place.parent : place.handle;
    return is_there && api->support(card, &support) == NVML_OK && support.is_supported;
}

static void begin(const struct nvml_profile_api *api, struct nvml_place place,
                  struct nvml_profile *p) {
    p->is_begun = true;
    p->is_there = is_supported(api, place);
    for (int i = 0; p->is_there && i < 2; i++) {
        p->is_there = api->make(&p->looks[i]) == NVML_OK && p->looks[i];
    }
    if (p->is_there && place.parent) {
        p->is_there = api->instance_id(place.handle, &p->instance) == NVML_OK;
    }
}

static int look(const struct nvml_profile_api *api, struct nvml_place place,
                struct nvml_profile *p) {
    struct nvml_handle *into = p->looks[!p->newest];
    return place.parent ? api->look_at_instance(place.parent, p->instance, into)
                        : api->look(place.handle, into);
}

static void compare(const struct nvml_profile_api *api, struct nvml_profile *p) {
    struct metrics m = {.version = VERSION, .count = METRICS};
    m.before = p->looks[p->newest];
    m.after = p->looks[!p->newest];
    for (int i = 0; i < METRICS; i++) m.metrics[i].id = metrics[i].id;
    int code = api->compare(&m);
    for (int i = 0; i < METRICS; i++) {
        bool is_known = !code && !m.metrics[i].code;
        p->values[i] = is_known ? m.metrics[i].value * metrics[i].factor : (double)NAN;
    }
}

static void forget(struct nvml_profile *p) {
    for (int i = 0; i < METRICS; i++) p->values[i] = (double)NAN;
}

void device_nvml_profile(const struct nvml_profile_api *api, struct nvml_place place,
                         struct nvml_profile *p, struct device_card *card) {
    int64_t now = os_now_ns();
    if (!p->is_begun) begin(api, place, p);
    if (!p->is_there) return;
    if (p->at_ns == 0) forget(p);
    if (now - p->at_ns >= LEAST_PAUSE_NS) {
        bool failed = look(api, place, p) != NVML_OK;
        if (failed || p->at_ns == 0)
            forget(p);
        else
            compare(api, p);
        p->newest = failed ? p->newest : !p->newest;
        p->at_ns = failed ? 0 : now;
    }
    for (int i = 0; i < METRICS; i++) {
        device_field_set(card, device_field_at(metrics[i].field), p->values[i]);
    }
}

void device_nvml_profile_end(const struct nvml_profile_api *api, struct nvml_profile *p) {
    for (int i = 0; i < 2; i++) {
        if (p->looks[i]) api->drop(p->looks[i]);
    }
    *p = (struct nvml_profile){0};
}
