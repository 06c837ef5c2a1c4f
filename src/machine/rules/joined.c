// SPDX-License-Identifier: Apache-2.0
// Rules about what is between the GPUs: NVLinks that are down, GPUs that cannot read each other's
// memory.
#include "machine/rules/rules_int.h"

#include <string.h>

static const struct device_spot *spot_of(const struct device_topology *t, int index) {
    for (int i = 0; i < t->count; i++) {
        if (t->spots[i].index == index) return &t->spots[i];
    }
    return NULL;
}

// The most that a GPU of the same name has up: a board without a bridge has links that are down.
static int most_up(const struct view *v) {
    const struct device_snapshot *d = &v->facts->devices;
    int most = 0;
    for (int i = 0; i < d->count; i++) {
        const struct device_spot *s = spot_of(&d->topology, d->cards[i].index);
        bool is_equal = strcmp(d->cards[i].facts.name, v->card->facts.name) == 0;
        int up = s && is_equal ? device_topology_up(s) : 0;
        if (up > most) most = up;
    }
    return most;
}

bool rules_card_nvlink(const struct view *v, struct finding *f) {
    const struct device_spot *s = spot_of(&v->facts->devices.topology, v->card->index);
    int up = s ? device_topology_up(s) : 0, most = most_up(v);
    if (up == 0) return false;
    struct str value = str_format(v->arena, "%d of %d up", up, device_topology_all(s));
    if (up >= most) return finding_say(f, FINDING_OK, value, (struct str){0}, NULL);
    return finding_tell(v->arena, f, FINDING_WARNING, value,
                        "look at nvidia-smi nvlink -s and dmesg; reset the GPUs, or have the "
                        "board or its bridge changed",
                        "another GPU of this machine has %d: all of them wait for the slowest",
                        most);
}

// nvmlGpuP2PStatus_t
static const char *const reasons[] = {
    NULL,
    "the chipset does not support it",
    "the GPU or its driver does not support it",
    "the path between them does not support it",
    "it is switched off by a setting of the driver",
    "it is not supported",
};

// A note: gaming cards cannot.
bool rules_p2p(const struct view *v, struct finding *f) {
    const struct device_topology *t = &v->facts->devices.topology;
    int known = 0, without = 0, why = 0;
    for (int i = 0; i < t->count; i++) {
        for (int j = i + 1; j < t->count; j++) {
            int access = t->pairs[i][j].access;
            known += access >= 0;
            without += access > 0;
            if (access > 0) why = access;
        }
    }
    if (known == 0) return false;
    if (without == 0)
        return finding_say(f, FINDING_OK, STR("between all GPUs"), (struct str){0}, NULL);
    return finding_tell(v->arena, f, FINDING_NOTE,
                        str_format(v->arena, "not between %d of %d pairs", without, known), NULL,
                        "%s; NCCL copies through the memory of the CPU", reasons[why]);
}
