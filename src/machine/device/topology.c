// SPDX-License-Identifier: Apache-2.0
// The words for how two GPUs are joined, and who is asked about it.
#include "machine/device/device.h"

#include "machine/device/device_int.h"

#include <string.h>

// nvmlGpuTopologyLevel_t, NVML 13.3; the words and what they mean as `nvidia-smi topo -m` has them.
static const struct {
    int path;
    const char *word, *meaning;
} ways[] = {
    {-1, "NV#", "that many NVLinks"},
    {0, "INT", "two chips of one board"},
    {10, "PIX", "at most one PCIe bridge"},
    {20, "PXB", "several PCIe bridges, without the CPU"},
    {30, "PHB", "through the CPU's PCIe host bridge"},
    {40, "NODE", "between host bridges of a NUMA node"},
    {50, "SYS", "across the link between NUMA nodes"},
};
enum { WAYS = sizeof ways / sizeof *ways };

const char *device_topology_meaning(int number, const char **ret_word) {
    if (number >= WAYS) return NULL;
    *ret_word = ways[number].word;
    return ways[number].meaning;
}

int device_topology_up(const struct device_spot *spot) {
    int count = 0;
    for (int i = 0; i < DEVICE_NVLINKS; i++) count += spot->nvlinks[i] > DEVICE_NVLINK_DOWN;
    return count;
}

int device_topology_all(const struct device_spot *spot) {
    int count = 0;
    for (int i = 0; i < DEVICE_NVLINKS; i++) count += spot->nvlinks[i] >= DEVICE_NVLINK_DOWN;
    return count;
}

static int leading_to(const struct device_spot *spot, int where) {
    int count = 0;
    for (int i = 0; i < DEVICE_NVLINKS; i++) count += spot->nvlinks[i] == where;
    return count;
}

int device_topology_between(const struct device_topology *t, int one, int other) {
    const struct device_spot *a = &t->spots[one], *b = &t->spots[other];
    int here = leading_to(a, DEVICE_NVLINK_SWITCH), there = leading_to(b, DEVICE_NVLINK_SWITCH);
    return leading_to(a, other) + (here < there ? here : there);
}

struct str device_topology_word(struct arena *a, const struct device_topology *t, int one,
                                int other) {
    int links = one == other ? 0 : device_topology_between(t, one, other);
    if (links > 0) return str_format(a, "NV%d", links);
    for (int i = 1; i < WAYS; i++) {
        if (ways[i].path == t->pairs[one][other].path) return str_of(ways[i].word);
    }
    return (struct str){0};
}

static void clear(struct device_topology *t) {
    t->count = 0;
    for (int i = 0; i < DEVICE_TOPOLOGY_GPUS; i++) {
        t->spots[i] = (struct device_spot){.index = -1, .numa_node = -1};
        memset(t->spots[i].nvlinks, DEVICE_NVLINK_NONE, sizeof t->spots[i].nvlinks);
        for (int j = 0; j < DEVICE_TOPOLOGY_GPUS; j++)
            t->pairs[i][j] = (struct device_pair){-1, -1};
    }
}

// The GPUs that answer, each once, whether or not it is divided.
static void choose(const struct device_card *cards, int count, int *places,
                   struct device_topology *t) {
    for (int i = 0; i < count && t->count < DEVICE_TOPOLOGY_GPUS; i++) {
        bool is_known = t->count > 0 && t->spots[t->count - 1].index == cards[i].index;
        if (cards[i].state != DEVICE_ANSWERS || is_known) continue;
        t->spots[t->count].index = cards[i].index;
        places[t->count++] = i;
    }
}

void device_topology_ask(const struct device_backend *backend, struct device_session *session,
                         const struct device_card *cards, int count, struct device_topology *t) {
    int places[DEVICE_TOPOLOGY_GPUS];
    clear(t);
    choose(cards, count, places, t);
    for (int i = 0; i < t->count; i++) {
        struct device_spot *spot = &t->spots[i];
        const char *bus = cards[places[i]].facts.pci_bus_id;
        char text[16];
        int64_t node;
        bool is_told = device_pci_text(session->root, bus, "numa_node", text, sizeof text) &&
                       str_to_i64(str_of(text), &node);
        if (is_told && node >= 0 && node < INT32_MAX) spot->numa_node = (int)node;
        device_pci_text(session->root, bus, "local_cpulist", spot->cpus, sizeof spot->cpus);
    }
    if (t->count > 0) backend->join(session, cards, places, t);
}
