// SPDX-License-Identifier: Apache-2.0
// The device that trials run on: a GPU that the driver knows, or the CPU.
#include "measure/launch/launch_int.h"

#include "base/unit.h"
#include "machine/device/device.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLER_MS = 100 };

static int open_cpu(struct arena *a, const struct launch_options *o, struct launch_place *place,
                    struct fail *why) {
    struct device_cpu cpu;
    device_cpu_read(a, "", &cpu);
    place->kind = LAUNCH_CPU;
    place->name = str_format(a, "CPU, %d core%s", cpu.cores, cpu.cores == 1 ? "" : "s");
    place->capacity_bytes = o->memory_bytes > 0 ? o->memory_bytes : cpu.available_bytes;
    place->is_capped = o->memory_bytes > 0;
    if (place->capacity_bytes > 0) return 0;
    fail_set(why, FAIL_MACHINE, "/proc/meminfo does not give the available memory");
    return fail_hint(why, "set the memory for the training: --memory 8GiB");
}

static int open_card(struct arena *a, const struct launch_options *o, const struct device *d,
                     struct launch_place *place, struct fail *why) {
    place->kind = LAUNCH_CUDA;
    place->name = d->name;
    place->card_index = d->index;
    place->card_uuid = d->uuid;
    place->others_bytes = d->used_bytes > 0 ? d->used_bytes : 0;
    place->capacity_bytes = d->total_bytes - (d->reserved_bytes > 0 ? d->reserved_bytes : 0);
    if (d->total_bytes > 0 && o->memory_bytes > d->total_bytes) {
        return fail_set(why, FAIL_USAGE, "--memory %s: %.*s has only %s",
                        unit_bytes(a, o->memory_bytes).p, STR_ARG(d->name),
                        unit_bytes(a, d->total_bytes).p);
    }
    if (o->memory_bytes > 0) {
        place->capacity_bytes = o->memory_bytes;
        place->is_capped = true;
    }
    const struct device_watching how = {.interval_ms = SAMPLER_MS};
    return device_sampler_open(a, o->machine, place->card, &how, &place->sampler, why);
}

int64_t launch_budget(const struct launch_place *place, double margin) {
    int64_t budget = (int64_t)((double)place->capacity_bytes * (1 - margin));
    return place->is_capped ? budget : budget - place->others_bytes;
}

// The GPU that CUDA will call the first one, of what CUDA_VISIBLE_DEVICES says. Of the
// environment's only that one is looked at: it is CUDA's own affair what the rest means.
static int find_card(struct arena *a, const struct device_list *devices, const char *ids,
                     int *ret_card, struct fail *why) {
    int *places;
    ptrdiff_t count;
    struct str all = str_of(getenv("CUDA_VISIBLE_DEVICES")), first = str_trim(str_cut(&all, ','));
    int rc = 0;
    *ret_card = 0;
    if (!ids && first.len == 0) return 0;
    rc = device_ids_find(a, devices, ids ? ids : str_z(a, first), &places, &count, why);
    if (rc == 0) *ret_card = places[0];
    if (rc == 0 || ids) return rc;
    fail_set(why, rc, "CUDA_VISIBLE_DEVICES: no GPU '%.*s' on this machine", STR_ARG(first));
    return fail_hint(why, "--gpu-ids chooses one of 0 to %td", devices->count - 1);
}

int launch_place_open(struct arena *a, const struct launch_options *o,
                      struct launch_place *ret_place, struct fail *why) {
    const char *word = o->device ? o->device : "auto";
    bool is_auto = strcmp(word, "auto") == 0, is_cuda = strncmp(word, "cuda", 4) == 0;
    struct device_list devices = {0};
    *ret_place = (struct launch_place){.card_index = -1};
    if (strcmp(word, "cpu") == 0) return open_cpu(a, o, ret_place, why);
    if (!is_auto && !is_cuda)
        return fail_set(why, FAIL_USAGE, "--device %s: not one of auto, cuda, cpu", word);
    int rc = device_list(a, o->machine, &devices, why);
    if (rc < 0) return rc;
    if (devices.count == 0 && is_auto && !o->cards) return open_cpu(a, o, ret_place, why);
    if (devices.count == 0) {
        fail_set(why, FAIL_MACHINE, "--%s %s: %.*s", is_auto ? "gpu-ids" : "device",
                 is_auto ? o->cards : word, STR_ARG(devices.why_none));
        return fail_hint(why, "--device cpu runs the trials on the CPU");
    }
    rc = find_card(a, &devices, o->cards, &ret_place->card, why);
    if (rc < 0) return rc;
    ret_place->standin = devices.standin;
    return open_card(a, o, &devices.items[ret_place->card], ret_place, why);
}

void launch_place_close(struct launch_place *place) {
    if (place->sampler) device_monitor_close(place->sampler);
    place->sampler = NULL;
}
