// SPDX-License-Identifier: Apache-2.0
// Bandwidths and latencies are those that NCCL itself chooses its algorithm by: src/graph/topo.h
// (2.28, commit 069a3d4f: GB/s of a link, 12 GB/s of PCIe 3 x16 and of 100 Gbit/s) and
// src/graph/tuning.cc (commit 01afd20a: microseconds of the "simple" protocol, which large messages
// take).
#include "predict/speed/speed.h"

#include "base/data.h"

#include <math.h>

static const double pcie3 = 12e9, gbit100 = 12e9;
enum { PCIE_MACHINE = 8 }; // what is assumed of a machine without NVLink

// Microseconds: of a call, and of a step to the next GPU by NVLink, by PCIe and by the network.
static const struct latency {
    double call, nvlink, pcie, network;
} ring = {8.4, 3.4, 5.7, 9.6}, tree = {0, 28, 28, 50};
static const double tree_share = 0.9; // of the bandwidth

static int read_rate(const struct tsv *t, const char *column, double *ret, struct fail *why) {
    struct str cell = tsv_cell(t, column);
    if (str_to_double(cell, ret) && *ret > 0 && *ret < 1e6) return 0;
    return fail_set(why, FAIL_INPUT, "%.*s:%d: %s is \"%.*s\", not a number above 0",
                    STR_ARG(t->name), t->line, column, STR_ARG(cell));
}

int speed_links_load(struct arena *a, struct speed_links *ret, struct fail *why) {
    struct tsv t;
    *ret = (struct speed_links){0};
    int rc = tsv_find(a, "data/links.tsv", &t, why);
    if (rc < 0) return rc;
    while ((rc = tsv_next(&t, why)) > 0) {
        struct speed_link row = {.cards = tsv_cell(&t, "cards"),
                                 .link = tsv_cell(&t, "link"),
                                 .network = tsv_cell(&t, "network"),
                                 .is_nvlink = true};
        double machine = 0;
        rc = read_rate(&t, "machine", &machine, why);
        if (rc == 0) rc = read_rate(&t, "gbs", &row.bus, why);
        if (rc == 0) rc = read_rate(&t, "network_gbs", &row.net, why);
        if (rc < 0) return rc;
        row.machine = (int)machine;
        row.bus *= 1e9;
        row.net *= 1e9;
        *arena_push(a, &ret->rows, &ret->count, &ret->capacity) = row;
    }
    return rc;
}

double speed_pcie(const struct gpu *gpu) {
    return gpu->pcie_gen < 3 ? 0 : ldexp(pcie3, gpu->pcie_gen - 3);
}

bool speed_link_of(const struct speed_links *links, const struct gpu *gpu, struct speed_link *ret) {
    for (ptrdiff_t i = 0; i < links->count; i++) {
        *ret = links->rows[i];
        if (gpu->key.len > 0 && str_has_name(ret->cards, gpu->key)) return true;
    }
    if (!gpu->compute_capability || gpu->pcie_gen < 3) return false;
    *ret = (struct speed_link){.link = STR("PCIe"),
                               .network = STR("one adapter of 100 Gbit/s, assumed"),
                               .machine = PCIE_MACHINE,
                               .bus = speed_pcie(gpu),
                               .net = gbit100};
    return true;
}

// What the members of a group are to each other.
struct spread {
    double ranks, machines, bandwidth;
};

static struct spread spread_of(const struct speed_group *g) {
    double within = fmax(1, floor((double)g->link->machine / (double)g->apart));
    struct spread s = {.ranks = (double)g->ranks, .bandwidth = g->link->bus};
    s.machines = ceil(s.ranks / within);
    // A machine's adapters serve all of its GPUs: as many groups at once as GPUs lie between two.
    double groups = fmin((double)g->apart, g->link->machine);
    if (s.machines > 1) s.bandwidth = fmin(s.bandwidth, g->link->net / groups);
    return s;
}

static double step_s(const struct speed_group *g, const struct latency *l) {
    return (g->link->is_nvlink ? l->nvlink : l->pcie) * 1e-6;
}

// Everybody sends a part on to the next, ranks - 1 times.
static double ring_s(const struct speed_group *g, const struct spread *s, double bytes) {
    double between = s->machines > 1 ? s->machines - 1 : 0;
    return bytes * (s->ranks - 1) / s->ranks / s->bandwidth + between * ring.network * 1e-6 +
           (s->ranks - 1 - between) * step_s(g, &ring);
}

// Up and down again: a chain in each machine, a binary tree of machines.
static double tree_s(const struct speed_group *g, const struct spread *s, double bytes) {
    return 2 *
           (bytes / (tree_share * s->bandwidth) + (s->ranks / s->machines - 1) * step_s(g, &tree) +
            log2(s->machines) * tree.network * 1e-6);
}

double speed_collective_s(const struct speed_group *g, enum speed_collective what, double bytes,
                          int64_t calls) {
    if (g->ranks < 2 || calls < 1) return 0;
    struct spread s = spread_of(g);
    double each = bytes / (double)calls, seconds = ring_s(g, &s, each);
    if (what == SPEED_ALL_REDUCE) seconds = fmin(2 * seconds, tree_s(g, &s, each));
    return (double)calls * (seconds + ring.call * 1e-6);
}
