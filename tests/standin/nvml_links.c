// SPDX-License-Identifier: Apache-2.0
// How the fake driver's GPUs are joined: "topology" of a GPU (doc/formats/machine.md).
#include "nvml.h"

#include <stdio.h>
#include <string.h>

struct pci {
    char legacy[16];
    uint32_t domain, bus, device, id, subsystem;
    char bus_id[32];
};
enum { TYPE_GPU = 0, TYPE_SWITCH = 2, TYPE_UNKNOWN = 255 };

static const json_t *devices(void) {
    return json_object_get(standin_machine(), "devices");
}

static const json_t *of(const json_t *device, const char *key, unsigned at) {
    return json_array_get(json_object_get(json_object_get(device, "topology"), key), at);
}

static unsigned index_of(const json_t *device) {
    unsigned i = 0;
    while (i < json_array_size(devices()) && json_array_get(devices(), i) != device) i++;
    return i;
}

static bool is_text(const json_t *value, const char *text) {
    const char *is = json_string_value(value);
    return is && strcmp(is, text) == 0;
}

EXPORT int nvmlDeviceGetNvLinkState(const json_t *device, unsigned link, unsigned *is_up);
EXPORT int nvmlDeviceGetNvLinkState(const json_t *device, unsigned link, unsigned *is_up) {
    const json_t *to = of(device, "nvlinks", link);
    int code = standin_play(device, "nvmlDeviceGetNvLinkState");
    *is_up = !is_text(to, "down");
    return code ? code : !to || json_is_null(to) ? INVALID_ARGUMENT : OK;
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(const json_t *device, unsigned link, unsigned *type);
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(const json_t *device, unsigned link,
                                               unsigned *type) {
    const json_t *to = of(device, "nvlinks", link);
    *type = json_is_integer(to) ? TYPE_GPU : is_text(to, "switch") ? TYPE_SWITCH : TYPE_UNKNOWN;
    return standin_play(device, "nvmlDeviceGetNvLinkRemoteDeviceType");
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(const json_t *device, unsigned link,
                                               struct pci *pci);
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(const json_t *device, unsigned link,
                                               struct pci *pci) {
    const json_t *to = of(device, "nvlinks", link);
    const json_t *other = json_array_get(devices(), (size_t)json_integer_value(to));
    memset(pci, 0, sizeof *pci);
    return json_is_integer(to) ? standin_text(json_object_get(other, "facts"), "pci_bus_id",
                                              pci->bus_id, sizeof pci->bus_id)
                               : NOT_SUPPORTED;
}

static int pair(const json_t *one, const json_t *other, const char *key, unsigned *ret) {
    const json_t *value = of(one, key, index_of(other));
    *ret = (unsigned)json_integer_value(value);
    return json_is_integer(value) ? OK : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(const json_t *one, const json_t *other,
                                               unsigned *level);
EXPORT int nvmlDeviceGetTopologyCommonAncestor(const json_t *one, const json_t *other,
                                               unsigned *level) {
    int code = standin_play(one, "nvmlDeviceGetTopologyCommonAncestor");
    return code ? code : pair(one, other, "paths", level);
}

EXPORT int nvmlDeviceGetP2PStatus(const json_t *one, const json_t *other, unsigned which,
                                  unsigned *status);
EXPORT int nvmlDeviceGetP2PStatus(const json_t *one, const json_t *other, unsigned which,
                                  unsigned *status) {
    int code = standin_play(one, "nvmlDeviceGetP2PStatus");
    return code ? code : which == 0 ? pair(one, other, "p2p", status) : INVALID_ARGUMENT;
}
