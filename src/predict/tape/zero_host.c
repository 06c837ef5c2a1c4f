// SPDX-License-Identifier: Apache-2.0
// What DeepSpeed (0.19.8) keeps in the host's memory under ZeRO with offload.
// tests/unit/tape_zero.c holds it against recordings of DeepSpeed; what lies on disks is from its
// source alone (runtime/swap_tensor/partitioned_param_swapper.py and optimizer_utils.py).
#include "predict/tape/zero_int.h"

static int64_t trained_parts(const struct zero_coordinator *c, int group) {
    int64_t sum = 0;
    for (int32_t i = 0; i < c->param_count; i++) {
        const struct zero_param *p = &c->params[i];
        if (p->is_trained && (group < 0 || p->group == group)) sum += p->part;
    }
    return sum;
}

// Each part is pinned by itself first; those that are trained are brought together, a group after
// the other, and leave their blocks to others.
static void put_params(struct tape_host *h, const struct zero_coordinator *c) {
    for (int32_t i = 0; i < c->param_count; i++) tape_host_put(h, 2 * c->params[i].part);
    for (int group = 0; group < ZERO_GROUPS; group++) { // pinned whatever is said
        int64_t bytes = 2 * trained_parts(c, group);
        tape_host_page(h, bytes);
        tape_host_pin(h, bytes);
        tape_host_unpage(h, bytes);
    }
    for (int32_t i = 0; i < c->param_count; i++) {
        const struct zero_param *p = &c->params[i];
        if (!p->is_trained) continue;
        if (h->is_paged)
            tape_host_unpage(h, 2 * p->part);
        else
            tape_host_unpin(h, 2 * p->part);
    }
}

// Some parameters stay on the host.
static void put_param_buffers(struct tape_host *h, const struct tape_offload *o,
                              const struct zero_coordinator *c) {
    int64_t left = o->param_most;
    tape_host_lock(h, 2 * o->param_buffers * o->param_buffer);
    for (int group = 0; group < ZERO_GROUPS; group++) {
        int64_t all = trained_parts(c, group), stay = all < left ? all : left;
        tape_host_pin(h, 2 * stay);
        left -= stay;
    }
}

static void put_masters(struct tape_host *h, const struct zero_sub_group *subs, int32_t count) {
    int64_t before = 0, largest = 0;
    for (int32_t i = 0; i < count; i++) { // cast, then copied
        const int64_t bytes = 4 * subs[i].elements;
        tape_host_page(h, bytes);
        tape_host_unpage(h, before);
        before = bytes;
        tape_host_page(h, bytes);
        if (bytes > largest) largest = bytes;
    }
    tape_host_unpage(h, before);
    tape_host_page(h, largest);
    for (int32_t i = 0; i < count; i++) tape_host_put(h, 4 * subs[i].elements); // gradients
    tape_host_unpage(h, largest);
}

static int64_t largest_of(const struct zero_sub_group *subs, int32_t count) {
    int64_t largest = 0;
    for (int32_t i = 0; i < count; i++)
        if (subs[i].elements > largest) largest = subs[i].elements;
    return largest;
}

static void put_update(struct tape_host *h, const struct tape_offload *o,
                       const struct zero_coordinator *c, const struct zero_sub_group *subs,
                       int32_t count) {
    const int64_t largest = largest_of(subs, count);
    if (o->optimizer == TAPE_ON_DISK)
        tape_host_lock(h, 4 * largest * o->optimizer_buffers);
    else
        put_masters(h, subs, count);
    tape_host_put(h, 2 * trained_parts(c, -1)); // gradients as they come
    for (int32_t i = 0; i < count && o->optimizer == TAPE_ON_HOST; i++)
        tape_host_page(h, 8 * subs[i].elements);
    if (o->params != TAPE_ON_GPU) return;
    tape_host_page(h, 2 * largest); // new weights are cast here before they go over
    tape_host_unpage(h, 2 * largest);
}

void tape_host_stage3(const struct tape_zero *how, const struct zero_coordinator *c,
                      const struct zero_sub_group *subs, int32_t sub_count, struct tape *ret) {
    const struct tape_offload *o = &how->offload;
    struct tape_host h = {.is_paged = o->is_paged};
    if (o->params == TAPE_ON_GPU && o->optimizer == TAPE_ON_GPU) return;
    if (o->params == TAPE_ON_HOST) put_params(&h, c);
    if (o->params == TAPE_ON_DISK) put_param_buffers(&h, o, c);
    if (o->optimizer != TAPE_ON_GPU) put_update(&h, o, c, subs, sub_count);
    tape_host_tell(&h, ret);
}
