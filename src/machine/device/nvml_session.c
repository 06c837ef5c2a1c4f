// SPDX-License-Identifier: Apache-2.0
// A machine's NVIDIA GPUs asked again and again. Where all of them sleep the driver is not even
// started, until one wakes up by itself: NVML would wake them and keep them awake.
#include "machine/device/nvml_int.h"

#include "base/out.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct session {
    struct device_session common;
    struct nvml nvml;
    struct nvml_calls calls;
    nvml_call wait; // nvmlEventSetWait_v2
    struct nvml_devices devices;
    bool is_asleep;
    struct arena *arena;
    pthread_mutex_t lock; // of waking up
    struct watched {
        char pci_bus_id[32]; // empty: it never sleeps
        struct nvml_handle *events;
        int64_t xid; // -1: none yet
        struct nvml_profile profile;
    } * watched; // one a device
};

// nvmlEventData_t
struct event {
    struct nvml_handle *device;
    uint64_t type, data;
    uint32_t instances[2];
};
enum { EVENT_XID = 8 };

// Events of a GPU that cannot send them (WSL, no permission) are not watched.
static void watch_events(struct session *s, int place) {
    nvml_call create = device_nvml_symbol(&s->nvml, "nvmlEventSetCreate");
    nvml_call add = device_nvml_symbol(&s->nvml, "nvmlDeviceRegisterEvents");
    nvml_call release = device_nvml_symbol(&s->nvml, "nvmlEventSetFree");
    struct nvml_place at = s->devices.places[place];
    struct nvml_handle *set = NULL, *handle = at.parent ? at.parent : at.handle;
    if (!create || !add || !release || ((int (*)(struct nvml_handle **))create)(&set)) return;
    if (((int (*)(struct nvml_handle *, uint64_t, struct nvml_handle *))add)(handle, EVENT_XID,
                                                                             set)) {
        ((int (*)(struct nvml_handle *))release)(set);
        return;
    }
    s->watched[place].events = set;
}

static void read_events(const struct session *s, struct watched *w) {
    struct event event = {0};
    for (int i = 0; s->wait && w->events && i < 16; i++) { // those that are there, without waiting
        int code = ((int (*)(struct nvml_handle *, struct event *, unsigned))s->wait)(w->events,
                                                                                      &event, 0);
        if (code) return;
        if (event.type == EVENT_XID && event.data < 1000000) w->xid = (int64_t)event.data;
    }
}

static void read_cuda_version(struct arena *a, struct session *s) {
    nvml_call ask = device_nvml_symbol(&s->nvml, "nvmlSystemGetCudaDriverVersion_v2");
    int version = 0; // 1000 * major + 10 * minor
    if (!ask || ((int (*)(int *))ask)(&version) || version <= 0) return;
    s->common.cuda_version = str_format(a, "%d.%d", version / 1000, version % 1000 / 10);
}

static int start(struct arena *a, struct session *s) {
    int code = device_nvml_start(&s->nvml);
    if (!code) code = device_nvml_find(a, &s->nvml, &s->devices);
    if (code) return code;
    device_nvml_find_calls(&s->nvml, s->devices.list.driver_version, &s->calls);
    s->wait = device_nvml_symbol(&s->nvml, "nvmlEventSetWait_v2");
    s->watched = arena_new(a, struct watched, s->devices.list.count + 1);
    for (int i = 0; i < s->devices.list.count; i++) s->watched[i].xid = -1;
    return 0;
}

static void list_devices(struct arena *a, struct session *s, int code) {
    struct str standin = s->common.list.standin;
    s->common.list = s->devices.list;
    s->common.list.standin = standin;
    if (!code) {
        read_cuda_version(a, s);
        return;
    }
    s->common.list.count = 0;
    s->common.list.why_none = device_nvml_why(a, &s->nvml, code);
    s->common.list.driver_is_absent = device_nvml_is_absent(&s->nvml, code);
}

static int load(struct arena *a, struct session *s) {
    int code = device_nvml_load(&s->nvml);
    if (code) {
        s->common.list.why_none = device_nvml_why(a, &s->nvml, code);
        s->common.list.driver_is_absent = device_nvml_is_absent(&s->nvml, code);
        return code;
    }
    const struct nvml_api *api = &s->nvml.api;
    if (api->standin) s->common.list.standin = str_copy(a, str_of(api->standin()));
    if (api->standin_root) s->common.root = str_z(a, str_of(api->standin_root()));
    s->common.is_wsl = !*s->common.root && access("/dev/dxg", F_OK) == 0;
    return 0;
}

// True: the driver may be asked. Somebody else uses a GPU: now we may ask, too. The devices must
// be those that were seen asleep, as nobody can be told of others any more.
static bool wake(struct session *s) {
    ARENA_AUTO scratch = {0};
    struct device_list still = {0};
    pthread_mutex_lock(&s->lock);
    if (s->is_asleep && !device_all_asleep(&scratch, s->common.root, &still)) {
        s->is_asleep = start(s->arena, s) != 0 || s->devices.list.count != s->common.list.count;
    }
    bool is_awake = !s->is_asleep;
    pthread_mutex_unlock(&s->lock);
    return is_awake;
}

int device_nvml_open(struct arena *a, const char *machine, struct device_session **ret_session,
                     struct fail *why) {
    struct session *s = arena_new(a, struct session, 1);
    (void)machine;
    (void)why;
    s->common.root = "";
    s->arena = a;
    pthread_mutex_init(&s->lock, NULL);
    *ret_session = &s->common;
    if (load(a, s)) return 0;
    if (device_all_asleep(a, s->common.root, &s->common.list)) {
        s->is_asleep = true;
        return 0;
    }
    list_devices(a, s, start(a, s));
    return 0;
}

static void lose(struct device_card *card, int code) {
    ARENA_AUTO a = {0};
    struct str text = device_code_text(&a, code);
    device_card_renew(card);
    card->state = code == NVML_TIMEOUT ? DEVICE_HANGS : DEVICE_LOST;
    clean_keep(card->reason, sizeof card->reason, text);
}

static int read_memory(const struct session *s, struct nvml_place place, struct device_card *card) {
    struct device d;
    int code = device_nvml_memory(&s->nvml, place.handle, &d);
    card->now.total_bytes = d.total_bytes;
    card->now.used_bytes = d.used_bytes;
    card->now.reserved_bytes = d.reserved_bytes;
    card->now.free_bytes = d.free_bytes;
    if (code == NVML_NOT_SUPPORTED && !place.parent) device_unified_memory(s->common.root, card);
    return code;
}

static void begin(struct session *s, int place, struct device_card *card) {
    struct watched *w = &s->watched[place];
    device_card_name(card, &s->devices.list.items[place]);
    memcpy(w->pci_bus_id, card->facts.pci_bus_id, sizeof w->pci_bus_id);
    if (!w->events) watch_events(s, place);
}

void device_nvml_sample(struct device_session *session, int place, int asked,
                        struct device_card *card) {
    struct session *s = (struct session *)session;
    if (!wake(s)) {
        device_say_asleep(card);
        return;
    }
    struct nvml_place at = s->devices.places[place];
    struct watched *w = &s->watched[place];
    if (w->pci_bus_id[0] && device_is_asleep(s->common.root, w->pci_bus_id)) {
        device_say_asleep(card);
        return;
    }
    int code = read_memory(s, at, card);
    if (code == NVML_LOST || code == 16 || code == NVML_TIMEOUT) {
        lose(card, code);
        return;
    }
    // First: it knows what the link carries without blocking.
    if (asked & DEVICE_ASK_PROFILE) {
        device_nvml_profile(&s->calls.profile, at, &w->profile, card);
    }
    device_nvml_gauges(&s->calls, at, asked, card);
    if (asked & DEVICE_ASK_FACTS) begin(s, place, card);
    if (asked & DEVICE_ASK_PROCESSES) device_nvml_processes(&s->calls, at, s->common.root, card);
    read_events(s, w);
    card->now.xid = w->xid;
}

void device_nvml_session_join(struct device_session *session, const struct device_card *cards,
                              const int *places, struct device_topology *t) {
    struct session *s = (struct session *)session;
    if (wake(s)) device_nvml_join(&s->nvml, &s->devices, cards, places, t);
}

void device_nvml_session_close(struct device_session *session) {
    struct session *s = (struct session *)session;
    nvml_call release = s->nvml.library ? device_nvml_symbol(&s->nvml, "nvmlEventSetFree") : NULL;
    for (int i = 0; release && s->watched && i < s->common.list.count; i++) {
        struct nvml_handle *set = s->watched[i].events;
        if (set) ((int (*)(struct nvml_handle *))release)(set);
    }
    for (int i = 0; s->watched && i < s->common.list.count; i++) {
        device_nvml_profile_end(&s->calls.profile, &s->watched[i].profile);
    }
    device_nvml_close(&s->nvml);
    pthread_mutex_destroy(&s->lock);
}
