// SPDX-License-Identifier: Apache-2.0
// The table of back ends: which machines each is for. The sampler asks one back end about one of
// its devices.
#include "machine/device/device.h"

#include "machine/device/device_int.h"

static const struct device_backend backends[] = {
    {DEVICE_REMOTE, NULL, device_remote_open, device_remote_sample, device_remote_close,
     device_remote_join, device_remote_tell},
    {"", device_recording_list, device_recording_open, device_recording_sample,
     device_recording_close, device_recording_join, NULL},
    // GPUs are chosen from NVIDIA's; watched are all.
    {NULL, device_nvml_list, device_live_open, device_live_sample, device_live_close,
     device_live_join, NULL},
};
enum { BACKENDS = sizeof backends / sizeof *backends };

// Says why there is nothing, also where no back end did.
void device_explain_none(struct device_list *list) {
    if (list->count > 0) {
        list->why_none = (struct str){0};
    } else if (list->why_none.len == 0 && list->left_out.len > 0) {
        list->why_none = list->left_out;
        list->left_out = (struct str){0};
    } else if (list->why_none.len == 0) {
        list->why_none = STR("the NVIDIA driver found no GPU");
    }
}

struct str device_standin_note(struct arena *a, struct str standin) {
    if (standin.len == 0) return (struct str){0};
    return str_format(a, "FAKE DRIVER, no real GPU: %.*s", STR_ARG(standin));
}

int device_no_card(int card, const struct device_list *list, struct fail *why) {
    struct device_list found = *list;
    device_explain_none(&found);
    if (found.count == 0) return fail_set(why, FAIL_MACHINE, "%.*s", STR_ARG(found.why_none));
    return fail_set(why, FAIL_MACHINE, "no GPU %d: this machine has %d%s%.*s", card,
                    (int)found.count, found.left_out.len ? "; left out: " : "",
                    STR_ARG(found.left_out));
}

// -1: none, or nothing was asked for.
static int place_of(const struct device_list *devices, struct str id) {
    int64_t number = -1;
    bool is_number = str_to_i64(id, &number);
    for (ptrdiff_t i = 0; i < devices->count && id.len > 0; i++) {
        const struct device *d = &devices->items[i];
        if (is_number ? number == d->index : str_starts(d->uuid, id)) return (int)i;
    }
    return -1;
}

int device_ids_find(struct arena *a, const struct device_list *devices, const char *ids,
                    int **ret_places, ptrdiff_t *ret_count, struct fail *why) {
    int *places = arena_new(a, int, devices->count + 1);
    ptrdiff_t count = 0;
    struct str rest = str_of(ids);
    if (devices->count == 0)
        return fail_set(why, FAIL_MACHINE, "--gpu-ids %s: %.*s", ids, STR_ARG(devices->why_none));
    while (rest.p) {
        const struct str id = str_trim(str_cut(&rest, ','));
        const int place = place_of(devices, id);
        bool is_again = false;
        for (ptrdiff_t i = 0; i < count; i++) is_again |= places[i] == place;
        if (is_again)
            return fail_set(why, FAIL_USAGE, "--gpu-ids %s: '%.*s' is a GPU that was named before",
                            ids, STR_ARG(id));
        if (place < 0) {
            fail_set(why, FAIL_USAGE, "--gpu-ids %s: no GPU '%.*s' on this machine", ids,
                     STR_ARG(id));
            return fail_hint(why, "it has %td, 0 to %td: batchfit check lists them", devices->count,
                             devices->count - 1);
        }
        places[count++] = place;
    }
    *ret_places = places;
    *ret_count = count;
    return 0;
}

const struct device_backend *device_backend_of(const char *machine) {
    int i = 0;
    for (; i < BACKENDS - 1; i++) {
        const char *begins = backends[i].begins;
        if (machine && begins && str_starts(str_of(machine), str_of(begins))) break;
    }
    return &backends[i]; // the last is the machine at hand
}

int device_list(struct arena *a, const char *machine, struct device_list *ret_list,
                struct fail *why) {
    struct device_list list = {0};
    const struct device_backend *backend = device_backend_of(machine);
    if (!backend->list)
        return fail_set(why, FAIL_USAGE, "%s: other machines can only be watched", machine);
    int failed = backend->list(a, machine, &list, why);
    if (failed) return failed;
    device_explain_none(&list);
    *ret_list = list;
    return 0;
}
