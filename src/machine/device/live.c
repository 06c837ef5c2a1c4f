// SPDX-License-Identifier: Apache-2.0
// The machine at hand, asked again and again: NVIDIA's GPUs and then AMD's. What trains on
// batchfit's account is CUDA's, so device_list, by which a GPU is chosen, has the former only.
#include "machine/device/device_int.h"

struct session {
    struct device_session common;
    struct device_session *nvidia, *amd;
    int nvidia_count;
};

int device_live_open(struct arena *a, const char *machine, struct device_session **ret_session,
                     struct fail *why) {
    struct session *s = arena_new(a, struct session, 1);
    int failed = device_nvml_open(a, machine, &s->nvidia, why);
    if (failed || !s->nvidia) return failed;
    // A fake driver's machine has the AMD GPUs of its folder.
    device_amd_open(a, s->nvidia->root, &s->amd);
    s->common = *s->nvidia;
    s->common.list.items = NULL;
    s->common.list.count = s->common.list.capacity = 0;
    struct device_list *list = &s->common.list;
    s->nvidia_count = (int)s->nvidia->list.count;
    for (ptrdiff_t i = 0; i < s->nvidia->list.count; i++) {
        *arena_push(a, &list->items, &list->count, &list->capacity) = s->nvidia->list.items[i];
    }
    int next = s->nvidia_count && list->items ? list->items[s->nvidia_count - 1].index + 1 : 0;
    for (ptrdiff_t i = 0; i < s->amd->list.count; i++) {
        struct device d = s->amd->list.items[i];
        d.index += next;
        *arena_push(a, &list->items, &list->count, &list->capacity) = d;
    }
    *ret_session = &s->common;
    return 0;
}

void device_live_sample(struct device_session *session, int place, int asked,
                        struct device_card *card) {
    const struct session *s = (struct session *)session;
    if (place < s->nvidia_count)
        device_nvml_sample(s->nvidia, place, asked, card);
    else
        device_amd_sample(s->amd, place - s->nvidia_count, asked, card);
}

// AMD's tell nothing of it, and come last.
void device_live_join(struct device_session *session, const struct device_card *cards,
                      const int *places, struct device_topology *t) {
    const struct session *s = (struct session *)session;
    struct device_topology asked = *t;
    while (asked.count > 0 && places[asked.count - 1] >= s->nvidia_count) asked.count--;
    if (asked.count > 0) device_nvml_session_join(s->nvidia, cards, places, &asked);
    asked.count = t->count;
    *t = asked;
}

void device_live_close(struct device_session *session) {
    device_nvml_session_close(((struct session *)session)->nvidia);
}
