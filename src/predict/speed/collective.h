// SPDX-License-Identifier: Apache-2.0
// How long GPUs take to exchange bytes, by NCCL's own model: a ring, or for sums a tree where that
// is faster, over the links of a machine and the network between machines (data/links.tsv). Facts
// of hardware and NCCL's constants; nothing here is fitted.
#pragma once

#include "predict/gpu/gpu.h"

// A row of data/links.tsv, or made of the GPU's PCIe generation.
struct speed_link {
    struct str cards, link, network, from;
    bool is_nvlink;
    int machine;     // GPUs of one machine
    double bus, net; // bytes/s one way: of a GPU, and of all adapters of a machine
};
struct speed_links {
    struct speed_link *rows;
    ptrdiff_t count, capacity;
};
int speed_links_load(struct arena *a, struct speed_links *ret, struct fail *why);
// False: nothing is known of how such GPUs are connected.
bool speed_link_of(const struct speed_links *links, const struct gpu *gpu, struct speed_link *ret);

// Between a GPU and its host, bytes/s one way; 0: not known.
double speed_pcie(const struct gpu *gpu);

enum speed_collective { SPEED_ALL_GATHER, SPEED_REDUCE_SCATTER, SPEED_ALL_REDUCE };
// So many GPUs, each `apart` from the next: 1 are neighbours; 8 are one of each machine, and the
// other seven of it wait for the network in groups of their own.
struct speed_group {
    const struct speed_link *link;
    int64_t ranks, apart;
};
// `bytes`: of the whole of what is gathered or summed, in `calls` equal calls.
double speed_collective_s(const struct speed_group *g, enum speed_collective what, double bytes,
                          int64_t calls);
