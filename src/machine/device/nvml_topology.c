// SPDX-License-Identifier: Apache-2.0
// How the GPUs are joined, as the driver says it. What it does not know, or lacks a function for,
// stays unknown. Names, codes and sizes are those of NVML 13.3.
#include "machine/device/nvml_int.h"

#include <strings.h>

// nvmlIntNvLinkDeviceType_t; nvmlGpuP2PCapsIndex_t
enum { TYPE_SWITCH = 2, TYPE_UNKNOWN = 255, P2P_READ = 0 };

typedef int ask_link(struct nvml_handle *gpu, unsigned link, unsigned *ret);
typedef int ask_remote(struct nvml_handle *gpu, unsigned link, struct nvml_pci *ret);
typedef int ask_pair(struct nvml_handle *one, struct nvml_handle *other, unsigned *ret);
typedef int ask_access(struct nvml_handle *one, struct nvml_handle *other, unsigned which,
                       unsigned *ret);

struct calls {
    ask_link *state, *type;
    ask_remote *remote;
    ask_pair *ancestor;
    ask_access *access;
};

static int place_of(const struct device_card *cards, const int *places, int count,
                    const char *bus_id) {
    for (int i = 0; i < count; i++) {
        if (*bus_id && strcasecmp(cards[places[i]].facts.pci_bus_id, bus_id) == 0) return i;
    }
    return DEVICE_NVLINK_OTHER;
}

static int look_at(const struct calls *c, struct nvml_handle *gpu, unsigned link,
                   const struct device_card *cards, const int *places, int count) {
    unsigned is_up = 0, type = TYPE_UNKNOWN;
    struct nvml_pci pci = {0};
    if (!c->state || c->state(gpu, link, &is_up)) return DEVICE_NVLINK_NONE;
    if (!is_up) return DEVICE_NVLINK_DOWN;
    if (c->type && !c->type(gpu, link, &type) && type == TYPE_SWITCH) return DEVICE_NVLINK_SWITCH;
    if (!c->remote || c->remote(gpu, link, &pci)) return DEVICE_NVLINK_OTHER;
    pci.bus_id[sizeof pci.bus_id - 1] = 0;
    return place_of(cards, places, count, pci.bus_id);
}

static struct nvml_handle *gpu_at(const struct nvml_devices *devices, int place) {
    const struct nvml_place *p = &devices->places[place];
    return p->parent ? p->parent : p->handle;
}

static struct device_pair look_at_pair(const struct calls *c, struct nvml_handle *one,
                                       struct nvml_handle *other) {
    struct device_pair pair = {-1, -1};
    unsigned word = 0;
    if (c->ancestor && !c->ancestor(one, other, &word) && word <= 50) pair.path = (int)word;
    if (c->access && !c->access(one, other, P2P_READ, &word) && word <= 5) pair.access = (int)word;
    return pair;
}

void device_nvml_join(const struct nvml *n, const struct nvml_devices *devices,
                      const struct device_card *cards, const int *places,
                      struct device_topology *t) {
    const struct calls c = {
        (ask_link *)device_nvml_symbol(n, "nvmlDeviceGetNvLinkState"),
        (ask_link *)device_nvml_symbol(n, "nvmlDeviceGetNvLinkRemoteDeviceType"),
        (ask_remote *)device_nvml_symbol(n, "nvmlDeviceGetNvLinkRemotePciInfo_v2"),
        (ask_pair *)device_nvml_symbol(n, "nvmlDeviceGetTopologyCommonAncestor"),
        (ask_access *)device_nvml_symbol(n, "nvmlDeviceGetP2PStatus"),
    };
    for (int i = 0; i < t->count; i++) {
        struct nvml_handle *gpu = gpu_at(devices, places[i]);
        for (unsigned link = 0; link < DEVICE_NVLINKS; link++) {
            t->spots[i].nvlinks[link] =
                (signed char)look_at(&c, gpu, link, cards, places, t->count);
        }
        for (int j = 0; j < t->count; j++) {
            if (j == i) continue;
            t->pairs[i][j] = look_at_pair(&c, gpu, gpu_at(devices, places[j]));
        }
    }
}
